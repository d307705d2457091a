"""QEMU as a second opinion: the same program and protocol on an emulator that shares no code with ours.

The firmware is linked once more, at the addresses of one of Arm's own boards, with a port for its UART. The memory
protection unit blocks everything beyond the budget (c/boards/port_qemu.c); a trap is an error that names the place.
Instructions are counted from the last byte of a request to the first of its answer, including the protocol: exact, and
instructions, not cycles. There are no counts per layer here, and no Cortex-M0+: QEMU has no board with one.
"""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from insitu.boards import Board, Memory, find_board
from insitu.codegen import Program
from insitu.codegen.device import Interface
from insitu.devices.cortex import PAGE, PAINT
from insitu.devices.device import more_of
from insitu.devices.faults import ACCESS, Fault, fault_error
from insitu.devices.link import LinkDevice, in_turn
from insitu.devices.process import ProcessChannel
from insitu.errors import BoardError, BudgetError, DeviceError, ToolError
from insitu.firmware import Image, account, build_firmware
from insitu.firmware.build import compile_all, find_tools, folder_sources, linked
from insitu.terminal.wording import either, option

COMMAND = "qemu-system-arm"
SHIFT = 6  # an instruction takes 2**6 ns of QEMU's time
WHOLE = "(all of it, with the protocol)"
PATIENCE = 600.0  # seconds that an answer may take; bytes are never lost here, and asking again would be counted
MONITOR = 30.0  # seconds for an answer of QEMU's monitor: it has nothing to compute
REGIONS = {"flash": 2, "sram": 4}  # of the eight that an MPU has; two are for registers


@dataclass(frozen=True)
class Machine:
    """A board of QEMU's with this core."""

    name: str
    flash: Memory
    sram: Memory
    uart: int
    counter: int
    tick_ns: int  # of the counter


_SSRAM = Memory(0x00000000, 1 << 22), Memory(0x20000000, 1 << 22)
MACHINES = {
    "cortex-m3": Machine("mps2-an385", *_SSRAM, 0x40004000, 0x40028018, 40),
    "cortex-m4": Machine("mps2-an386", *_SSRAM, 0x40004000, 0x40028018, 40),
    "cortex-m7": Machine("mps2-an500", *_SSRAM, 0x40004000, 0x40028018, 40),
    "cortex-m33": Machine(
        "mps2-an505", Memory(0x10000000, 1 << 22), Memory(0x38000000, 1 << 22), 0x50200000, 0x50302018, 50
    ),
    "cortex-m55": Machine(
        "mps3-an547", Memory(0x00000000, 1 << 19), Memory(0x20000000, 1 << 19), 0x59303000, 0x59302018, 50
    ),
}


