"""A misspelled argument of a public call: insitu's own error, with the nearest name."""

# pyright: reportCallIssue=false
from __future__ import annotations

import inspect

import numpy as np
import pytest
from torch import nn

import insitu


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 3)).eval()


def learner() -> insitu.Learner:
    return insitu.compile(net(), example=np.zeros((1, 4), np.float32), precision="float", scheme="head")


WRONG = {
    "compile": (lambda: insitu.compile(net(), shceme="head"), "compile: has no argument shceme .did you mean scheme"),
    "load": (lambda: insitu.load(net(), exmple=1), "load: .*did you mean example"),
    "open": (lambda: insitu.open(sorce="x"), "open: .*did you mean source"),
    "fit": (lambda: learner().fit([[0] * 4], [0], epoch=3), "Learner.fit: .*did you mean epochs"),
    "keras": (lambda: learner().fit([[0] * 4], [0], validation_data=()), "Learner.fit: .*validation_data .here: test"),
    "loss": (lambda: insitu.compile(net(), loss="mse"), r"no argument loss .here: recipe=insitu.Recipe.loss=\.\.\.."),
    "optimiser": (lambda: insitu.compile(net(), optimiser="adam"), r"here: recipe=insitu.Recipe.optimizer="),
    "Recipe": (lambda: insitu.Recipe(optimiser="adam"), "Recipe: .*did you mean optimizer"),
    "Transform": (lambda: insitu.Transform(men=0), "Transform: .*did you mean mean"),
    "Audio": (lambda: insitu.Audio(rat=8000), "Audio: .*did you mean rate"),
    "When": (lambda: insitu.When(charge=True), "When: .*did you mean charging"),
    "Augment": (lambda: insitu.Augment(flips=True), "Augment: .*did you mean flip"),
    "export": (lambda: learner().export("x.onnx", precison="float"), "export: .*did you mean precision"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_misspelled_argument_is_told_with_the_nearest_name(name):
    call, words = WRONG[name]
    with pytest.raises(insitu.ArgumentError, match=words) as e:
        call()
    assert isinstance(e.value, TypeError) and e.value.hint


def test_what_takes_the_place_of_class_weights_is_said():
    with pytest.raises(insitu.ArgumentError, match="no argument class_weight") as e:
        learner().fit([[0] * 4], [0], class_weight={0: 2.0})
    assert e.value.hint.startswith("give the samples of a rare class more often; arguments: x, y")


@pytest.mark.parametrize("name, begins", [("verbose", "progress is shown"), ("validation_split", "validation=(x, y)")])
def test_so_is_what_takes_the_place_of_arguments_of_keras(name, begins):
    with pytest.raises(insitu.ArgumentError, match=f"no argument {name}") as e:
        learner().fit([[0] * 4], [0], **{name: 0})
    assert e.value.hint.startswith(begins)


def test_a_hidden_progress_is_none():
    made = learner()
    assert made.fit(np.eye(4, dtype=np.float32), [0, 1, 2, 0], rate=0.1, epochs=1, progress=lambda *about: None).loss


def test_signatures_are_shown_as_they_are_written():
    assert "kwargs" not in str(inspect.signature(insitu.compile)) and "named" not in str(inspect.signature(insitu.load))
    assert "epochs" in inspect.signature(insitu.Learner.fit).parameters


def test_another_type_error_stays_as_it_is():
    with pytest.raises(TypeError) as e:
        insitu.load()
    assert not isinstance(e.value, insitu.Error)
