"""Aligned text tables: the same bytes in a terminal, a pipe and a document. No colour, no borders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len

GAP = "  "


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], widest: int = 60) -> str:
    """A heading, a rule, and one line per row. Columns that hold only numbers are right-aligned."""
    cells = [[clip(text(cell), widest) for cell in row] for row in rows]
    right = [_all_numbers(column) for column in zip(*cells)] or [False] * len(headers)
    widths = [max(map(cell_len, column)) for column in zip(headers, *cells)]
    lines = [_line(headers, widths, right), GAP.join("-" * w for w in widths)]
    return "\n".join(lines + [_line(row, widths, right) for row in cells])


def pairs(items: Iterable[tuple[str, object]]) -> str:
    """`name   value`, one pair per line, the values aligned."""
    items = [(name, text(value)) for name, value in items]
    width = max((len(name) for name, _ in items), default=0)
    return "\n".join(f"{name:<{width}}{GAP}{value}".rstrip() for name, value in items)


def text(cell: object) -> str:
    """How a value is printed: yes or no for a boolean, commas in integers, four digits of a float."""
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def clip(words: str, width: int) -> str:
    return words if len(words) <= width else words[: width - 3] + "..."


def size(count: int) -> str:
    """Bytes in readable form: KB is 1,000 bytes."""
    return f"{count:,} B" if count < 10_000 else f"{count / 1000:,.1f} KB"


def duration(ms: float) -> str:
    """Milliseconds in readable form: seconds from one on."""
    return f"{three(ms / 1000)} s" if ms >= 999.5 else f"{three(ms)} ms"


def three(number: float) -> str:
    """At least three digits, without an exponent."""
    return f"{number:,.0f}" if number >= 99.95 else f"{number:.3g}"


def _all_numbers(column: Sequence[str]) -> bool:
    return all(cell == "-" or cell.lstrip("-")[:1].isdigit() for cell in column)


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    gaps = [" " * (w - cell_len(cell)) for cell, w in zip(cells, widths)]  # an emoji takes two columns
    return GAP.join(gap + cell if r else cell + gap for cell, gap, r in zip(cells, gaps, right)).rstrip()
