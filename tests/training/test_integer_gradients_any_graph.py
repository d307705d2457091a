"""Integer gradients in networks with ops that have no integer twin: these ops read the gradient in f32."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import insitu
from insitu import Recipe
from insitu.graph import Builder, Type, build, evaluate, f32, lookup
from insitu.training.integer_gradients import integer_gradients

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


WINDOWS = {  # of images of 3x4 pixels: (kernel, padding, counts padding, whether one window has the whole image)
    "the image": ((3, 4), (0, 0, 0, 0), False, True),
    "more than the image": ((5, 6), (1, 1, 1, 1), False, True),
    "more, and padding counts": ((5, 6), (1, 1, 1, 1), True, True),
    "a part": ((2, 3), (0, 0, 0, 0), False, False),
    "too little of it": ((3, 4), (1, 0, 1, 0), False, False),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_the_mean_of_a_window_that_has_the_whole_image_stays_integer(name):
    kernel, padding, counted, whole = WINDOWS[name]
    given = {"size": (3, 4), "kernel": kernel, "stride": (3, 4), "padding": padding, "count_include_pad": counted}
    builder = Builder("pool")
    with build(builder):
        g, mask = builder.input("g", f32(2, 1, 1, 5)), builder.input("mask", Type("u8", (2, 1)))
        dx = lookup("avg_pool2d_dx")(lookup("mask_grad")(g, mask), **given, name="dx")
    graph = builder.graph(dx)
    feeds = np.linspace(-1, 1, 10, dtype=np.float32).reshape(2, 1, 1, 5), np.array([[21], [14]], np.uint8)
    made = integer_gradients(graph, "s16")
    ops = [n.op.name for n in made.nodes]
    assert ("expand_block" in ops, "avg_pool2d_dx" in ops) == (whole, not whole)
    want, got = (np.asarray(evaluate(each, *feeds)) for each in (graph, made))
    np.testing.assert_allclose(got, want, atol=1e-4 * np.abs(want).max())
