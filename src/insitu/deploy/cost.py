"""What a lower peak costs: the same graphs are also planned without it, linked, and counted on the same emulated core.

Both programs learn the same bytes, so the same inputs give both the same values. If the program without a lowered peak
is larger than the board, the core gets as much memory as it needs. Counts are exact, and cached by content.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from insitu.boards import Board, Memory
from insitu.codegen import Program, emit_program
from insitu.codegen.device import interface_of
from insitu.deploy import Deployment, Limits, Programs, lowered_by
from insitu.deploy.lowering import STEPS, Counted, LoweringCost
from insitu.devices.cortex import import_unicorn
from insitu.devices.emulator import EmulatorDevice, call_lines, emulate
from insitu.errors import BoardError
from insitu.firmware import Firmware, build_firmware
from insitu.graph import Graph, Value
from insitu.planner import plan
from insitu.planner.spent import changes, spent_text
from insitu.toolchain.cache import cached, forget, key_of
from insitu.toolchain.sources import C_FOLDER

Layers = dict[str, dict[str, int]]  # verb -> layer -> instructions
RATE = 0.01
COUNTER = C_FOLDER / "emulator" / "count.c"
LEARNING = ("train_step", "accumulate", "apply", "encode", "recall", "learn")


def lowering_cost(deployed: Deployment, graphs: Mapping[str, Graph]) -> LoweringCost | None:
    """Both programs, counted; None if nothing was changed. `graphs` are the deployed ones."""
    if deployed.firmware is None:
        raise BoardError("instructions are counted on a linked firmware", hint="insitu boards says what is emulated")
    if not spent_text(lowered_by(deployed.program)):
        return None
    other = unlowered_firmware(graphs, deployed.firmware.board, deployed.limits)
    found = cost_of(deployed.firmware, other, count(deployed.firmware), count(other))
    limits = deployed.limits
    return replace(found, allowed_bytes=0 if limits.aims[:1] == (limits.sram,) else limits.sram or 0)


def cost_of(made: Firmware, other: Firmware, layers: Layers, without: Layers) -> LoweringCost:
    step = next(verb for verb in STEPS if verb in made.program.plans)
    how = changes(made.program.plans[step], other.program.plans[step])
    summary = spent_text(lowered_by(made.program))
    return LoweringCost(
        summary, counted(made, layers), counted(other, without), how, made.board.name, made.board.sram.bytes
    )


def counted(firmware: Firmware, layers: Layers) -> Counted:
    return Counted(firmware.program.arena_bytes, firmware.sram_bytes, firmware.flash_bytes, layers)


# the other program ------------------------------------------------------------------------------


def unlowered_firmware(graphs: Mapping[str, Graph], board: Board, limits: Limits | None = None) -> Firmware:
    """The program planned without lowering its peak, for a core like the board's with enough memory."""
    limits = limits or Limits()
    living = Programs.of(graphs, limits)
    plans = {verb: plan(g, target="mcu", stream=False) for verb, g in living.graphs.items()}
    program = emit_program(plans, life=living.life)
    made = build_firmware(program, board)
    return replace(made, board=roomy(board, made.sram_bytes, made.flash_bytes))


def roomy(board: Board, sram: int, flash: int) -> Board:
    """The board with at least this much memory at the same addresses."""
    wide = replace(board, sram=_at_least(board.sram, sram), flash=_at_least(board.flash, flash))
    if wide.sram.origin < wide.flash.end and wide.flash.origin < wide.sram.end:
        raise BoardError(f"{sram:,} bytes of SRAM and {flash:,} of flash would overlap", where=board.name)
    return wide


def _at_least(memory: Memory, bytes: int) -> Memory:
    return replace(memory, bytes=max(memory.bytes, bytes))


# counting ---------------------------------------------------------------------------------------


def count(firmware: Firmware) -> Layers:
    """Instructions of every call of the second update and of a prediction, from the firmware's initial state."""
    key = key_of(*_what_counts(firmware))
    path = cached("counts", key, ".json", lambda to: _write(to, count_on(emulate(firmware), firmware.program)))
    try:
        return json.loads(path.read_text())
    except ValueError:  # damaged
        forget(path)
        return count(firmware)


def _what_counts(firmware: Firmware) -> list[str | bytes]:
    """Everything the counts depend on."""
    lines = {verb: call_lines(firmware.program, verb) for verb in firmware.program.plans}
    code = [part for address, content in firmware.image.segments for part in (str(address), bytes(content))]
    rules = [Path(__file__).read_text(), COUNTER.read_text()]  # which inputs, in which order; what an instruction is
    return [import_unicorn().__version__, json.dumps([firmware.board.to_json(), lines]), *rules, *code]


def _write(path: Path, layers: Layers) -> None:
    path.write_text(json.dumps(layers))


def count_on(device: EmulatorDevice, program: Program) -> Layers:
    """The same on a freshly started device. The first update is not counted: a head of zeros gives no gradients."""
    rng = np.random.default_rng(0)
    inputs = {verb: given for verb, (given, _) in interface_of(program).verbs.items()}
    learning = [verb for verb in LEARNING if verb in inputs]
    for verb in learning:
        device.run(verb, *(random_input(rng, v) for v in inputs[verb]))
    return {
        verb: device.measure(verb, *(random_input(rng, v) for v in inputs[verb]))[1] for verb in (*learning, "predict")
    }


def random_input(rng: np.random.Generator, value: Value) -> np.ndarray:
    """Random values of the right type: the instruction count hardly depends on them."""
    if not value.shape:
        return np.asarray(RATE, np.float32)  # the rate
    if value.dtype == "s32":
        return np.zeros(value.shape, np.int32)  # a label
    if value.dtype == "f32":
        return rng.normal(size=value.shape).astype(np.float32)
    return rng.integers(-128, 128, value.shape).astype(value.type.numpy)
