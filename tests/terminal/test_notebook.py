"""Progress below a notebook's cell: one line, replaced and removed; and nothing in a script that imports IPython."""

from __future__ import annotations

import sys
import time
from types import ModuleType, SimpleNamespace

import pytest

from insitu.terminal.progress import bar, stage


class Kernel:
    """What IPython offers in a kernel: `get_ipython().kernel`, and displays that can be replaced."""

    def __init__(self, shell: object):
        self.shown: dict[int, list[str]] = {}
        main, inner = ModuleType("IPython"), ModuleType("IPython.display")
        main.get_ipython = lambda: shell
        main.display, inner.display = inner, self.display
        self.modules = {"IPython": main, "IPython.display": inner}

    def display(self, data, *, raw: bool, display_id: bool):
        assert raw and display_id
        lines = self.shown[len(self.shown)] = [data["text/plain"]]
        return SimpleNamespace(update=lambda data, raw: lines.append(data["text/plain"]))


@pytest.fixture
def kernel(monkeypatch):
    def start(shell: object) -> Kernel:
        made = Kernel(shell)
        for name, module in made.modules.items():
            monkeypatch.setitem(sys.modules, name, module)
        return made

    return start


IN_A_KERNEL = SimpleNamespace(kernel=object())
ELSEWHERE = {"a script": None, "a terminal": SimpleNamespace()}


def test_a_bar_is_one_line_that_is_replaced_and_removed(kernel, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("insitu.terminal.notebook.monotonic", lambda: now[0])
    made = kernel(IN_A_KERNEL)
    with bar() as report:
        for done in range(1, 5):
            now[0] += 1
            report(f"epoch {done} of 4, loss 0.500", done, 4)
    first, *_, last, end = made.shown[0]
    assert first == "epoch 1 of 4, loss 0.500  [#####...............]  25 %, 1 s"
    assert last == "epoch 4 of 4, loss 0.500  [####################]  100 %, 4 s" and end == ""
    assert len(made.shown) == 1 and len(made.shown[0]) == 5


def test_quick_work_leaves_no_output(kernel):
    made = kernel(IN_A_KERNEL)
    with bar() as report, stage("planning memory", after=30):
        report("predicting", 1, 2)
    assert made.shown == {}


def test_a_line_changes_at_most_five_times_per_second(kernel, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("insitu.terminal.notebook.monotonic", lambda: now[0])
    made = kernel(IN_A_KERNEL)
    with bar() as report:
        for done in range(1000):
            now[0] += 0.002
            report("epoch 1", done, 1000)
    assert 5 <= len(made.shown[0]) <= 10, "two seconds, the first half of one in silence"


def test_a_slow_stage_is_named(kernel):
    made = kernel(IN_A_KERNEL)
    with stage("planning memory", after=0.01):
        time.sleep(0.3)
    assert made.shown[0][0].startswith("planning memory ...") and made.shown[0][-1] == ""


@pytest.mark.parametrize("where", ELSEWHERE)
def test_nothing_is_shown_where_ipython_is_no_kernel(where, kernel, capsys):
    made = kernel(ELSEWHERE[where])
    with bar() as report, stage("planning memory", after=0.0):
        report("epoch 1", 1, 2)
        time.sleep(0.6)
        report("epoch 1", 2, 2)
    assert made.shown == {} and capsys.readouterr().err == ""


CELL = """
import sys, time
import insitu.terminal.progress as progress
with progress.bar() as report:
    for done in range(1, 13):
        time.sleep(0.1)
        report(f"epoch {done} of 12, loss 0.500", done, 12)
    assert sys.modules["IPython"].get_ipython().kernel is not None
with progress.stage("planning memory", after=0.05):
    time.sleep(0.3)
"""


def test_a_real_kernel_shows_and_removes_the_lines():
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    seen: list[str] = []

    class Client(nbclient.NotebookClient):
        def process_message(self, msg, cell, cell_index):
            if msg["msg_type"] in ("display_data", "update_display_data"):
                seen.append(msg["content"]["data"]["text/plain"])
            return super().process_message(msg, cell, cell_index)

    Client(made, timeout=60, kernel_name="python3").execute()
    assert any(line.startswith("epoch ") and "[###" in line for line in seen), seen
    assert any(line.startswith("planning memory ...") for line in seen)
    assert [part["data"]["text/plain"] for part in made.cells[0].outputs] == ["", ""]
