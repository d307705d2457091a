"""The same graph for another number of samples: what batch statistics need, and what a host likes."""

from __future__ import annotations

from insitu.errors import GraphError
from insitu.graph import Builder, Graph, Node, Value, build
from insitu.ops.layout import reshape
from insitu.ops.layout import slice as slice_of


def rebatch(graph: Graph, samples: int) -> Graph:
    """The graph with `samples` along the first axis of its inputs and of everything computed from them."""
    if any(v.shape[:1] != (1,) for v in graph.inputs):
        raise GraphError("only a graph for one sample can be made one for several", where=graph.name)
    builder = Builder(graph.name, graph.classes, graph.columns, graph.pixels)
    builder.notes, builder.constants, builder.state = list(graph.notes), dict(graph.constants), dict(graph.state)
    builder.parameters = dict(graph.parameters)
    stored = {name: v for name, v in graph.values.items() if name in graph.constants or name in graph.state}
    builder._types = {name: v.type for name, v in stored.items()}
    new: dict[str, Value] = dict(stored)
    with build(builder):
        for v in graph.inputs:
            new[v.name] = builder.input(v.name, v.type.with_shape(samples, *v.shape[1:]))
        for node in graph.nodes:
            _rebuild(builder, node, new, samples)
    return builder.graph(*(new[v.name] for v in graph.outputs))


def _rebuild(builder: Builder, node: Node, new: dict[str, Value], samples: int) -> None:
    inputs = tuple(new[v.name] for v in node.inputs)
    attrs = dict(node.attrs)
    grown = any(a.shape != b.shape for a, b in zip(inputs, node.inputs))
    if grown and _mixes(node):
        raise GraphError("moves the sample axis, so it cannot be done for several at once", where=f"%{node.name}")
    if grown and node.op is reshape:
        attrs["shape"] = (samples, *attrs["shape"][1:])
    if grown and node.op is slice_of:
        attrs["stops"] = (samples, *attrs["stops"][1:])
    wish = tuple(v.type.with_shape(samples, *v.shape[1:]) if grown and v.shape else v.type for v in node.outputs)
    types = node.op.apply(
        "infer", tuple(v.type for v in inputs), attrs, out=wish if len(wish) > 1 else next(iter(wish))
    )
    types = types if isinstance(types, tuple) else (types,)
    outputs = tuple(Value(v.name, t) for v, t in zip(node.outputs, types))
    builder.append(Node(node.op, inputs, outputs, attrs))
    new.update({v.name: o for v, o in zip(node.outputs, outputs)})


def _mixes(node: Node) -> bool:
    """Does this do something along the first axis, or put another one in its place?"""
    attrs, rank = node.attrs, node.inputs[0].type.rank
    along = (*attrs.get("axes", ()), *([attrs["axis"]] if "axis" in attrs else ()))
    whole = attrs.get("dims") == rank  # of layer_norm
    moved = attrs.get("perm", (0,))[0] != 0 or (node.op is reshape and attrs["shape"][:1] != (1,))
    return whole or moved or any(a % rank == 0 for a in along)
