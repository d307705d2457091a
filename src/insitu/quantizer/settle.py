"""The scale of a node's result, settled before its int8 op is built: one with which other runtimes round as we do.

agree.py finds such scales; here they are chosen for the ops that have one scale of their own. Layers with weights get
theirs with the weights.
"""

from __future__ import annotations

from insitu.graph import Node, Type
from insitu.ops._windows import window_counts
from insitu.ops.arith import mul
from insitu.ops.reduce import mean
from insitu.quantizer.agree import Ends, agreeing_mean, agreeing_product, agreeing_sum
from insitu.quantizer.lowering import Lowering


def settle_pair(low: Lowering, node: Node, a: Type, b: Type) -> None:
    """add, sub, mul."""

    def choose(out: Type, ends: Ends) -> float:
        if node.op is mul:
            return agreeing_product(a.scale, b.scale, out.scale, ends)
        return agreeing_sum(a.scale, b.scale, out.scale)

    low.settle(node, choose)


def settle_mean(low: Lowering, node: Node, x: Type) -> None:
    """mean, avg_pool2d."""
    counts = averaged(node)
    low.settle(node, lambda out, ends: agreeing_mean(x.scale, counts, out.scale, ends, out.zero))


def averaged(node: Node) -> set[int]:
    """How many elements a result is the mean of. Windows that the edge cuts have fewer than others."""
    x, a = node.inputs[0].type, node.attrs
    if node.op is mean:
        return {x.size // node.output.type.size}
    found = window_counts((x.shape[1], x.shape[2]), a["kernel"], a["stride"], a["padding"], a["count_include_pad"])
    return set(map(int, found.flat))
