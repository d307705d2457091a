"""Values recomputed in the backward pass equal the original ones, which need not be kept."""

import numpy as np
import pytest

import insitu.ops  # noqa: F401  fills the registry
from insitu.devices.host import open_plans
from insitu.graph import build, f32, lookup
from insitu.planner import plan
from insitu.schemes.layers import layers
from insitu.schemes.scheme import read_scheme
from insitu.training import train

BLOCKS = 6


def network(activation: str):
    """Convolutions, batch norms and activations, one after the other."""
    rng = np.random.default_rng(0)
    with build("net") as b:
        h = b.input("x", f32(1, 8, 8, 4))
        for i in range(BLOCKS):
            w = b.constant(f"c{i}.weight", rng.standard_normal((4, 3, 3, 4)).astype(np.float32) / 6)
            h = lookup("conv2d")(h, w, padding=(1, 1, 1, 1), name=f"c{i}")
            statistics = [np.ones(4), np.zeros(4), np.zeros(4), np.ones(4)]
            names = ("weight", "bias", "running_mean", "running_var")
            values = [b.constant(f"n{i}.{n}", a.astype(np.float32)) for n, a in zip(names, statistics)]
            h = lookup("batch_norm")(h, *values, name=f"n{i}")
            h = lookup(activation)(h, name=f"a{i}")
        pooled = lookup("mean")(h, axes=(1, 2), name="pool")
        w = b.constant("head.weight", rng.standard_normal((3, 4)).astype(np.float32))
        return b.graph(lookup("linear")(pooled, w, b.constant("head.bias", np.zeros(3, np.float32)), name="head"))


def trained(activation: str, steps: int = 3):
    """The state after some steps, and the arena they needed."""
    graph = network(activation)
    graphs = train.train_graphs(graph, read_scheme("full", layers(graph)), train.Recipe(), head="head")
    device = open_plans({verb: plan(g) for verb, g in graphs.items()})
    rng = np.random.default_rng(1)
    for _ in range(steps):
        x = rng.standard_normal((1, 8, 8, 4)).astype(np.float32)
        device.run("train_step", x, np.array([1], np.int32), np.float32(0.1))
    return device.state(), device.program.plans["train_step"].arena_bytes


@pytest.mark.parametrize("activation", ["relu6", "silu"])
def test_steps_end_in_the_same_bytes_in_less_memory(activation, monkeypatch):
    state, arena = trained(activation)
    monkeypatch.setattr(train, "recompute", lambda graph, loss: graph)
    kept, larger = trained(activation)
    assert {n: a.tobytes() for n, a in state.items()} == {n: a.tobytes() for n, a in kept.items()}
    assert arena < 0.75 * larger
