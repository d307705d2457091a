"""Arguments as they come from arrays, and those that no call takes: nothing is lost, and an error says what to do."""

# pyright: reportArgumentType=false
from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

import insitu

from ..learners import data, imported, learner, state_of

X, Y = data(30)
USUAL = {"epochs": 3, "rate": 0.05}
OF_NUMPY = {"epochs": np.int64(3), "rate": np.float32(0.05), "head_rate": np.float32(0.1), "warmup": np.float32(0.5),
            "average": np.int64(2), "seed": np.int64(1), "start_epoch": np.int64(1), "stop_epoch": np.int64(2),
            "threads": np.int64(2), "effort": np.float32(1)}  # fmt: skip


@pytest.mark.parametrize("name", OF_NUMPY)
def test_numbers_of_numpy_train_as_pythons_own(name):
    states = set()
    for value in (OF_NUMPY[name], OF_NUMPY[name].item()):
        made = learner(batch=4)
        made.fit(X, Y, **{**USUAL, name: value})
        states.add(state_of(made))
    assert len(states) == 1


IN_A_RECIPE = {"momentum": np.float32(0.8), "decay": np.float32(0.001), "clip": np.int64(3), "rate": np.float32(0.1),
               "nesterov": 1, "qas": np.False_, "seed": np.int64(2)}  # fmt: skip


@pytest.mark.parametrize("name", IN_A_RECIPE)
def test_what_was_learned_with_such_a_recipe_is_saved_and_opened(name, tmp_path):
    recipe = insitu.Recipe(optimizer="momentum", **{name: IN_A_RECIPE[name]})
    assert type(getattr(recipe, name)) in (int, float, bool)
    made = learner(recipe=recipe)
    made.partial_fit(X, Y)
    made.save(tmp_path / "made.insitu")
    again = insitu.open(tmp_path / "made.insitu")
    assert state_of(again) == state_of(made) and again.recipe == made.recipe


@pytest.mark.parametrize("wrong", [{"beta1": 1}, {"beta2": 1 - 1e-9}, {"nesterov": "yes"}, {"qas": 2}])
def test_a_recipe_that_cannot_learn_is_refused(wrong):
    with pytest.raises(insitu.DataError, match=next(iter(wrong))):
        insitu.Recipe(optimizer="adam", **wrong)


def test_names_in_an_array_are_names():
    assert compiled(np.array(["b", "a"])).names == ("b", "a")
    assert compiled(np.int64(3)).classes == 3


@pytest.mark.parametrize("wrong", [{"a", "b"}, {"a": 0, "b": 1}, [0, 1], np.array([0, 1]), range(2)])
def test_what_is_no_list_of_names_says_what_is(wrong):
    with pytest.raises(insitu.DataError, match="must be a number or a list of names") as e:
        compiled(wrong)
    assert "classes=2" in e.value.hint


def compiled(classes) -> insitu.Learner:
    return insitu.compile(imported(), classes=classes, precision="float", scheme="full")


WRONG = {
    "predict": (lambda made: made.predict(), "nothing to predict"),
    "on nothing": (lambda made: made.on(None), "cannot run on None"),
    "on a number": (lambda made: made.on(3), "cannot run on 3"),
    "augment": (lambda made: made.fit(X, Y, augment=3), "augment must be a function, not 3"),
    "progress": (lambda made: made.fit(X, Y, progress="bar"), "progress must be a function, not 'bar'"),
    "scheme": (lambda made: learner(scheme=3), "a scheme is text, not 3"),
    "no scheme": (lambda made: learner(scheme=None), "a scheme is text, not None"),
    "transform": (lambda made: learner(transform=3), "transform must be insitu.Transform, Audio or Motion, not 3"),
    "dump": (lambda made: learner(dump="/proc/nowhere/x"), "/proc/nowhere/x: cannot be written"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_argument_is_an_error_of_ours(name):
    call, words = WRONG[name]
    with pytest.raises(insitu.Error, match=words):
        call(learner())
