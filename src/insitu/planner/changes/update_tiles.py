"""The gradient of a weight and its update in tiles of output channels: the gradient never exists whole.

Each tile copies its channels of the layer's gradient and computes the gradient of their weights. In a first pass that
is used for the norm by which the gradient is clipped, in a second pass for the update. So it is computed twice. To the
rest of the planner this is one node with scratch. lower.py decides where it pays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod
from typing import TypeGuard

from insitu.graph import Graph, Node, Type, Value
from insitu.graph.call import Call
from insitu.graph.loops import Loop, Part, Pass, Room, Step, TiledUpdate
from insitu.graph.types import GROUP
from insitu.ops._block import exponents
from insitu.ops._boxes import box_shape
from insitu.planner.changes.change import Change, Graphs, Tools
from insitu.planner.changes.less_scratch import LEVELS, Tight
from insitu.planner.changes.looped import Looped, loop_op, over_old_content
from insitu.planner.changes.rooms import arranged

FEW, MANY = 2, 32  # tiles


TILED = loop_op("tiled", "The gradient of a weight and its update in tiles")
TILED.must(in_place=over_old_content)


def do(graph: Graph, node: Node, tools: Tools) -> Graphs:
    yield from tiled(graph, node, tools.call)


def _undo(graph: Graph, node: Node, tools: Tools) -> Graphs:
    yield from filter(None, [untiled(graph, node)])


CHANGE = Change(
    "updates_in_tiles", ("update in tiles", "updates in tiles"), "loop", "the weight's gradient is computed twice",
    done=lambda n: n.op is TILED, undo=_undo,
)  # fmt: skip


def tiled(graph: Graph, node: Node, emit: Callable[[Node], Call]) -> Iterator[Graph]:
    """The graph with the gradient that this node makes or uses in tiles, the fewest first; in more if it has some."""
    whole = untiled(graph, node) or graph
    pair = _pair(whole, node.nodes[0] if is_tiled(node) else node)
    if pair is None:
        return
    dw, update = pair
    most = node.attrs["channels"] - 1 if is_tiled(node) else dw.output.shape[0]
    for channels in (n for n in _sizes(dw) if n <= most):
        made = fused(dw, update, channels, emit)
        kept = (made if n is update else n for n in whole.nodes if n is not dw)
        yield replace(graph, nodes=tuple(kept))


def is_tiled(node: Node) -> TypeGuard[Looped]:
    return node.op is TILED


def untiled(graph: Graph, node: Node) -> Graph | None:
    """The graph with both nodes again."""
    if not is_tiled(node):
        return None
    at = graph.nodes.index(node)
    return replace(graph, nodes=(*graph.nodes[:at], *node.nodes, *graph.nodes[at + 1 :]))


def _pair(graph: Graph, node: Node) -> tuple[Node, Node] | None:
    """The gradient and its update, if this node is one of them and nothing else reads the gradient."""
    dw = node
    if node.op.facts.tiles:
        dw = graph.producer.get(node.inputs[node.op.facts.tiles.grad[0]].name, node)
    update = update_of(graph, dw) if dw.op.facts.by_outputs and dw.attrs.get("groups", 1) == 1 else None
    return (dw, update) if update else None


def update_of(graph: Graph, dw: Node) -> Node | None:
    """The update that uses the gradient of a weight, if nothing else does and it can be used part by part."""
    users = {n.name: n for v in dw.outputs for n in graph.users.get(v.name, ())}
    if len(users) != 1 or set(dw.outputs) & set(graph.results):
        return None
    update = next(iter(users.values()))
    how = update.op.facts.tiles
    return update if how and tuple(update.inputs[i] for i in how.grad) == dw.outputs else None


def _sizes(dw: Node) -> list[int]:
    """Channels of a tile: all tiles have the same size."""
    o, unit = dw.output.shape[0], GROUP if dw.op.facts.by_outputs > 1 else 4
    return [o // count for count in range(FEW, MANY + 1) if o % count == 0 and o // count % unit == 0]


def fused(dw: Node, update: Node, channels: int, emit: Callable[[Node], Call]) -> Looped:
    """Both as one node, `channels` output channels at a time."""
    how = update.op.facts.tiles
    assert how
    loop = _loop(dw, update, how, channels, emit)
    inner = {v.name for v in dw.outputs}
    inputs = {v.name: v for n in (dw, update) for v in n.inputs if v.name not in inner}
    attrs = {"channels": channels, "of": [dw.name, update.name]}
    return Looped(TILED, tuple(inputs.values()), update.outputs, attrs, loop, again=(dw,))


def _loop(dw: Node, update: Node, how: TiledUpdate, channels: int, emit: Callable[[Node], Call]) -> Loop:
    count = dw.output.shape[0] // channels
    norm = Value(f"{dw.name}.norm", how.norm)
    small = _cut(dw, channels)
    copies = tuple(_copy(dw, v, s, count) for v, s in zip(dw.inputs[: dw.op.facts.by_outputs], small.inputs))
    make = (*copies, Step(dw.name, emit(small), small.outputs))
    add = Step(dw.name, how.add(update, norm, small.outputs), (norm,))
    factor = Step(update.name, how.factor(update, norm), (norm, update.outputs[-1]))
    step = Step(update.name, how.step(update, norm, small.outputs), update.outputs)
    passes = (Pass(count, (*make, add)), Pass(1, (factor,)), Pass(count, (*make, step)))
    rooms = [Room(v, v.type.bytes) for v in (*(s.writes[0] for s in copies), *small.outputs)]
    rooms.append(Room(norm, norm.type.bytes, norm.type.bytes))
    return arranged((dw, update), rooms, passes)


def _cut(dw: Node, channels: int) -> Node:
    """The gradient of `channels` output channels, with the least possible scratch."""
    count = dw.op.facts.by_outputs
    g = dw.inputs[0].type.with_shape(*dw.inputs[0].shape[:-1], channels)
    types = (g, exponents(g))[:count]
    read = (*(_short(v, t) for v, t in zip(dw.inputs, types)), *dw.inputs[count:])
    made = dw.op.apply("infer", tuple(v.type for v in read), dict(dw.attrs))
    outputs = (_short(v, t) for v, t in zip(dw.outputs, made if isinstance(made, tuple) else (made,)))
    return Tight(dw.op, read, tuple(outputs), dw.attrs, LEVELS)


def _short(value: Value, type: Type) -> Value:
    return Value(f"{value.name}.tile", type)


def _copy(dw: Node, value: Value, to: Value, count: int) -> Step:
    """A tile's part of each row of a value, side by side."""
    rows = prod(value.shape[:-1]) if value is dw.inputs[0] else dw.inputs[0].type.rows
    narrow = to.type.size // rows
    box = box_shape(value, (rows, narrow), (narrow, 1), (narrow * count, 1))
    return Step(dw.name, Call("copy_box", to, Part(value, narrow), box), (to,))
