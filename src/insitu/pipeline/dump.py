"""One readable text file per stage, in the folder that the user named."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from insitu.errors import DataError
from insitu.planner import Plan

Made = TypeVar("Made")


class Dump:
    """Writes the result of a stage to a text file, if there is a folder, and returns the result."""

    def __init__(self, folder: str | Path | None):
        self.folder = Path(folder) if folder else None
        if self.folder:
            make_folder(self.folder)

    def __call__(self, stage: str, made: Made) -> Made:
        if self.folder:
            (self.folder / f"{stage}.txt").write_text(described(made))
        return made


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise DataError(f"cannot be written: {e.strerror or e}", where=str(folder)) from e


def described(made: object) -> str:
    """A graph, a scheme or a plan as text, or several of them by name."""
    if isinstance(made, Mapping):
        return "\n".join(f"# {name}\n{described(part)}\n" for name, part in made.items())
    if isinstance(made, Plan):
        from insitu.reports.memory import memory_map

        return memory_map(made).to_text()
    return str(made)
