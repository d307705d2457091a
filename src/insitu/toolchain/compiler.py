"""Find a C compiler on this machine and build shared libraries with it.

The compiler is `$CC` if set, else cc, gcc or clang, else the one that `pip install ziglang` brings.
Kernels are compiled once and cached by content; a model's own file is compiled and linked with the
kernels it calls. With `$INSITU_STRICT` set, as in the tests, a compiler warning in a kernel is an error.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from insitu.errors import ToolError
from insitu.toolchain.cache import cached, forget, key_of
from insitu.toolchain.joined import JOINED, ended, joinable, joined
from insitu.toolchain.prototypes import kernels_header, own_header
from insitu.toolchain.sources import (
    C_FOLDER,
    EVERYTHING,
    called,
    closure,
    depends,
    kernel_path,
    kernel_paths,
    read,
    unchanging,
)
from insitu.toolchain.zig import zig_command

FLAGS = ("-std=c99", "-O3", "-fPIC", "-ffp-contract=off", "-fno-math-errno", "-fno-sanitize=undefined")
NATIVE = "-march=native"
SCALAR = "-DINSITU_SCALAR"
# plain C where it gives the same bits: it compiles in a tenth of the time, for work that takes less than that
QUICK = "-DINSITU_QUICK"
ANY_ORDER = {"dot_f32", "sum_f32"}  # primitives that add in an order of their own on each machine
# a missing function is an error at link time, not when it is called; and our calls never reach a function of the same
# name in another library of the process. Other systems behave like this anyway
LINK = ("-Wl,-z,defs", "-Wl,-Bsymbolic") if sys.platform.startswith("linux") else ()
STRICT = ("-Wall", "-Wextra", "-Werror")
Files = Mapping[str, str | bytes]  # name -> text, or bytes that a text includes


CC_HINT = "set CC to a C compiler, or unset it"


@cache
def find_compiler() -> tuple[str, ...]:
    """The compiler's command."""
    if os.environ.get("CC", "").strip():
        try:
            return tuple(shlex.split(os.environ["CC"]))
        except ValueError as e:
            raise ToolError(f"CC cannot be read: {e}", where=os.environ["CC"], hint=CC_HINT) from e
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return (name,)
    if zig_command():
        return (*zig_command(), "cc")
    raise ToolError("no C compiler found", hint='pip install "insitu[toolchain]"   (or set CC)')


@cache
def compiler_version() -> str:
    """The compiler's command, its version and the features of this machine: part of every cache key."""
    command = find_compiler()  # may have flags, as in CC="gcc -mno-avx512f"
    return shlex.join(command) + _run([*command, "--version"]).stdout + platform.machine() + _cpu_flags()


def build_library(files: Files, kernels: tuple[str, ...], flags: tuple[str, ...] = (NATIVE,),
                  plain: Callable[[], Files] | None = None) -> Path:  # fmt: skip
    """A shared library of these generated files and the kernels they call; cached by content.

    If `files` have constants as bytes, `plain` gives the same program as C, for a compiler that cannot include them,
    and for sanitizers, which watch only the arrays that they have seen defined.
    """
    if plain and any(f.startswith("-fsanitize") for f in flags):
        files, plain = plain(), None
    header = {EVERYTHING: kernels_header(kernels)}
    files = {**files, **header}
    named = [f"{object_key(kernel_path(k), kernel_flags(k, flags))}-{k}.o" for k in closure(kernels)]
    texts = texts_of(files)
    parts = [part for text in texts.values() for part in depends(text, given=texts)]
    key = key_of(compiler_version(), *LINK, *flags, *named, *_flat(files), *parts)

    def make(path: Path) -> None:
        objects = kernel_objects(kernels, flags)
        try:
            _build(files, objects, flags, path)
        except ToolError:  # objects in the cache may be damaged: try again with new ones, and with plain C
            forget(*objects)
            _build({**plain(), **header} if plain else files, kernel_objects(kernels, flags), flags, path)

    return cached("library", key, ".so", make)


def kernel_objects(kernels: tuple[str, ...], flags: tuple[str, ...] = (NATIVE,)) -> list[Path]:
    """Object files of these kernels and of those they call."""
    names = closure(kernels)
    if QUICK in flags:
        return _quick_objects(names, flags)
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        return list(pool.map(lambda k: _kernel_object(k, flags), names))


def _kernel_object(name: str, flags: tuple[str, ...]) -> Path:
    return object_of(kernel_path(name), "kernel", kernel_flags(name, flags))


