"""The hand-written C: where a kernel's file is, which kernels it calls, and what a file includes.

An object depends on its file, the `included` texts, the compiler and the flags, and on nothing else. An `#include`
under an `#if` counts, whatever the target. Nothing here compiles (compiler.py does).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from insitu.errors import ToolError

INSTALLED = C_FOLDER = Path(__file__).parent.parent / "c"
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)
EVERYTHING = "kernels.h"  # generated (prototypes.py): prototypes are not calls


# kernels ----------------------------------------------------------------------------------------


def kernel_path(name: str) -> Path:
    """The file of a kernel."""
    found = kernel_paths(C_FOLDER).get(name)
    if found is None:
        raise ToolError(f"there is no kernel {name}.c", where=str(C_FOLDER / "kernels"))
    return found


def kernel_source(name: str) -> str:
    return read(kernel_path(name))


def kernel_file(name: str) -> str:
    """The same below the folder of C: kernels/<family>/<name>.c."""
    return kernel_path(name).relative_to(C_FOLDER).as_posix()


@cache
def kernel_paths(folder: Path) -> dict[str, Path]:
    """Every kernel: function -> file."""
    return {p.stem: p for p in sorted((folder / "kernels").rglob("*.c"))}


def closure(kernels: Iterable[str]) -> list[str]:
    """These kernels and every kernel they call, sorted."""
    known = kernel_paths(C_FOLDER)
    found, todo = set(), list(kernels)
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += [word for word in called(kernel_path(name)) if word in known]
    return sorted(found)


@cache
def called(path: Path) -> frozenset[str]:
    """The functions that a file and its headers call. A line that starts at the left edge is a prototype."""
    text = read(path)
    names = {w for line in text.splitlines() if line[:1].isspace() for w in re.findall(r"\b(\w+)\(", line)}
    for header in includes(text):
        if header != EVERYTHING:
            names |= called(C_FOLDER / header)
    return frozenset(names)


# headers ----------------------------------------------------------------------------------------


def depends(text: str, folders: tuple[Path, ...] = (), given: Mapping[str, str] | None = None) -> list[str]:
    """Names and texts of everything that a C file includes: parts of a key."""
    return [part for pair in included(text, folders, given).items() for part in pair]


def included(text: str, folders: tuple[Path, ...] = (), given: Mapping[str, str] | None = None) -> dict[str, str]:
    """Everything that a C file includes, and that these include: name -> text, in a fixed order.

    A name is looked for among `given` files, then in `folders` (by default the hand-written C). A name that is not
    found is left to the compiler, which reports it.
    """
    given, folders = given or {}, folders or (C_FOLDER,)
    found: dict[str, str] = {}
    todo = list(includes(text))
    while todo:
        name = todo.pop()
        if name in found:
            continue
        header = given[name] if name in given else found_in(folders, name)
        if header is not None:
            found[name] = header
            todo += includes(header)
    return {name: found[name] for name in sorted(found)}


@cache
def includes(text: str) -> tuple[str, ...]:
    return tuple(INCLUDE.findall(text))


def found_in(folders: tuple[Path, ...], name: str) -> str | None:
    if folders == (INSTALLED,):
        return _header(name)
    path = next((folder / name for folder in folders if (folder / name).is_file()), None)
    return read(path) if path else None


@cache
def _header(name: str) -> str | None:
    return read(INSTALLED / name) if (INSTALLED / name).is_file() else None


def read(path: Path) -> str:
    """A file's text; read again only if the file has changed, and never if it was installed with the package."""
    return _installed(path) if unchanging(path) else _read(path, *_stamp(path))


def unchanging(path: Path) -> bool:
    """Is it one of the package's own files? Like its modules, they are read once in the life of a process."""
    return C_FOLDER is INSTALLED and _is_installed(path)


@cache
def _is_installed(path: Path) -> bool:
    return path.is_relative_to(INSTALLED)


@cache
def _installed(path: Path) -> str:
    return path.read_text()


def _stamp(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size


@cache
def _read(path: Path, changed: int, size: int) -> str:
    return path.read_text()
