"""A layer in place: an op's twin that writes its result over its input (`over` of the op's facts)."""

from __future__ import annotations

from dataclasses import replace

from insitu.graph import Graph, Node
from insitu.planner.changes.change import Change, Graphs, Tools
from insitu.planner.changes.less_scratch import swapped

CHANGE = Change(
    "in_place", ("result in place", "results in place"), "call", "nothing, or a copy of 16 channels",
    done=lambda n: n.op.facts.made_for == "in_place",
)  # fmt: skip


def do(graph: Graph, node: Node, tools: Tools) -> Graphs:
    yield from filter(None, [laid_over(graph, node)])


def laid_over(graph: Graph, node: Node) -> Graph | None:
    """The graph with this node working in place; None if its kernel cannot."""
    twin = node.op.facts.over
    if type(node) is not Node or twin is None or not twin.fits(node):
        return None
    attrs = {name: value for name, value in node.attrs.items() if name in twin.op.defaults}
    return swapped(graph, node, replace(node, op=twin.op, attrs=attrs))
