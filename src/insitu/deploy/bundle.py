"""A training program as a folder: for your own build, or for a board with its firmware.

`write_bundle` writes the generated files, the kernels they call, and the headers:

    cc -std=c99 -O2 -ffp-contract=off -I. *.c kernels/*/*.c your_main.c

`write_board` writes the same under src/, without the headers of other cores, with a Makefile, packages for CMake,
Arduino, PlatformIO, Zephyr and ESP-IDF, an example, the firmware's own files, its images (emulator.elf for the
emulator, firmware.elf, .bin and .hex for the board), and a README with the memory it needs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from insitu.boards import Board
from insitu.codegen import Program
from insitu.codegen.device import emit_device, kernels_of, main_source, sources_of
from insitu.deploy import Deployment
from insitu.deploy.bundle_texts import example_main, makefile, readme, train_sketch
from insitu.deploy.folder import LEARNER, MANIFEST, hashes, write_files
from insitu.deploy.manifest import manifest
from insitu.deploy.packages import package_files
from insitu.deploy.reached import only_reached
from insitu.firmware import flash
from insitu.firmware.build import living, reserved
from insitu.firmware.linker import linker_script
from insitu.toolchain.prototypes import kernels_header
from insitu.toolchain.sources import C_FOLDER, EVERYTHING, closure, included, kernel_file, kernel_source


def bundle_files(program: Program) -> dict[str, str]:
    """Path in the folder -> text."""
    return with_headers({**program.files, **kernel_files(program.kernels)})


def kernel_files(kernels: Iterable[str]) -> dict[str, str]:
    """These kernels and those they call, with their prototypes."""
    names = closure(kernels)
    return {EVERYTHING: kernels_header(names), **{kernel_file(name): kernel_source(name) for name in names}}


def with_headers(files: dict[str, str]) -> dict[str, str]:
    """These files, and those of the hand-written headers that they include."""
    found = {name: text for file in files.values() for name, text in included(file, given=files).items()}
    return files | dict(sorted(found.items()))


def board_files(deployment: Deployment, learner: bytes = b"") -> dict[str, str | bytes]:
    """Path in the folder -> content, for a board. `learner` is the file of the learner that it comes from."""
    program, board = deployment.program, deployment.limits.board
    assert board is not None
    protocol = {name: (C_FOLDER / name).read_text() for name in sources_of(program)} | flash_files(program)
    kernels = kernel_files(kernels_of(program))
    kernels[EVERYTHING] = living(kernels[EVERYTHING]) if program.life else kernels[EVERYTHING]
    sources = only_reached(with_headers({**program.files, **emit_device(program), **kernels, **protocol}), board)
    found: dict[str, str | bytes] = {f"src/{name}": text for name, text in sources.items()}
    found |= {f"firmware/{name}": text for name, text in firmware_files(program, board).items()}
    found |= {
        "README.md": readme(deployment), "Makefile": makefile(board), "example_main.c": example_main(program),
        "examples/train/train.ino": train_sketch(program), **package_files(program, board),
    }  # fmt: skip
    found |= image_files(deployment) | ({LEARNER: learner} if learner else {})
    described = {**manifest(deployment), "files": hashes(found)}
    return {**found, MANIFEST: json.dumps(described, indent=1) + "\n"}


def flash_files(program: Program) -> dict[str, str]:
    """The driver of the flash that a living program writes; it is part of every build of the folder."""
    pages = program.life and program.life.pages
    return {f"device/{Path(pages.source).name}": (C_FOLDER / pages.source).read_text()} if pages else {}


SHARED = ("device/", "isa/")  # these headers are below src/ already


def firmware_files(program: Program, board: Board) -> dict[str, str]:
    """What turns a program into firmware: startup, main, and the driver of the board's UART with what it includes.

    A RISC-V chip has all but main from its vendor.
    """
    main = {"main.c": main_source(program.prefix)}
    if not board.core.arm:
        return main
    found = main | {name: (C_FOLDER / name).read_text() for name in (board.core.startup, *board.port_files)}
    found["flash.py"] = Path(flash.__file__).read_text()
    if board.port:
        found["chip.h"] = board.port.header
    return {name: text for name, text in with_headers(found).items() if not name.startswith(SHARED)}


def image_files(deployment: Deployment) -> dict[str, str | bytes]:
    """The linked images, and the script they were linked with."""
    made, limits, board = deployment.firmware, deployment.limits, deployment.limits.board
    if not made or board is None:
        return {}
    real = deployment.flashable
    stack = max(f.stack.bytes for f in (made, real) if f)
    kept = sum(reserved(deployment.program).values())
    script = linker_script(board, stack, limits.sram, limits.flash and limits.flash - kept,
                           boot=bool(board.port and board.port.boot), living=bool(deployment.program.life))  # fmt: skip
    found: dict[str, str | bytes] = {"emulator.elf": made.image.data}
    found |= {"firmware/link.ld": script} if board.core.arm else {}
    if real and board.port:
        written = flash.images(real.image.data, board.port.family)
        found |= {"firmware.elf": real.image.data, **{f"firmware{suffix}": data for suffix, data in written.items()}}
    return found


def write_bundle(program: Program, folder: str | Path) -> list[Path]:
    """Write the folder; other files in it stay."""
    return write_files(bundle_files(program), folder)


def write_board(deployment: Deployment, folder: str | Path, learner: bytes = b"") -> list[Path]:
    """Write a board's folder; other files in it stay, those of an older program go."""
    return write_files(board_files(deployment, learner), folder)
