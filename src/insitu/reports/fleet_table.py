"""The plain tables of the page about a federated run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

NUMBER = re.compile(
    r"[\d.,e+-]+( ?%| [KM]?B| of \d+|( x \d+)+| [A-Z]*)?|hidden|joined later|"
)  # cells under each other
DOT = re.compile(r"\.(?=[a-z])")  # where long names may break


def plain_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns of numbers are aligned to the right, except for the first. What is too wide for a phone can be moved."""
    kinds = [_kind(k, [str(row[k]) for row in rows]) for k in range(len(head))]
    top = "".join(_cell("th", h, n) for h, n in zip(head, kinds))
    body = "".join("<tr>" + "".join(_cell("td", c, n) for c, n in zip(row, kinds)) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _kind(column: int, cells: Sequence[str]) -> str:
    """The class of a column: numbers stand in one line, and on the right side of those after the first."""
    return ("n" if column else "i") if all(map(NUMBER.fullmatch, cells)) else ""


def _cell(tag: str, content: object, kind: str) -> str:
    words = escape(str(content)) if kind else DOT.sub(".<wbr>", escape(str(content)))
    return f"<{tag}{f' class={kind}' if kind else ''}>{words}</{tag}>"
