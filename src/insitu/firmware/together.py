"""Compile many C files in one start of zig's clang: starting it takes as long as compiling a small kernel.

`zig cc` starts clang once per file, and then a linker. The part of clang that compiles (-cc1) takes any number of files
and compiles each separately, to the same code; its arguments are those that `zig cc -###` prints. Nothing here is
required: a file that got no object here is compiled alone (build.py), which also reports what is wrong with it.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from insitu.toolchain.compiler import Files, write_files
from insitu.toolchain.sources import EVERYTHING
from insitu.toolchain.zig import zig_command

Source = tuple[str, Files]  # a file's text, and the generated files it may include
WITH_VALUE = ("-main-file-name", "-o", "-x", "-dependency-file", "-MT")  # arguments that differ between files
WITHOUT = ("-sys-header-deps", "-MV", "-v")
FOLDERS = ("-fdebug-compilation-dir=", "-fcoverage-compilation-dir=")
FIRST = f'#include "{EVERYTHING}"\n#line 1\n'  # a file's own prototypes; the guard keeps out those of other files


def compile_together(sources: Mapping[str, Source], command: tuple[str, ...], include: Iterable[Path],
                     folder: Path) -> dict[str, Path]:  # fmt: skip
    """Compile these files below this folder: the objects by name, of those that could be compiled."""
    front = front_end(command)
    if not front:
        return {}
    places = {name: _write(folder / str(i), name, source) for i, (name, source) in enumerate(sources.items())}
    (folder / EVERYTHING).write_text("")
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        list(pool.map(lambda group: _run([*front, *group]), _groups(sources, places, (*include, folder))))
    found = {name: place.with_suffix(".o") for name, place in places.items()}
    return {name: path for name, path in found.items() if path.is_file()}


@cache
def front_end(command: tuple[str, ...]) -> tuple[str, ...]:
    """The command that compiles as `zig cc` does, without what names a file; empty if there is no such command."""
    if not zig_command() or command[: len(zig_command())] != zig_command():
        return ()
    said = _run([*command, "-###", "-c", "-x", "c", os.devnull, "-o", os.devnull])
    line = next((line for line in said.splitlines() if '"-cc1"' in line), "")
    return (*zig_command(), "clang", *_common(iter(shlex.split(line)[1:]))) if line else ()


def _common(arguments: Iterator[str]) -> Iterator[str]:
    for argument in arguments:
        if argument in WITH_VALUE:
            next(arguments, "")
        elif argument not in (*WITHOUT, os.devnull) and not argument.startswith(FOLDERS):
            yield argument


def _groups(sources: Mapping[str, Source], places: Mapping[str, Path],
            include: Sequence[Path]) -> Iterator[list[str]]:  # fmt: skip
    """Arguments for each start: of files alone, or of many, as many starts as there are processors."""
    alone = [name for name, (_, headers) in sources.items() if set(headers) - {EVERYTHING}]
    for name in alone:
        yield ["-main-file-name", places[name].name, *_arguments((places[name].parent, *include), [places[name]])]
    rest = sorted((name for name in sources if name not in alone), key=lambda name: len(sources[name][0]))
    count = os.cpu_count() or 1
    for group in filter(None, (rest[i::count] for i in range(count))):
        yield _arguments(include, [places[name] for name in group])


def _arguments(include: Iterable[Path], files: Iterable[Path]) -> list[str]:
    return [*(part for place in include for part in ("-I", str(place))), "-x", "c", *map(str, files)]


def _write(folder: Path, name: str, source: Source) -> Path:
    """A folder with the file and its headers."""
    text, headers = source
    folder.mkdir()
    place = folder / f"{Path(name).stem}.c"
    write_files(folder, {**headers, place.name: (FIRST if EVERYTHING in headers else "") + text})
    return place


def _run(command: list[str]) -> str:
    """What a command says. If it fails, objects are missing."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stderr
    except OSError:
        return ""
