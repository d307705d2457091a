"""What a life says of its bouts, and of classes that it cannot replay."""

from __future__ import annotations

from pathlib import Path

import pytest

import insitu
from insitu.devices.living import outcome
from insitu.store.verdict import Verdict, harm
from tests.learners import imported

from .lives import CLASSES, KINDS, samples

KIND = "mlp head"


def fitted() -> insitu.Learner:
    one = KINDS[KIND]()
    x, y = samples(imported(), 80)
    one.fit(x, y)
    return one


def test_a_verdict_names_the_classes_whose_guards_changed():
    before, after = [True, True, True, False, True], [False, False, False, True, True]
    classes = ["walk", "walk", "jerk", "circle", "shake"]
    went = "3 guards went wrong (walk 2, jerk 1), 1 went right (circle 1)"
    assert Verdict(True, before, after, classes).words == went
    assert Verdict(False, before, after, classes).words == "guards that went wrong: walk 2, jerk 1"
    assert Verdict(False, after, after, classes, "unseen").words == "unseen"
    assert "nothing can be judged" in Verdict(False, before[:3], after[:3], classes[:3]).words
    assert "one class does not make up for others" in harm(4, 4)


def test_a_class_added_beside_some_without_samples_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = fitted().save(tmp_path / "fitted.insitu")
    one = insitu.open(path)
    one.keep(tmp_path / "life")
    one.add_class("new")
    said = capsys.readouterr().err
    assert "no samples of 0, 1, 2, 3 are kept to replay" in said and "observe(x, label) some of each" in said
    with fitted() as other:
        other.keep()
        capsys.readouterr()
        other.add_class("new")
        assert "replay" not in capsys.readouterr().err, "it begins with some of what it was fitted to"


def test_a_bout_says_which_classes_have_too_few_guards_to_see_harm(tmp_path: Path):
    one = insitu.open(fitted().save(tmp_path / "fitted.insitu"))
    x, y = samples(imported(), 60, seed=3)
    one.keep()
    one.observe(x[:28], y[:28])
    one.add_class("new")
    one.observe(x[28:48] + 3, ["new"] * 20)
    told = one.rehearse()
    assert "fewer than 4 guards of 0, 1, 2, 3: new could harm them unseen, so it learns alone" in told.note, told
    assert not told.rolled_back and "learns alone" in one.rehearse().note, "it is young"
    more, labels = samples(imported(), 120, seed=4)
    one.observe(more, labels)
    assert "alone" not in one.rehearse().note


def test_a_board_says_how_many_guards_its_last_bout_changed():
    found = {"bouts": 1, "guards": 31, "right": 25, "lost": 1, "won": 3}
    assert outcome(found) == "25 of 31 guards right; 1 went wrong in the last bout, 3 went right"


def test_samples_without_a_folder_are_noted_once(capsys: pytest.CaptureFixture[str]):
    one = KINDS[KIND]()
    x, y = samples(imported(), CLASSES)
    one.observe(x, y)
    assert "gone when this process ends" in capsys.readouterr().err
    one.observe(x, y)
    assert not capsys.readouterr().err