class QemuDevice(LinkDevice):
    """A LinkDevice whose far end runs in QEMU."""

    def __init__(self, image: Image, board: Board, program: Program | Interface, machine: Machine,
                 timeout: float | None = None):  # fmt: skip
        self.image, self.machine = image, machine
        self.spent = 0  # instructions of the last call
        self._counted: dict[str, dict[str, int]] = {}
        self.qemu = Qemu(image, board, machine, timeout or PATIENCE)
        try:
            super().__init__(self.qemu, program, timeout=2 * self.qemu.patience)  # it reports an error before that
        except BaseException:
            self.qemu.close()
            raise

    @property
    def counter(self) -> QemuDevice:
        return self

    @in_turn
    def measure(self, verb: str, *inputs) -> tuple[tuple[np.ndarray, ...], dict[str, int]]:
        """Run a verb once; returns its outputs, and its instructions."""
        outputs = self.run(verb, *inputs)
        self._counted[verb] = {WHOLE: self.spent}
        return outputs, self._counted[verb]

    def counted(self) -> dict[str, dict[str, int]]:
        """Verb -> instructions, all under one name: of the call that took most, or of the last measured one."""
        return dict(self._counted)

    def stack_bytes(self) -> int:
        """The maximum depth of the stack: where no paint is left."""
        bottom, top = (self.image.by_name[n].address for n in ("stack_bottom", "stack_top"))
        painted = np.array(self.qemu.words(bottom, (top - bottom) // 4)) == PAINT * 0x01010101
        return 0 if painted.all() else top - bottom - 4 * int(np.argmin(painted))

    def restart(self) -> None:
        """Back to the reset vector; unlike after a power loss, SRAM keeps its contents."""
        self.qemu.ask("system_reset")
        self.link.done = None

    def faulted(self, fault: Fault) -> DeviceError:
        board, at = self.qemu.board, self.image.at(fault.at)
        if not fault.cause & ACCESS:
            return fault_error(fault, self.image.at, board.name)
        return DeviceError(
            f"an access {fault.access}at {at} trapped (cause {fault.cause:#x}): outside the "
            f"{board.sram.bytes:,} bytes of SRAM and {board.flash.bytes:,} of flash",
            where=board.name,
        )

    def _call(self, verb: str, samples: list[bytes]) -> None:
        super()._call(verb, samples)
        (ticks,) = self.qemu.words(self.image.by_name["port_spent"].address, 1)
        self.spent = (ticks * self.machine.tick_ns + (1 << SHIFT - 1)) >> SHIFT
        self._counted[verb] = more_of(self._counted.get(verb), {WHOLE: self.spent})


class Qemu(ProcessChannel):
    """A running QEMU: its UART is the channel, its monitor looks into memory."""

    def __init__(self, image: Image, board: Board, machine: Machine, patience: float = PATIENCE):
        self.image, self.board, self.patience, self._asked = image, board, patience, time.monotonic()
        self._mute = False  # its monitor has not answered
        self._folder = tempfile.TemporaryDirectory()
        elf = Path(self._folder.name) / "firmware.elf"
        elf.write_bytes(image.data)
        near, far = socket.socketpair()
        with far:
            command = command_line(elf, board, machine, far.fileno())
            # a session of its own: the terminal's Ctrl-C would end QEMU in the middle of a step
            super().__init__(command, stderr=subprocess.PIPE, pass_fds=(far.fileno(),), start_new_session=True)
        near.settimeout(MONITOR)
        with near:
            self._monitor = near.makefile("rw")
        self.ask("qmp_capabilities")  # the line before its answer greets

    def write(self, data: bytes) -> None:
        super().write(data)
        self._asked = time.monotonic()

    def read(self, most: int, timeout: float) -> bytes:
        left = self._asked + self.patience - time.monotonic()
        found = super().read(most, min(left, timeout))
        if not found and left <= timeout:
            raise self.endless()
        return found

    def endless(self) -> DeviceError:
        """The error for a missing answer; says where the core is."""
        found = re.search(r"R15=([0-9a-f]{8})", self.monitor("info registers"))
        at = self.image.at(int(found[1], 16)) if found else "an unknown place"
        more = option(timeout=round(10 * self.patience))
        return DeviceError(
            f"no answer in {self.patience:g} seconds; it is at {at}",
            where=self.board.name,
            hint=f"{more} if it needs more; otherwise it loops there forever",
        )

    def ask(self, command: str, **arguments) -> str:
        """Send a command to QEMU's monitor."""
        try:
            self._monitor.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
            self._monitor.flush()
            while line := self._monitor.readline():
                answer = json.loads(line)
                if "return" in answer or "error" in answer:
                    return str(answer.get("return", ""))
        except TimeoutError:
            self._mute = True
        except OSError:
            pass
        raise self.gone()

    def monitor(self, line: str) -> str:
        return self.ask("human-monitor-command", **{"command-line": line})

    def words(self, address: int, count: int) -> list[int]:
        """Words of memory."""
        text = self.monitor(f"x /{count}wx {address:#x}")
        return [int(word, 16) for line in text.splitlines() for word in line.partition(":")[2].split()]

    def gone(self) -> DeviceError:
        """QEMU has ended: why. Or it is ended, since it hangs."""
        hangs = self.process.poll() is None and self._mute
        self.process.kill()
        text = self.process.stderr.read().decode(errors="replace") if self.process.stderr else ""
        what = f"does not answer its monitor in {MONITOR:g} seconds" if hangs else f"has ended: {text.strip()[:300]}"
        return DeviceError(f"QEMU {what}", where=self.board.name)

    def close(self) -> None:
        self.process.kill()
        self._monitor.close()
        super().close()
        if self.process.stderr:
            self.process.stderr.close()
        self._folder.cleanup()


def ours() -> str:
    """The other emulator."""
    return either(shell="--on emulator", python='on("emulator")')


def command_line(elf: Path, board: Board, machine: Machine, monitor: int) -> list[str]:
    if not shutil.which(COMMAND):
        raise ToolError(f"{COMMAND} is not on the PATH", hint=f"apt install qemu-system-arm, or {ours()}")
    return [
        COMMAND, "-M", machine.name, "-cpu", board.cpu, "-display", "none", "-serial", "stdio",
        "-icount", f"shift={SHIFT},sleep=off",
        "-chardev", f"socket,id=monitor,fd={monitor}", "-mon", "chardev=monitor,mode=control", "-kernel", str(elf),
    ]  # fmt: skip


# opening ----------------------------------------------------------------------------------------


def open_qemu(program: Program, board: str | Board = "stm32f746", *, sram: int | None = None,
              flash: int | None = None, flags: tuple[str, ...] = (), compiler: str = "zig",
              extra: Mapping[str, str] | None = None, timeout: float | None = None) -> QemuDevice:  # fmt: skip
    """Build the firmware of a program for QEMU's board with the same core, and start it.

    timeout     seconds that an answer may take
    """
    machine, there = moved(find_board(board), sram, flash)
    made = build_firmware(
        program, there, port="qemu", flags=flags, compiler=compiler, extra=extra, symbols=symbols(machine, there)
    )
    return start(made.image, there, program, machine, timeout)


def open_qemu_folder(folder: Path, board: Board, interface: Interface, sram: int | None, flash: int | None,
                     compiler: str = "zig", timeout: float | None = None) -> QemuDevice:  # fmt: skip
    """The same, from the sources in a board's folder."""
    machine, there = moved(board, sram, flash)
    tools = find_tools(compiler, there.core)
    include = (folder / "src", folder / "firmware")
    objects = compile_all(folder_sources(folder, "qemu"), tools, (), include)
    image, _ = linked(objects, tools, there, symbols(machine, there))
    return start(image, there, interface, machine, timeout)


def start(image: Image, board: Board, program: Program | Interface, machine: Machine,
          timeout: float | None = None) -> QemuDevice:  # fmt: skip
    used = account(image)
    for name, bytes, memory in (("SRAM", used.sram_bytes, board.sram), ("flash", used.flash_bytes, board.flash)):
        if bytes > memory.bytes:
            raise BudgetError(f"the firmware needs {bytes:,} bytes of {name}, but only {memory.bytes:,} are available")
    return QemuDevice(image, board, program, machine, timeout)


def moved(board: Board, sram: int | None, flash: int | None) -> tuple[Machine, Board]:
    """QEMU's board with this core, and the profile with its addresses; with the allowed memory in whole pages."""
    machine = MACHINES.get(board.cpu)
    if machine is None:
        raise BoardError(f"QEMU has no board with a {board.core.title}", hint=ours())
    memories = {}
    for name, wanted in (("sram", sram or board.sram.bytes), ("flash", flash or board.flash.bytes)):
        place: Memory = getattr(machine, name)
        memories[name] = Memory(place.origin, min(covered(wanted, REGIONS[name]), place.bytes))
    return machine, replace(board, **memories)


def covered(bytes: int, regions: int) -> int:
    """At least this many bytes, in at most `regions` powers of two of a page or more."""
    pages = -(-bytes // PAGE)
    while pages.bit_count() > regions:
        pages += pages & -pages
    return pages * PAGE


def symbols(machine: Machine, board: Board) -> dict[str, int]:
    """Addresses for c/boards/port_qemu.c."""
    return {
        "port_uart": machine.uart, "port_counter": machine.counter,
        "port_flash": board.flash.origin, "port_flash_end": board.flash.end,
        "port_sram": board.sram.origin, "port_sram_end": board.sram.end,
    }  # fmt: skip
