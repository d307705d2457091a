"""Drop from a training graph what the chosen updates do not need."""

from __future__ import annotations

from insitu.graph import Graph, Node, drop_unused, rewrite
from insitu.ops.channels import take_channels
from insitu.ops.conv_backward import conv2d_dw


def prune(graph: Graph) -> Graph:
    """The same outputs and updates from fewer and smaller nodes."""
    return rewrite(drop_unused(graph), narrow_dw)


def narrow_dw(node: Node, rw):
    """take_channels(conv2d_dw(g, x)) -> conv2d_dw(g, x, channels): compute only the columns that are used."""
    if node.op is not take_channels:
        return None
    inner = rw.producer(node.inputs[0], conv2d_dw)
    if inner is None or inner.attrs["channels"] or rw.uses(node.inputs[0]) > 1:
        return None
    attrs = {**inner.attrs, "channels": node.attrs["channels"]}
    return conv2d_dw(*inner.inputs, **attrs, name=node.name)
