"""A network that knows nothing yet is told apart from a trained one, and its int8 form has room to grow."""

import numpy as np
import pytest
import torch
from torch import nn

import insitu
from insitu.quantizer.untrained import is_untrained

from ..learners import data, mlp


def convolutions(norm: bool = False) -> nn.Module:
    torch.manual_seed(0)
    between = [nn.BatchNorm2d(8)] if norm else []
    return nn.Sequential(nn.Conv2d(3, 8, 3), *between, nn.ReLU(), nn.Conv2d(8, 8, 3, groups=8), nn.Flatten(),
                         nn.Linear(32, 4)).eval()  # fmt: skip


def wide() -> nn.Sequential:
    return nn.Sequential(*mlp(width=16, hidden=32).children())


def graph_of(module: nn.Module, *shape: int):
    return insitu.load(module, torch.zeros(1, *shape)).graph


def one_step(module: nn.Module, *shape: int) -> nn.Module:
    optimizer = torch.optim.Adam(module.train().parameters(), 0.02)
    module(torch.randn(8, *shape)).square().mean().backward()
    optimizer.step()
    return module.eval()


@pytest.mark.parametrize(("make", "shape"), [(wide, (16,)), (convolutions, (3, 6, 6)),
                                             (lambda: convolutions(norm=True), (3, 6, 6))])  # fmt: skip
def test_a_fresh_torch_network_is_untrained_and_one_step_of_training_shows(make, shape):
    assert is_untrained(graph_of(make(), *shape))
    assert not is_untrained(graph_of(one_step(make(), *shape), *shape))


@pytest.mark.parametrize("first", [nn.init.xavier_uniform_, nn.init.kaiming_uniform_])
def test_other_usual_bounds_are_known(first):
    module = wide()
    for layer in (m for m in module if isinstance(m, nn.Linear)):
        first(layer.weight, **({"nonlinearity": "relu"} if first is nn.init.kaiming_uniform_ else {}))
    assert is_untrained(graph_of(module, 16))


def test_a_network_without_weights_is_not_called_untrained():
    assert not is_untrained(graph_of(nn.Sequential(nn.ReLU()), 6))


@pytest.mark.parametrize(("scheme", "limit"), [("head", 127), ("full", 32)])
def test_weights_of_an_untrained_network_leave_room_if_they_are_trained(scheme, limit):
    x, _ = data(60)
    made = insitu.compile(mlp(), example=torch.zeros(1, 6), data=x, scheme=scheme)
    g = made.graphs["predict"]
    weights = [a for a in {**g.constants, **g.state}.values() if a.dtype == np.int8 and a.ndim == 2]
    assert [np.abs(w).max() for w in weights] == [limit] * 2
    assert any("random initial" in note for note in made.notes) == (scheme == "full")


@pytest.mark.parametrize("scheme", ["head", "full"])
def test_targets_beyond_the_first_outputs_are_reached_in_int8(scheme):
    x, _ = data(200)
    y = 12 + 3 * x[:, :2]  # the fresh network's outputs are below 1
    recipe = insitu.Recipe(loss="mse")
    made = insitu.compile(mlp(classes=2), example=torch.zeros(1, 6), data=x, scheme=scheme, recipe=recipe)
    made.fit(x, y)
    assert made.evaluate(x, y)["error"] < {"head": 5.0, "full": 1.0}[scheme]  # the mean alone: 9


INT8 = 'precision="float", batch=8, recipe=Recipe(optimizer="adam")'


@pytest.mark.parametrize("options, said", [
    ({"scheme": "last:2"}, INT8), ({"precision": "float"}, 'batch=8, recipe=Recipe(optimizer="adam")'),
    ({"precision": "float", "batch": 8}, ""), ({}, ""),
])  # fmt: skip
def test_batch_norms_that_nothing_was_measured_for_are_named_with_what_measures_them(options, said):
    x = np.random.default_rng(0).normal(size=(20, 3, 6, 6)).astype(np.float32)
    notes = insitu.compile(convolutions(norm=True), data=x, **options).notes
    found = [note for note in notes if "batch norms got the statistics of the data" in note]
    assert all(note.endswith(f"; {said} may learn more") for note in found) and bool(found) == bool(said)
