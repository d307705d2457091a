"""A learner that has learned on the host lives on a board: it starts with everything, and takes classes by name."""

from __future__ import annotations

import json
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("unicorn")

import insitu
from insitu.cli import main
from insitu.devices.emulator import EmulatorDevice
from insitu.devices.living import Living
from insitu.errors import DataError, ModelError
from insitu.learner import Learner
from insitu.learner.seen import class_means

from ..learners import imported
from .living import CLASSES, WIDTH

NAMES = ("rest", "tap", "wave")  # of the four; the last comes later
BOARD = {"board": "nrf51822", "store": "4K", "max_classes": 5}


def samples(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Clearly apart: one coordinate is large."""
    y = np.arange(count) % CLASSES
    x = np.random.default_rng(seed).normal(scale=0.3, size=(count, WIDTH)).astype(np.float32)
    x[np.arange(count), y] += 2
    return x, y


@cache
def fitted() -> Learner:
    x, y = samples(240)
    made = insitu.compile(imported(), classes=list(NAMES), precision="float")
    made.fit(x[y < 3], y[y < 3], epochs=20, rate=0.05)
    return made


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    return fitted().save(tmp_path_factory.mktemp("learned") / "learned.insitu")


def predicted(board: Learner, x: np.ndarray) -> np.ndarray:
    return np.array([board.device.run("predict", one[None])[0][0].argmax() for one in x])


def test_it_starts_with_what_was_learned_and_takes_a_class_by_name():
    x, y = samples(60, seed=1)
    with fitted().on("emulator", **BOARD) as board:
        assert isinstance(board.device, EmulatorDevice)
        life = Living(board.device)
        assert life.names == (*NAMES, "", "")
        assert np.array_equal(board.device.run("predict", x[:1])[0][0, :3], fitted().predict(x[:1])[0, :3])
        assert life.add_class("shake") == 3
        for one in x[y == 3][:8]:
            life.observe(one, label="shake")
        new = predicted(board, x)
        assert (new[y < 3] == y[y < 3]).mean() > 0.95 and (new[y == 3] == 3).mean() > 0.9
        known = board.device.save_state(), life.records(), life.class_statistics()
        board.device.restart()
        assert known == (board.device.save_state(), life.records(), life.class_statistics())
        assert life.names[3] == "shake" and np.array_equal(predicted(board, x), new)
        with pytest.raises(DataError, match="no class named 'jump'"):
            life.observe(x[0], label="jump")
        with pytest.raises(DataError, match="a class named 'shake' already"):
            life.add_class("shake")
        life.forget("shake")
        board.device.restart()
        assert life.class_statistics()[3]["in_use"] == 0 and not {r.label for r in life.records()} & {3}


def test_a_learner_and_its_living_board_have_the_same_classes():
    x, y = samples(40, seed=4)
    with fitted().on("emulator", **BOARD) as board:
        life = Living(board.device)
        assert board.add_class("shake") == 3 and board.names == life.names == (*NAMES, "shake", "")
        with pytest.raises(DataError, match="the class shake is not in use on this board"):
            board.fit(x[y == 3][:2], ["shake"] * 2, epochs=1, rate=0.01)  # no sample of it yet: it would diverge
        for one in x[y == 3][:4]:
            life.observe(one, label="shake")
        assert board.fit(x[y == 3][:2], ["shake"] * 2, epochs=1, rate=0.01).loss[0] < 10
        life.forget("wave")
        assert board.names == ("rest", "tap", "", "shake", "") and "wave" not in board.classes_
        with pytest.raises(DataError, match="no class named 'wave'"):
            board.fit(x[y == 2][:2], ["wave"] * 2, epochs=1, rate=0.01)
        with pytest.raises(DataError, match="the class 2 is not in use"):
            board.partial_fit(x[y == 2][:2], y[y == 2][:2])
        assert set(board.classify(x[:1], top=2)[0]) <= {"rest", "tap", "shake"}
        assert board.forget("shake") == 4 and board.names == life.names


def test_a_board_with_a_store_takes_the_calls_of_a_life_on_this_machine():
    x, y = samples(60, seed=5)
    x, names = x[y < 3], [NAMES[k] for k in y[y < 3]]
    with fitted().on("emulator", **BOARD) as board:
        with pytest.raises(DataError, match="no labelled sample was shown.*rate"):
            board.rehearse()
        ids = board.observe(x[:30], names[:30])
        assert ids == list(range(ids[0], ids[0] + 30)) and isinstance(board.observe(x[30]), int)
        (asked,) = board.asks()
        assert board.label(asked, names[30]) and not board.asks()
        for never in (999, 0, [1], True):
            with pytest.raises(DataError, match=r"no record .*\n.*1 to 31 so far"):
                board.label(never, "tap")  # type: ignore[arg-type]
        for wrong in (-1, ""):  # as on this machine: None is no label
            with pytest.raises(DataError):
                board.observe(x[31], wrong)
        assert board.statistics()["observed"] == 31
        part = board.rehearse(64, seconds=0)
        assert not part.finished and part.before is None
        done = board.rehearse()  # goes on with the same bout
        assert done.finished and part.steps + done.steps == 64 and done.guards > 3 and not done.rolled_back
        assert done.after is not None and done.before is not None and done.after >= done.before > 0.9
        assert board.statistics()["bouts"] == 1 and board.statistics()["classes"][0]["name"] == "rest"
        assert 0 <= board.drift() < 1 and board.forget("wave") > 0
    with (
        fitted().on("emulator", board="nrf51822") as board,
        pytest.raises(insitu.DeviceError, match="keeps no samples"),
    ):
        board.observe(x[0])


def test_labels_that_come_later_count_and_forgotten_classes_do_not():
    x, y = samples(24, seed=6)
    x, y = x[y < 3], y[y < 3]
    with fitted().on("emulator", **BOARD) as board:
        for id, k in zip(board.observe(x), y):
            assert board.label(id, NAMES[k])
        for name in NAMES[:2]:
            board.forget(name)
        assert board.add_class("new") == 0  # in a forgotten row, whose samples must not stand for it
        told = [one.label for one in board.life._shown.values()]
        assert told == [2] * 6
        assert board.rehearse(4, partial=True).finished


def test_a_bout_that_cannot_be_saved_is_an_error():
    x, y = samples(24, seed=7)
    with fitted().on("emulator", **BOARD) as board:
        board.observe(x[y < 3], y[y < 3])
        assert isinstance(board.device, EmulatorDevice) and board.device.core.nor
        nor = board.device.core.nor
        nor.worn |= set(range(nor.bytes // nor.page))
        with pytest.raises(insitu.DeviceError, match="could not write its flash"):
            board.rehearse(4)


def test_a_living_board_is_taught_without_a_rate():
    x, y = samples(6, seed=2)
    with fitted().on("emulator", **BOARD) as board:
        assert board.partial_fit(x[y < 3][:2], y[y < 3][:2]).updates == 2


def test_a_file_becomes_a_living_program(saved: Path, tmp_path: Path, capsys):
    build, flash = tmp_path / "build", tmp_path / "board.flash"
    options = ["--board", "nrf51822", "--store", "4K", "--max-classes", "5", "-o", str(build)]
    assert main(["compile", str(saved), *options]) == 0
    x, y = samples(40, seed=2)
    np.savez(tmp_path / "day.npz", x=x[y == 3], y=np.array(["shake"] * 10))
    live = ["live", str(build), "--flash", str(flash), "--json"]
    assert main([*live, "--add-class", "shake", "--data", str(tmp_path / "day.npz"), "--checkpoint"]) == 0
    capsys.readouterr()
    assert main(live) == 0
    found = json.loads(capsys.readouterr().out)
    assert [c["name"] for c in found["classes"]] == [*NAMES, "shake", ""]
    assert found["continued"] == 1 and found["kept"] == found["classes"][3]["labelled"] == 10
    assert [c["in_use"] for c in found["classes"]] == [1, 1, 1, 1, 0]


def test_without_a_board_there_is_no_store(saved: Path, capsys):
    assert main(["compile", str(saved), "--store", "4K"]) == 1
    assert "--board NAME" in capsys.readouterr().err


def test_a_file_knows_the_means_of_its_classes(saved: Path, tmp_path: Path):
    x, y = samples(60, seed=3)
    made, known = insitu.open(saved), class_means(fitted())
    assert {k: m.tobytes() for k, m in made.seen.means.items()} == {k: m.tobytes() for k, m in known.means.items()}
    made.add_class("shake")
    made.observe(x[y == 3][:8], ["shake"] * 8)
    assert made.evaluate(x, y)["accuracy"] > 0.95


def test_damaged_means_are_refused(saved: Path, tmp_path: Path):
    damaged = tmp_path / "damaged.insitu"
    with zipfile.ZipFile(saved) as old, zipfile.ZipFile(damaged, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            new.writestr(name, data[:-4] + np.float32(np.nan).tobytes() if name == "seen.npy" else data)
    with pytest.raises(ModelError, match="means of the classes"):
        insitu.open(damaged)
