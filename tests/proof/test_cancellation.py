"""Where little is left of large numbers, float32 is off by more than a share of what is left: no reason for a NO."""

from dataclasses import replace

import numpy as np
import pytest

import insitu
from insitu.graph import Graph, evaluate
from insitu.learner.model import Model
from insitu.proof.differences import Run
from insitu.proof.program import same_state
from insitu.proof.rounding import gradient_errors
from insitu.schemes.layers import layers
from insitu.schemes.scheme import read_scheme
from insitu.training.head import replace_head
from insitu.training.train import Recipe, train_graphs

from ..training.small_nets import SHAPE, float_net


def confident(times: float, precision: str) -> tuple[Graph, np.ndarray]:
    """A classifier with weights so large that most of its answers are certain, and its samples."""
    graph = float_net()
    weight, bias = graph.constants["fc.weight"] * np.float32(times), graph.constants["fc.bias"] * 0
    graph = replace(graph, constants={**graph.constants, "fc.weight": weight, "fc.bias": bias})
    x = np.random.default_rng(1).normal(size=(400, *SHAPE[1:])).astype(np.float32)
    return (graph if precision == "float" else Model(graph).quantize(x[:64]).graph), x


def logits_of(graph: Graph, x: np.ndarray) -> np.ndarray:
    kept = replace_head(graph, None)
    return np.array([evaluate(kept, one[None], precision=np.float64)[0] for one in x])


def known_well(graph: Graph, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Samples whose class has a probability of 1 - 2e-5 to 1 - 1e-7, and their classes."""
    z = logits_of(graph, x)
    p = np.exp(z - z.max(1, keepdims=True))
    rest = 1 - (p / p.sum(1, keepdims=True)).max(1)
    kept = (rest > 1e-7) & (rest < 2e-5)
    assert kept.sum() > 8
    return x[kept], z[kept].argmax(1)


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("precision", ["float", "int8"])
def test_samples_that_are_known_well_are_no_reason_for_a_no(precision, batch):
    graph, x = confident(60, precision)
    found = insitu.prove(graph, data=known_well(graph, x), scheme="last:2", precision=precision, batch=batch)
    assert found.broken == (), found.to_text()


def after_a_step(graph: Graph, x: np.ndarray, label: int) -> tuple[Run, dict, dict]:
    """A run of one step, the state before it, and the state after it in float32."""
    step = train_graphs(graph, read_scheme("head", []))["train_step"]
    run = Run.of(step, (x[None], np.array([label], np.int32), np.float32(0.05)))
    before = {name: run.env[name] for name in step.state}
    return run, before, {name: run.env[new.name].astype(np.float32) for name, new in step.updates.items()}


@pytest.mark.parametrize("share, ok", [(0.0, True), (0.5, False)])
def test_a_wrong_step_is_seen_although_the_gradient_is_small(share, ok):
    graph, x = confident(60, "float")
    x, y = known_well(graph, x)
    run, before, after = after_a_step(replace_head(graph, None), x[0], int(y[0]))
    after["head.bias"] += np.float32(share) * (after["head.bias"] - before["head.bias"]).astype(np.float32)
    assert all(f.ok for f in same_state("step 1", before, after, run)) == ok


def test_large_weights_are_rounded_however_short_the_step():
    graph, x = confident(1e5, "float")
    found = insitu.prove(graph, data=(x[:8], logits_of(graph, x[:8]).argmax(1)), scheme="last:2", precision="float")
    assert found.broken == (), found.to_text()


LOSSES = {
    "cross_entropy": np.array([1, 0], np.int32),
    "soft_cross_entropy": np.array([[0.2, 0.3, 0.5], [0, 1, 0]], np.float32),
    "binary_cross_entropy": np.array([[1, 0, 1], [0, 1, 0]], np.float32),
    "mse": np.array([[1, 0, 1], [0, 1, 0]], np.float32),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_what_float32_loses_is_within_the_bound(loss):
    graph, x = confident(60, "float")
    graph = replace_head(graph, None)
    scheme = read_scheme("full", [layer for layer in layers(graph) if layer.name != "head"])
    step = train_graphs(graph, scheme, Recipe(loss=loss), samples=2)["train_step"]
    feeds = (x[:2], LOSSES[loss], np.float32(0.1))
    exact, single = Run.of(step, feeds), evaluate(step, *feeds, keep=True)
    for name, bound in gradient_errors(exact).items():
        off = np.linalg.norm(single[exact.gradients[name].name] - exact.gradient(name))  # type: ignore[index]
        assert off <= np.linalg.norm(bound) + 1e-6 * np.linalg.norm(exact.gradient(name)), name
