"""Finds what becomes one int8 op: an op and the clamp after it, or a chain of unary functions.

lower.py builds the ops. A value that is used twice, or is an output, is never fused away.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from insitu.graph import Graph, Node, Value
from insitu.ops.activation import prelu
from insitu.ops.arith import add, div, mul, sub
from insitu.ops.conv import conv1d
from insitu.ops.conv_transpose import conv_transpose2d
from insitu.quantizer.fold import CLAMPS, bounds

BINARY = (add, sub, mul, div, prelu)
AS_CONV2D = (conv1d, conv_transpose2d)  # ops that become a conv2d


@dataclass(frozen=True)
class Fusions:
    clamp: dict[str, Node]  # node that clamps its output -> the clamp
    chain: dict[str, tuple[Node, ...]]  # last of a chain of unary functions -> the chain
    absorbed: frozenset[str]  # nodes that became part of another


def find_fusions(graph: Graph) -> Fusions:
    clamp: dict[str, Node] = {}
    chain: dict[str, tuple[Node, ...]] = {}
    absorbed: set[str] = set()
    for node in graph.nodes:
        x = argument(graph, node)
        if x is None:
            continue
        before = graph.producer.get(x.name) if is_private(graph, x) else None
        if before and node.op in CLAMPS and _clamps(before) and before.name not in chain:
            clamp[before.name] = node
            absorbed.add(node.name)
        elif before and before.name in chain:
            chain[node.name] = (*chain.pop(before.name), node)
            absorbed.add(before.name)
        else:
            chain[node.name] = (node,)
    return Fusions(clamp, chain, frozenset(absorbed))


def _clamps(node: Node) -> bool:
    """Does its int8 kernel clamp its output?"""
    twin = node.op.facts.int8
    return node.op in AS_CONV2D or (twin is not None and "lo" in twin.defaults)


def argument(graph: Graph, node: Node) -> Value | None:
    """x, if the node is an elementwise function of x only: relu(x), x * 2, 1 / x."""
    if node.op.facts.unary:
        return node.inputs[0]
    if node.op not in BINARY:
        return None
    variable = [v for v in node.inputs if v.name not in graph.constants]
    if len(variable) != 1 or variable[0].shape != node.output.shape:
        return None
    sizes = (v.type.size for v in node.inputs if v.name in graph.constants)
    return variable[0] if all(size == 1 for size in sizes) else None


def is_private(graph: Graph, value: Value) -> bool:
    """Does exactly one node read this value, once, and is it no output?"""
    reads = sum(v.name == value.name for n in graph.users.get(value.name, ()) for v in n.inputs)
    return reads == 1 and all(v.name != value.name for v in graph.outputs)


def clamp_bounds(fusions: Fusions, node: Node) -> tuple[float, float]:
    found = fusions.clamp.get(node.name)
    return bounds(found) if found else (-inf, inf)
