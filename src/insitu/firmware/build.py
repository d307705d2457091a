"""Compile and link a firmware: the model, its kernels, the protocol, startup and a port, for one board.

The compiler is zig's (from pip), or a bare-metal gcc if the caller asks for one. Objects are cached by content. The
image is linked twice: once to find how deep its stack can get, then with exactly that much reserved.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from insitu.boards import Board, Cpu, Pages, Port
from insitu.codegen import Program
from insitu.codegen.device import emit_device, kernels_of, main_source, sources_of
from insitu.codegen.life_layout import layout_of
from insitu.errors import ToolError
from insitu.firmware.account import Account, account, with_reserved
from insitu.firmware.image import Image, parse_image
from insitu.firmware.linker import linker_script
from insitu.firmware.soft import soft_runtime
from insitu.firmware.stack import THUMB, Depth, stack_depth
from insitu.firmware.stack_riscv import RISCV
from insitu.firmware.together import Source, compile_together
from insitu.toolchain.cache import cached, key_of, one_at_a_time, place_of, sealed
from insitu.toolchain.compiler import Files, texts_of, write_files
from insitu.toolchain.prototypes import kernels_header, own_header
from insitu.toolchain.sources import C_FOLDER, EVERYTHING, closure, depends, kernel_path, read
from insitu.toolchain.zig import zig_command

FLAGS = (
    "-std=c99", "-g", "-ffreestanding", "-ffp-contract=off", "-fno-math-errno", "-fomit-frame-pointer",
    "-ffunction-sections", "-fdata-sections", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables",
    "-Wall", "-Wextra", "-Werror",
)  # fmt: skip
ZIG = ("-fno-sanitize=undefined",)
# arrays stay apart, each under its own name, so that they can be accounted for
RISCV_FLAGS = ("-mllvm", "-riscv-enable-global-merge=false")
ALONE = ("-nostdlib",)  # zig builds its runtime first, which takes longer than a firmware
BOOT, LIFE = "boot/boot.o", "device/life.o"
RUNTIME = "runtime/runtime.o"  # the part of a runtime that our C needs
FIRST_STACK = 4096  # bytes, until the depth is known
IN_MEMORY = next((d for d in ("/dev/shm",) if os.access(d, os.W_OK)), None)  # many links, each gone in a moment
ROOMY = 1 << 27  # linked without limits first, so that we say what does not fit, not the linker


@dataclass(frozen=True, eq=False)
class Firmware:
    """A linked image, where its bytes went, and how deep its stack can get."""

    board: Board
    program: Program
    image: Image
    account: Account
    stack: Depth
    compiler: str

    @property
    def sram_bytes(self) -> int:
        return self.account.sram_bytes

    @property
    def flash_bytes(self) -> int:
        return self.account.flash_bytes


def build_firmware(program: Program, board: Board, *, port: str | Port = "emulator", flags: tuple[str, ...] = (),
                   compiler: str = "zig", extra: Mapping[str, str] | None = None,
                   symbols: Mapping[str, int] | None = None) -> Firmware:  # fmt: skip
    """Link a program for a board.

    port    the name of an emulator's, or the board's own UART
    flags   such as -DINSITU_SCALAR
    extra   more files for the model's folder
    """
    tools = find_tools(compiler, board.core)
    model = program.embedded() if tools.name == "zig" else program.files  # gcc aligns arrays in a way of its own
    objects = compile_all(firmware_sources(program, port, extra or {}, board.core.startup, model), tools, flags)
    image, depth = linked(objects, tools, board, symbols)
    return Firmware(board, program, image, with_reserved(account(image), reserved(program)), depth, tools.name)


def reserved(program: Program) -> dict[str, int]:
    """Flash at the end of the board's that a living program keeps its samples and checkpoints in."""
    layout = layout_of(program)
    return {"store": layout.store_flash, "checkpoints": 2 * layout.bank_bytes} if layout else {}


def linked(objects: Mapping[str, Path], tools: Tools, board: Board,
           symbols: Mapping[str, int] | None = None) -> tuple[Image, Depth]:  # fmt: skip
    """The image with exactly as much stack as it can ever need; with our own runtime if that is enough."""
    if tools.alone:
        try:
            small = replace(tools, link=(*tools.link, *tools.alone), alone=())
            return linked({**objects, **runtime(tools, board.core)}, small, board, symbols)
        except ToolError as e:
            if "undefined symbol" not in e.what:
                raise
    first = parse_image(link(objects, tools, roomy(board, FIRST_STACK, symbols, objects)))
    depth = stack_depth(first, board.core.fpu, machine=THUMB if board.core.arm else RISCV)
    return parse_image(link(objects, tools, roomy(board, depth.bytes, symbols, objects))), depth


def roomy(board: Board, stack: int, symbols: Mapping[str, int] | None, objects: Mapping[str, Path]) -> str:
    """A linker script without the limits of the board."""
    return linker_script(board, stack, ROOMY, ROOMY, symbols, BOOT in objects, LIFE in objects)


