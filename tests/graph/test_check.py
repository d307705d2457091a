"""A broken graph is refused, and the error names the value."""

from dataclasses import replace

import numpy as np
import pytest

import insitu.ops  # noqa: F401
from insitu.errors import GraphError
from insitu.graph import Node, Value, build, check, f32, lookup, parse, s8


def _net():
    with build("net") as b:
        x = b.input("x", f32(1, 4))
        w = b.constant("w", np.ones((1, 4), np.float32))
        y = lookup("relu")(lookup("add")(x, w, name="a"), name="y")
    return b.graph(y)


def test_a_good_graph_passes_and_is_given_back():
    graph = _net()
    assert check(graph, "float") is graph


def test_use_before_definition_names_the_value():
    graph = _net()
    with pytest.raises(GraphError, match="%a.*used before"):
        check(replace(graph, nodes=graph.nodes[::-1]))


def test_double_definition_names_the_value():
    graph = _net()
    with pytest.raises(GraphError, match="%a.*defined twice"):
        check(replace(graph, nodes=(graph.nodes[0], *graph.nodes)))


def test_a_wrong_output_type_is_found():
    graph = _net()
    node = graph.nodes[1]
    wrong = Node(node.op, node.inputs, (Value("y", f32(1, 5)),), node.attrs)
    with pytest.raises(GraphError, match=r"%y: relu gives f32\[1x4\], not f32\[1x5\]"):
        check(replace(graph, nodes=(graph.nodes[0], wrong), outputs=wrong.outputs))


def test_an_undefined_output_is_found():
    with pytest.raises(GraphError, match="%z.*nothing defines"):
        check(replace(_net(), outputs=(Value("z", f32(1)),)))


def test_constants_must_match_their_type():
    graph = _net()
    with pytest.raises(GraphError, match="%w"):
        check(replace(graph, constants={"w": np.ones((4, 1), np.float32)}))


def test_batch_norm_is_not_legal_in_an_int8_graph():
    with build("net") as b:
        x = b.input("x", f32(1, 2, 2, 3))
        c = [b.constant(n, np.ones(3, np.float32)) for n in "sbmv"]
        y = lookup("batch_norm")(x, *c, name="bn")
    graph = b.graph(y)
    check(graph, "float")
    for stage in ("inference", "int8"):
        with pytest.raises(GraphError, match="%bn: batch_norm"):
            check(graph, stage)


def test_int8_values_need_a_scale_in_an_int8_graph():
    with build("net") as b:
        x = b.input("x", s8(1, 4))
        y = lookup("reshape")(x, shape=(4,), name="y")
    with pytest.raises(GraphError, match="%y is s8 but has no scale"):
        check(b.graph(y), "int8")


def test_an_op_outside_a_builder_says_so():
    graph = parse("graph g(%x: f32[2]) -> (%y)\n  %y = relu(%x) : f32[2]")
    with pytest.raises(GraphError, match="outside"):
        lookup("relu")(graph.inputs[0])


def test_values_of_another_graph_are_refused():
    with build("a") as a:
        x = a.input("x", f32(1))
    with build("b"), pytest.raises(GraphError, match="not a value of this graph"):
        lookup("relu")(x)
