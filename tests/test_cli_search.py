"""`insitu search` from the command line: it goes on after Ctrl-C, and its lines make what its table says."""

from __future__ import annotations

import json
import shlex
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import insitu
from insitu.cli import main, parser
from insitu.cli.again import again
from insitu.learner.relinked import with_scheme

from .learners import data, imported, learner
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


def reported(capsys, line: str) -> dict:
    """What is said of the program that this line compiles."""
    program, *words = shlex.split(line)
    assert program == "insitu" and main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def made(capsys, line: str) -> int:
    """The SRAM of what this line compiles."""
    report = reported(capsys, line)
    return report.get("sram_bytes") or report["arena_bytes"] + report["state_bytes"]


HERE = (["--grad", "f32"], ["--precision", "float", "--optimizer", "adam"], ["--head=int8", "--arith", "master"],
        ["--precision", "float", "--batch", "4", "--max-classes", "9"])  # fmt: skip


@pytest.mark.parametrize("options", HERE, ids=" ".join)
def test_every_line_makes_what_its_row_says(options, task, tmp_path, capsys):
    found = searched(capsys, task, *options, "-o", tmp_path / "two words")
    assert len(found) > 1
    for point in (found[0], found[-1]):
        assert made(capsys, point["command"]) == point["sram_bytes"]


@pytest.mark.parametrize(
    "options", [["--grad", "f32"], ["--precision", "float", "--optimizer", "momentum"]], ids=" ".join
)
def test_every_line_makes_what_its_row_says_on_a_board(options, task, tmp_path, capsys):
    point = searched(capsys, task, *options, "--board", "nrf52840", "--sram", "32K", f"-o{tmp_path / 'found'}")[-1]
    assert made(capsys, point["command"]) == point["sram_bytes"]


def test_the_flash_of_a_row_has_the_first_values_of_what_is_trained(task, tmp_path, capsys):
    for point in searched(capsys, task, "-o", tmp_path / "found"):
        assert reported(capsys, point["command"])["const_bytes"] == point["flash_bytes"]


def test_every_line_makes_what_its_row_says_for_targets(task, tmp_path, capsys):
    x, y = data(60)
    np.savez(task / "targets.npz", x=x, y=np.eye(4, dtype=np.float32)[y])
    words = ["search", task / "net.insitu", "--data", task / "targets.npz", "--loss", "mse", "-o", tmp_path / "found"]
    assert main([*map(str, words), "--json"]) == 0
    point = json.loads(capsys.readouterr().out)["front"][-1]
    assert made(capsys, point["command"]) == point["sram_bytes"]


def test_without_a_folder_no_line_names_a_file_that_is_not_there(task, capsys):
    assert [bool(point["command"]) for point in searched(capsys, task)][:2] == [True, False]
    assert main(["search", str(task / "net.insitu"), "--data", str(task / "d.npz")]) == 0
    assert "-o DIR writes the schemes" in capsys.readouterr().out


def test_words_are_kept_however_they_were_typed():
    words = ["-oa b", "--sec", "3", "m.onnx", "--st", "1,2", "--data=x y.npz", "--json"]
    arguments = parser().parse_args(["search", *words])
    line = again(arguments.parser, words, model="m.onnx", without=("output", "seconds", "json"), prog="insitu compile")
    assert line == "insitu compile m.onnx --std 1,2 '--data=x y.npz'"


def test_statistics_over_a_batch_are_frozen_as_they_are_when_a_line_is_compiled(tmp_path, capsys):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
    insitu.load(module.eval(), torch.zeros(1, 6)).save(tmp_path / "net.insitu")
    words = ["search", tmp_path / "net.insitu", "--precision", "float", "--batch", "4", "-o", tmp_path / "found"]
    assert main([*map(str, words), "--json"]) == 0
    point = json.loads(capsys.readouterr().out)["front"][-1]
    assert made(capsys, point["command"]) == point["sram_bytes"]


def test_room_for_later_classes_counts(task, capsys):
    usual, roomy = searched(capsys, task)[0], searched(capsys, task, "--max-classes", "12")[0]
    assert roomy["sram_bytes"] >= usual["sram_bytes"] + 8 * 8 * 4, "eight more rows of the head"


@pytest.fixture(scope="module")
def taught(tmp_path_factory) -> Path:
    """A learner that has learned all layers."""
    made = learner(precision="int8", data=data(60)[0])
    made.fit(*data(60), epochs=3, rate=0.1)
    return made.save(tmp_path_factory.mktemp("taught") / "learned.insitu")


@pytest.mark.parametrize("board", [[], ["--board", "nrf52840", "--sram", "32K"]], ids=["here", "board"])
def test_a_learners_file_is_searched_and_its_lines_start_from_what_it_learned(board, taught, tmp_path, capsys):
    assert main(["search", str(taught), *board, "-o", str(tmp_path / "found"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["front"]
    assert len(found) > 1 and made(capsys, found[-1]["command"]) == found[-1]["sram_bytes"]
    made(capsys, f"{found[-1]['command']} -o {tmp_path / 'build'}")
    again = insitu.open(taught)
    scheme = next(tmp_path.glob(f"found/{found[-1]['scheme']}.txt"))
    assert np.array_equal(with_scheme(again, str(scheme)).predict(data()[0]), again.predict(data()[0]))


def test_what_a_learner_has_already_cannot_be_searched_anew(taught, capsys):
    assert main(["search", str(taught), "--classes", "9"]) == 1
    assert "--classes would change it" in capsys.readouterr().err


def test_measuring_starts_from_what_a_learner_learned(taught, task, tmp_path, capsys):
    words = ["search", str(taught), "--data", str(task / "d.npz"), "--seconds", "1", "-o", str(tmp_path / "found")]
    assert main(words) == 0
    assert json.loads((tmp_path / "found" / "measured.json").read_text())["costs"]["head"] < 1.5, "chance costs 2.1"