# sources ----------------------------------------------------------------------------------------


def firmware_sources(program: Program, port: str | Port,
                     extra: Mapping[str, str], startup: str = "boards/startup.c",
                     model: Files | None = None) -> dict[str, Source]:  # fmt: skip
    """Object path -> its source text, and the generated files it may include; `model` are the program's own, if they
    are not all C."""
    files = generated_files(program, extra, model)
    found = program_sources(program, files)
    found["startup/startup.o"] = hand_written(C_FOLDER / startup)
    found["startup/main.o"] = (main_source(program.prefix), _headers(files))
    found["port/port.o"] = port_source(port)
    if program.life and program.life.pages:
        found["port/flash.o"] = hand_written(C_FOLDER / flash_driver(port, program.life.pages))
    if isinstance(port, Port) and port.boot:
        found[BOOT] = ((C_FOLDER / port.boot).read_text(), {})
    return found


def generated_files(program: Program, extra: Mapping[str, str], model: Files | None = None) -> Files:
    """The program, its tables for the protocol, the prototypes of its kernels, and these."""
    prototypes = {EVERYTHING: kernels_header(kernels_of(program))}
    return {**(model or program.files), **emit_device(program), **prototypes, **extra}


def _headers(files: Files) -> dict[str, str]:
    return {name: text for name, text in texts_of(files).items() if name.endswith(".h")}


def program_sources(program: Program, files: Files) -> dict[str, Source]:
    """The same without startup and port: the generated files, the kernels, the protocol."""
    texts, headers = texts_of(files), _headers(files)
    found: dict[str, Source] = {
        f"model/{name[:-2]}.o": (text, {**headers, **{n: files[n] for n in files if n not in texts and n in text}})
        for name, text in texts.items() if name.endswith(".c")
    }  # fmt: skip
    found |= {f"kernels/{name}.o": hand_written(kernel_path(name)) for name in closure(kernels_of(program))}
    own = (C_FOLDER / source for source in sources_of(program))
    return found | {f"device/{path.stem}.o": hand_written(path, program) for path in own}


def hand_written(path: Path, program: Program | None = None) -> tuple[str, dict[str, str]]:
    headers = own_header(path)
    if program and program.life:
        headers = {name: living(text) for name, text in headers.items()}
    return read(path), headers


def living(header: str) -> str:
    """kernels.h of a living program: the protocol serves more requests (c/device/device.c)."""
    return header.replace("#include <stdint.h>\n", "#include <stdint.h>\n\n#define INSITU_LIVING 1\n", 1)


def flash_driver(port: str | Port, pages: Pages) -> str:
    """The driver of the flash: the board's own, the emulator's, or one that keeps nothing (QEMU's boards have none)."""
    if isinstance(port, Port):
        return pages.source
    return f"boards/flash_{'emulator' if port == 'emulator' else 'own'}.c"


def port_source(port: str | Port) -> tuple[str, dict[str, str]]:
    """The source of a port, and the header that ties a driver to its chip."""
    if isinstance(port, Port):
        return (C_FOLDER / port.source).read_text(), {"chip.h": port.header}
    return (C_FOLDER / "boards" / f"port_{port}.c").read_text(), {}


def folder_sources(folder: Path, port: str) -> dict[str, tuple[str, dict[str, str]]]:
    """The same from a board's folder, as `insitu compile` wrote it; the headers are on FOLDER's include path."""
    source, firmware, boards = folder / "src", folder / "firmware", C_FOLDER / "boards"
    drivers = list((source / "device").glob("flash_*.c"))  # of a flash that QEMU's boards do not have
    places = {
        **{p: f"model/{p.stem}.o" for p in source.glob("*.c")},
        **{p: f"kernels/{p.stem}.o" for p in (source / "kernels").rglob("*.c")},
        **{p: f"device/{p.stem}.o" for p in (source / "device").glob("*.c") if p not in drivers},
        **dict.fromkeys([boards / "flash_own.c"] if drivers else [], "port/flash.o"),
        **dict.fromkeys((firmware / "boards").glob("startup*.c"), "startup/startup.o"),
        firmware / "main.c": "startup/main.o",
        boards / f"port_{port}.c": "port/port.o",
    }
    try:
        return {place: (path.read_text(), {}) for path, place in sorted(places.items())}
    except OSError as e:
        raise ToolError(f"cannot be read: {e.strerror or e}", where=str(e.filename)) from e


def runtime(tools: Tools, cpu: Cpu) -> dict[str, Path]:
    """Our own for a core with an FPU, a part of zig's for others; nothing if zig's has other parts than we know."""
    if not cpu.fpu:
        found = soft_runtime(cpu.zig[:3], cpu.level, version(tools.command), checked)
        return {RUNTIME: found} if found else {}
    source = ((C_FOLDER / "boards" / "runtime.c").read_text(), {})
    return compile_all({RUNTIME: source}, tools, ())


