"""The last layer of a regression is solved: as scikit-learn's Ridge does it, in any unit, and never for the worse."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from torch import nn

import insitu
from insitu.errors import LearningWarning
from insitu.learner.rates import trained_values
from insitu.learner.solved import ALIKE, HOLDS, solvable, solve

from ..learners import data, learner, mlp

MSE = insitu.Recipe(loss="mse")


def table(count: int, width: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    x, w = 3 * rng.normal(size=(count, width)) + 5, rng.normal(size=(2, width))
    return x, w, x @ w.T + [3, 50] + 2 * rng.normal(size=(count, 2))


def share_left(made, x, y) -> np.ndarray:
    """The share of each target's variance that the outputs do not explain."""
    return np.square(made.predict(x) - y).mean(0) / y.var(0)


def left_out(x, y, hold: float) -> float:
    """The error of scikit-learn's ridge on each sample, learned from the others."""
    others = [np.arange(len(x)) != i for i in range(len(x))]
    return float(np.mean([np.square(Ridge(hold).fit(x[o], y[o]).predict(x[~o]) - y[~o]) for o in others]))


@pytest.mark.parametrize(("count", "width"), [(24, 5), (10, 16)])
def test_it_is_the_ridge_regression_that_is_best_when_samples_are_left_out(count, width):
    x, _, y = table(count, width)
    weight, bias = solve(x, y, np.zeros((2, width)), np.zeros(2))
    holds = HOLDS * np.square(np.linalg.svd(x - x.mean(0))[1]).mean()
    for k in range(2):
        errors = [left_out(x, y[:, k], hold) for hold in holds]
        fits = [Ridge(hold).fit(x, y[:, k]) for hold in holds]
        same = [i for i, r in enumerate(fits) if np.allclose(r.coef_, weight[k], rtol=1e-4, atol=1e-6)]
        assert same and errors[same[0]] <= min(errors) / ALIKE
        assert fits[same[0]].intercept_ == pytest.approx(bias[k], rel=1e-4)


@pytest.mark.parametrize("count", [39, 40, 41, 42])
def test_as_many_features_as_samples_are_not_learned_by_heart(count):
    """Weights that pass through all samples would have no error: that says nothing of what they predict."""
    rng = np.random.default_rng(1)
    x, w = rng.normal(size=(count + 500, 8)), rng.normal(size=(8, 1))
    features = np.hstack([np.maximum(x @ rng.normal(size=(8, 32)), 0), x])
    y = x @ w + 0.3 * rng.normal(size=(len(x), 1))
    weight, bias = solve(features[:count], y[:count], np.zeros((1, 40)), np.zeros(1))
    error = np.square(features[count:] @ weight.T + bias - y[count:]).mean()
    assert error < 0.3 * y[count:].var()


def test_weights_that_were_right_in_another_unit_are_a_good_start():
    x, w, y = table(212, 24)
    weight, bias = solve(x[:12], y[:12], 7 * w, np.zeros(2))
    plain, offset = solve(x[:12], y[:12], np.zeros_like(w), np.zeros(2))
    error, other = (np.square(x[12:] @ a.T + b - y[12:]).mean(0) for a, b in ((weight, bias), (plain, offset)))
    assert (error < 0.05 * y.var(0)).all() and (other > 0.3 * y.var(0)).all()


def test_a_layer_without_a_bias_is_solved_without_an_offset():
    x, w, _ = table(40, 5)
    (weight,) = solve(x, x @ w.T, np.zeros((2, 5)), None)
    assert np.allclose(weight, w, rtol=1e-3)


@pytest.mark.parametrize("options", [{}, {"precision": "int8", "data": data(90)[0]}])
@pytest.mark.parametrize("unit", [1e-3, 1e5])
def test_targets_of_any_unit_are_learned_through_all_layers(unit, options):
    x, _ = data(290)
    y = (unit * np.stack([5 + x[:, 0] * x[:, 1], x[:, 2] - 3], 1)).astype(np.float32)
    made = insitu.compile(mlp(classes=2, hidden=16), example=torch.zeros(1, 6), scheme="full", recipe=MSE,
                          **{"precision": "float", **options})  # fmt: skip
    history = made.fit(x[:90], y[:90])
    assert "last layer solved, rate" in history.found and not history.restored
    assert (share_left(made, x[90:], y[90:]) < [0.75, 0.1]).all()


def test_a_head_of_a_regression_needs_no_rate_and_is_in_one_file(tmp_path):
    x, _ = data(60)
    y = 100 + 7 * x[:, :4]
    made = learner("head", classes=None, recipe=MSE)
    history = made.fit(x, y)
    assert history.found == "last layer solved, 60 samples" and len(history.loss) == 1 and not history.notes
    assert share_left(made, x, y).mean() < 0.65
    again = insitu.open(made.save(tmp_path / "one.insitu"))
    assert np.array_equal(again.predict(x), made.predict(x))


@pytest.mark.parametrize("count", [5, 40])
@pytest.mark.parametrize("scheme", ["head", "full"])
def test_a_network_that_is_right_stays_right(scheme, count):
    x, _ = data(count + 200)
    made = learner(scheme, classes=None, recipe=MSE)
    y = made.predict(x) + 0.01 * np.random.default_rng(1).normal(size=(len(x), 4)).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LearningWarning)
        made.fit(x[:count], y[:count])
    assert np.square(made.predict(x[count:]) - y[count:]).mean() < 1.5e-4  # 1e-4 is the noise


def test_targets_without_meaning_give_their_mean():
    x, y = data(60)[0], np.random.default_rng(0).normal(40, 3, (60, 4)).astype(np.float32)
    made = learner("full", classes=None, recipe=MSE)
    with pytest.warns(LearningWarning, match="nothing was learned"):
        made.fit(x, y)
    assert np.square(made.predict(data(300, seed=5)[0]) - 40).mean() < 3


def test_only_a_linear_float_layer_that_is_trained_can_be_solved():
    full, bias = learner("full", classes=None, recipe=MSE), learner("full", classes=None)
    layer = solvable(full.graphs["predict"], trained_values(full.graphs))
    assert layer is not None and layer.weight.shape == (4, 8)
    assert solvable(bias.graphs["predict"], trained_values(bias.graphs)[:1]) is None


def test_a_given_rate_solves_nothing():
    made = learner("head", classes=None, recipe=MSE)
    assert made.fit(*((a := data(30)[0]), a[:, :4]), rate=0.01).found == ""


def test_a_last_layer_that_knows_much_is_solved_only_if_that_is_clearly_better():
    """The targets are those of the network, with noise: 40 of them cannot tell a better layer, but seemed to."""
    torch.manual_seed(0)
    rng = np.random.default_rng(4)
    net, x = nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 1)).eval(), rng.normal(size=(340, 6))
    y = net(torch.tensor(x, dtype=torch.float32)).detach().numpy()
    x, y = x.astype(np.float32), (y + rng.normal(0, 0.25 * y.std(), y.shape)).astype(np.float32)
    options = {"data": x[:40], "example": torch.zeros(1, 6), "recipe": insitu.Recipe(loss="mse"), "precision": "float"}
    made = insitu.compile(net, scheme="head", **options)
    before = made.evaluate(x[40:], y[40:])["error"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        history = made.fit(x[:40], y[:40])
    assert "solved" not in history.found and made.evaluate(x[40:], y[40:])["error"] <= 1.01 * before
