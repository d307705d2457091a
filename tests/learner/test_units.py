"""Targets in units of their spread: each of them is learned, and nobody but the training sees those units."""

import warnings

import numpy as np
import pytest
import torch

import insitu
from insitu.learner.rates import trained_values
from insitu.learner.solved import solvable
from insitu.learner.units import FAR, units_of

from ..learners import learner
from .test_solved import MSE, share_left

SPREADS = np.array([1000.0, 0.01, 3.0], np.float32)


def task(count: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A product, a curve and a sum, of very unlike units."""
    x = np.random.default_rng(seed).normal(size=(count, 6)).astype(np.float32)
    y = np.stack([x[:, 0] * x[:, 1] + 0.5, np.sin(x[:, 2]), x[:, 3] - x[:, 4]], 1)
    return x, y * SPREADS


def network(outputs: int = 3, bias: bool = True) -> torch.nn.Module:
    torch.manual_seed(0)
    layers = torch.nn.Linear(6, 32), torch.nn.ReLU(), torch.nn.Linear(32, 16), torch.nn.ReLU()
    return torch.nn.Sequential(*layers, torch.nn.Linear(16, outputs, bias=bias))


def made(recipe: insitu.Recipe = MSE, **options) -> insitu.Learner:
    options = {"scheme": "full", "precision": "float", **options}
    return insitu.compile(network(), data=task()[0], recipe=recipe, **options)


def test_every_target_is_learned_whatever_its_unit():
    (x, y), (new, wanted) = task(200), task(200, seed=1)
    net, seen = made(scheme="auto"), []
    assert any(note.endswith('recipe=Recipe(loss="mse", optimizer="adam") may learn more') for note in net.notes)
    history = net.fit(x, y, progress=lambda *_: seen.append(np.abs(net.predict(new[:50])[:, 0]).max()))
    assert history.found.startswith("targets in units of their spread")
    assert (share_left(net, new, wanted) < [0.4, 0.2, 0.2]).all()
    assert max(seen[-5:]) > 500  # predictions in between are in the targets' own units


def test_samples_to_choose_by_are_measured_in_the_targets_own_units():
    (x, y), other = task(200), task(100, seed=1)
    net = made()
    history = net.fit(x, y, validation=other)
    assert history.validation[-1] == pytest.approx(net.evaluate(*other)["error"], rel=0.5)
    assert net.evaluate(*other)["error"] < 0.2 * np.square(other[1] - other[1].mean(0)).mean()


@pytest.mark.parametrize("bias", [True, False])
def test_the_network_is_the_same_in_other_units_and_to_the_byte_if_it_learned_nothing(bias):
    x, y = task(50)
    net = learner("full", module=network(bias=bias), classes=None, recipe=MSE)
    state, graph = net.device.state(), net.graphs["predict"]
    layer = solvable(graph, trained_values(net.graphs))
    assert layer is not None
    units = units_of(layer, y, state)
    assert units is not None and units.spread == pytest.approx(SPREADS, rel=0.5)
    before = net.predict(x)
    net.device.load_arrays(units.into())
    assert net.predict(x) == pytest.approx(units.targets(before), rel=1e-3, abs=1e-4)
    back = units.out_of(net.device.state())
    assert all(back[name].tobytes() == array.tobytes() for name, array in state.items())
    moved = {**net.device.state(), layer.weight.name: net.device.state()[layer.weight.name] + 1}
    assert units.out_of(moved)[layer.weight.name] == pytest.approx(
        state[layer.weight.name] + units.spread[:, None], rel=1e-4, abs=1e-4
    )


def test_targets_that_are_alike_share_a_unit_and_those_near_1_keep_theirs():
    net = learner("full", module=network(40), classes=None, recipe=MSE)
    layer = solvable(net.graphs["predict"], trained_values(net.graphs))
    assert layer is not None
    y = np.random.default_rng(0).normal(size=(50, 40)).astype(np.float32)
    state = net.device.state()
    assert units_of(layer, y, state) is None and units_of(layer, np.ones_like(y), state) is None
    for spread in (np.full(40, 3 * FAR), np.geomspace(0.01, 1000, 40)):  # a picture's pixels are of one kind
        found = units_of(layer, y * spread.astype(np.float32), state)
        assert found is not None and len(set(found.spread)) == 1


def test_a_rate_that_is_given_is_for_the_targets_as_they_are():
    x, y = task(60)
    net = made()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        history = net.fit(x, y, rate=1e-9, epochs=1)
    assert not history.found and history.loss[0] > 1000
