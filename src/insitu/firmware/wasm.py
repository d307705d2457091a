"""Link a program to a WebAssembly module: the model, its kernels, the protocol, and what a page calls
(c/device/ports/page.c).

The C is that of every other machine, and gives the same bytes. The module imports one function, which takes answers of
the protocol. devices/wasm.py runs it here; exporters/web/ puts it into a page.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from insitu.codegen import Program
from insitu.codegen.device import page_source
from insitu.errors import DeviceError, ToolError
from insitu.firmware.build import Tools, checked, compile_all, generated_files, hand_written, program_sources, version
from insitu.terminal.wording import either
from insitu.toolchain.cache import cached, key_of
from insitu.toolchain.sources import C_FOLDER
from insitu.toolchain.zig import zig_command

PORT = "device/ports/page.c"
# vectors of 16 bytes: every browser of 2021 and later has them
TARGET = ("-target", "wasm32-freestanding", "-msimd128")
FLAGS = (
    "-std=c99", "-O3", "-ffreestanding", "-ffp-contract=off", "-fno-math-errno", "-fno-sanitize=undefined",
    "-Wall", "-Wextra", "-Werror",
)  # fmt: skip
STACK_BYTES = 1 << 16
LINE_BYTES = 4096  # PAGE_LINE of page.c
LINK = ("-Wl,--no-entry", "-Wl,--strip-all", "-Wl,--gc-sections", f"-Wl,-z,stack-size={STACK_BYTES}")


def build_module(program: Program) -> bytes:
    """The module's bytes; cached by content."""
    if program.life:
        hint = either(shell="--on emulator", python='on("emulator"); or learner.keep()')
        raise DeviceError("a program that keeps samples needs a board's flash", hint=hint)
    files = generated_files(program, {"page_model.c": page_source(program.prefix)})
    sources = {**program_sources(program, files), "port/port.o": hand_written(C_FOLDER / PORT)}
    return linked(compile_all(sources, tools(), ()), tools())


def tools() -> Tools:
    """The compiler for WebAssembly."""
    if not zig_command():
        raise ToolError("no compiler for WebAssembly found", hint='pip install "insitu[toolchain]"')
    return Tools("zig", (*zig_command(), "cc", *TARGET), FLAGS, LINK)


def linked(objects: Mapping[str, Path], by: Tools) -> bytes:
    """The module of these objects; cached, as the name of an object in the cache stands for its content."""
    named = [part for name, path in objects.items() for part in (name, path.name)]
    key = key_of(version(by.command), *by.command[1:], *by.flags, *by.link, *named)
    return cached("module", key, ".wasm", lambda path: _link(objects, by, path)).read_bytes()


def _link(objects: Mapping[str, Path], by: Tools, module: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        checked([*by.command, *by.flags, *by.link, *map(str, objects.values()), "-o", str(module)], folder)
