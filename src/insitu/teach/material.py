"""What a folder (or a table) teaches: its kind, its classes, and which of its examples are kept for the test.

Photos and recordings: one subfolder per class. A table is one .csv file with one example per line. Which examples are
for the test depends on the example's own file (or line) and the seed alone, so that it stays the same when others are
added: nothing that was learned from is ever tested on. Nothing here knows a network.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from insitu.data.reading import IMAGES
from insitu.data.tables import read_table
from insitu.errors import DataError

PHOTOS, RECORDINGS, TABLE = "photos", "recordings", "table"
KINDS = {**dict.fromkeys(IMAGES, PHOTOS), ".csv": RECORDINGS}
FEWEST = 4  # examples of a class, so that one can be kept for the test
NEEDED = "one subfolder per class, each with photos, or with .csv recordings; or one .csv file with a label column"


@dataclass(frozen=True, eq=False)
class Material:
    """Examples by class. `files` are those of photos and recordings; a table has `rows` instead."""

    path: Path
    kind: str
    names: tuple[str, ...]
    labels: np.ndarray  # int64, one per example
    test: np.ndarray  # bool, one per example: kept for the test
    files: tuple[Path, ...] = ()
    rows: np.ndarray | None = None  # float32[examples, columns] of a table
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)

    def __str__(self) -> str:
        kind = {PHOTOS: "photos", RECORDINGS: "recordings", TABLE: "lines"}[self.kind]
        return f"{len(self):,} {kind} of {len(self.names)} classes, {int(self.test.sum()):,} kept for the test"


def look(path: str | Path, *, share: float = 0.2, seed: int = 0) -> Material:
    """What is to be learned. `share` of the examples of every class are kept for the test."""
    path = Path(path)
    if not path.exists():
        raise DataError("no such folder", where=str(path), hint=NEEDED)
    return _table(path, share, seed) if path.is_file() else _folder(path, share, seed)


def _folder(path: Path, share: float, seed: int) -> Material:
    groups = {p: _files(p) for p in sorted(path.iterdir()) if p.is_dir() and not p.name.startswith(".")}
    kinds = Counter(KINDS[f.suffix.lower()] for files in groups.values() for f in files)
    if not kinds:
        raise DataError("has no subfolders with photos or recordings", where=str(path), hint=NEEDED)
    kind = kinds.most_common(1)[0][0]
    groups = {p: [f for f in files if KINDS[f.suffix.lower()] == kind] for p, files in groups.items()}
    empty, groups = [p.name for p, files in groups.items() if not files], {p: fs for p, fs in groups.items() if fs}
    names = tuple(p.name for p in groups)
    _check(names, [len(files) for files in groups.values()], path)
    labels = np.repeat(np.arange(len(groups)), [len(files) for files in groups.values()])
    files = tuple(f for group in groups.values() for f in group)
    keys = [f.relative_to(path).as_posix() for f in files]
    notes = (f"no {kind} in {', '.join(empty)}: not learned",) if empty else ()
    return Material(path, kind, names, labels, kept(keys, labels, share, seed), files, notes=notes)


def _files(folder: Path) -> list[Path]:
    return sorted(f for f in folder.rglob("*") if f.suffix.lower() in KINDS and not f.name.startswith("."))


def _table(path: Path, share: float, seed: int) -> Material:
    """The column headed `label` (or `class`, `target`, `y`), or the last one; the others are numbers."""
    if path.suffix.lower() != ".csv":
        raise DataError(f"unknown kind of data {path.suffix!r}", where=str(path), hint=NEEDED)
    table = read_table(path)
    heading = [h.strip().lower() for h in table.heading]
    column = next((heading.index(h) for h in ("label", "class", "target", "y") if h in heading), table.width - 1)
    words = table.column(column)
    names = tuple(sorted(set(words), key=_order))
    labels = np.array([names.index(w) for w in words], np.int64)
    if len(names) > max(20, len(words) // FEWEST):
        what = f"has {len(names):,} different labels in {len(words):,} lines: this is a quantity, not a class"
        raise DataError(what, where=str(path), hint="`insitu train` with --loss mse learns quantities")
    _check(names, np.bincount(labels).tolist(), path)
    rows = table.numbers(without=column).astype(np.float32)
    keys = [",".join(row) for row in table.rows]
    return Material(path, TABLE, names, labels, kept(keys, labels, share, seed), rows=rows)


def _order(word: str) -> tuple[int, float, str]:
    """Numbers by their size, before words."""
    try:
        return 0, float(word), word
    except ValueError:
        return 1, 0.0, word


def _check(names: tuple[str, ...], counts: list[int], path: Path) -> None:
    if len(names) < 2:
        raise DataError(f"has only one class, {', '.join(names)}", where=str(path), hint="at least two, to tell apart")
    few = [f"{name} ({n})" for name, n in zip(names, counts) if n < FEWEST]
    if few:
        more = f" and {len(few) - 3} more" if len(few) > 3 else ""
        what = f"too few examples of {', '.join(few[:3])}{more}"
        raise DataError(what, where=str(path), hint=f"at least {FEWEST} of each class; 20 or more learn well")


def kept(keys: list[str], labels: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Which examples are for the test: of each class, those with the smallest hashes; at least one of each.

    Equal examples (the same key) get the same place.
    """
    hashes = np.array([int.from_bytes(hashlib.sha256(f"{seed}:{k}".encode()).digest()[:8], "big") for k in keys])
    chosen = hashes < np.uint64(share * 2**64)
    for label in np.unique(labels):
        mine = np.flatnonzero(labels == label)
        if not chosen[mine].any():
            chosen[mine[hashes[mine] == hashes[mine].min()]] = True
        if chosen[mine].all():
            chosen[mine[hashes[mine] == hashes[mine].max()]] = False
    return chosen