def _quick_objects(names: list[str], flags: tuple[str, ...]) -> list[Path]:
    """The same in few starts of the compiler: one for each kind of flags that kernels have."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        groups.setdefault(kernel_flags(name, flags), []).append(name)
    return [made for own, group in groups.items() for made in _grouped(group, own, flags)]


def _grouped(names: list[str], own: tuple[str, ...], flags: tuple[str, ...]) -> list[Path]:
    """One object of all kernels whose files can be one, and an object of each other."""
    fit = joinable({name: read(kernel_path(name)) for name in names})
    return [*(_together(fit, own) or _apart(fit, flags)), *_apart([n for n in names if n not in fit], flags)]


def _apart(names: list[str], flags: tuple[str, ...]) -> list[Path]:
    return [_kernel_object(name, flags) for name in names]


def _together(names: list[str], flags: tuple[str, ...]) -> list[Path]:
    """One object of several kernels; none if their files cannot be one."""
    known = {word for name in names for word in called(kernel_path(name)) if word in kernel_paths(C_FOLDER)}
    headers = {EVERYTHING: kernels_header({*names, *known})}
    text = "\n".join(ended(read(kernel_path(name))) for name in names)

    def make(path: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            write_files(folder, {**headers, JOINED: text})
            compile_c([*FLAGS, *flags, "-I", folder, "-I", str(C_FOLDER), "-c", f"{folder}/{JOINED}", "-o", str(path)])

    if len(names) < 2:
        return []
    try:
        key = key_of(compiler_version(), *FLAGS, *flags, text, *depends(text, given=headers))
        return [cached("kernel", key, "-joined.o", make)]
    except ToolError:  # names clash that joined.py does not know
        return []


def kernel_flags(name: str, flags: tuple[str, ...]) -> tuple[str, ...]:
    """The flags that a kernel is compiled with, if a library is made with these."""
    if QUICK in flags:
        plain = () if called(kernel_path(name)) & ANY_ORDER else (SCALAR,)
        flags = (*(f for f in flags if f != QUICK), *plain, "-O1")
    if os.environ.get("INSITU_STRICT") and set(flags) <= {NATIVE, SCALAR, *STRICT}:  # sanitizers cause warnings
        flags = (*(f for f in flags if f not in STRICT), *STRICT)  # in one order, so that it is the same cached object
    return flags


def object_of(source: Path, kind: str, flags: tuple[str, ...]) -> Path:
    """The object of a hand-written file."""

    def make(path: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            write_files(folder, own_header(source))
            compile_c([*FLAGS, *flags, "-I", folder, "-I", str(C_FOLDER), "-c", str(source), "-o", str(path)])

    return cached(kind, object_key(source, flags), f"-{source.stem}.o", make)


def object_key(source: Path, flags: tuple[str, ...]) -> str:
    """What stands for the object of a hand-written file, whether it is compiled already or not."""
    return (_installed_key if unchanging(source) else _object_key)(source, flags, compiler_version())


def _object_key(source: Path, flags: tuple[str, ...], compiler: str) -> str:
    text = read(source)
    return key_of(compiler, *FLAGS, *flags, text, *depends(text, given=own_header(source)))


_installed_key = cache(_object_key)


def _build(files: Files, objects: list[Path], flags: tuple[str, ...], target: Path) -> None:
    texts = texts_of(files)
    files = {**{name: files[name] for name in files if name not in texts}, **joined(texts)}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        # the generated part only calls kernels: there is nothing to optimise
        common = [*FLAGS, "-O1", *flags, "-I", str(C_FOLDER), "-I", folder]
        write_files(folder, files)
        sources = [Path(folder) / name for name in sorted(files) if name.endswith(".c")]
        made = [str(s.with_suffix(".o")) for s in sources]
        list(pool.map(lambda so: compile_c([*common, "-c", str(so[0]), "-o", so[1]]), zip(sources, made)))
        link = () if any(f.startswith("-fsanitize") for f in flags) else LINK  # sanitizers come with the process
        compile_c([*common, "-shared", *link, *made, *map(str, objects), "-o", str(target)])


def write_files(folder: str | Path, files: Files) -> None:
    for name, content in files.items():
        (Path(folder) / name).write_bytes(content.encode() if isinstance(content, str) else content)


def texts_of(files: Files) -> dict[str, str]:
    return {name: content for name, content in files.items() if isinstance(content, str)}


def compile_c(arguments: list[str]) -> None:
    """Run the compiler; its error messages become a ToolError."""
    command = find_compiler()
    done = _run([*command, *arguments])
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if re.search("error|undefined", line)]
        lines = lines or done.stderr.splitlines()
        what = "\n".join(lines[:5]) or f"exit status {done.returncode}, no message"
        raise ToolError(f"the C compiler failed: {what}", where=" ".join(command), hint="" if lines else CC_HINT)
    if "-o" in arguments and not Path(arguments[arguments.index("-o") + 1]).exists():
        raise ToolError("the C compiler wrote nothing", where=" ".join(command), hint=CC_HINT)


def _run(command: list[str]):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as e:
        raise ToolError(f"cannot run the C compiler: {e}", where=command[0], hint=CC_HINT) from e


def _flat(files: Files) -> list[str | bytes]:
    return [part for name in sorted(files) for part in (name, files[name])]


def _cpu_flags() -> str:
    """The CPU's features: -march=native depends on them, so the cache key must too."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    return next((line for line in text.splitlines() if line.startswith(("flags", "Features"))), "")
