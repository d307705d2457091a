"""A head that learns alone: for longer than usual where held-out samples say so, and only there."""

from __future__ import annotations

import numpy as np
import pytest

import insitu
from insitu.learner.settle import usual_epochs

torch = pytest.importorskip("torch")


def common(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Samples with much in common: what tells four classes apart is small beside it."""
    rng = np.random.default_rng(seed)
    y = np.arange(count) % 4
    directions = np.random.default_rng(0).normal(size=(4, 12))
    x = 2.0 + 0.3 * directions[y] + 0.3 * rng.normal(size=(count, 12))
    return x.astype(np.float32), y


def head(x: np.ndarray) -> insitu.Learner:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    return insitu.compile(net, scheme="head", data=x, precision="float", example=torch.zeros(1, 12))


def test_a_head_that_learns_slowly_learns_for_longer_and_better():
    (x, y), test = common(60, 1), common(400, 2)
    usual, ours = head(x), head(x)
    history = ours.fit(x, y)
    assert len(history.loss) > usual_epochs(60) and f"{4 * usual_epochs(60)} epochs" in history.found
    usual.fit(x, y, epochs=usual_epochs(60))
    assert ours.evaluate(*test)["accuracy"] > usual.evaluate(*test)["accuracy"]


def test_given_epochs_stay_as_they_are():
    x, y = common(60, 1)
    assert "7 epochs" in head(x).fit(x, y, epochs=7).found


def test_a_head_that_is_done_early_does_not_learn_for_longer():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 4
    x = (np.random.default_rng(1).normal(size=(4, 12))[y] * 3 + 0.1 * rng.normal(size=(60, 12))).astype(np.float32)
    assert f" {usual_epochs(60)} epochs" in head(x).fit(x, y).found
