"""Untrained networks with batch norms: they may learn in float first, in batches, and are made int8 then."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

import insitu
from insitu.learner.held_out import Score
from insitu.learner.history import History
from insitu.learner.school import is_better, is_enough


def score_of(costs: tuple[float, ...]) -> Score:
    return Score(0.5, 0.9, len(costs), each=np.array(costs))


def convolutions(classes: int = 10) -> nn.Module:
    """Seven of them, each with a norm, with weights as torch draws them."""
    torch.manual_seed(0)
    widths = (1, 8, 12, 12, 16, 16, 16, 16)
    layers = [part for i, o in pairwise(widths)
              for part in (nn.Conv2d(i, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU())]  # fmt: skip
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, classes)).eval()


def digits():
    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))
    return (found.images[order, None] / 16).astype(np.float32), found.target[order]


X, Y = digits()
NAMES = np.array([f"digit {k}" for k in range(10)])


@pytest.fixture(scope="module")
def taught() -> insitu.Learner:
    made = insitu.compile(convolutions(), data=X[:400], board="nrf52840")
    made.fit(X[:400], NAMES[Y[:400]])
    return made


def test_it_learns_what_it_could_not_in_int8_alone(taught):
    assert taught.evaluate(X[800:], NAMES[Y[800:]])["accuracy"] > 0.8
    assert taught.history.in_float and "then made int8" in taught.history.found


def test_it_is_the_program_that_was_asked_for(taught, tmp_path):
    assert taught.deployed is not None and taught.names == tuple(NAMES)
    assert {v.dtype for v in taught.program.state.fields if v.name.endswith(".weight")} >= {"s8"}
    again = insitu.open(taught.save(tmp_path / "net.insitu"))
    np.testing.assert_array_equal(again.predict(X[:9]), taught.predict(X[:9]))


def test_it_goes_there_once(taught):
    taught.fit(X[400:460], NAMES[Y[400:460]])
    assert not taught.history.in_float


@pytest.mark.parametrize("given", [{"rate": 0.01, "epochs": 1}, {"head_rate": 0.01, "rate": 0.01, "epochs": 1}])
def test_a_given_rate_is_obeyed(given):
    made = insitu.compile(convolutions(), data=X[:60])
    made.fit(X[:60], Y[:60], **given)
    assert not made.history.in_float and made.history.rate == pytest.approx(0.01)


@pytest.mark.parametrize("options", [{"scheme": "head"}, {"batch": 4}, {"precision": "float"},
                                     {"recipe": insitu.Recipe(arithmetic="nearest")}])  # fmt: skip
def test_who_asks_for_another_way_gets_it(options):
    assert insitu.compile(convolutions(), data=X[:60], **options).school is None


def test_networks_without_norms_and_trained_ones_learn_as_they_are():
    plain = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)).eval()
    trained = convolutions().train()
    trained(torch.tensor(X[:50]))
    for module in (plain, trained.eval()):
        assert insitu.compile(module, data=X[:60]).school is None


def test_only_what_is_clearly_better_is_taken():
    here, there = (History(score=score_of(cost)) for cost in ((0.5, 0.7, 0.3), (0.1, 0.2, 0.1)))
    assert is_better(there, here) and not is_better(here, there) and not is_better(here, here)
    assert not is_better(History(), here) and is_better(there, History())
    assert is_enough(History(score=score_of((0.0, 0.01, 0.0)))) and not is_enough(here)
