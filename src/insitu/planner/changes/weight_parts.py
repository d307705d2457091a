"""No copy of a whole weight: a layer, and the gradient of its input, read its two parts where they lie.

A weight of which some channels are trained lies in two parts. Where putting them together for one node sets the peak,
that node is given the parts instead. A layer puts some outputs' weights together at a time (ops/tiled_layers.py), a
gradient packs them column by column (ops/tiled_parts.py). The same bytes.
"""

from __future__ import annotations

from dataclasses import replace

from insitu.graph import Graph, Node, lookup
from insitu.ops._windows import conv_shape, is_pointwise
from insitu.planner.order import settled

# op -> its twin that reads parts, and which of its inputs is the weight
TWINS = {
    "conv2d_s8": ("conv2d_parts_s8", 1), "linear_s8": ("linear_parts_s8", 1),
    "conv2d_dx": ("linear_dx_parts", 1), "linear_dx": ("linear_dx_parts", 1),
    "conv2d_dx_block": ("linear_dx_parts_block", 2), "linear_dx_block": ("linear_dx_parts_block", 2),
}  # fmt: skip
LAYERS = ("conv2d_s8", "linear_s8")  # whose weights are put together all the same, if some at a time
BY_ONE = ("conv2d_dx", "conv2d_dx_block")  # whose twin is for 1x1 convolutions that move by one


def layer_apart(graph: Graph, node: Node) -> Graph | None:
    """The same where a layer reads the copy: that costs next to nothing."""
    merge = node if node.op.name == "merge_channels" else _merge(graph, node)
    users = graph.users.get(merge.name, ()) if merge else ()
    return taken_apart(graph, node) if any(n.op.name in LAYERS for n in users) else None


def taken_apart(graph: Graph, node: Node) -> Graph | None:
    """The graph without the copy that this node makes or reads; None where there is none, or somebody else reads it."""
    merge = node if node.op.name == "merge_channels" else _merge(graph, node)
    users = graph.users.get(merge.name, ()) if merge else ()
    if merge is None or len(users) != 1 or not _fits(users[0], merge):
        return None
    twin, at = TWINS[users[0].op.name]
    inputs = (*users[0].inputs[:at], *merge.inputs, *users[0].inputs[at + 1 :])
    made = replace(users[0], op=lookup(twin), inputs=inputs, attrs=_attrs(twin, users[0], merge))
    kept = (made if n is users[0] else n for n in graph.nodes if n is not merge)
    return settled(replace(graph, nodes=tuple(kept)))  # before the update, which may have come between the two


def _attrs(twin: str, user: Node, merge: Node) -> dict:
    """What the twin wants to know of both."""
    kept = {name: value for name, value in user.attrs.items() if name in lookup(twin).defaults}
    return {**kept, "channels": merge.attrs["channels"]}


def _merge(graph: Graph, node: Node) -> Node | None:
    made = (graph.producer.get(v.name) for v in node.inputs)
    return next((n for n in made if n is not None and n.op.name == "merge_channels"), None)


def _fits(user: Node, merge: Node) -> bool:
    """It has a twin, and the copy is its weight."""
    if user.op.name not in TWINS or merge.output.dtype != "s8" or user.attrs.get("groups", 1) != 1:
        return False
    at = TWINS[user.op.name][1]
    inside = [v.name == merge.name for v in user.inputs] == [i == at for i in range(len(user.inputs))]
    return inside and (user.op.name not in BY_ONE or _moves_by_one(user, merge))


def _moves_by_one(user: Node, merge: Node) -> bool:
    """A 1x1 convolution whose gradient has a pixel for each of its input's."""
    window = (user.attrs[name] for name in ("stride", "padding", "dilation", "groups"))
    shape = conv_shape(user.inputs[0], user.output, merge.output, *window)
    return is_pointwise(**shape.fields)
