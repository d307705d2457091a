"""The documents are true: generated pages are current, code in them runs, links lead somewhere."""

import re
import subprocess
from pathlib import Path

import pytest

import insitu
from insitu.cli import VERBS
from insitu.demo import TARGET, digits
from insitu.deploy.bundle import write_bundle
from insitu.reports.ops_page import current
from insitu.toolchain.compiler import find_compiler

from .documents import regenerate

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
RUNNING = [ROOT / "README.md", ROOT / "docs" / "tour.md"]
PROVE = ROOT / "docs" / "prove.md"
WRITING = [ROOT / "docs" / "training.md", PROVE]  # they make their files in a folder of their own
PACKAGES = ("torch", "unicorn", "elftools", "ziglang")  # pages train a torch model, and on an emulated core
ERRORS = re.compile(r" +(\d\.\de[-+]\d\d|0)(?= )")  # of floats: the last bits depend on the machine
C_PAGE = ROOT / "docs" / "c-api.md"
C_AND_TEXT = re.compile(r"```c\n(.*?)```\n\n```text\n(.*?)```", re.S)
STRICT = ("-std=c99", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror")


def need(*packages: str) -> None:
    for package in packages:
        pytest.importorskip(package)


def test_the_op_page_is_what_the_registry_says(golden):
    golden(ROOT / "docs" / "ops.md", current())


@pytest.mark.parametrize("page", RUNNING, ids=lambda p: p.name)
def test_the_code_in_a_page_prints_what_the_page_says(page, golden, monkeypatch):
    need(*PACKAGES)
    monkeypatch.chdir(ROOT)
    golden(page, regenerate(page.read_text()))


@pytest.mark.parametrize("page", WRITING, ids=lambda p: p.name)
def test_the_commands_in_a_page_print_what_the_page_says(page, golden, monkeypatch, tmp_path):
    need(*PACKAGES)
    monkeypatch.chdir(tmp_path)
    made = regenerate(page.read_text())
    same = page == PROVE and ERRORS.sub(" #", made) == ERRORS.sub(" #", page.read_text())
    golden(page, page.read_text() if same else made)


def test_a_page_that_exports_to_tflite_says_which_package_that_needs():
    pages = [p for p in PAGES if re.search(r"insitu teach .*--export \S+\.tflite", p.read_text())]
    assert len(pages) == 2
    for page in pages:
        assert 'pip install "insitu[teach,tflite]"' in page.read_text(), page.name


def test_the_program_in_the_c_page_builds_and_prints_what_the_page_says(golden, tmp_path):
    pytest.importorskip("sklearn")
    page = C_PAGE.read_text()
    calibration = digits().x_train[:300, ..., ::-1]
    write_bundle(insitu.compile(TARGET, data=calibration, scheme="last:2").device.program, tmp_path / "net")
    ((code, _),) = C_AND_TEXT.findall(page)
    (tmp_path / "main.c").write_text(code)
    sources = [str(p) for p in (*(tmp_path / "net").glob("*.c"), *(tmp_path / "net" / "kernels").glob("*/*.c"))]
    program = str(tmp_path / "learn")
    build = [*find_compiler(), *STRICT, "-I", str(tmp_path / "net"), *sources, str(tmp_path / "main.c"), "-o", program]
    subprocess.run(build, check=True)
    printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    golden(C_PAGE, C_AND_TEXT.sub(lambda m: f"```c\n{m[1]}```\n\n```text\n{printed}```", page))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_to_files_lead_to_files(page):
    for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings: lower case, spaces to hyphens, no other marks."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    return {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in re.findall(r"^#+ (.+?) *$", text, re.M)}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_to_headings_lead_to_headings(page):
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)", page.read_text()):
        aim = page.parent / target if target else page
        assert aim.suffix != ".md" or anchor in headings(aim), f"{page.name} links to {target}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_commands_named_in_a_page_exist(page):
    verbs = {v.__name__.rpartition(".")[2] for v in VERBS}
    named = re.findall(r"(?:^\$ |`)insitu ([a-z]+)", page.read_text(), re.M)
    assert set(named) <= verbs
