"""What a folder (or a table) teaches: its kind, its classes, and which of its examples are kept for the test.

Photos, sounds and recordings: one subfolder per class. A table is one .csv file with one example per line; if its
labels are many different numbers, they are a quantity to predict. Which
examples are for the test depends on the example's own file (or line) and the seed alone, so that it stays the same when
others are added. Examples of an earlier lesson keep their place: nothing that was learned from is ever tested on.
Nothing here knows a network.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from insitu.data.class_folders import class_folders
from insitu.data.images import IMAGES
from insitu.data.left_out import left_out, uncounted
from insitu.data.tables import LABEL_HEADINGS, Table, read_table, without_gaps
from insitu.data.words import spread
from insitu.errors import DataError
from insitu.files import check_source, files_in
from insitu.learner.lesson import Lesson, mark

PHOTOS, RECORDINGS, SOUNDS, TABLE, QUANTITIES = "photos", "recordings", "sounds", "table", "quantities"
TABLES = (TABLE, QUANTITIES)  # of classes, and of a number to predict
KINDS = {**dict.fromkeys(IMAGES, PHOTOS), ".csv": RECORDINGS, ".wav": SOUNDS}
FEWEST = 4  # examples of a class, so that one can be kept for the test
MOST_CLASSES = 20  # of a table of few lines; more different numbers are a quantity
READ = 1 << 16  # bytes at the beginning of a file by which, with its size, its contents are known
NEEDED = "one subfolder per class, each with photos, .wav or .csv recordings; or one .csv file with a label column"


@dataclass(frozen=True, eq=False)
class Material:
    """Examples by class. `files` are those of photos, sounds and recordings; a table has `rows` instead."""

    path: Path
    kind: str
    names: tuple[str, ...]
    labels: np.ndarray  # int64, one per example
    test: np.ndarray  # bool, one per example: kept for the test
    marks: np.ndarray  # uint64[examples, 2]: of its name, and of its contents
    keys: Sequence[str]  # the name of each
    files: tuple[Path, ...] = ()
    rows: np.ndarray | None = None  # float32[examples, columns] of a table
    targets: np.ndarray | None = None  # float32[examples, 1] of a table of quantities, whose labels are all 0
    columns: tuple[str, ...] = ()  # their names, if the table has a heading
    label: str = ""  # the column of a table that is the label
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)

    def only(self, which: np.ndarray) -> Material:
        """The same without examples that are not among these: files that cannot be read, recordings that are short."""
        chosen = np.unique(which)
        files = tuple(self.files[i] for i in chosen) if self.files else ()
        rows, targets = (None if a is None else a[chosen] for a in (self.rows, self.targets))
        return replace(self, labels=self.labels[chosen], test=self.test[chosen], marks=self.marks[chosen],
                       keys=[self.keys[i] for i in chosen], files=files, rows=rows, targets=targets)  # fmt: skip

    def __str__(self) -> str:
        kind = "lines" if self.kind in TABLES else self.kind
        quantity = ": ".join(filter(None, ("a quantity", self.names[0])))
        what = f"{len(self.names)} classes" if self.targets is None else quantity
        test = int(self.test.sum())
        whole = f"{len(self) - test:,} of {len(self):,} {kind}, {what}"
        return f"{whole}; the other {test:,} are only tested on" if test else whole


def look(path: str | Path, *, share: float = 0.2, seed: int = 0, before: Lesson | None = None,
         columns: tuple[str, ...] = (), label: str = "") -> Material:  # fmt: skip
    """What is to be learned. `share` of the examples of every class are kept for the test.

    before      an earlier lesson: its examples keep their place, its share and seed decide about new ones
    columns     of an earlier table, in their order
    label       the column of a table that is the label; "": by its heading, or the last one
    """
    check_source(path)
    path = Path(path)
    if not path.exists():
        raise DataError("no such folder", where=str(path), hint=NEEDED)
    found = _table(path, columns, before, label) if path.is_file() else _folder(path, before)
    return replace(found, test=_chosen(found, share, seed, before))


def _chosen(material: Material, share: float, seed: int, before: Lesson | None) -> np.ndarray:
    share, seed = (before.share, before.seed) if before else (share, seed)
    names = [f"{seed}:{key}" for key in material.keys]
    test = kept(names, material.labels, share, twins=material.marks[:, 1], each=before is None)
    return before.place(material.marks, test) if before else test


def _folder(path: Path, before: Lesson | None) -> Material:
    groups = {p: files_in(p, KINDS) for p in class_folders(path)}
    kinds = Counter(KINDS[f.suffix.lower()] for files in groups.values() for f in files)
    if not kinds:
        raise DataError("has no subfolders with photos, sounds or recordings", where=str(path), hint=NEEDED)
    kind = kinds.most_common(1)[0][0]
    groups = {p: [f for f in files if KINDS[f.suffix.lower()] == kind] for p, files in groups.items()}
    empty, groups = [p.name for p, files in groups.items() if not files], {p: fs for p, fs in groups.items() if fs}
    names = tuple(p.name for p in groups)
    if before is None:
        _check(
            names, [len(files) for files in groups.values()], path, f"no {kind} in {', '.join(empty)}" if empty else ""
        )
    labels = np.repeat(np.arange(len(groups)), [len(files) for files in groups.values()])
    files = tuple(f for group in groups.values() for f in group)
    keys = [f.relative_to(path).as_posix() for f in files]
    notes = (f"no {kind} in {', '.join(empty)}: not learned",) if empty else ()
    marks = _marks(keys, map(_contents, files))
    return Material(path, kind, names, labels, np.zeros(len(labels), bool), marks, keys, files, notes=notes)


def _contents(file: Path) -> bytes:
    """What a file is known by; its name, if it cannot be read: then it is left out, with a note."""
    try:
        with file.open("rb") as f:
            return b"%d:" % file.stat().st_size + f.read(READ)
    except OSError:
        return str(file).encode(errors="replace")


def _marks(keys: Iterable[str], contents: Iterable[str | bytes]) -> np.ndarray:
    return np.array([(mark(key), mark(data)) for key, data in zip(keys, contents)], np.uint64).reshape(-1, 2)


def _table(path: Path, columns: tuple[str, ...], before: Lesson | None, label: str) -> Material:
    """The column headed `label` (or `class`, `target`), or the last one; the others are numbers, or words."""
    if path.suffix.lower() != ".csv":
        raise DataError(f"unknown kind of data {path.suffix!r}", where=str(path), hint=NEEDED)
    table = read_table(path, label)
    table, counters = (table, ()) if columns else uncounted(table)
    whole, spreading = spread(table, columns, labelled=True)
    inputs, column = _columns(whole, columns)
    table, gaps = without_gaps(whole, [*inputs, column])
    if not table.rows:
        raise DataError("has no example", where=str(path), hint=NEEDED)
    words = table.column(column)
    names = tuple(sorted(set(words), key=_order))
    labels = np.array([names.index(w) for w in words], np.int64)
    keys = [",".join(row[c].strip() for c in (*inputs, column)) for row in table.rows]
    made = Material(path, TABLE, names, labels, np.zeros(len(labels), bool), _marks(keys, keys), keys,
                    rows=_finite(table, inputs), columns=table.names(inputs), label=table.called(column),
                    notes=(*counters, *spreading, *gaps))  # fmt: skip
    if before.kind == QUANTITIES if before else len(names) > max(MOST_CLASSES, len(words) // FEWEST):
        return _quantities(made, table, column)
    if before is None:
        _check(names, np.bincount(labels).tolist(), path)
    return made


def _quantities(made: Material, table: Table, column: int) -> Material:
    """The same table, whose last column is a number to predict."""
    words = sorted({w for w in table.column(column) if _order(w)[0]})
    if words:
        what = f"has {len(made.names):,} different labels in {len(made):,} lines: too many classes"
        raise DataError(what, where=str(made.path), hint=f"for a quantity they must be numbers, not {words[0]!r}")
    if len(made) < 2 * FEWEST:
        raise DataError(f"has only {len(made)} lines", where=str(made.path), hint="20 or more learn well")
    return replace(made, kind=QUANTITIES, names=table.names([column]) or ("",), labels=np.zeros(len(made), np.int64),
                   targets=_finite(table, [column]))  # fmt: skip


def _finite(table: Table, inputs: list[int]) -> np.ndarray:
    """The numbers of these columns; one that is too large, or infinite, is an error that says where."""
    with np.errstate(over="ignore"):
        rows = table.numbers(inputs).astype(np.float32)
    bad = np.argwhere(~np.isfinite(rows))
    if len(bad):
        line, column = table.lines[bad[0][0]], inputs[bad[0][1]]
        cell = table.rows[bad[0][0]][column].strip()
        raise DataError(f"{cell!r} is not a finite number", where=f"{table.path}, line {line}, column {column + 1}")
    return rows


def _columns(table: Table, known: tuple[str, ...]) -> tuple[list[int], int]:
    """The columns of the inputs, by name if they are known; and that of the label."""
    heading = [h.strip().lower() for h in table.heading]
    inputs = table.places(known) if known and heading else list(range(table.width))
    idle = left_out(table) if known and heading else []
    free = [c for c in range(table.width) if c not in (*inputs, *idle)] if known and heading else inputs
    if table.label and table.labelled is not None:
        if known and table.labelled in inputs:
            raise DataError(f"{table.label} is an input of the learner, not its label", where=str(table.path))
        return [c for c in inputs if c != table.labelled], table.labelled
    headed = [c for name in LABEL_HEADINGS for c in free if heading and heading[c] == name]
    label = (headed or free or [table.width - 1])[0 if headed else -1]
    return [c for c in inputs if c != label], label


def _order(word: str) -> tuple[int, float, str]:
    """Numbers by their size, before words."""
    try:
        return 0, float(word), word
    except ValueError:
        return 1, 0.0, word


def _check(names: tuple[str, ...], counts: list[int], path: Path, others: str = "") -> None:
    """Enough classes, with enough examples; `others` says why a subfolder is no class."""
    if len(names) < 2:
        why = f" ({others})" if others else ""
        what = f"has only one class, {', '.join(names)}{why}"
        raise DataError(what, where=str(path), hint="at least two, to tell apart")
    few = [f"{name} ({n})" for name, n in zip(names, counts) if n < FEWEST]
    if few:
        more = f" and {len(few) - 3} more" if len(few) > 3 else ""
        what = f"too few examples of {', '.join(few[:3])}{more}"
        raise DataError(what, where=str(path), hint=f"at least {FEWEST} of each class; 20 or more learn well")


def kept(keys: Sequence[str], labels: np.ndarray, share: float, *, twins: np.ndarray | None = None,
         each: bool = True) -> np.ndarray:  # fmt: skip
    """Which examples are for the test: with `each`, this share of every class, those whose keys have the least marks.

    Then every class has at least one example on both sides, if it has two that differ. Without `each`, for examples
    that join an earlier lesson, every example is drawn by itself. Equal examples (`twins`: a number for the contents of
    each) get the same place.
    """
    marks = np.array([mark(key) for key in keys], np.uint64)
    if twins is not None:
        _, first, same = np.unique(twins, return_index=True, return_inverse=True)
        marks = marks[first][same]
    if not each:
        return marks < np.uint64(share * 2**64)
    return np.isin(marks, np.concatenate([_smallest(marks[labels == label], share) for label in np.unique(labels)]))


def _smallest(marks: np.ndarray, share: float) -> np.ndarray:
    """The marks of a class's test examples: the smallest ones, as many as the share asks for, but never all."""
    own = np.unique(marks)
    count = int(share * len(own) + 0.5)
    return own[: min(max(count, 1), len(own) - 1)]
