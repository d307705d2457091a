"""Errors are red and notes yellow on a terminal, and plain text everywhere else."""

from __future__ import annotations

import io
import sys

import pytest

from insitu.cli import main
from insitu.terminal.colour import RED, YELLOW, error_text, say


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch) -> Terminal:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    return Terminal()


def shown(monkeypatch, stream, run) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    run()
    return stream.getvalue()


def test_the_first_line_of_an_error_is_red_and_its_way_out_is_not(terminal):
    text = error_text("DataError: is wrong\n  try: another", terminal)
    assert text == f"{RED}DataError: is wrong\x1b[0m\n  try: another"


def test_a_verb_shows_its_error_in_red_on_a_terminal(terminal, monkeypatch):
    assert shown(monkeypatch, terminal, lambda: main(["check", "missing.onnx"])).startswith(f"{RED}ModelError")


def test_a_wrong_command_line_is_red_too(terminal, monkeypatch):
    def run():
        with pytest.raises(SystemExit):
            main(["train"])

    assert shown(monkeypatch, terminal, run).startswith(f"{RED}insitu train")


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_user_who_wants_no_colour_gets_none(terminal, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert "\x1b" not in shown(monkeypatch, terminal, lambda: main(["check", "missing.onnx"]))


def test_nothing_is_coloured_in_a_pipe(monkeypatch):
    text = shown(monkeypatch, io.StringIO(), lambda: (say("note: a"), main(["check", "missing.onnx"])))
    assert text.startswith("note: a\nModelError") and "\x1b" not in text


def test_notes_are_yellow_and_other_lines_are_not(terminal, monkeypatch):
    text = shown(monkeypatch, terminal, lambda: (say("note: a"), say("training")))
    assert text == f"{YELLOW}note: a\x1b[0m\ntraining\n"
