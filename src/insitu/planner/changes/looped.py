"""A loop as a node of the graph: it replaces several nodes, in stripes, in tiles or in groups.

To the rest of the planner it is an ordinary node with scratch. Its meaning is that of its nodes, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from insitu.graph import Node, Op, Value
from insitu.graph.loops import Loop


@dataclass(frozen=True, eq=False)
class Looped(Node):
    """Several nodes as one; its op says which change made it."""

    loop: Loop = None  # type: ignore[assignment]  # always given; a default, because Node's fields have some
    again: tuple[Node, ...] = ()  # the nodes that are computed a second time
    split: tuple[Node, ...] = ()  # nodes of which only a part is in the loop: the rest is another node of the graph

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self.loop.nodes


def loop_op(name: str, doc: str) -> Op:
    """The op of the nodes that one change makes."""
    made = Op(name, f"{doc}; made by the planner.")
    made.eval(one_by_one)
    made.emit(lambda *values, node: node.loop)
    made.macs(lambda *values, node: sum(map(macs, (*node.nodes, *node.again))))
    return made


def macs(node: Node) -> int:
    return int(node.rule("macs", node.output, *node.inputs)) if node.op.has("macs") else 0


def one_by_one(*arrays, node: Looped):
    """The meaning: node by node, on whole values."""
    known = {v.name: a for v, a in zip(node.inputs, arrays)}
    for inner in node.nodes:
        results = inner.rule("eval", *(known[v.name] for v in inner.inputs))
        known |= zip((v.name for v in inner.outputs), results if isinstance(results, tuple) else (results,))
    found = [np.asarray(known[v.name]) for v in node.outputs]
    return tuple(found) if len(found) > 1 else found[0]


def over_old_content(*values: Value, node: Looped) -> tuple[int | None, ...]:
    """Results of updates inside have the place of the old content."""
    names = [v.name for v in node.inputs]
    found = [source_of(node.nodes, v).name for v in node.outputs]
    return tuple(names.index(n) if n in names else None for n in found)


def source_of(nodes: Iterable[Node], value: Value) -> Value:
    """The value that this one was before updates among these nodes changed it in place."""
    made = {v.name: n for n in nodes for v in n.outputs}
    while value.name in made and made[value.name].op.overwrites:
        value = made[value.name].shared()[value.name]
    return value
