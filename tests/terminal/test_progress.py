"""A slow stage is named if someone watches, and only then."""

from __future__ import annotations

import io
import sys
import time

import pytest

from insitu.terminal.progress import bar, stage


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def watched(monkeypatch):
    """Called inside a test, because capturing replaces stderr before each test: puts a terminal in its place."""

    def start() -> Terminal:
        shown = Terminal()
        monkeypatch.setattr(sys, "stderr", shown)
        monkeypatch.setenv("TERM", "xterm")
        return shown

    return start


def test_a_slow_stage_is_named(watched):
    terminal = watched()
    with stage("planning memory", after=0.01):
        time.sleep(0.3)
    assert "planning memory" in terminal.getvalue()


def test_a_quick_stage_is_not(watched):
    terminal = watched()
    with stage("planning memory", after=30):
        pass
    assert "planning" not in terminal.getvalue()


def test_a_stage_that_fails_leaves_nothing_behind(watched):
    terminal = watched()
    with pytest.raises(ValueError, match="no room"), stage("planning memory", after=0.01):
        time.sleep(0.2)
        raise ValueError("no room")
    before = terminal.getvalue()
    time.sleep(0.2)
    assert terminal.getvalue() == before


def test_a_bar_shows_how_much_is_done(watched):
    terminal = watched()
    with bar() as report:
        report("epoch 1, loss 0.5", 3, 7)
    assert "epoch 1, loss 0.5" in terminal.getvalue() and "3/7" in terminal.getvalue()


def test_nothing_is_shown_where_nobody_watches(capsys):
    with bar() as report, stage("planning memory", after=0.0):
        report("epoch 1", 1, 2)
        time.sleep(0.05)
    assert capsys.readouterr().err == ""
