"""Which columns of a table are the numbers to learn: those that the user names, those headed so, or the last ones."""

from __future__ import annotations

import numpy as np

from insitu.data.left_out import left_out
from insitu.data.tables import Table
from insitu.errors import DataError
from insitu.graph import Graph
from insitu.terminal.wording import either

HEADED = "target"  # what the heading of such a column begins with


def target_columns(table: Table, graph: Graph, named: bool | tuple[str, ...]) -> list[int]:
    """The columns of the targets; none if the table has no more columns than the inputs take."""
    into, wanted = _sizes(graph)
    if isinstance(named, tuple):
        return _checked(table.places(named), wanted, table)
    headed = [c for c, name in enumerate(table.heading) if name.strip().lower().startswith(HEADED)]
    if len(headed) == wanted:
        return headed
    inputs = table.places(graph.columns) if graph.columns and table.heading else []
    idle = left_out(table) if inputs else []
    free = [c for c in range(table.width) if c not in (*inputs, *idle)]
    last = free[-wanted:] if len(free) - (0 if inputs else into) == wanted else []
    return last if all(map(table.all_numbers, last)) else []


def _sizes(graph: Graph) -> tuple[int, int]:
    """The numbers that go in and come out, per sample."""
    into, out = graph.inputs[0], graph.outputs[0]
    return int(np.prod(into.shape[1:])), int(np.prod(out.shape[1:]))


def _checked(columns: list[int], wanted: int, table: Table) -> list[int]:
    if len(columns) != wanted:
        names = ", ".join(table.heading[c].strip() for c in columns)
        how = either(shell="--targets NAME,NAME names the columns", python="head their columns target_...")
        what = f"has {len(columns)} columns of targets ({names}), but the model has {wanted} outputs"
        raise DataError(what, where=str(table.path), hint=how)
    return columns
