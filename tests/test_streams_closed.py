"""A training that nobody watches: without stdout, stderr or stdin, or where they cannot be written, nothing is lost."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import insitu
from insitu.terminal.colour import is_terminal, say

from .learners import data, learner

STREAMS = ["2>&-", ">&- 2>&- <&-"]
FULL = ["2>/dev/full", ">/dev/full"]
COMMAND = "train given.insitu --data data.npz --epochs 2 --rate 0.01 -o learned.insitu"


def ran(folder: Path, streams: str) -> subprocess.CompletedProcess:
    """The command in a shell, with these streams; its own streams are what is left of it."""
    x, y = data(30)
    np.savez(folder / "data.npz", x=x, y=y)
    learner().save(folder / "given.insitu")
    line = f"{shlex.quote(sys.executable)} -m insitu {COMMAND} {streams}"
    return subprocess.run(line, shell=True, cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("streams", STREAMS)
def test_what_was_learned_is_saved_without_a_stream(streams, tmp_path):
    run = ran(tmp_path, streams)
    assert run.returncode == 0 and "Traceback" not in run.stderr
    assert insitu.open(tmp_path / "learned.insitu").has_learned


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("streams", FULL)
def test_what_was_learned_is_saved_if_nothing_can_be_printed(streams, tmp_path):
    run = ran(tmp_path, streams)
    assert insitu.open(tmp_path / "learned.insitu").has_learned
    if streams.startswith(">"):
        assert run.returncode == 1 and "Traceback" not in run.stderr
        assert "Error: the result cannot be printed: No space left" in run.stderr


@pytest.mark.parametrize("stream", ["none", "closed"])
def test_a_program_with_windows_only_trains_too(stream, monkeypatch):
    other = None
    if stream == "closed":
        other = open(os.devnull, "w")  # noqa: SIM115, PTH123 # closed at once
        other.close()
    x, y = data(30)
    made = learner()
    monkeypatch.setattr(sys, "stderr", other)
    say("note: nobody reads this")
    made.fit(x, y, epochs=2)
    assert made.learned and not is_terminal(other)


def test_a_name_that_the_terminal_cannot_show_is_printed_all_the_same(tmp_path):
    made = learner(classes=["a", "b", "c", "日本"])
    made.save(tmp_path / "made.insitu")
    command = [sys.executable, "-m", "insitu", "info", str(tmp_path / "made.insitu")]
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    run = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0 and r"\u65e5\u672c" in run.stdout
