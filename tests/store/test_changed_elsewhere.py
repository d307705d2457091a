"""A life whose learner is changed by somebody else: `fit`, `load`, a head with more rows, an erased store."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import insitu
from insitu.errors import DataError
from insitu.learner.rows import rows_in_use
from tests.learners import imported
from tests.store.lives import CLASSES, bytes_of, kill, learner, lived, model_of, samples

HEAD = "mlp head"
X, Y = samples(model_of(HEAD), 60)
NEW = samples(model_of(HEAD), 20, seed=5)[0] + 3


def roomy() -> insitu.Learner:
    names = ["a", "b", "c", "d"]
    return insitu.compile(imported(), classes=names, max_classes=6, scheme="head", precision="float")


@pytest.mark.parametrize("way", ["fit", "partial_fit", "load"])
def test_what_was_learned_outside_of_a_bout_survives_the_end_of_the_process(way: str, tmp_path: Path):
    one = learner(HEAD)
    one.keep(tmp_path / "life")
    if way == "load":
        other = learner(HEAD)
        other.fit(X, Y, epochs=1, rate=0.01)
        one.load(other.save(tmp_path / "state.bin"))
    else:
        getattr(one, way)(X, Y, rate=0.01)
    again, state = learner(HEAD), bytes_of(one)
    kill(one)
    again.keep(tmp_path / "life")
    assert bytes_of(again) == state != bytes_of(learner(HEAD))


def test_arrays_that_were_put_into_the_device_are_saved_when_it_is_closed(tmp_path: Path):
    one = learner(HEAD)
    one.keep(tmp_path / "life")
    one.device.load_arrays({"head.bias": np.arange(CLASSES, dtype=np.float32)})
    state = bytes_of(one)
    one.close()
    again = learner(HEAD)
    again.keep(tmp_path / "life")
    assert bytes_of(again) == state


@pytest.mark.parametrize("way", ["fit", "partial_fit"])
def test_a_row_that_was_fitted_does_not_follow_its_mean_again(way: str):
    with roomy() as one:
        one.keep()
        new = one.add_class("new")
        getattr(one, way)(np.concatenate([X, NEW]), np.append(Y, [new] * len(NEW)), rate=0.01)
        row = one.device.state()["head.weight"][new]
        one.observe(NEW[0], "new")
        assert one.life.record.fresh == [] and np.array_equal(one.device.state()["head.weight"][new], row)


def test_a_class_that_nobody_taught_stays_new_after_a_fit_of_the_others():
    with roomy() as one:
        one.keep()
        new = one.add_class("new")
        one.fit(X, Y, epochs=1, rate=0.01)
        assert one.life.record.fresh == [new]
        one.observe(NEW, ["new"] * len(NEW))
        assert rows_in_use(one)[new] and (one.predict(NEW).argmax(1) == new).mean() > 0.5


def test_a_head_that_grows_in_a_bout_ends_the_bout():
    """Its trainee has fewer rows; one with more would begin with what was compiled, not with what was learned."""
    with learner(HEAD) as one:
        lived(one, HEAD)
        assert not one.rehearse(steps=100, seconds=0.0).finished
        one.add_class("more")
        assert one.statistics()["abandoned"] == 1 and not one.statistics()["in_a_bout"]
        one.observe(NEW, ["more"] * len(NEW))
        one.rehearse(steps=32)
        state = one.device.state()["head.weight"]
        assert np.array_equal(one.life.mind.trainee.state()["head.weight"], state)


def test_a_class_that_was_added_before_everything_was_erased_can_still_be_learned():
    with roomy() as one:
        life = one.keep()
        new = one.add_class("new")
        life.erase()
        one.observe(NEW, ["new"] * len(NEW))
        one.observe(X, Y)
        assert rows_in_use(one)[new] and (one.predict(NEW).argmax(1) == new).mean() > 0.5
        assert one.rehearse().after is not None and one.statistics()["rolled_back"] == 0


def test_what_makes_no_sense_is_said_clearly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for wrong, why in (({"when": 5}, "must be a function"), ({"count": 1}, "integer >= 5"), ({"path": ""}, "no name")):
        with pytest.raises(DataError, match=why):
            learner(HEAD).keep(**wrong)
    assert not list(tmp_path.iterdir())
    with learner(HEAD) as one:
        one.keep()
        one.observe(X[:3])
        for id in ([1], {}, 1.0, True):
            with pytest.raises(DataError, match="no record"):
                one.label(id, 0)  # type: ignore[arg-type]
        with pytest.raises(DataError, match="no class named ''") as e:
            one.label(1, "")
        assert "add_class" not in e.value.hint


def test_a_store_that_cannot_hold_every_class_says_so():
    with insitu.compile(imported(), classes=6, scheme="head", precision="float") as one:
        one.keep(count=5)
        one.observe(X, Y)
        assert "room for 4 to learn from, fewer than the 6 classes" in one.rehearse().note
