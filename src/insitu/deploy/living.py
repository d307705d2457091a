"""What the life of a living program costs: the instructions of a sample, and of the longest slice of a bout.

Counted on an emulated core with random samples and a full store, from the request to its answer, the
protocol included. A slice is one call of `net_rehearse`: a main loop has to do without the core for that long. The most
that was counted is a measurement, not a bound.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from insitu.codegen.life_layout import layout_of
from insitu.deploy.cost import count_on, random_input
from insitu.deploy.full import full_flash
from insitu.devices.cortex import import_unicorn
from insitu.devices.emulator import EmulatorDevice, emulate
from insitu.devices.living import PHASES, TRYING, Living
from insitu.errors import DataError
from insitu.firmware import Firmware
from insitu.toolchain.cache import cached, key_of

SAMPLES, STEPS, RATE = 10, 2, 0.01
AGAIN = 3  # samples of each kind that a full store is shown
MOST = 20_000_000  # instructions to fill a store in SRAM with
EACH = 250  # instructions for each record that a new sample is compared with: an upper estimate


@dataclass(frozen=True)
class LifeCost:
    """Instructions."""

    observe: int  # the most that keeping a sample took
    slices: Mapping[str, int]  # what a slice does -> the most that one took

    @property
    def worst(self) -> tuple[str, int]:
        return max(self.slices.items(), key=lambda item: item[1])

    def to_json(self) -> dict:
        what, most = self.worst
        return {"observe_instructions": self.observe, "slice_instructions": most, "slice": what,
                "slices": dict(self.slices)}  # fmt: skip


def life_cost(firmware: Firmware) -> tuple[LifeCost, dict[str, int]]:
    """The cost of a life, and verb -> instructions; cached by content."""
    code = [bytes(content) for _, content in firmware.image.segments]
    key = key_of(import_unicorn().__version__, Path(__file__).read_text(), json.dumps(firmware.board.to_json()), *code)
    path = cached("life", key, ".json", partial(_write, firmware))
    found = json.loads(path.read_text())
    return LifeCost(found["observe"], found["slices"]), found["verbs"]


def _write(firmware: Firmware, path: Path) -> None:
    path.write_text(json.dumps(_counted(firmware)))


def _counted(firmware: Firmware) -> dict:
    verbs = {verb: sum(layers.values()) for verb, layers in count_on(emulate(firmware), firmware.program).items()}
    device = emulate(firmware)
    life = Living(device)
    observe = max(_observed(device, life, i, i % 2) for i in range(SAMPLES))
    slices = _sliced(device, life)
    more = _fill(firmware, device, life, observe)
    observe = max(observe, *(_observed(device, life, SAMPLES + i, 0) for i in range(AGAIN)))
    if (new := _added(life)) is not None:
        observe = max(observe, *(_observed(device, life, SAMPLES + AGAIN + i, new) for i in range(AGAIN)))
        slices |= _tried(device, life)
    return {"verbs": verbs, "observe": observe + more, "slices": slices}


def _fill(firmware: Firmware, device: EmulatorDevice, life: Living, observe: int) -> int:
    """Fill its store; returns an estimate of what is missing if that takes too long."""
    if nor := device.core.nor:
        layout, state = layout_of(firmware.program), firmware.program.state
        assert layout and state
        nor.load(device.core.uc, full_flash(layout, state.model))
        device.restart()
        return 0
    count = min(life.capacity - SAMPLES, MOST // observe)
    for i in range(count):
        _observed(device, life, 2 * SAMPLES + i, i % 2)
    return (life.capacity - SAMPLES - count) * EACH


def _added(life: Living) -> int | None:
    """A new class; None if there is no room for one, or none can be added."""
    try:
        return life.add_class("new")
    except DataError:
        return None


def _observed(device: EmulatorDevice, life: Living, number: int, label: int) -> int:
    rng = np.random.default_rng(number)
    verb = "encode" if "encode" in device.verbs else "predict"
    values = device.verbs[verb][0]
    while _tried(device, life):
        pass
    before = device.core.served
    life.observe(*(random_input(rng, v) for v in values), label=label, told=False)
    in_pieces = verb in device.interface.rows  # then most of the work is done while a sample arrives
    return device.core.served - before if in_pieces else device.core.spent


def _tried(device: EmulatorDevice, life: Living) -> dict[str, int]:
    """The longest slice of the trial of a new class's row."""
    most = 0
    while life.statistics()["trying"]:
        life.slices(1, told=False)
        most = max(most, device.core.spent)
    return {TRYING: most} if most else {}


def _sliced(device: EmulatorDevice, life: Living) -> dict[str, int]:
    """The longest slice of each phase of a bout."""
    found: dict[str, int] = {}
    life.slices(0, STEPS, RATE, partial=True)
    while phase := life.statistics()["phase"]:
        life.slices(1, told=False)
        found[PHASES[phase]] = max(found.get(PHASES[phase], 0), device.core.spent)
    return found
