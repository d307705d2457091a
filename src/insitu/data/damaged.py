"""Files that cannot be read, among many: a few are left out, with a note that names them; too many are an error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from insitu.errors import DataError

MOST = 0.25  # of the files that may be damaged
SHOWN = 3  # that a note names

Made = TypeVar("Made")


def read_each(files: Sequence[Path], read: Callable[[Path], Made],
              where: str) -> tuple[list[Made], list[int], tuple[str, ...]]:  # fmt: skip
    """What was read, the places of the files that could be, and a note about the others."""
    made, places, errors = [], [], []
    for place, file in enumerate(files):
        try:
            made.append(read(file))
            places.append(place)
        except DataError as e:
            errors.append((file, e))
            if not made and len(errors) == len(files):
                raise  # nothing is left: the first reason is as good as any
    if len(errors) > MOST * len(files):
        what = f"{len(errors)} of {len(files)} files cannot be read: {_listed(errors)}"
        raise DataError(what, where=where, hint="remove or replace them")
    return made, places, (f"{_count(errors)} cannot be read, left out: {_listed(errors)}",) if errors else ()


def _count(errors: Sequence[tuple[Path, DataError]]) -> str:
    return "1 file" if len(errors) == 1 else f"{len(errors)} files"


def _listed(errors: Sequence[tuple[Path, DataError]]) -> str:
    words = [f"{file.parent.name}/{file.name} ({e.what})" for file, e in errors[:SHOWN]]
    return ", ".join(words) + (f" and {len(errors) - SHOWN} more" if len(errors) > SHOWN else "")
