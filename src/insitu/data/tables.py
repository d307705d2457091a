"""Tables in text files: which sign separates columns, which decimals; and in which line and column a number is missing.

A file is taken to be written with `,` between columns and `.` in numbers, with `;` and `.` or `,`, or with tabs and
either: whichever gives most lines the same columns, and makes the most cells numbers. Nothing here knows what the
columns mean (reading.py).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from insitu.errors import DataError
from insitu.files import contents
from insitu.graph.classes import of_columns
from insitu.terminal.wording import meant

LABEL_HEADINGS = ("label", "class", "target")  # of a table's column, best first
LOOKED_AT = 50  # lines that decide how a file is written
MISSING = ("", "na", "n/a", "nan", "null", "none", "?", "-")  # cells that say that nothing is known
EMPTY = "fill it in, or remove the line or the column"
WRONG = "correct it, or remove the column"
HEADED = "; under a heading, a column of words becomes columns of 0 and 1"


@dataclass(frozen=True)
class Style:
    """How a file is written."""

    between: str = ","
    decimal: str = "."
    words: str = ""  # for a note to the user, if it is not the usual one

    def number(self, cell: str) -> float | None:
        if self.decimal == "," and ("." in cell or cell.count(",") > 1):
            return None
        try:
            return None if "_" in cell else float(cell.replace(",", ".") if self.decimal == "," else cell)
        except ValueError:
            return None


STYLES = (
    Style(),
    Style(";", ".", "columns are separated by ;"),
    Style(";", ",", "columns are separated by ; and decimals by a comma"),
    Style("\t", ".", "columns are separated by tabs"),
    Style("\t", ",", "columns are separated by tabs and decimals by a comma"),
)


@dataclass(frozen=True)
class Table:
    """The cells of a file, and the line that each row ends in."""

    path: Path
    style: Style
    heading: list[str]
    rows: list[list[str]]
    lines: list[int] = field(repr=False)
    label: str = ""  # the name of the label's column, if the user says so

    @property
    def labelled(self) -> int | None:
        """The column that the user names as the label, or that is headed so, or as class or target."""
        heading = [name.strip() for name in self.heading]
        if self.label:
            return heading.index(self.label)
        names = [name.lower() for name in heading]
        return next((names.index(name) for name in LABEL_HEADINGS if name in names), None)

    def called(self, column: int) -> str:
        """A column's name, or its position, counted from 1."""
        return self.heading[column].strip() if self.heading else f"column {column + 1}"

    @property
    def width(self) -> int:
        return len(self.rows[0]) if self.rows else 0

    def column(self, index: int) -> list[str]:
        return [row[index].strip() for row in self.rows]

    def places(self, names: Sequence[str]) -> list[int]:
        """The columns of these names; a DataError names the first one that is missing."""
        heading = [name.strip() for name in self.heading]
        missing = next((name for name in names if name not in heading), None)
        if missing is not None:
            own = [_column(name) if name in names else name for name in heading]
            needed = [_column(name) for name in names]
            hint = f"its columns are {_listed(own)}; needed are {_listed(needed)}"
            raise DataError(f"has no column {_column(missing)!r}", where=str(self.path), hint=hint)
        return [heading.index(name) for name in names]

    def names(self, columns: Sequence[int]) -> tuple[str, ...]:
        """The names of these columns; () if there is no heading, or not every column has a name of its own."""
        return of_columns(self.heading[c].strip() for c in columns) if self.heading else ()

    def numbers(self, columns: Sequence[int] | None = None) -> np.ndarray:
        """These columns, or all, as float64."""
        kept = range(self.width) if columns is None else columns
        if self.style.decimal == "." and not any("_" in row[c] for row in self.rows for c in kept):
            with suppress(ValueError):  # numpy is faster, but does not say which cell is wrong
                return np.array([[row[c] for c in kept] for row in self.rows], np.float64)
        return np.array([[self._number(r, c) for c in kept] for r in range(len(self.rows))], np.float64)

    def complete(self, columns: Sequence[int]) -> Table:
        """Only the rows that have something in each of these columns."""
        kept = [i for i, row in enumerate(self.rows) if not any(row[c].strip().lower() in MISSING for c in columns)]
        return replace(self, rows=[self.rows[i] for i in kept], lines=[self.lines[i] for i in kept])

    def all_numbers(self, index: int) -> bool:
        return all(self.style.number(word) is not None for word in self.column(index))

    def _number(self, row: int, column: int) -> float:
        cell = self.rows[row][column].strip()
        found = self.style.number(cell)
        if found is None:
            name = f" ({self.heading[column].strip()})" if self.heading else ""
            wrong = WRONG + ("" if self.heading else HEADED)
            what, hint = (f"{cell[:40]!r} is not a number", wrong) if cell else ("is empty", EMPTY)
            raise DataError(what, where=f"{self.path}, line {self.lines[row]}, column {column + 1}{name}", hint=hint)
        return found


