"""A depthwise convolution in place: over its input, or its input's gradient over the one that comes from
(ops/tiled_depthwise.py)."""

from __future__ import annotations

from dataclasses import replace

from insitu.graph import Graph, Node, lookup
from insitu.ops.tiled_depthwise import keeps_shape
from insitu.planner.changes.less_scratch import swapped

# op -> its twin that works in place
OVER = {"depthwise2d_dx": "depthwise2d_dx_over", "depthwise2d_s8": "depthwise2d_over_s8"}


def laid_over(graph: Graph, node: Node) -> Graph | None:
    """The graph with this node working in place; None where its kernel cannot."""
    if type(node) is not Node or node.op.name not in OVER:
        return None
    (x, w), y, a = node.inputs[:2], node.output, node.attrs
    alike = (x.shape, x.dtype, w.dtype) == (y.shape, y.dtype, "s8") and keeps_shape(w, a["padding"])
    if not alike or (*a["stride"], *a["dilation"]) != (1, 1, 1, 1):
        return None
    twin = lookup(OVER[node.op.name])
    attrs = {name: value for name, value in a.items() if name in twin.defaults}
    return swapped(graph, node, replace(node, op=twin, attrs=attrs))
