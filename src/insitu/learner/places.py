"""Where a board's program can run, by name: on an emulated core, in QEMU, as a process, as
WebAssembly, or on the board itself.

A program comes from a deployment in memory or from a written folder (`insitu compile -o`); both give the same devices.
owner.py handles this machine without a line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from insitu.boards import BAUD, Board
from insitu.codegen import Program
from insitu.codegen.device import Interface, interface_of
from insitu.deploy import Deployment
from insitu.deploy.manifest import Manifest
from insitu.devices.device import Device
from insitu.devices.link import RUN_TIMEOUT
from insitu.errors import BoardError, DataError
from insitu.terminal.wording import either

HOST = "host"


@dataclass(frozen=True)
class Patience:
    """How long a request may take, and how fast a line is."""

    limit: int | None = None  # instructions, on the emulator
    timeout: float | None = None  # seconds, elsewhere
    baud: int | None = None  # of a serial line; None: from the board's profile

    def on(self, board: Board | None) -> Patience:
        """The same, with the baud rate that the board's profile says if none was given."""
        return replace(self, baud=self.baud or (board.port.baud if board and board.port else None))


def place_of(place: str, known: Iterable[str]) -> tuple[str, str]:
    """Kind and port of a place's name; an error lists the known names."""
    kind, _, port = place.partition(":")
    if kind not in known or bool(port) != (kind == "serial"):
        names = ["serial:PORT" if name == "serial" else name for name in known]
        raise DataError(f"cannot run on {place!r}", hint=", ".join(names))
    return kind, port


def open_place(place: str, deployed: Deployment | None, program: Callable[[], Program], patience: Patience) -> Device:
    """The device of this name. An emulated core takes what was linked for its board; the others take any program."""
    kind, port = place_of(place, (HOST, *EMULATORS, *LINES))
    if kind in EMULATORS:
        return EMULATORS[kind](linked(deployed, kind), patience)
    if deployed is None:
        return LINES[kind](program(), port, patience)
    return LINES[kind](deployed.program, port, patience.on(deployed.limits.board))


def linked(deployed: Deployment | None, kind: str) -> Deployment:
    """What was linked for a board; a BoardError if nothing was."""
    if deployed is None:
        hint = either(shell="--board nrf52840", python=f'on("{kind}", board="nrf52840")')
        raise BoardError("was compiled for this machine and has no firmware", where=kind, hint=hint)
    if deployed.firmware is None:
        raise not_emulated(deployed.limits.board, "it was not linked", "")
    return deployed


def open_in_folder(manifest: Manifest, place: str, patience: Patience) -> Device:
    """The device that runs a folder's firmware."""
    kind, port = place_of(place, IN_FOLDER)
    if kind in EMULATORS and not manifest.figures["linked"]:
        raise not_emulated(manifest.board, "this folder has C to compile, but no firmware", str(manifest.folder))
    return IN_FOLDER[kind](manifest, port, patience)


def not_emulated(board: Board | None, why: str, where: str) -> BoardError:
    core = board.core.title if board else "core"
    line = either(shell="--on serial:PORT", python='on("serial:PORT")')
    hint = f"`insitu boards` lists emulated boards; or {line}"
    return BoardError(f"a {core} is not emulated: {why}", where=where, hint=hint)


# a program in memory ----------------------------------------------------------------------------


def _emulator(deployed: Deployment, patience: Patience) -> Device:
    from insitu.devices.emulator import EmulatorDevice, call_lines

    made, limits = deployed.firmware, deployed.limits
    assert made is not None  # checked by linked()
    lines = {verb: call_lines(made.program, verb) for verb in made.program.plans}
    return EmulatorDevice(
        made.image, made.board, interface_of(made.program), lines, sram=limits.sram, flash=limits.flash,
        limit=patience.limit,
    )  # fmt: skip


def _qemu(deployed: Deployment, patience: Patience) -> Device:
    from insitu.devices.qemu import open_qemu

    limits = deployed.limits
    assert limits.board is not None  # checked by linked()
    return open_qemu(deployed.program, limits.board, sram=limits.sram, flash=limits.flash, timeout=patience.timeout)


def _process(program: Program, port: str, patience: Patience) -> Device:
    from insitu.devices.process import open_process

    return open_process(program, run_timeout=patience.timeout or RUN_TIMEOUT)


def _wasm(program: Program, port: str, patience: Patience) -> Device:
    from insitu.devices.wasm import open_wasm

    return open_wasm(program, run_timeout=patience.timeout or RUN_TIMEOUT)


def _serial(program: Program | Interface, port: str, patience: Patience) -> Device:
    from insitu.devices.serial import open_serial

    return open_serial(port, program, patience.baud or BAUD, run_timeout=patience.timeout or RUN_TIMEOUT)


# a program in a folder --------------------------------------------------------------------------


def _folder_emulator(manifest: Manifest, port: str, patience: Patience) -> Device:
    from insitu.devices.emulator import EmulatorDevice
    from insitu.firmware import read_image

    figures = manifest.figures
    return EmulatorDevice(
        read_image(manifest.elf), manifest.board, manifest.interface, manifest.lines,
        sram=figures["sram_budget_bytes"], flash=figures["flash_budget_bytes"], limit=patience.limit,
    )  # fmt: skip


def _folder_qemu(manifest: Manifest, port: str, patience: Patience) -> Device:
    from insitu.devices.qemu import open_qemu_folder

    sram, flash = (manifest.figures[f"{memory}_budget_bytes"] for memory in ("sram", "flash"))
    return open_qemu_folder(
        manifest.folder, manifest.board, manifest.interface, sram, flash, timeout=patience.timeout
    )  # fmt: skip


def _folder_serial(manifest: Manifest, port: str, patience: Patience) -> Device:
    return _serial(manifest.interface, port, patience.on(manifest.board))


EMULATORS: dict[str, Callable[[Deployment, Patience], Device]] = {"emulator": _emulator, "qemu": _qemu}
LINES: dict[str, Callable[[Program, str, Patience], Device]] = {
    "process": _process, "wasm": _wasm, "serial": _serial
}  # fmt: skip
IN_FOLDER: dict[str, Callable[[Manifest, str, Patience], Device]] = {
    "emulator": _folder_emulator, "qemu": _folder_qemu, "serial": _folder_serial
}  # fmt: skip
