"""No copy of a whole weight: a layer, and the gradient of its input, read its two parts directly.

A weight with some trained channels is stored in two parts. If putting them together for one node sets the peak, that
node gets the parts instead. A layer assembles the weights of some outputs at a time (ops/tiled_layers.py), a gradient
packs them column by column (ops/tiled_parts.py). The bytes stay the same.
"""

from __future__ import annotations

from dataclasses import replace

from insitu.graph import Graph, Node, Op
from insitu.ops.channels import merge_channels
from insitu.planner.changes.change import Change, Graphs, Tools
from insitu.planner.order import settled

CHANGE = Change(
    "weights_in_parts", ("weight in parts", "weights in parts"), "call",
    "forward next to nothing; backward the weight is unpacked column by column",
    done=lambda n: n.op.facts.made_for == "weights_in_parts",
)  # fmt: skip


def do_layer(graph: Graph, node: Node, tools: Tools) -> Graphs:
    yield from filter(None, [layer_apart(graph, node)])


def do_any(graph: Graph, node: Node, tools: Tools) -> Graphs:
    yield from filter(None, [taken_apart(graph, node)])


def layer_apart(graph: Graph, node: Node) -> Graph | None:
    """The same if a layer reads the copy: that costs next to nothing."""
    merge = node if node.op is merge_channels else _merge(graph, node)
    users = graph.users.get(merge.name, ()) if merge else ()
    return taken_apart(graph, node) if any(n.op.facts.parts and n.op.facts.parts.cheap for n in users) else None


def taken_apart(graph: Graph, node: Node) -> Graph | None:
    """The graph without the copy that this node makes or reads; None if there is none, or something else reads it."""
    merge = node if node.op is merge_channels else _merge(graph, node)
    users = graph.users.get(merge.name, ()) if merge else ()
    if merge is None or len(users) != 1 or not _fits(users[0], merge):
        return None
    twin = users[0].op.facts.parts
    assert twin
    inputs = (*users[0].inputs[: twin.weight], *merge.inputs, *users[0].inputs[twin.weight + 1 :])
    made = replace(users[0], op=twin.op, inputs=inputs, attrs=_attrs(twin.op, users[0], merge))
    kept = (made if n is users[0] else n for n in graph.nodes if n is not merge)
    return settled(replace(graph, nodes=tuple(kept)))  # before the update, which may have been between the two


def _attrs(twin: Op, user: Node, merge: Node) -> dict:
    """The attributes of the twin, from both nodes."""
    kept = {name: value for name, value in user.attrs.items() if name in twin.defaults}
    return {**kept, "channels": merge.attrs["channels"]}


def _merge(graph: Graph, node: Node) -> Node | None:
    made = (graph.producer.get(v.name) for v in node.inputs)
    return next((n for n in made if n is not None and n.op is merge_channels), None)


def _fits(user: Node, merge: Node) -> bool:
    """Does it have a twin for parts, and is the copy its weight?"""
    twin = user.op.facts.parts
    if twin is None or merge.output.dtype != "s8" or not twin.fits(user):
        return False
    return [v.name == merge.name for v in user.inputs] == [i == twin.weight for i in range(len(user.inputs))]
