"""The subfolders of a folder of samples: one per class. Nothing here reads the files in them (reading.py, teach/)."""

from __future__ import annotations

from pathlib import Path

from insitu.errors import DataError
from insitu.files import subfolders

TRAIN = ("train", "training")
PARTS = (*TRAIN, "test", "testing", "val", "valid", "validation")  # of a data set; classes are hardly called so


def class_folders(path: Path) -> list[Path]:
    """One folder per class, in the order of their names. A DataError if they are the parts of a data set: their names
    would be learned as classes."""
    found = subfolders(path)
    parts = {p.name.lower(): p for p in found}
    begin = next((parts[name] for name in TRAIN if name in parts), None)
    if begin is None or not parts.keys() <= set(PARTS) or not subfolders(begin):
        return found
    names = ", ".join(p.name for p in found)
    others = [str(p) for p in found if p is not begin]
    hint = f"{begin}, which has one subfolder per class" + (f"; {others[0]} to test or validate" if others else "")
    raise DataError(f"has the parts of a data set, not classes: {names}", where=str(path), hint=hint)
