"""The emulator device: the firmware that would be flashed, on an emulated Cortex-M, over its real protocol.

In addition to the host device's calls, it knows what each call took: instructions in total and per layer, and the
maximum depth of the stack. cortex.py has the core, firmware/ the image.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from insitu.boards import Board, find_board
from insitu.codegen import Program
from insitu.codegen.device import Interface, interface_of
from insitu.devices.cortex import Cortex
from insitu.devices.device import more_of
from insitu.devices.faults import Fault, fault_error
from insitu.devices.flash import Nor
from insitu.devices.link import LinkDevice, in_turn
from insitu.errors import BoardError, DeviceError
from insitu.firmware import Firmware, Image, build_firmware
from insitu.graph.loops import Loop
from insitu.planner import Plan
from insitu.terminal.interrupts import held
from insitu.terminal.wording import either

PATIENCE = 0.2  # seconds: the core has stopped long before its answer is looked for
FIRST_SLOT = 1  # 0 is everything that belongs to no call


class EmulatorChannel:
    """A core's line as a channel of the protocol's client. Its time is the core's: nothing ever times out."""

    def __init__(self, core: Cortex):
        self.core = core
        self._said = bytearray()

    def write(self, data: bytes) -> None:
        """Also runs the core until it has answered: Ctrl-C leaves no request half done."""
        with held():
            self.core.send(data)
            self._said += self.core.receive()

    def read(self, most: int, timeout: float) -> bytes:
        if not self._said:  # it waits for more: nothing will come
            time.sleep(max(timeout, 0))
        got = bytes(self._said[:most])
        del self._said[:most]
        return got

    def close(self) -> None:
        self._said.clear()


@dataclass(frozen=True)
class Lines:
    """The calls of one verb: their slots of the counter, and their names."""

    slots: tuple[int, ...]
    names: tuple[str, ...]


def check_emulated(board: Board) -> None:
    """Raise an error if Unicorn has no such core."""
    if board.core.emulator != "unicorn":
        qemu = either(shell="insitu run DIR --on qemu", python='on("qemu")') + ", if QEMU is installed"
        hint = qemu if board.core.emulator else "`insitu boards` lists those that can"
        raise BoardError(f"{board.name} cannot be emulated with pip packages alone", hint=hint)


class EmulatorDevice(LinkDevice):
    """A LinkDevice whose far end is emulated and counted."""

    def __init__(self, image: Image, board: Board, program: Program | Interface,
                 lines: Mapping[str, Mapping[int, str]], *, sram: int | None = None,
                 flash: int | None = None, limit: int | None = None):  # fmt: skip
        check_emulated(board)
        interface = program if isinstance(program, Interface) else interface_of(program)
        self.core = Cortex(image, board, sram, flash, limit, Nor.of(interface.life))
        self.calls = _own_lines(self.core, lines)
        self._counted: dict[str, dict[str, int]] = {}
        super().__init__(EmulatorChannel(self.core), interface, timeout=PATIENCE)

    def faulted(self, fault: Fault) -> DeviceError:
        """What the emulator has seen, which is more than the core knows."""
        if not self.core.complaint:
            return fault_error(fault, self.core.image.at, self.core.board.name)
        return DeviceError(self.core.complaint, where=self.core.board.name)

    @property
    def counter(self) -> EmulatorDevice:
        return self

    @property
    def total(self) -> int:
        """Instructions since the start, including the protocol."""
        return int(self.core.slots.sum())

    @in_turn
    def measure(self, verb: str, *inputs) -> tuple[tuple[np.ndarray, ...], dict[str, int]]:
        """Run a verb once; returns its outputs, and the instructions of each of its calls."""
        before = self._slots(verb)
        outputs = self.run(verb, *inputs)
        self._counted[verb] = self._layers(verb, before)
        return outputs, self._counted[verb]

    def counted(self) -> dict[str, dict[str, int]]:
        """Verb -> layer -> instructions: of the call of each verb that took most, or of the last measured one."""
        return dict(self._counted)

    def instructions(self, verb: str) -> int:
        """The instructions of a verb so far, over all its runs."""
        return int(self._slots(verb).sum())

    def stack_bytes(self) -> int:
        return self.core.stack_bytes()

    def restart(self) -> None:
        """Switch power off and on: SRAM is noise, and the program starts again."""
        self.core.reset()
        self.link.done = None

    def _call(self, verb: str, samples: list[bytes]) -> None:
        before = self._slots(verb) if self.calls[verb].slots else None
        super()._call(verb, samples)
        if before is not None:  # gradients of zero take less: the first step of a new head is not a typical one
            self._counted[verb] = more_of(self._counted.get(verb), self._layers(verb, before))

    def _slots(self, verb: str) -> np.ndarray:
        if not self.calls[verb].slots:  # 0 would look like a count
            what = f"cannot count the instructions of {verb}: the image does not say which code is of which line"
            raise DeviceError(what, hint="compile it with -g; for insitu's own images, empty the cache (INSITU_CACHE)")
        return self.core.slots[list(self.calls[verb].slots)]

    def _layers(self, verb: str, before: np.ndarray) -> dict[str, int]:
        """Instructions spent since then, by layer."""
        layers: dict[str, int] = {}
        for name, count in zip(self.calls[verb].names, (self._slots(verb) - before).tolist()):
            layers[name] = layers.get(name, 0) + int(count)
        return layers


