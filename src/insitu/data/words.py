"""Columns of words in a table become columns of 0 and 1, one per word: `colour` becomes `colour=blue`, `colour=red`.

The names of the new columns are the whole mapping. A learner keeps them with the names of its other columns, so new
rows are read the same way, and a word that it does not know is an error. Which columns are inputs is decided
elsewhere (table_samples.py, teach/material.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from insitu.data.labels import is_nothing
from insitu.data.left_out import undated
from insitu.data.tables import MISSING, Style, Table
from insitu.errors import DataError
from insitu.graph.classes import listed, of_columns

MOST = 64  # different words of a column; more are names or numbers of things, from which nothing general is learned

TOLD = 12  # words of a column that a note names

Words = dict[int, list[str]]  # of each column of words, by its position


def spread(table: Table, known: Sequence[str] = (), *, labelled: bool,
           size: int | None = None) -> tuple[Table, tuple[str, ...]]:  # fmt: skip
    """The table with its words as 0 and 1, and a note on them. `known` are the names of a learner's inputs.

    If the table may have a label (`labelled`), its column stays. With `size`, the inputs must be that many.
    """
    if not of_columns(_names(table)):
        return table, ()  # without a name for each column, new rows could not be read the same way
    table, left = (table, ()) if known else undated(table)
    every = {} if known else _found(table)
    label = _label(table, every, size) if labelled else None
    words = _known(table, known) if known else _learnable(table, every, label)
    made = _spread(table, words) if words else table
    if not words or not of_columns(_names(made)):
        return table, left
    if known:
        return made, ()
    told = "; ".join(f"{_names(table)[c]} ({listed(each, TOLD)})" for c, each in words.items())
    count = made.width - (label is not None)
    if size not in (None, count):
        what = f"has {count} inputs, as each word is one ({told}), but the model takes {size}"
        raise DataError(what, where=str(table.path), hint=f"give the model an input of {count} numbers")
    return made, (*left, f"columns of words become columns of 0 and 1: {told}")


def words_of_frame(frame: Any, known: Sequence[str]) -> tuple[np.ndarray, tuple[str, ...]] | None:
    """The numbers of a pandas frame with columns of words, and the names of its columns; None if it has no words."""
    if not any(getattr(kind, "kind", "O") == "O" for kind in frame.dtypes):
        return None
    rows = [["" if is_nothing(cell) else str(cell) for cell in row] for row in frame.itertuples(index=False)]
    table = Table(Path("the frame"), Style(), [str(c) for c in frame.columns], rows, list(range(1, len(rows) + 1)))
    made, _ = spread(table, known, labelled=False)
    names = tuple(known) or tuple(_names(made))
    return None if made is table else (made.numbers(made.places(names)), names)


def _names(table: Table) -> list[str]:
    return [name.strip() for name in table.heading]


def _known(table: Table, known: Sequence[str]) -> Words:
    """The columns whose words the learner knows; its names begin with theirs."""
    heading = _names(table)
    made = [name for name in known if name not in heading]
    found = {c: [n.removeprefix(f"{h}=") for n in made if n.startswith(f"{h}=")] for c, h in enumerate(heading)}
    return {c: words for c, words in found.items() if words}


def _found(table: Table) -> Words:
    """The columns in which no cell is a number."""
    each = {c: _words(table, c) for c in range(table.width)}
    return {c: words for c, words in each.items() if words}


def _learnable(table: Table, found: Words, label: int | None) -> Words:
    """The columns without that of the label; one with too many words is an error."""
    kept = {c: words for c, words in found.items() if c != label}
    large = next((c for c, words in kept.items() if len(words) > MOST), None)
    if large is not None:
        what = f"column {large + 1} ({_names(table)[large]}) has {len(kept[large]):,} different words"
        raise DataError(what, where=str(table.path), hint=f"remove the column: at most {MOST} can be learned from")
    return kept


def _words(table: Table, column: int) -> list[str]:
    """The different words of a column; none if a cell is a number."""
    cells = {cell for cell in table.column(column) if cell.lower() not in MISSING}
    return sorted(cells) if all(table.style.number(cell) is None for cell in cells) else []


def _label(table: Table, found: Words, size: int | None) -> int | None:
    """The column of the label: that headed so, or the last one, unless all columns together are the inputs."""
    whole = table.width + sum(len(words) - 1 for words in found.values())
    return table.labelled if table.labelled is not None else None if whole == size else table.width - 1


def _spread(table: Table, words: Words) -> Table:
    parts = [[f"{h}={w}" for w in words[c]] if c in words else [h] for c, h in enumerate(_names(table))]
    rows = [[cell for c in range(table.width) for cell in _cells(table, r, c, words)] for r in range(len(table.rows))]
    return replace(table, heading=[name for part in parts for name in part], rows=rows)


def _cells(table: Table, row: int, column: int, words: Words) -> list[str]:
    """A cell as it is, or a word as 0 and 1; a cell that says nothing stays empty."""
    cell = table.rows[row][column].strip()
    if column not in words:
        return [cell]
    if cell.lower() in MISSING:
        return [""] * len(words[column])
    if cell not in words[column]:
        where = f"{table.path}, line {table.lines[row]}, column {column + 1} ({_names(table)[column]})"
        raise DataError(f"{cell[:40]!r} was not learned", where=where, hint=f"known are {', '.join(words[column])}")
    return ["1" if cell == word else "0" for word in words[column]]
