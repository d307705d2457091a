"""Ops in front of a graph: its input becomes their result, and their input becomes that of the graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from insitu.graph import Graph, Node, Value, build, rewrite
from insitu.graph.graph import Builder
from insitu.ops.layout import reshape, transpose


def in_front(graph: Graph, make: Callable[[Builder], Value]) -> Graph:
    """The graph with what `make` builds before its only input. The result has the name and type of that input."""
    old = graph.inputs[0]
    builder = Builder(graph.name, graph.classes, graph.columns)
    builder.notes, builder.constants, builder.state = list(graph.notes), dict(graph.constants), dict(graph.state)
    builder._types = {name: v.type for name, v in graph.values.items() if name != old.name}
    with build(builder):
        made = make(builder)
    nodes = [_reading(n, old.name, made) for n in graph.nodes]
    outputs = tuple(made if v.name == old.name else v for v in graph.outputs)
    longer = replace(graph, inputs=tuple(builder.inputs), nodes=(*builder.nodes, *nodes), outputs=outputs,
                     constants=builder.constants, pixels=None)  # fmt: skip
    return rewrite(longer, _undo)


def _reading(node: Node, name: str, new: Value) -> Node:
    inputs = tuple(new if v.name == name else v for v in node.inputs)
    return Node(node.op, inputs, node.outputs, node.attrs)


def _undo(node: Node, rw):
    """transpose(transpose(x)) -> x, and reshape(reshape(x)) -> x, if the second undoes the first."""
    inner = rw.producer(node.inputs[0], node.op) if node.op in (transpose, reshape) else None
    if inner is None:
        return None
    if node.op is reshape:
        return inner.inputs[0] if inner.inputs[0].shape == node.output.shape else None
    both = [inner.attrs["perm"][p] for p in node.attrs["perm"]]
    return inner.inputs[0] if both == sorted(both) else None
