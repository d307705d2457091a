"""The documents say what is: generated pages are current, code in them runs, links lead somewhere."""

import re
from pathlib import Path

import pytest

from insitu.cli import VERBS
from insitu.reports.ops_page import current

from .documents import regenerate

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
RUNNING = [ROOT / "README.md", ROOT / "docs" / "tour.md"]


def test_the_op_page_is_what_the_registry_says(golden):
    golden(ROOT / "docs" / "ops.md", current())


@pytest.mark.parametrize("page", RUNNING, ids=lambda p: p.name)
def test_the_code_in_a_page_prints_what_the_page_says(page, golden, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.chdir(ROOT)
    golden(page, regenerate(page.read_text()))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_to_files_lead_to_files(page):
    for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_commands_named_in_a_page_exist(page):
    verbs = {v.__name__.rpartition(".")[2] for v in VERBS}
    named = re.findall(r"(?:^\$ |`)insitu ([a-z]+)", page.read_text(), re.M)
    assert set(named) <= verbs
