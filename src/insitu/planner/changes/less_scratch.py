"""Calls with less scratch: the same bytes for some more instructions, if a step sets the peak.

An op offers this through an `emit` rule that takes `tight`: 0 is the usual call, 1 has less scratch, 2 the least
possible. lower.py decides which steps are called so.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from insitu.graph import Graph, Node
from insitu.planner.changes.change import Change, Graphs, Tools

LEVELS = 2  # 1: less scratch, 2: the least


@dataclass(frozen=True, eq=False)
class Tight(Node):
    """A node that is called with less scratch."""

    level: int = 1


def do_less(graph: Graph, node: Node, tools: Tools) -> Graphs:
    yield from filter(None, [tightened(graph, node)])


def do_least(graph: Graph, node: Node, tools: Tools) -> Graphs:
    yield from filter(None, [tightest(graph, node)])


def _undo(graph: Graph, node: Node, tools: Tools) -> Graphs:
    yield from filter(None, [loosest(graph, node), loosened(graph, node)])


CHANGE = Change(
    "less_scratch", ("call with less scratch", "calls with less scratch"), "call", "weights are unpacked more often",
    done=lambda n: isinstance(n, Tight), undo=_undo,
)  # fmt: skip


def tightened(graph: Graph, node: Node) -> Graph | None:
    """The graph with this node called with less scratch, or with even less; None if impossible."""
    level = level_of(node) + 1
    if type(node) not in (Node, Tight) or not node.op.asks("emit", "tight") or level > LEVELS:
        return None
    return swapped(graph, node, at_level(node, level))


def tightest(graph: Graph, node: Node) -> Graph | None:
    """The same at once: an op may have no level in between."""
    once = tightened(graph, node)
    return once and tightened(once, once.nodes[graph.nodes.index(node)])


def loosened(graph: Graph, node: Node) -> Graph | None:
    """The graph with this node called with more scratch again."""
    return swapped(graph, node, at_level(node, level_of(node) - 1)) if isinstance(node, Tight) else None


def loosest(graph: Graph, node: Node) -> Graph | None:
    """The graph with this node called as usual again; None if that is only one level."""
    return swapped(graph, node, at_level(node, 0)) if level_of(node) > 1 else None


def level_of(node: Node) -> int:
    """The value of `tight` for its `emit` rule: 0 is the usual call."""
    return node.level if isinstance(node, Tight) else 0


def at_level(node: Node, level: int) -> Node:
    """The node, called at this level."""
    if level == level_of(node):
        return node
    kept = {f.name: getattr(node, f.name) for f in fields(Node)}
    return Tight(**kept, level=level) if level else Node(**kept)


def swapped(graph: Graph, old: Node, *new: Node) -> Graph:
    """The graph with other nodes in place of one."""
    at = graph.nodes.index(old)
    return replace(graph, nodes=(*graph.nodes[:at], *new, *graph.nodes[at + 1 :]))
