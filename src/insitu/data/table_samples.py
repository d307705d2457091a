"""Samples of a table: which columns are inputs, which is the label; words become 0 and 1, windows are cut.

One sample per line; for an input of windows one point in time per line. Nothing here knows how a file is written
(tables.py) or which numbers a word becomes (words.py).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from insitu.data.labels import numbered
from insitu.data.left_out import left_out
from insitu.data.samples import Samples, fit
from insitu.data.source import source_of
from insitu.data.tables import LABEL_HEADINGS, Table, read_table, without_gaps
from insitu.data.targets import target_columns
from insitu.data.windows import windows as overlapping
from insitu.data.words import spread
from insitu.errors import DataError
from insitu.graph import Graph, Value


def table_samples(path: Path, value: Value, graph: Graph, targets: bool | tuple[str, ...], *, gaps: str,
                  label: str = "") -> Samples:  # fmt: skip
    """The samples of a .csv. With `gaps`, labelled lines that lack a value are left out, and a note says that they are
    so; otherwise they are an error. `label` is the name of the label's column, if it is not the usual one."""
    table, spreading = _read(path, value, graph, targets, label)
    if not table.rows:
        what = "has a heading, but no lines below it" if table.heading else "is empty"
        raise DataError(what, where=str(path))
    wanted = _wanted(table, graph, targets)
    kept, column = _columns(value, table, graph.columns) if not wanted else (_others(table, graph, wanted), None)
    judged = [*wanted, *([] if column is None else [column])]
    lacking: tuple[str, ...] = ()
    if gaps and judged and not _channels(value):
        table, lacking = without_gaps(table, [*kept, *judged], gaps)
    x = table.numbers(kept)
    labels, names = (None, ()) if column is None else _labels(table, column, bool(targets))
    labels, names = (table.numbers(wanted), table.names(wanted)) if wanted else (labels, names)
    if x.ndim == 2 and x.shape[1] in _channels(value):
        x, labels = windows(value, x, labels, str(path), source_of(graph).overlap)
    left = [h.strip() for c, h in enumerate(table.heading) if c not in (*kept, *wanted, column)]
    notes = (table.style.words, f"columns left out: {', '.join(left)}" if left else "", *spreading, *lacking)
    return Samples((fit(value, x, str(path)),), labels, names, _source(table, judged), tuple(filter(None, notes)),
                   table.names(kept))  # fmt: skip


def _wanted(table: Table, graph: Graph, targets: bool | tuple[str, ...]) -> list[int]:
    """The columns of the targets: the label's, if the user names it and one number is learned."""
    if table.label and targets is True:
        one = int(np.prod(graph.outputs[0].shape[1:])) == 1
        return [table.labelled] if one and table.labelled is not None else []
    return target_columns(table, graph, targets) if targets else []


def _source(table: Table, judged: list[int]) -> str:
    """The file, and the columns of labels or targets."""
    columns = ", ".join(map(table.called, judged))
    said = f"labels in column{'s' if len(judged) > 1 else ''} {columns.removeprefix('column ')}"
    return f"{table.path.name}, {said}" if judged else table.path.name


def _read(path: Path, value: Value, graph: Graph, targets: bool | tuple[str, ...],
          label: str) -> tuple[Table, tuple[str, ...]]:  # fmt: skip
    table = read_table(path, label)
    if _channels(value):
        return table, ()
    size = int(np.prod(value.shape[1:]))
    return spread(table, graph.columns, labelled=not isinstance(targets, tuple), size=None if targets else size)


def _columns(value: Value, table: Table, known: tuple[str, ...]) -> tuple[list[int], int | None]:
    """The columns of the input, and that of the label. If the model knows names, a heading must have them."""
    if known and table.heading:
        kept = table.places(known)
        idle = left_out(table)  # teach does not learn from them
        others = [c for c in range(table.width) if c not in (*kept, *idle)]
        last = others[0] if others == [table.width - 1] else None
        if table.label:
            return kept, _apart(table, kept)
        return kept, next((c for c in others if table.heading[c].strip().lower() in LABEL_HEADINGS), last)
    column = table.labelled if table.label else _label_column(value, table.heading, table.width)
    return [c for c in range(table.width) if c != column], column


def _apart(table: Table, inputs: list[int]) -> int | None:
    """The label's column, which must not be one of the inputs."""
    if table.labelled in inputs:
        raise DataError(f"{table.label} is an input of the model, not its label", where=str(table.path))
    return table.labelled


def _others(table: Table, graph: Graph, wanted: list[int]) -> list[int]:
    """The columns of the inputs: those that the model knows by name, or all that are no targets."""
    if graph.columns and table.heading:
        return table.places(graph.columns)
    return [c for c in range(table.width) if c not in wanted]


def _label_column(value: Value, heading: list[str], width: int) -> int | None:
    """The column headed `label`; or one headed `class` or `target`, or the last one, if it is one too many."""
    names = [name.strip().lower() for name in heading]
    if "label" in names:
        return names.index("label")
    expected = {int(np.prod(value.shape[1:])), *_channels(value)}
    if width in expected or width - 1 not in expected:
        return None
    return next((names.index(name) for name in LABEL_HEADINGS if name in names), width - 1)


def _channels(value: Value) -> tuple[int, ...]:
    """How many columns a table of points in time may have for this input; () if it does not take windows of them."""
    sides = tuple(n for n in value.shape[1:] if n > 1)
    return () if value.type.rank < 3 or len(sides) > 2 else sides if len(sides) == 2 else (1,)


def _labels(table: Table, column: int, targets: bool) -> tuple[np.ndarray, tuple[str, ...]]:
    """The labels of a column: numbers, or names in alphabetical order."""
    if not table.all_numbers(column):
        return numbered(np.array(table.column(column)), str(table.path))
    given = np.array([table.style.number(word) for word in table.column(column)], np.float64)
    return (given, ()) if targets else numbered(given, str(table.path))


def windows(value: Value, table: np.ndarray, labels: np.ndarray | None, where: str,
            overlap: float = 0.5) -> tuple[np.ndarray, np.ndarray | None]:  # fmt: skip
    """[times, channels] cut into the windows that an input [1, length, channels] (or channels first) takes.

    Neighbours overlap, as those that `teach` cuts. Readings after the last whole window are left out, and so is a
    window in which the label changes.
    """
    length = int(np.prod(value.shape[1:])) // table.shape[1]
    cut = overlapping(table, length, overlap)
    if not len(cut):
        raise DataError(f"has {len(table)} lines, but {value.name} takes windows of {length}", where=where)
    cut = cut if table.shape[1] in (1, value.shape[-1]) else cut.transpose(0, 2, 1)
    cut = cut.reshape(len(cut), *value.shape[1:])
    if labels is None:
        return cut, None
    each = overlapping(labels.reshape(len(labels), -1), length, overlap)
    pure = (each == each[:, :1]).reshape(len(each), -1).all(1)
    return cut[pure], each[pure, 0].reshape(-1, *labels.shape[1:])
