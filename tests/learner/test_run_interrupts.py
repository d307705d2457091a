"""Ctrl-C while `insitu run --save` trains on a board: the step is finished, and what was learned is kept."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from insitu.cli import main
from insitu.deploy import deploy, limits_of
from insitu.deploy.bundle import write_board
from insitu.learner.folder import open_folder

from ..firmware.images import conv_graphs
from ..trainings import Training

for package in ("unicorn", "elftools", "ziglang"):
    pytest.importorskip(package)

WHERE = [
    "emulator",
    pytest.param("qemu", marks=pytest.mark.skipif(not shutil.which("qemu-system-arm"), reason="no qemu-system-arm")),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("board")
    write_board(deploy(conv_graphs(), limits_of("nrf52840", 65536, None)), place)
    return place


def words(folder: Path, state: Path, *more) -> list:
    """A training that never ends by itself."""
    return [folder, "--steps", 8, "--epochs", 100000, "--rate", 0.01, "--save", state, *more]


def states(folder: Path, path: Path) -> tuple[bytes, bytes]:
    """The state of the firmware as built, and that of the file."""
    with open_folder(folder) as learner:
        first = learner.device.save_state()
        learner.load(path)
        return first, learner.device.save_state()


@pytest.mark.parametrize("where", WHERE)
def test_ctrl_c_saves_where_save_says_and_tells_how_to_go_on(where, folder, tmp_path, capsys):
    state = tmp_path / "s.bin"
    run = Training(words(folder, state, "--on", where), tmp_path / "said", save_seconds=300, verb="run")
    run.until_said("epoch")
    assert not state.exists()
    assert run.stop(signal.SIGINT) == 130, run.text()
    line = next(line for line in run.text().splitlines() if "to go on: " in line).partition("to go on: insitu ")[2]
    more = f"--rate 0.01 --save {state} --on {where} --load {state}"
    assert line == f"run {folder} --steps 8 --epochs 100000 {more}"
    first, kept = states(folder, state)
    assert kept != first, "something was learned"
    assert main(shlex.split(line.replace("--epochs 100000", "--epochs 1"))) == 0, capsys.readouterr().err


def test_ctrl_c_without_save_says_what_would_have_kept_it(folder, tmp_path):
    run = Training([folder, "--steps", 8, "--epochs", 100000], tmp_path / "said", save_seconds=300, verb="run")
    run.until_said("epoch")
    assert run.stop(signal.SIGINT) == 130
    assert "what was learned is lost: --save FILE would have kept it" in run.text()


@pytest.fixture(scope="module")
def tested(folder) -> Path:
    """Samples to train on, and many more to predict before that."""
    with open_folder(folder) as learner:
        (value,) = learner.graphs["predict"].inputs
    shape, rng = value.shape[1:], np.random.default_rng(0)
    x, x_test = (rng.normal(size=(count, *shape)).astype(np.float32) for count in (4, 50000))
    path = folder.parent / "tested.npz"
    np.savez(path, x=x, y=np.arange(4) % 2, x_test=x_test, y_test=np.arange(50000) % 2)
    return path


@pytest.mark.parametrize("seconds", [0.1, 0.3, 0.5, 0.8, 1.2])
def test_ctrl_c_while_the_core_predicts_ends_the_run(seconds, folder, tested, tmp_path):
    run = Training([folder, "--data", tested, "--rate", 0.01], tmp_path / "said", verb="run")
    run.until_said("on nrf52840, emulator")
    time.sleep(seconds)
    begun = time.monotonic()
    assert run.stop(signal.SIGINT) == 130, run.text()
    assert time.monotonic() - begun < 10
    assert "Error" not in run.text() and "ignored" not in run.text()


def test_a_second_ctrl_c_stops_at_once_and_writes_nothing(folder, tmp_path, monkeypatch, capsys):
    """The second comes within a request, whose answer nobody reads any more."""
    from insitu.devices.link import LinkDevice

    plain, calls = LinkDevice.train, []

    def twice(self, updates):
        calls.append(updates)
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
        return plain(self, updates)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(LinkDevice, "train", twice)
    try:
        assert main(["run", *map(str, words(folder, tmp_path / "s.bin"))]) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert "stopped at once" in capsys.readouterr().err and len(calls) == 3
    assert not (tmp_path / "s.bin").exists()


def test_a_long_run_saves_now_and_then(folder, tmp_path):
    state = tmp_path / "s.bin"
    run = Training(words(folder, state), tmp_path / "said", save_seconds=0.2, verb="run")
    run.until(state.exists)  # perhaps before its first update
    run.until(lambda: len(set(states(folder, state))) == 2)
    assert run.process.is_alive()
    run.stop(signal.SIGKILL)
    first, kept = states(folder, state)
    assert kept != first


def test_ctrl_c_after_the_training_says_where_the_state_is(folder, tmp_path, monkeypatch, capsys):
    def pressed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("insitu.reports.run.board_run", pressed)
    state = tmp_path / "s.bin"
    assert main(["run", str(folder), "--steps", "2", "--save", str(state)]) == 130
    assert f"what was learned is in {state}" in capsys.readouterr().err
    assert np.frombuffer(state.read_bytes(), np.uint8).any()


@pytest.mark.parametrize("name", ["s.insitu", "s.txt"])
def test_a_file_that_cannot_hold_a_state_is_told_before_training(name, folder, tmp_path, capsys):
    assert main(["run", str(folder), "--steps", "1", "--save", str(tmp_path / name)]) == 1
    said = capsys.readouterr().err
    assert "nrf52840" not in said and (".bin" in said)
