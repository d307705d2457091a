"""The certificate holds for int8 twins without a formula of their own, for rounded shares and at kinks; and still
fails if their gradients are broken."""

from __future__ import annotations

import numpy as np
import pytest

import insitu
from insitu.graph import REGISTRY, parse
from insitu.proof.surrogate import FLOAT, SURROGATES

X = np.random.default_rng(0).normal(size=(20, 9, 3)).astype(np.float32)
MIDDLE = {
    "running sums": "%m = cumsum(%h, axis=1)",
    "running sums from the end": "%m = cumsum(%h, axis=1, reverse=true, exclusive=true)",
    "shares": "%m = softmax(%h)",
    "shares of time": "%m = softmax(%h, axis=1)",
    "slopes": "%m = prelu(%h, %slope)",
}


def net(middle: str) -> insitu.Model:
    """A layer, these ops in int8, the mean over time, a head."""
    rng = np.random.default_rng(1)
    shapes = {"w": (4, 3), "b": (4,), "v": (3, 4), "c": (3,), "slope": (4,)}
    constants = "\n".join(f"  %{k} = const f32[{'x'.join(map(str, s))}] @{k}" for k, s in shapes.items())
    text = f"""graph net(%x: f32[1x9x3]) -> (%y)
{constants}
  %h = linear(%x, %w, %b) : f32[1x9x4]
  {middle} : f32[1x9x4]
  %p = mean(%m, axes=[1]) : f32[1x4]
  %y = linear(%p, %v, %c) : f32[1x3]
"""
    return insitu.Model(parse(text, {k: rng.normal(size=s).astype(np.float32) for k, s in shapes.items()}))


def broken(middle: str) -> tuple[str, ...]:
    return insitu.prove(net(MIDDLE[middle]), data=X, scheme="full", steps=1).broken


@pytest.mark.parametrize("middle", MIDDLE)
def test_the_gradients_through_it_hold(middle):
    assert broken(middle) == ()


def test_every_twin_has_a_formula():
    twins = {op.facts.int8 for op in REGISTRY.values() if op.facts.int8 is not None}
    assert twins == set(FLOAT) and twins <= set(SURROGATES)


@pytest.mark.parametrize(("middle", "op"), [("running sums", "cumsum_s8"), ("shares", "softmax_s8")])
def test_a_twin_whose_gradient_is_that_of_no_op_is_found(middle, op, monkeypatch):
    monkeypatch.setitem(REGISTRY[op].rules, "grad", lambda g, y, x: (g[0] if isinstance(g, tuple) else g,))
    assert set(broken(middle)) >= {"int8 rules", "int8 gradients"}


def test_a_slope_that_is_not_used_is_found(monkeypatch):
    right = REGISTRY["prelu"].rules["grad"]
    monkeypatch.setitem(REGISTRY["prelu"].rules, "grad", lambda g, y, x, slope: (g, right(g, y, x, slope)[1]))
    assert "int8 gradients" in broken("slopes")
