"""The gradient of a depthwise convolution's input in place: over the one it comes from (ops/tiled_depthwise.py)."""

from __future__ import annotations

from dataclasses import replace

from insitu.graph import Graph, Node, lookup
from insitu.planner.tight import swapped


def laid_over(graph: Graph, node: Node) -> Graph | None:
    """The graph with this node working in place; None where its kernel cannot."""
    g, dx = node.inputs[0], node.output
    if type(node) is not Node or node.op.name != "depthwise2d_dx" or g.shape != dx.shape or g.dtype != dx.dtype:
        return None
    w, a = node.inputs[1], node.attrs
    fits = (w.shape[0] - 1, w.shape[1] - 1) == (sum(a["padding"][:2]), sum(a["padding"][2:]))
    if w.dtype != "s8" or (*a["stride"], *a["dilation"]) != (1, 1, 1, 1) or not fits:
        return None
    return swapped(graph, node, replace(node, op=lookup("depthwise2d_dx_over"), attrs={"padding": a["padding"]}))
