"""Rewriting keeps the meaning, drops unused nodes, and ends."""

import numpy as np
import pytest
from hypothesis import given, settings

from insitu.graph import build, check, drop_unused, evaluate, f32, lookup, rewrite

from .random_graphs import graphs


def double_neg(node, rw):
    """neg(neg(x)) -> x"""
    if node.op is not lookup("neg"):
        return None
    inner = rw.producer(node.inputs[0], lookup("neg"))
    return inner.inputs[0] if inner else None


@given(graphs())
@settings(deadline=None, max_examples=60)
def test_a_rewrite_keeps_what_the_graph_means(graph):
    after = check(rewrite(graph, double_neg))
    x = np.linspace(-3, 3, graph.inputs[0].type.size).reshape(graph.inputs[0].shape)
    for a, b in zip(_many(evaluate(graph, x)), _many(evaluate(after, x))):
        np.testing.assert_array_equal(a, b)


def test_a_rule_fires_until_nothing_is_left():
    with build("g") as b:
        y = b.input("x", f32(3))
        for _ in range(6):
            y = lookup("neg")(y)
    after = rewrite(b.graph(y), double_neg)
    assert [n.op.name for n in after.nodes] == []
    assert after.outputs == after.inputs


def test_rules_that_undo_each_other_are_an_error_not_a_hang():
    with build("g") as b:
        y = lookup("relu")(b.input("x", f32(3)))

    def flip(node, rw):
        other = {"relu": "neg", "neg": "relu"}[node.op.name]
        return lookup(other)(*node.inputs)

    with pytest.raises(RuntimeError, match="does not end"):
        rewrite(b.graph(y), flip)


def test_unused_nodes_and_constants_are_dropped_inputs_stay():
    with build("g") as b:
        x, z = b.input("x", f32(3)), b.input("z", f32(3))
        lookup("add")(x, b.constant("c", np.ones(3, np.float32)), name="unused")
        y = lookup("relu")(x, name="y")
    after = drop_unused(b.graph(y))
    assert [n.name for n in after.nodes] == ["y"]
    assert not after.constants
    assert after.inputs == (x, z)


def _many(x):
    return x if isinstance(x, tuple) else (x,)