def open_emulator(program: Program, board: str | Board = "stm32f746", *, flags: tuple[str, ...] = (),
                  sram: int | None = None, compiler: str = "zig",
                  limit: int | None = None) -> EmulatorDevice:  # fmt: skip
    """Build the firmware of a program and start it; `limit` is the maximum number of instructions per request."""
    found = find_board(board)
    return emulate(build_firmware(program, found, flags=flags, compiler=compiler), sram, limit)


def emulate(firmware: Firmware, sram: int | None = None, limit: int | None = None) -> EmulatorDevice:
    """Start a firmware."""
    lines = {verb: call_lines(firmware.program, verb) for verb in firmware.program.plans}
    return EmulatorDevice(firmware.image, firmware.board, interface_of(firmware.program), lines, sram=sram, limit=limit)


def call_lines(program: Program, verb: str) -> dict[int, str]:
    """Line of the verb's C file -> the layer of the call there; other lines move bytes in and out."""
    layers = iter(line_names(program.plans[verb]))
    text = program.files[f"{program.prefix}_{verb}.c"].splitlines()
    body = next(i for i, line in enumerate(text) if line == "{")
    found = {}
    for number, line in enumerate(text[body + 1 :], body + 2):
        if line.rstrip().endswith("*/") and line.startswith("    "):
            found[number] = next(layers)
    return found


def line_names(plan: Plan) -> Iterator[str]:
    """The layer of each call, in the order of the C; a loop over stripes has one or two per node."""
    for node, call in zip(plan.graph.nodes, plan.calls):
        if not isinstance(call, Loop):
            yield node.name
            continue
        yield from (step.layer for step in call.steps)
        if not call.stripes:
            continue
        for i, (inner, moved) in enumerate(zip(call.nodes, call.moved)):
            if any(stripe[i].back for stripe in call.stripes):
                yield inner.name
            yield inner.name
            yield from (v.name for v in moved)  # moved rows are part of their node's cost


def verb_symbols(verb: str) -> list[str]:
    """The functions of a verb: itself, or its parts that take rows as they arrive."""
    return [f"net_{verb}", *(f"net_{verb}_{part}" for part in ("begin", "bytes", "rows", "end"))]


def _verb_lines(core: Cortex, verb: str) -> list[tuple[int, list[tuple[int, int]]]]:
    """Each function of a verb: its end, and which line of C begins at which address."""
    parts = [core.image.by_name[name] for name in verb_symbols(verb) if name in core.image.by_name]
    if not parts:
        raise DeviceError(
            f"the image has no function net_{verb}: it is not the firmware of this program",
            where=core.board.name,
            hint="compile the folder again",
        )
    lines = sorted(core.image.lines(f"net_{verb}.c").items())
    ends = [(s.address, s.address + s.bytes) for s in parts]
    return [(end, [(a, n) for a, n in lines if start <= a < end]) for start, end in ends]


def _own_lines(core: Cortex, lines: Mapping[str, Mapping[int, str]]) -> dict[str, Lines]:
    """Give every call of every verb a slot of the counter, and everything else of the firmware slot 0."""
    for s in core.image.functions:
        if s.section in (".startup", ".protocol", ".port"):
            core.own(s.address, s.bytes, 0)
    slot, found = FIRST_SLOT, {}
    for verb, named in lines.items():
        ranges = _verb_lines(core, verb)
        numbers = sorted({n for _, at in ranges for _, n in at})
        slots = {n: slot + i for i, n in enumerate(numbers)}
        for end, at in ranges:
            for (a, n), (b, _) in zip(at, [*at[1:], (end, 0)]):
                core.own(a, b - a, slots[n])
        found[verb] = Lines(tuple(slots.values()), tuple(named.get(n, "(in and out)") for n in numbers))
        slot += len(numbers)
    return found
