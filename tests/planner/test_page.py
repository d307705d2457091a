"""The page of the planner shows the table of changes as it is."""

import re
from pathlib import Path

from insitu.planner.changes.table import CHANGES
from insitu.planner.spent import words_of

PAGE = Path(__file__).parents[2] / "docs" / "planner.md"


def test_the_page_shows_every_change_with_its_kind_and_cost():
    shown = re.search(r"<!-- table -->\n[^\n]*\n[^\n]*\n(.*?)<!-- end -->", PAGE.read_text(), re.S)
    assert shown and shown[1].splitlines() == [f"| {words_of(c.name)} | {c.kind} | {c.costs} |" for c in CHANGES]
