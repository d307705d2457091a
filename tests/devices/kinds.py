"""Every kind of device, opened on the same programs; pyright checks each against `Device` (pyproject.toml)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec

from insitu.codegen import Program
from insitu.devices.device import Device
from insitu.devices.emulator import EmulatorDevice, open_emulator
from insitu.devices.host import HostDevice, open_program
from insitu.devices.link import LinkDevice
from insitu.devices.process import open_process
from insitu.devices.qemu import QemuDevice, open_qemu
from insitu.devices.rows import RowsDevice, open_rows
from insitu.devices.serial import open_serial
from insitu.devices.wasm import open_wasm

from .terminal import Terminal

BOARD = "nrf52840"
EMULATION = ("unicorn", "elftools", "ziglang")
CLASSES: tuple[type[Device], ...] = (HostDevice, RowsDevice, LinkDevice, EmulatorDevice, QemuDevice)


@dataclass(frozen=True)
class Kind:
    """How a device is opened, and what that needs."""

    open: Callable[[Program], Device]
    packages: tuple[str, ...] = ()
    command: str = ""

    @property
    def missing(self) -> str:
        """What is missing, and so why its tests are skipped."""
        lacking = [name for name in self.packages if not find_spec(name)]
        lacking += [self.command] if self.command and not shutil.which(self.command) else []
        return ", ".join(lacking)


class OnTerminal(LinkDevice):
    """A board on a serial port: the firmware behind a pseudo-terminal, which is closed with it."""

    def __init__(self, program: Program):
        self.terminal = Terminal(program)
        opened = open_serial(self.terminal.port, program)
        self.__dict__ |= opened.__dict__

    def close(self) -> None:
        super().close()
        self.terminal.close()


KINDS = {
    "host": Kind(open_program),
    "rows": Kind(open_rows),
    "process": Kind(open_process),
    "serial": Kind(OnTerminal, ("serial",), "" if hasattr(os, "openpty") else "pseudo-terminals"),
    "wasm": Kind(open_wasm, ("wasmtime", "ziglang")),
    "emulator": Kind(lambda program: open_emulator(program, BOARD), EMULATION),
    "qemu": Kind(lambda program: open_qemu(program, BOARD), EMULATION[1:], "qemu-system-arm"),
}


@contextmanager
def opened(kind: str, program: Program) -> Iterator[Device]:
    with KINDS[kind].open(program) as device:
        yield device