# tools ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tools:
    name: str
    command: tuple[str, ...]
    flags: tuple[str, ...]
    link: tuple[str, ...]
    alone: tuple[str, ...] = ()  # how to link without the compiler's own runtime; empty where that is needed or at hand


def find_tools(compiler: str, cpu: Cpu) -> Tools:
    """The cross compiler for a core."""
    if compiler == "zig":
        if not zig_command():
            raise ToolError("no cross compiler found", hint='pip install "insitu[emulate]"')
        command = (*zig_command(), "cc", *cpu.zig)
        own = () if cpu.arm else RISCV_FLAGS
        return Tools("zig", command, (*FLAGS, cpu.level, *ZIG, *own), ("-Wl,--gc-sections",), ALONE)
    if not shutil.which(compiler):
        raise ToolError(f"{compiler} is not on the PATH", hint='pip install "insitu[emulate]" brings zig')
    link = ("-nostartfiles", "-Wl,--gc-sections", "-Wl,--build-id=none", "-specs=nosys.specs")
    return Tools(compiler, (compiler, *cpu.gcc), (*FLAGS, cpu.level), link)


@cache
def version(command: tuple[str, ...]) -> str:
    return run([*command, "--version"]).stdout


Sources = Mapping[str, Source]


def compile_all(sources: Sources, tools: Tools, flags: tuple[str, ...], include: tuple[Path, ...] = (C_FOLDER,)):
    """Object path in the image -> the compiled file. What is not in the cache is compiled in few starts."""
    keys = {name: object_key(name, source, tools, flags, include) for name, source in sources.items()}
    command = (*tools.command, *tools.flags, *flags)
    with ExitStack() as held:
        if len(missing(keys)) > 1:  # another process may be compiling the same kernels
            held.enter_context(one_at_a_time(place_of("cross", key_of(*command), ".o")))
        folder = held.enter_context(tempfile.TemporaryDirectory())
        pool = held.enter_context(ThreadPoolExecutor(max_workers=os.cpu_count() or 1))
        new = {name: sources[name] for name in missing(keys)}
        ready = compile_together(new, command, include, Path(folder)) if len(new) > 1 else {}

        def make(name: str, path: Path) -> None:
            if name in ready:
                shutil.copyfile(ready[name], path)
            else:
                compile_one(name, sources[name], command, include, path)

        def one(name: str) -> Path:
            return cached("cross", keys[name], ".o", partial(make, name))

        return dict(zip(sources, pool.map(one, sources)))


def missing(keys: Mapping[str, str]) -> list[str]:
    """The objects that are not in the cache."""
    return [name for name, key in keys.items() if not sealed(place_of("cross", key, ".o"))]


def object_key(name: str, source: Source, tools: Tools, flags: tuple[str, ...], include: tuple[Path, ...]) -> str:
    text, headers = source
    options = (*tools.command[1:], *tools.flags, *flags)
    return key_of(version(tools.command), *options, name, text, *depends(text, include, texts_of(headers)))


def compile_one(name: str, source: Source, command: tuple[str, ...], include: tuple[Path, ...], path: Path) -> None:
    """Compile one file, or raise an error that says what is wrong with it."""
    text, headers = source
    with tempfile.TemporaryDirectory() as folder:
        write_files(folder, {**headers, f"{Path(name).stem}.c": text})
        where = [f"-I{place}" for place in (*include, folder)]
        checked([*command, *where, "-c", str(Path(folder) / f"{Path(name).stem}.c"), "-o", str(path)])


def link(objects: Mapping[str, Path], tools: Tools, script: str) -> bytes:
    """The bytes of the ELF image; cached, as the name of an object in the cache stands for its content."""
    named = [part for name, path in objects.items() for part in (name, path.name)]
    key = key_of(version(tools.command), *tools.command[1:], *tools.flags, *tools.link, script, *named)
    return cached("image", key, ".elf", lambda path: _link(objects, tools, script, path)).read_bytes()


def _link(objects: Mapping[str, Path], tools: Tools, script: str, image: Path) -> None:
    """Objects get their original names, because the script sorts them by folder."""
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        for name, path in objects.items():
            target = Path(folder) / name
            target.parent.mkdir(exist_ok=True)
            target.symlink_to(path.absolute())
        (Path(folder) / "link.ld").write_text(script)
        checked([*tools.command, *tools.flags, *tools.link, *objects, "-Wl,-T,link.ld", "-o", str(image)], folder)


def checked(command: list[str], folder: str | None = None) -> None:
    done = run(command, folder)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()
        raise ToolError("the cross compiler failed: " + "\n".join(lines[:5]), where=Path(command[0]).name)


def run(command, folder: str | None = None):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    except OSError as e:
        raise ToolError(f"cannot run the cross compiler: {e}", where=str(command[0])) from e
