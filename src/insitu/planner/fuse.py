"""On a host, a residual add and an activation become part of the float layer before them: one kernel, the same bits.

What a layer computes is then written once, and not read again by the next kernel. On a small machine layers stay apart:
there, kernels that can do more take more flash. Nothing here changes int8 layers, which have their clamp anyway.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from insitu.graph import Graph, Node, Op, Value, rewrite
from insitu.graph.rewrite import Rewriter
from insitu.ops.activation import RANGES, clamp
from insitu.ops.arith import add
from insitu.ops.ended import conv2d_ends, depthwise2d_ends, ended, linear_ends
from insitu.planner.fuse_norms import fused_norms

ENDED = (conv2d_ends, depthwise2d_ends, linear_ends)


def fused(graph: Graph) -> Graph:
    """The same function of fewer nodes; a node has the name of the last one it replaces. The state stays as it is."""
    made, starts = fused_norms(graph), {clamp, add, *RANGES}
    if any(n.op in starts for n in made.nodes):
        made = rewrite(made, add_into_layer, clamp_into_layer)
    return replace(made, state={name: made.state[name] for name in graph.state if name in made.state})


def clamp_into_layer(node: Node, rw: Rewriter) -> Value | None:
    found = _range(node)
    layer = _only_read_here(node.inputs[0], rw) if found else None
    if found is None or layer is None or _is_clamped(layer):
        return None
    op, attrs = _with_end(layer)
    return op and op(*layer.inputs, **{**attrs, "lo": found[0], "hi": found[1]}, name=node.name)


def add_into_layer(node: Node, rw: Rewriter) -> Value | None:
    """The second operand is usually made last: then nothing has to live longer."""
    if node.op is not add or node.inputs[0].shape != node.inputs[1].shape:
        return None
    for layer, other in ((1, 0), (0, 1)):
        before = _only_read_here(node.inputs[layer], rw)
        if before is not None and not _is_clamped(before) and not before.attrs.get("more"):
            op, attrs = _with_end(before)
            if op:
                return op(*before.inputs, node.inputs[other], **{**attrs, "more": True}, name=node.name)
    return None


def _range(node: Node) -> tuple[float, float] | None:
    """The range an activation clamps to, if that is all it does."""
    return (node.attrs["lo"], node.attrs["hi"]) if node.op is clamp else RANGES.get(node.op)


def _only_read_here(value: Value, rw: Rewriter) -> Node | None:
    return rw.producer(value) if rw.uses(value) == 1 and value.dtype == "f32" else None


def _is_clamped(layer: Node) -> bool:
    return layer.op in ENDED and (layer.attrs["lo"], layer.attrs["hi"]) != (-inf, inf)


def _with_end(layer: Node) -> tuple[Op | None, dict]:
    """The op that has an end, and the attributes it shares with this layer."""
    op = layer.op if layer.op in ENDED else ended(layer)
    return op, {name: value for name, value in layer.attrs.items() if op and name in op.defaults}
