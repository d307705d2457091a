"""The examples of a material, in the form that a network takes: photos in its size, lines of a table, windows of
recordings, seconds of sound. Nothing here knows classes or tests (material.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np

from insitu.data.damaged import read_each
from insitu.data.images import read_image
from insitu.data.left_out import clocks, clocks_note
from insitu.data.samples import Samples
from insitu.data.sound import sound_samples
from insitu.data.tables import Table, read_table
from insitu.data.windows import windows
from insitu.errors import DataError
from insitu.graph import Graph
from insitu.teach.material import FEWEST, PHOTOS, SOUNDS, TABLES, Material
from insitu.terminal.progress import Report

WINDOW = 128  # readings of a recording that are looked at together; fewer if most recordings are shorter
SHORTEST = 8  # readings that can be learned from
SPARED = 0.1  # of the recordings of a class that may be left out for being shorter than the others


@dataclass(frozen=True, eq=False)
class Examples:
    """Samples of a network, and which of the material's examples each belongs to."""

    samples: Samples
    which: np.ndarray
    window: int = 0  # readings, for recordings
    notes: tuple[str, ...] = ()

    def part(self, chosen: np.ndarray) -> Samples:
        """The samples of these examples."""
        return self.samples.take(chosen[self.which])


def examples_of(material: Material, graph: Graph, window: int, report: Report) -> Examples:
    """All examples, for the first input of this network."""
    if material.kind in READERS:
        return READERS[material.kind](material, graph, report)
    return numbers(material, window, graph.columns)


def photos(material: Material, graph: Graph, report: Report) -> Examples:
    value = graph.inputs[0]
    found, kept, notes = _each(material, lambda file: read_image(file, value)[0], report)
    x = np.stack(found).round().astype(np.uint8) if value.dtype == "u8" else np.stack(found) / np.float32(255)
    return Examples(_samples(material, x, material.labels[kept]), kept, notes=notes)


def sounds(material: Material, graph: Graph, report: Report) -> Examples:
    """Each file in pieces of the length that the network listens to."""
    found, kept, notes = _each(material, lambda file: sound_samples(file, graph), report)
    which = np.repeat(kept, [len(pieces) for pieces in found])
    return Examples(_samples(material, np.concatenate(found), material.labels[which]), which, notes=notes)


def _each(material: Material, read: Callable[[Path], np.ndarray],
          report: Report) -> tuple[list[np.ndarray], np.ndarray, tuple[str, ...]]:  # fmt: skip
    """Every file that can be read; a class of which none can be is an error."""
    done = count()

    def shown(file: Path) -> np.ndarray:
        report(f"reading {material.kind}", next(done), len(material))
        return read(file)

    found, kept, notes = read_each(material.files, shown, str(material.path))
    lost = [name for k, name in enumerate(material.names) if not (material.labels[kept] == k).any()]
    if lost:
        raise DataError(f"no file of {lost[0]} can be read: {notes[0]}", where=str(material.path))
    return found, np.array(kept), notes


READERS = {PHOTOS: photos, SOUNDS: sounds}


def numbers(material: Material, window: int = 0, columns: tuple[str, ...] = ()) -> Examples:
    """The lines of a table, or the windows of recordings; `window` and `columns` are those of an earlier lesson."""
    if material.kind not in TABLES:
        return _recordings(material, window, columns)
    assert material.rows is not None
    labels = material.labels if material.targets is None else material.targets
    return Examples(_samples(material, material.rows, labels, material.columns), np.arange(len(material)))


def _samples(material: Material, x: np.ndarray, labels: np.ndarray, columns: tuple[str, ...] = ()) -> Samples:
    return Samples((x,), labels, material.names, str(material.path), columns=columns)


def _recordings(material: Material, window: int, columns: tuple[str, ...]) -> Examples:
    read, columns, clock = _read(material, columns)
    lengths = np.array([len(r) for r in read])
    _check_classes(material, lengths)
    length = window or window_length(lengths[lengths > 0], material.labels[lengths > 0])
    if length < SHORTEST:
        short = material.files[int(np.argmin(lengths))]
        raise DataError("is too short to learn from", where=str(short), hint=f"at least {SHORTEST} lines, one each")
    cut = [windows(r, length) for r in read]
    which = np.repeat(np.arange(len(cut)), [len(c) for c in cut])
    if not len(which):
        raise DataError(f"has no recording of {length} readings or more", where=str(material.path))
    made = _samples(material, np.concatenate(cut)[:, None], material.labels[which], columns)
    return Examples(made, which, length, (*clock, *_notes(material, lengths, length)))


def _read(material: Material, known: tuple[str, ...]) -> tuple[list[np.ndarray], tuple[str, ...], tuple[str, ...]]:
    """The readings of every file, with the columns of the first one, or the known ones, in their order; and a note.

    A file without a line has no readings, and says nothing of columns. A clock is left out.
    """
    tables = {file: table for file in material.files if (table := read_table(file)).rows}
    known, notes = (known, ()) if known else _without_clocks(list(tables.values()))
    found: dict[Path, np.ndarray] = {}
    for file, table in tables.items():
        places = table.places(known) if known and table.heading else range(table.width)
        known = known or table.names(places)
        found[file] = table.numbers(places).astype(np.float32)
        first = next(iter(found))
        if found[file].shape[1] != found[first].shape[1]:
            raise DataError(f"has another number of columns than {first.name}", where=str(file))
    none = np.zeros((0, next(iter(found.values())).shape[1] if found else 1), np.float32)
    return [found.get(file, none) for file in material.files], known, notes


def _without_clocks(tables: list[Table]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the columns to learn from, if some are clocks and all have names; and a note."""
    clock = clocks(tables)
    others = [c for c in range(tables[0].width) if c not in clock] if tables else []
    if not clock or not others:
        return (), ()
    return tables[0].names(range(tables[0].width)) and tables[0].names(others), (clocks_note(tables, clock),)


def _check_classes(material: Material, lengths: np.ndarray) -> None:
    empty = [name for k, name in enumerate(material.names) if not lengths[material.labels == k].any()]
    if empty:
        raise DataError(f"no recording of {empty[0]} has a reading", where=str(material.path))


def window_length(lengths: np.ndarray, labels: np.ndarray) -> int:
    """WINDOW, or less if more than a few recordings of a class are shorter."""
    return min(WINDOW, *(_length(np.sort(lengths[labels == label])) for label in np.unique(labels)))


def _length(lengths: np.ndarray) -> int:
    """The length that all recordings of a class have, but for the few that can be spared."""
    spared = min(max(int(SPARED * len(lengths)), 1), max(len(lengths) - FEWEST, 0))
    return int(lengths[spared])


def _notes(material: Material, lengths: np.ndarray, length: int) -> tuple[str, ...]:
    short = [f"{f.parent.name}/{f.name} ({n})" for f, n in zip(material.files, lengths) if n < length]
    more = f" and {len(short) - 3} more" if len(short) > 3 else ""
    left = f"left out, with fewer than {length} readings: {', '.join(short[:3])}{more}"
    cut = f"windows have {length} readings instead of {WINDOW}: recordings of a class are that short"
    return tuple(words for there, words in ((short, left), (length < WINDOW, cut)) if there)
