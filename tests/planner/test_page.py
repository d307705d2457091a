"""The page of the planner shows the table of changes and every file; the glossary has all of its words."""

import ast
import re
from pathlib import Path

import pytest

import insitu.planner
from insitu.planner.changes.table import CHANGES
from insitu.planner.spent import words_of

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "planner.md"
ROOT = Path(insitu.planner.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))


def test_the_page_shows_every_change_with_its_kind_and_cost():
    shown = re.search(r"<!-- table -->\n[^\n]*\n[^\n]*\n(.*?)<!-- end -->", PAGE.read_text(), re.S)
    assert shown and shown[1].splitlines() == [f"| {words_of(c.name)} | {c.kind} | {c.costs} |" for c in CHANGES]


def test_the_page_names_every_file_and_folder_of_the_planner():
    shown = set(re.findall(r"\(\.\./src/insitu/planner/([\w.]+)", PAGE.read_text()))
    assert {p.name for p in ROOT.iterdir() if not p.name.startswith("__")} <= shown


def classes(file: Path) -> list[str]:
    """The public classes of a file."""
    made = (n.name for n in ast.parse(file.read_text()).body if isinstance(n, ast.ClassDef))
    return [name for name in made if not name.startswith("_")]


def test_every_word_of_the_planner_is_in_the_glossary():
    named = re.findall(r"^\| ([^|]+) \|[^|]+\| \[", (DOCS / "glossary.md").read_text(), re.M)
    explained = {word for cell in named for word in cell.split(", ")}
    public = [name for file in FILES for name in classes(file)]
    wanted = {words_of(c.name) for c in CHANGES} | set(map(spelled, public))
    assert {w for w in wanted if w not in explained and w.removesuffix("s") not in explained} == set()
    assert {"order", "undo", "dear", "narrowed", "fuse"} <= explained


def spelled(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()


@pytest.mark.parametrize(("name", "words"), [("ByteMap", "byte map"), ("Plan", "plan")])
def test_class_names_are_spelled_as_words(name, words):
    assert spelled(name) == words
