"""Where a board's program can run, by name: on an emulated core, in QEMU, as a process, or on the board itself.

A program comes from a deployment in memory or from a folder that was written (`insitu compile -o`); both give the same
devices. This machine without any firmware is the learner's own business (learner.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from insitu.boards import Board
from insitu.codegen.device import interface_of
from insitu.deploy import Deployment
from insitu.deploy.manifest import Manifest
from insitu.devices.device import Device
from insitu.devices.link import RUN_TIMEOUT
from insitu.errors import BoardError, DataError

HOST = "host"


@dataclass(frozen=True)
class Patience:
    """How long a request may take."""

    limit: int | None = None  # instructions, on the emulator
    timeout: float | None = None  # seconds, elsewhere


Opener = Callable[..., Device]


def open_deployed(deployed: Deployment, place: str, patience: Patience) -> Device:
    """The device that runs a program linked for a board."""
    kind, port = place_of(place, DEPLOYED)
    if kind in EMULATED and deployed.firmware is None:
        raise not_emulated(deployed.limits.board, "it was not linked", "")
    return DEPLOYED[kind](deployed, port, patience)


def open_in_folder(manifest: Manifest, place: str, patience: Patience) -> Device:
    """The device that runs a folder's firmware."""
    kind, port = place_of(place, IN_FOLDER)
    if kind in EMULATED and not manifest.figures["linked"]:
        raise not_emulated(manifest.board, "this folder has C to compile, no firmware", str(manifest.folder))
    return IN_FOLDER[kind](manifest, port, patience)


def place_of(place: str, known: Mapping[str, Opener]) -> tuple[str, str]:
    """Kind and port of a place's name; an error lists the names that are known."""
    kind, _, port = place.partition(":")
    if kind not in known or bool(port) != (kind == "serial"):
        names = ["serial:PORT" if name == "serial" else name for name in known]
        raise DataError(f"cannot run on {place!r}", hint=", ".join(names))
    return kind, port


def not_emulated(board: Board | None, why: str, where: str) -> BoardError:
    core = board.core.title if board else "core"
    hint = "insitu boards says what is emulated; or --on serial:PORT"
    return BoardError(f"a {core} is not emulated: {why}", where=where, hint=hint)


# a program in memory ----------------------------------------------------------------------------


def _emulator(deployed: Deployment, port: str, patience: Patience) -> Device:
    from insitu.devices.emulator import EmulatorDevice, call_lines

    made, limits = deployed.firmware, deployed.limits
    assert made is not None  # open_deployed sees to it
    lines = {verb: call_lines(made.program, verb) for verb in made.program.plans}
    return EmulatorDevice(
        made.image, made.board, interface_of(made.program), lines, sram=limits.sram, flash=limits.flash,
        limit=patience.limit,
    )  # fmt: skip


def _qemu(deployed: Deployment, port: str, patience: Patience) -> Device:
    from insitu.devices.qemu import open_qemu

    limits = deployed.limits
    assert limits.board is not None  # it was linked
    return open_qemu(
        deployed.program, limits.board, sram=limits.sram, flash=limits.flash, timeout=patience.timeout
    )  # fmt: skip


def _process(deployed: Deployment, port: str, patience: Patience) -> Device:
    from insitu.devices.process import open_process

    return open_process(deployed.program, run_timeout=patience.timeout or RUN_TIMEOUT)


def _serial(deployed: Deployment, port: str, patience: Patience) -> Device:
    from insitu.devices.serial import open_serial

    return open_serial(port, deployed.program, run_timeout=patience.timeout or RUN_TIMEOUT)


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
    from insitu.devices.serial import open_serial

    return open_serial(port, manifest.interface, run_timeout=patience.timeout or RUN_TIMEOUT)


EMULATED = ("emulator", "qemu")
DEPLOYED: dict[str, Opener] = {"emulator": _emulator, "qemu": _qemu, "process": _process, "serial": _serial}
IN_FOLDER: dict[str, Opener] = {"emulator": _folder_emulator, "qemu": _folder_qemu, "serial": _folder_serial}
