"""`insitu search` from the command line: it goes on after Ctrl-C, and its lines make what its table says."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import numpy as np
import pytest

from insitu.cli import main

from .learners import data, imported
from .trainings import Training

pytest.importorskip("scipy")


@pytest.fixture(scope="module")
def task(tmp_path_factory) -> Path:
    """A folder, with a space in its name, that has a float model and labelled samples."""
    folder = tmp_path_factory.mktemp("my task")
    x, y = data(60)
    np.savez(folder / "d.npz", x=x, y=y)
    imported().save(folder / "net.insitu")
    return folder


def searched(capsys, task: Path, *more) -> list[dict]:
    """The points of a search in the task's folder."""
    words = ["search", task / "net.insitu", "--data", task / "d.npz", *more, "--json"]
    assert main([str(word) for word in words]) == 0
    return json.loads(capsys.readouterr().out)["front"]


def test_a_search_goes_on_after_ctrl_c_and_again_into_its_own_folder(task, tmp_path, capsys):
    kept = tmp_path / "meas" / "measured.json"
    words = [task / "net.insitu", "--data", task / "d.npz", "--measure", "-o", kept.parent]
    run = Training(words, tmp_path / "said", verb="search")
    run.until(lambda: kept.is_file() and len(json.loads(kept.read_text())["costs"]) > 2)
    assert run.stop(signal.SIGINT) == 130 and "the same command goes on from there" in run.text()
    half = json.loads(kept.read_text())
    half["costs"]["head"] = 0.125  # a result that no training gives: it is used, so it was not measured again
    kept.write_text(json.dumps(half))
    searched(capsys, task, "--measure", "-o", kept.parent)
    whole = json.loads(kept.read_text())
    assert whole["key"] == half["key"] and whole["costs"].items() > half["costs"].items()
    first = searched(capsys, task, "-o", kept.parent)
    assert searched(capsys, task, "-o", kept.parent) == first, "a second search into its own folder"


def test_other_peoples_files_are_not_mixed_with_a_search(task, tmp_path, capsys):
    (tmp_path / "head.txt").write_text("mine")
    with pytest.raises(SystemExit):
        main(["search", str(task / "net.insitu"), "-o", str(tmp_path)])
    assert "1 files that are not of a search of insitu, for example head.txt" in capsys.readouterr().err
