"""What becomes one int8 op: a clamp with the op before it, a chain of unary functions with each other.

Only finds; lower.py builds. A value that is used twice, or is an output, is never fused away.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from insitu.graph import Graph, Node, Value
from insitu.quantizer.fold import bounds

CLAMPS = ("relu", "relu6", "clamp")
# ops whose int8 kernel clamps on the way out
CLAMPING = (
    "conv2d",
    "depthwise2d",
    "conv1d",
    "conv_transpose2d",
    "linear",
    "matmul",
    "add",
    "sub",
    "mul",
    "avg_pool2d",
)
UNARY = (
    *CLAMPS, "leaky_relu", "sigmoid", "tanh", "hard_sigmoid", "hard_swish", "silu", "gelu", "elu", "softplus",
    "exp", "log", "sqrt", "rsqrt", "reciprocal", "neg", "abs", "square", "erf",
)  # fmt: skip
BINARY = ("add", "sub", "mul", "div", "prelu")


@dataclass(frozen=True)
class Fusions:
    clamp: dict[str, Node]  # node that clamps on its way out -> the clamp
    chain: dict[str, tuple[Node, ...]]  # last of a chain of unary functions -> the chain
    absorbed: frozenset[str]  # nodes that are part of another


def find_fusions(graph: Graph) -> Fusions:
    clamp: dict[str, Node] = {}
    chain: dict[str, tuple[Node, ...]] = {}
    absorbed: set[str] = set()
    for node in graph.nodes:
        x = argument(graph, node)
        if x is None:
            continue
        before = graph.producer.get(x.name) if is_private(graph, x) else None
        if before and node.op.name in CLAMPS and before.op.name in CLAMPING and before.name not in chain:
            clamp[before.name] = node
            absorbed.add(node.name)
        elif before and before.name in chain:
            chain[node.name] = (*chain.pop(before.name), node)
            absorbed.add(before.name)
        else:
            chain[node.name] = (node,)
    return Fusions(clamp, chain, frozenset(absorbed))


def argument(graph: Graph, node: Node) -> Value | None:
    """x, if the node computes a function of each element of x alone: relu(x), x * 2, 1 / x."""
    if node.op.name in UNARY:
        return node.inputs[0]
    if node.op.name not in BINARY:
        return None
    variable = [v for v in node.inputs if v.name not in graph.constants]
    if len(variable) != 1 or variable[0].shape != node.output.shape:
        return None
    sizes = (v.type.size for v in node.inputs if v.name in graph.constants)
    return variable[0] if all(size == 1 for size in sizes) else None


def is_private(graph: Graph, value: Value) -> bool:
    """Does exactly one node read this value, once, and nobody outside?"""
    reads = sum(v.name == value.name for n in graph.users.get(value.name, ()) for v in n.inputs)
    return reads == 1 and all(v.name != value.name for v in graph.outputs)


def clamp_bounds(fusions: Fusions, node: Node) -> tuple[float, float]:
    found = fusions.clamp.get(node.name)
    return bounds(found) if found else (-inf, inf)
