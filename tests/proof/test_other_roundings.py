"""A float near a rounding boundary may become another integer in float32 than in float64: no reason for a NO.

The networks have a norm that stays in float between two int8 layers; or only int8 layers, and integer gradients, whose
first integers are rounded from the float gradients of the head. Their steps in float32, in numpy, stand for the C.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from insitu.graph import Graph, evaluate, parse
from insitu.learner.model import Model
from insitu.proof.differences import Run
from insitu.proof.findings import Finding
from insitu.proof.program import same_loss, same_state
from insitu.schemes.layers import layers
from insitu.schemes.scheme import read_scheme
from insitu.training.train import Recipe, train_graphs

NET = """graph net(%x: f32[1x60x4]) -> (%y)
  %w = const f32[16x4] @w
  %b = const f32[16] @b
  %g = const f32[16] @g
  %z = const f32[16] @z
  %v = const f32[16x16] @v
  %u = const f32[16] @u
  %c = const f32[5x16] @c
  %d = const f32[5] @d
  %first = linear(%x, %w, %b) : f32[1x60x16]
  %norm = layer_norm(%first, %g, %z) : f32[1x60x16]
  %on = relu(%norm) : f32[1x60x16]
  %second = linear(%on, %v, %u) : f32[1x60x16]
  %flat = mean(%second, axes=[1]) : f32[1x16]
  %y = linear(%flat, %c, %d) : f32[1x5]
"""
INT8_ALONE = NET.replace("layer_norm(%first, %g, %z)", "relu(%first)")
SHAPES = {"w": (16, 4), "b": (16,), "g": (16,), "z": (16,), "v": (16, 16), "u": (16,), "c": (5, 16), "d": (5,)}
SPREAD = {NET: 1.0, INT8_ALONE: 0.5}  # of the weights: a loss that float32 can still tell from 0
KINDS = [(NET, "f32"), (NET, "s16"), (INT8_ALONE, "s16")]
SAMPLES = 16


@cache
def step(net: str, grad: str) -> Graph:
    rng = np.random.default_rng(0)
    arrays = {k: rng.normal(0, SPREAD[net], s).astype(np.float32) for k, s in SHAPES.items()}
    graph = Model(parse(net, arrays)).quantize(samples()).graph
    scheme = read_scheme("full", layers(graph))
    return train_graphs(graph, scheme, Recipe(grad=grad))["train_step"]


def samples() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(SAMPLES, 60, 4)).astype(np.float32)


def steps(net: str, grad: str):
    """Each sample's step in float64, and in float32."""
    graph, labels = step(net, grad), np.random.default_rng(2).integers(0, 5, SAMPLES).astype(np.int32)
    for x, label in zip(samples(), labels):
        feeds = (x[None], label[None], np.float32(0.05))
        yield Run.of(graph, feeds), evaluate(graph, *feeds, keep=True)


def findings(run: Run, single, share: float = 0.0) -> list[Finding]:
    """The comparison of the float32 step with the float64 one; int8 weights are a share of their range further."""
    before = {name: run.env[name] for name in run.graph.state}
    after = {name: np.asarray(single[new.name]) for name, new in run.graph.updates.items()}
    far = {n: np.clip(a + share * 127, -127, 127).astype(a.dtype) for n, a in after.items() if a.dtype == np.int8}
    return [same_loss("loss", single[run.loss.name], run), *same_state("step 1", before, {**after, **far}, run)]


@pytest.mark.parametrize("net, grad", KINDS)
def test_other_roundings_are_no_reason_for_a_no(net, grad):
    broken = [f for run, single in steps(net, grad) for f in findings(run, single) if not f.ok]
    assert broken == []


@pytest.mark.parametrize("net, grad", KINDS)
def test_weights_that_went_elsewhere_are_still_seen(net, grad):
    seen = [all(f.ok for f in findings(run, single, share=0.05)) for run, single in steps(net, grad)]
    assert not any(seen)
