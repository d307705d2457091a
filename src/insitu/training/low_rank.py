"""Factors beside a frozen layer, y = W x + b + B (A x), and their product put into the weight: W + B A.

A is drawn so that its rows have about the length one: a rate that suits W suits B, and no step moves W + B A further
than it would move W. B starts as zeros, so the program predicts what the model did. Which layers can have factors is
said in schemes/low_rank.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from zlib import crc32

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Builder, Graph, Node, Value, drop_unused
from insitu.ops._random import random_u32
from insitu.ops.arith import add
from insitu.schemes.layers import Layer
from insitu.training.passes.ties import shared

DOWN, UP = ".down", ".up"  # A and B, behind the name of the weight

Arrays = Mapping[str, np.ndarray]


def put_beside(builder: Builder, node: Node, layer: Layer, rank: int) -> tuple[Value, Value]:
    """Append the layer with factors beside it; the sum has the layer's name. Returns the factors."""
    w, kernel = layer.weight, layer.weight.shape[1:-1]
    down = builder.lasting(f"{w.name}{DOWN}", first_down(w.name, (rank, *kernel, w.shape[-1])))
    up = builder.lasting(f"{w.name}{UP}", np.zeros((w.shape[0], *kernel, rank), np.float32))
    own = {key: value for key, value in node.attrs.items() if key != "stride"}
    frozen = node.op(*node.inputs, name=f"{node.name}.frozen", **node.attrs)
    few = node.op(node.inputs[0], down, name=f"{node.name}.few", **node.attrs)
    correction = node.op(few, up, name=f"{node.name}.correction", **own)
    builder.append(Node(add, (frozen, correction), node.outputs, add.complete({})))
    return down, up


def first_down(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Uniform numbers with a variance of one over the inputs: the same for this name on every machine."""
    drawn = random_u32(0, crc32(name.encode()) & 0x7FFFFFFF, int(np.prod(shape)))
    return ((drawn / 2.0**31 - 1) * np.sqrt(3 / shape[-1])).astype(np.float32).reshape(shape)


def check_own(graph: Graph, layer: Layer) -> None:
    """An error if something else reads the weight: what the factors learn would belong to this layer alone."""
    name = layer.weight.name
    copies = any(name in {v.name for v in values} for values in shared(graph).values())
    if copies or len(graph.users[name]) > 1 or name not in graph.constants:
        what, hint = "is shared with another layer: it cannot have factors", "a scheme file that names other layers"
        raise GraphError(what, where=f"%{name}", hint=hint)


# put together -----------------------------------------------------------------------------------


def factored(names: Iterable[str]) -> tuple[str, ...]:
    """The weights that have factors among these names of a state."""
    known = dict.fromkeys(names)
    whole = (name.removesuffix(UP) for name in known if name.endswith(UP))
    return tuple(name for name in whole if f"{name}{DOWN}" in known)


def with_product(weight: np.ndarray, arrays: Arrays, name: str) -> np.ndarray:
    """W + B A."""
    down, up = (arrays[f"{name}{end}"].astype(np.float64) for end in (DOWN, UP))
    product = up.reshape(len(up), -1) @ down.reshape(len(down), -1)
    return (weight + product.reshape(weight.shape)).astype(weight.dtype)


def merged(graph: Graph) -> Graph:
    """A graph of constants in which each layer with factors is one layer again, under its own name."""
    constants, sums = dict(graph.constants), {}
    for name in factored(graph.constants):
        (up,) = graph.users[f"{name}{UP}"]
        (whole,) = graph.users[up.name]
        sums[whole.name] = graph.producer[whole.inputs[0].name]
        constants[name] = with_product(constants[name], constants, name)
    if not sums:
        return graph
    nodes = tuple(_merged_node(node, sums.get(node.name)) for node in graph.nodes)
    return drop_unused(replace(graph, nodes=nodes, constants=constants))


def _merged_node(node: Node, frozen: Node | None) -> Node:
    return Node(frozen.op, frozen.inputs, node.outputs, frozen.attrs) if frozen else node
