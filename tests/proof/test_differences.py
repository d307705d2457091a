"""Gradients are compared with differences even where the loss has kinks all around, and wrong ones are still found."""

from dataclasses import replace

import numpy as np
import pytest

from insitu.graph import Graph, lookup
from insitu.proof.differences import Run, float_gradients
from insitu.schemes.layers import layers
from insitu.schemes.scheme import read_scheme
from insitu.training.train import train_graphs

from ..training.small_nets import SHAPE, float_net


def changed(change) -> Graph:
    graph = float_net()
    return replace(graph, constants={name: change(name, a) for name, a in graph.constants.items()})


def wrong(graph: Graph, x: np.ndarray) -> list[str]:
    """The parameters whose gradient is not the slope of the loss; all are trained."""
    step = train_graphs(graph, read_scheme("full", layers(graph)), head=None)["train_step"]
    run = Run.of(step, (x, np.array([1], np.int32), np.float32(0.1)))
    return [f.where for f in float_gradients(run) if not f.ok]


def on_black() -> tuple[Graph, np.ndarray]:
    """No biases, and most of the image is black: ReLUs of zero, which move with every bias."""
    x = np.zeros(SHAPE, np.float32)
    x[:, 1:3, 2:4] = np.random.default_rng(0).random((1, 2, 2, 3))
    return changed(lambda name, a: a * (not name.endswith("bias"))), x


def almost_nothing() -> tuple[Graph, np.ndarray]:
    """An untrained network: the output of its first layer is almost zero."""
    x = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
    return changed(lambda name, a: a * np.float32(1e-8 if name.startswith("stem") else not name.endswith("bias"))), x


def close_to_a_kink() -> tuple[Graph, np.ndarray]:
    """In every pixel, one channel is a millionth away from the kink of its ReLU."""
    x = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
    graph = float_net()
    weight, bias = graph.constants["deep.weight"].copy(), graph.constants["deep.bias"].copy()
    weight[..., 0], bias[0] = 0, 1e-6
    return replace(graph, constants={**graph.constants, "deep.weight": weight, "deep.bias": bias}), x


KINKS = (on_black, almost_nothing, close_to_a_kink)


@pytest.mark.parametrize("kinks", KINKS, ids=lambda f: f.__name__)
def test_gradients_are_found_right_next_to_kinks(kinks):
    assert wrong(*kinks()) == []


@pytest.mark.parametrize("kinks", KINKS, ids=lambda f: f.__name__)
def test_a_wrong_gradient_is_seen_next_to_kinks_too(kinks, monkeypatch):
    monkeypatch.setitem(lookup("relu").rules, "grad", lambda g, y, x: g)  # passes everywhere, also where it should stop
    assert wrong(*kinks())