def without_gaps(whole: Table, columns: list[int], so: str = "not learned") -> tuple[Table, tuple[str, ...]]:
    """The table without lines that lack a value, and a note that they are `so`; an error if half of the lines do."""
    table = whole.complete(columns)
    count, all_of_them = len(whole.rows) - len(table.rows), len(whole.rows)
    if 2 * count > all_of_them:
        emptiest = max(columns, key=lambda c: all_of_them - len(whole.complete([c]).rows))
        name = f"{emptiest + 1} ({whole.heading[emptiest].strip()})" if whole.heading else f"{emptiest + 1}"
        what = f"lacks a value in {count:,} of {all_of_them:,} lines, most often in column {name}"
        raise DataError(what, where=str(whole.path), hint="remove that column, or fill its values in")
    return table, (f"{count:,} of {all_of_them:,} lines lack a value: {so}",) if count else ()


def _column(name: str) -> str:
    """colour=red is a word of the column colour."""
    return name.partition("=")[0]


def _listed(names: Sequence[str]) -> str:
    each = list(dict.fromkeys(names))
    return ", ".join(each[:12]) + (", ..." if len(each) > 12 else "")


def read_table(path: Path, label: str = "") -> Table:
    """The rows of a file below its heading, if it has one; all have the same number of columns.

    label     the name of the label's column; "": by its heading, or the last one
    """
    try:
        text = contents(path).decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise DataError("is not text in UTF-8", where=str(path), hint="save it as CSV in UTF-8") from e
    written = list(io.StringIO(text, newline=None))
    style = _style(written[:LOOKED_AT])
    rows, lines = _cells(written, style)
    heading = []
    if rows and not any(style.number(cell) is not None for cell in rows[0]):
        heading, rows, lines = rows[0], rows[1:], lines[1:]
    _check_widths(path, heading, rows, lines)
    return Table(path, style, heading, rows, lines, _known_label(path, heading, label))


def _known_label(path: Path, heading: list[str], label: str) -> str:
    names = [name.strip() for name in heading]
    if label and not names:
        raise DataError("has no heading, so no column has a name", where=str(path), hint="the label is the last column")
    if label and label not in names:
        what = f"has no column {label!r}{meant(label, names)}"
        raise DataError(what, where=str(path), hint=f"its columns are {_listed(names)}")
    return label


def _style(lines: list[str]) -> Style:
    """The first of the styles that give most lines as many columns as the first one, and the largest share of numbers.

    The columns come first: in a table of words, decimals with a comma would look like columns.
    """

    def merit(style: Style) -> tuple[bool, float]:
        rows = _cells(lines, style)[0]
        cells = [cell for row in rows for cell in row]
        even = sum(len(row) == len(rows[0]) > 1 for row in rows)
        return 2 * even > len(rows), sum(style.number(cell) is not None for cell in cells) / max(len(cells), 1)

    return max(STYLES, key=merit)


def _cells(lines: list[str], style: Style) -> tuple[list[list[str]], list[int]]:
    """Rows that are not empty, and the line each ends in."""
    reader = csv.reader(lines, delimiter=style.between)
    found = [(row, reader.line_num) for row in reader if any(cell.strip() for cell in row)]
    return [row for row, _ in found], [line for _, line in found]


def _check_widths(path: Path, heading: list[str], rows: list[list[str]], lines: list[int]) -> None:
    usual = len(heading or (rows[0] if rows else []))
    for row, line in zip(rows, lines):
        if len(row) != usual:
            first = "the heading has" if heading else f"line {lines[0]} has"
            raise DataError(f"has {len(row)} columns, but {first} {usual}", where=f"{path}, line {line}")
