"""For the gradient of a weight with some trained channels, only those channels of the layer's input are kept.

The rest of the input dies in the forward pass. This costs a copy of few channels, once per step; the gradient is the
same.
"""

from __future__ import annotations

from dataclasses import replace

from insitu.graph import Graph, Node, Value
from insitu.ops.channels import take_channels
from insitu.planner.changes.change import Change

KEPT = ".kept"  # the suffix of a copy's name


def is_kept(node: Node) -> bool:
    """Is it such a copy?"""
    return node.op is take_channels and node.name.endswith(KEPT)


CHANGE = Change(
    "inputs_in_part", ("input kept in part", "inputs kept in part"), "keep", "a copy of the channels that are kept",
    done=is_kept,
)  # fmt: skip


def narrowed(graph: Graph) -> Graph:
    """The graph with copies of the channels that are read later, if nothing else of the value is."""
    for node in graph.nodes:
        graph = _narrowed(graph, node) or graph
    return graph


def _narrowed(graph: Graph, dw: Node) -> Graph | None:
    if not dw.op.facts.some_channels or not dw.attrs["channels"]:
        return None
    x, channels = dw.inputs[-1], dw.attrs["channels"]
    kept = Value(f"{x.name}{KEPT}", x.type.with_shape(*x.shape[:-1], len(channels)))
    names = [n.name for n in graph.nodes]
    last, at = _last_other(graph, x, dw), names.index(dw.name)
    if kept.name in graph.values or not 0 <= last < at:
        return None
    copy = Node(take_channels, (x,), (kept,), {"channels": channels})
    short = replace(dw, inputs=(*dw.inputs[:-1], kept), attrs={**dw.attrs, "channels": ()})
    nodes = (*graph.nodes[: last + 1], copy, *graph.nodes[last + 1 : at], short, *graph.nodes[at + 1 :])
    return replace(graph, nodes=nodes)


def _last_other(graph: Graph, x: Value, dw: Node) -> int:
    """The last step that reads this value, apart from the gradient; -1 if it is not made here or there is none."""
    if x.name not in graph.producer or x in graph.results:
        return -1
    return max((i for i, n in enumerate(graph.nodes) if x in n.inputs and n.name != dw.name), default=-1)
