"""Columns of a table from which nothing general is learned: dates, times, and numbers that only count the lines.

In a recording, where each line is a point in time, that is every column that rises from line to line: a clock.

A column of different whole numbers may also be a quantity, such as a dose or a depth. So it is only left out if its
heading says what it is (id, index, customer_id); rising numbers with another heading get a note that asks. Which
columns are inputs is decided elsewhere (table_samples.py, teach/material.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from insitu.data.tables import LABEL_HEADINGS, MISSING, Table

# a date of year, month and day in any order, with or without a time; or a time with minutes
DATE = re.compile(r"\s*(\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ,].*)?|\d{1,2}:\d{2}(:\d{2}.*)?)\s*$")
STAMP = re.compile(r"(.*[_ .-])?(time[_ ]?stamp|epoch|unix[_ ]?time|date[_ ]?time)([_ .-].*)?", re.IGNORECASE)
COUNTER = re.compile(r"(.*[_ .-])?(id|nr|no|index|idx|row|line|record|unnamed: 0)", re.IGNORECASE)
FEWEST = 8  # lines, below which rising numbers say nothing


def left_out(table: Table) -> list[int]:
    """The columns of dates and times, and of numbers that count the lines."""
    return [*dated(table), *counting(table)]


def dated(table: Table) -> list[int]:
    return [c for c in _inputs(table) if _all_dates(table, c) or _stamped(table, c)]


def clocks(recordings: Iterable[Table]) -> list[int]:
    """The columns that are dates, or rise from line to line in every recording: what was measured does not."""
    tables = [table for table in recordings if len(table.rows) >= FEWEST]
    found = set(range(tables[0].width)) if tables else set()
    for table in tables:
        found = {c for c in found if c < table.width and (_all_dates(table, c) or _ticks(table, c))}
    return sorted(found)


def clocks_note(recordings: Sequence[Table], columns: Sequence[int]) -> str:
    """What is said of columns that are clocks."""
    names = recordings[0].names(columns)
    if names:
        return f"clocks are not learned from: {', '.join(names)}"
    return f"column {columns[0] + 1} rises from line to line in every recording: if it is a clock, remove it"


def counting(table: Table) -> list[int]:
    """The columns headed as numbers of the lines, all different and whole; never that of the label."""
    return [c for c in _before_label(table) if COUNTER.fullmatch(_name(table, c)) and _all_different(table, c)]


def undated(table: Table) -> tuple[Table, tuple[str, ...]]:
    """The table without columns of dates and times: nothing that holds tomorrow is learned from them."""
    return _without(table, dated(table), "dates and times", 1)


def uncounted(table: Table) -> tuple[Table, tuple[str, ...]]:
    """The table without columns that count its lines, and a note on those that may."""
    made, notes = _without(table, counting(table), "numbers that count the lines", 2)
    return made, (*notes, *doubtful(made))


def doubtful(table: Table) -> tuple[str, ...]:
    """A note on columns whose numbers could count the lines, but whose heading does not say so."""
    names = [_name(table, c) for c in _before_label(table) if _rises(table, c)]
    what = "all different and rising: if they only count the lines, remove the column or head it id"
    return (f"the numbers of {', '.join(names)} are {what}",) if names and len(table.rows) >= FEWEST else ()


def _without(table: Table, columns: list[int], what: str, least: int) -> tuple[Table, tuple[str, ...]]:
    """The table without these columns, and a note; as it is, if too few others are left."""
    kept = [c for c in range(table.width) if c not in columns]
    if not columns or len(kept) < least:
        return table, ()
    made = replace(table, heading=[table.heading[c] for c in kept], rows=[[row[c] for c in kept] for row in table.rows])
    return made, (f"{what} are not learned from: {', '.join(_name(table, c) for c in columns)}",)


def _name(table: Table, column: int) -> str:
    return table.heading[column].strip()


def _inputs(table: Table) -> list[int]:
    """The columns that are not headed as the label, or not the one that the user names."""
    if table.label:
        return [c for c in range(table.width) if c != table.labelled]
    return [c for c in range(table.width) if _name(table, c).lower() not in LABEL_HEADINGS] if table.heading else []


def _before_label(table: Table) -> list[int]:
    """The same without the last column, if that may be the label."""
    found = _inputs(table)
    return found if len(found) < table.width else found[:-1]


def _whole(table: Table, column: int) -> list[float]:
    """The numbers of a column of whole ones; none if a cell is anything else."""
    found = [number for cell in table.column(column) if (number := table.style.number(cell)) is not None]
    return found if len(found) == len(table.rows) and all(n.is_integer() for n in found) else []


def _all_different(table: Table, column: int) -> bool:
    found = _whole(table, column)
    return bool(found) and len(set(found)) == len(found)


def _rises(table: Table, column: int) -> bool:
    found = _whole(table, column)
    return bool(found) and all(a < b for a, b in pairwise(found))


def _stamped(table: Table, column: int) -> bool:
    """Do heading and numbers say that these are points in time?"""
    return bool(STAMP.fullmatch(_name(table, column))) and table.all_numbers(column)


def _ticks(table: Table, column: int) -> bool:
    found = [table.style.number(cell) for cell in table.column(column)]
    return all(a is not None and b is not None and a < b for a, b in pairwise(found))


def _all_dates(table: Table, column: int) -> bool:
    cells = [cell for cell in table.column(column) if cell.lower() not in MISSING]
    return bool(cells) and all(DATE.match(cell) for cell in cells)
