"""What a notebook or a prompt shows of learners, histories, graphs and plans: one screen, never megabytes."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np

import insitu
from insitu.learner.course import Course
from insitu.learner.feed import Feed, plain
from insitu.learner.history import History
from insitu.learner.rates import Rates
from insitu.learner.settle import Settled
from insitu.learner.shown import BELOW, HIGH
from insitu.learner.watch import Watch

from ..learners import data, learner

SCREEN = 40  # lines


def test_everything_shows_as_one_screen():
    x, y = data()
    made = learner()
    words = np.array(["tap", "rest", "wave", "<nod>"])
    history = made.fit(x, words[y], epochs=60, rate=0.05)
    for thing in (made, made.graphs["train_step"], made.plans["train_step"], history):
        assert len(repr(thing).splitlines()) <= SCREEN and len(repr(thing)) < 4000
    assert "tap" in repr(made) and "full" in repr(made) and "every sample" in repr(made)
    assert "linear" in made.graphs["train_step"]._repr_html_()
    assert "&lt;nod&gt;" in made._repr_html_() and "<nod>" not in made._repr_html_()
    assert "..." in repr(history) and "60" in repr(history)


def test_showing_a_learner_compiles_nothing():
    made = learner()
    assert repr(made) and not made.opened


def test_curves_are_a_picture(tmp_path):
    x, y = data()
    history = learner().fit(x, y, epochs=3, rate=0.05, validation=(x, y))
    history.loss[1] = float("nan")
    path = history.plot().save(tmp_path / "curves.svg")
    root = ET.fromstring(path.read_text())
    lines = [node for node in root.iter() if node.tag.endswith("polyline")]
    assert len(lines) == 3, "loss, accuracy and validation"
    assert len(lines[0].attrib["points"].split()) == 2, "what is not finite has no place"
    assert "svg" in history._repr_html_() and history.plot()._repr_svg_().startswith("<svg")
    assert len(repr(history.plot())) < 120 and "<svg" not in repr(history.plot())


def heights(history: History) -> list[list[float]]:
    """Of each curve: how high its points are, from 0 to 1 of the picture."""
    lines = [node for node in ET.fromstring(history.plot().svg).iter() if node.tag.endswith("polyline")]
    ys = [[float(point.partition(",")[2]) for point in line.attrib["points"].split()] for line in lines]
    return [[round((HIGH - BELOW - y) / (HIGH - BELOW - 24), 2) for y in each] for each in ys]


def test_an_accuracy_is_as_high_as_it_is():
    assert heights(History(loss=[2.0, 1.0], accuracy=[1.0, 1.0], tested=[0.5, 0.75])) == [[1, 0], [1, 1], [0.5, 0.75]]


def test_what_stays_the_same_and_a_single_epoch_are_lines():
    assert heights(History(loss=[3.0, 3.0], error=[2.0, 4.0])) == [[0.5, 0.5], [0, 1]]
    assert heights(History(loss=[3.0], accuracy=[0.9])) == [[0.5, 0.5], [0.9, 0.9]]


def test_an_empty_history_shows_too():
    assert "nothing done" in repr(History()) and History().plot().svg


def test_a_regression_has_targets_not_classes():
    made = learner(classes=None, head_init=None, recipe=insitu.Recipe(loss="mse"))
    assert "targets" in repr(made) and "classes" not in repr(made) and "classes" in repr(learner())


def test_a_history_says_once_how_many_epochs_were_run():
    x, y = data()
    whole = learner().fit(x, y, epochs=3)
    assert str(whole).startswith("3 epochs: ") and str(whole).count("epoch") == 1, str(whole)
    assert ", 3 epochs" in whole.found, "which stands alone"
    assert str(learner().fit(x, y, epochs=1)).startswith("1 epoch: ")
    part = learner().fit(x, y, epochs=9, rate=0.05, stop_epoch=4)
    assert str(part).startswith("4 of 9 epochs: ") and str(part).count("epoch") == 1, str(part)


def test_a_training_that_ended_early_says_of_how_many_epochs():
    words = str(History(loss=[0.2] * 9, planned=30, settings="rate 0.02, 144 samples"))
    assert words == "9 of 30 epochs: loss 0.200 to 0.200 (rate 0.02, 144 samples)"


def test_the_part_of_a_training_that_counts_is_said_with_its_epochs_and_beside_them():
    made, (x, y) = learner(), data(60)
    feed = Feed(made.device, plain((x,)), y)
    watch = Watch(feed, "cross_entropy", made.device.state(), part=0.5)
    found = Settled(Course(30, 0.02, 1, "cosine", 0.0, 0), feed, Rates(0.02), watch, 0)
    assert found.words == "rate 0.02, 30 epochs (50% of the way), 60 samples"
    assert found.beside == "rate 0.02, 50% of the way, 60 samples"


def test_a_training_ends_early_if_asked_to():
    x, y = data(60)
    x += 4 * np.eye(6, dtype=np.float32)[y]
    usual, early = (learner().fit(x, y, epochs=150, rate=0.02, early=early) for early in (False, True))
    assert len(usual.loss) == 150 and 10 < len(early.loss) < 150 and early.planned == 150
    assert max(losses.max() for losses in early.losses[-3:]) < 0.01 <= early.losses[-4].max()
