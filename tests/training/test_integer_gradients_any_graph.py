"""Integer gradients in networks with ops that have no integer twin: those read the gradient in f32 again."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import insitu
from insitu import Recipe

NETWORKS = {
    "tables and average pools": (
        nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), nn.SiLU(), nn.AvgPool2d(2), nn.Conv2d(4, 5, 3), nn.LeakyReLU(),
            nn.AvgPool2d(2), nn.Flatten(), nn.Linear(5, 3),
        ),
        (1, 10, 11),
    ),
    "one dimension": (
        nn.Sequential(
            nn.Conv1d(3, 5, 3, padding=1), nn.ReLU(), nn.MaxPool1d(2), nn.Conv1d(5, 4, 3), nn.Hardswish(),
            nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(4, 3),
        ),
        (3, 13),
    ),
}  # fmt: skip


@pytest.mark.parametrize("grad", ["s16", "s8"])
@pytest.mark.parametrize("name", NETWORKS)
def test_any_network_learns_as_it_does_with_float_gradients(name, grad):
    torch.manual_seed(0)
    module, shape = NETWORKS[name]
    x = np.random.default_rng(0).normal(size=(12, *shape)).astype(np.float32)
    y = np.arange(12) % 3
    losses = {}
    for kind in ("f32", grad):
        made = insitu.compile(
            module.eval(), example=torch.zeros(1, *shape), classes=3, scheme="full", data=x, recipe=Recipe(grad=kind)
        )
        losses[kind] = made.fit(x, y, epochs=4, rate=0.05).loss
    assert losses["f32"][-1] < losses["f32"][0]
    np.testing.assert_allclose(losses[grad], losses["f32"], rtol=2e-2)
