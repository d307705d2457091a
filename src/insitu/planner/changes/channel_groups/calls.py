"""The calls of a chain that runs in groups of channels: what each group copies, makes, adds up and keeps.

A node inside is cut to the channels of a group and asked for its call; anything that differs between groups must be a
part of a table. Values stored channel by channel are pointed into, others are copied. chain.py chooses the nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from insitu.graph import Node, Type, Value
from insitu.graph.call import Call, Scratch, Source, Struct, Table
from insitu.graph.loops import Entries, Loop, Part, Pass, Room, Step, scratch_bytes
from insitu.graph.op import Groups
from insitu.ops._boxes import box_shape
from insitu.ops.block_conv import of_columns
from insitu.ops.block_sums import part_of_sums
from insitu.planner.changes.less_scratch import LEVELS, Tight
from insitu.planner.changes.looped import source_of
from insitu.planner.changes.rooms import arranged

if TYPE_CHECKING:
    from insitu.planner.changes.channel_groups.chain import Chain

Emit = Callable[[Node], Call]
WHOLE = None  # an input has no channels of the group; otherwise they are on its last axis
NOT_AT_ALL = Groups()  # how most ops take part in groups


def groups_of(node: Node) -> Groups:
    """How a node takes part in groups of channels."""
    return node.op.facts.groups or NOT_AT_ALL


def group_loops(chain: Chain, outputs: tuple[Value, ...], channels: int, emit: Emit) -> Iterator[Loop]:
    """All passes, with less and less scratch; nothing if calls of two groups differ in more than parts of tables."""
    known = Known({}, {})
    try:
        last = _Groups(chain, outputs, channels, 1 << 31, emit, known).loop()
    except _Unlike:
        return
    yield last
    tried = known.chosen(1 << 31)
    for most in known.scratch():
        if known.chosen(most) == tried:
            continue
        tried, made = known.chosen(most), _Groups(chain, outputs, channels, most, emit, known).loop()
        if made.bytes < last.bytes:
            yield made
            last = made


@dataclass(frozen=True)
class Known:
    """Results that do not depend on the scratch that calls may have."""

    calls: dict[str, list[Call]]  # node -> its choices, the fastest first
    cut: dict[str, Node]  # node -> the node on the channels of the first group

    def choice(self, name: str, most: int) -> Call:
        """The fastest whose scratch is not too large; otherwise the one with the least."""
        calls = self.calls[name]
        return next((c for c in calls if scratch_bytes(c) <= most), min(calls, key=scratch_bytes))

    def chosen(self, most: int) -> list[int]:
        return [id(self.choice(name, most)) for name in self.calls]

    def scratch(self) -> list[int]:
        """The scratch of all choices, the largest first."""
        return sorted({scratch_bytes(call) for calls in self.calls.values() for call in calls}, reverse=True)


class _Unlike(Exception):
    """Two groups need different kinds of calls."""


class _Groups:
    """`most` is the scratch that a call may have, if it has a choice."""

    def __init__(self, chain: Chain, outputs: tuple[Value, ...], channels: int, most: int, emit: Emit, known: Known):
        self.chain, self.channels, self.most, self.emit, self.known = chain, channels, most, emit, known
        self.count = chain.first.output.shape[-1] // channels
        self.outputs = {v.name for v in outputs}
        self.made = {v.name for n in chain.nodes for v in n.outputs}
        self.rooms: dict[str, Room] = {}  # of one group, or kept
        self.places: dict[str, Value | Part] = {}  # value cut to a group -> where it is
        self.steps: dict[str, tuple[Step, ...]] = {}  # node -> its copies and its call

    def loop(self) -> Loop:
        chain = self.chain
        for i, node in enumerate(chain.inside):
            self.steps[node.name] = tuple(self.node_steps(node, chain.inside[i + 1 :]))
        first = [step for node in chain.inside for step in (*self.steps[node.name], *self.exponents(node))]
        between = [self.between(node) for node in chain.between]
        second = [s for n in chain.again if n is not chain.dw for s in self.steps[n.name]]
        if chain.sums:
            second.append(self.sums(chain.sums))
        if chain.update and chain.dw:
            add, factor, step = self.update(chain.update, chain.dw)
            first.append(add)
            between.append(factor)
            second += [*self.steps[chain.dw.name], step]
        passes = (Pass(self.count, tuple(first)), Pass(1, tuple(between)), Pass(self.count, tuple(second)))
        lender = chain.sums.output if chain.sums else None
        return arranged(chain.nodes, self.rooms.values(), tuple(p for p in passes if p.steps), lender)

    # one node -----------------------------------------------------------------------------------

    def node_steps(self, node: Node, later: tuple[Node, ...]) -> Iterator[Step]:
        """Copies of values not stored channel by channel, unless the kernel reads them in place; then the call."""
        call = self.chosen(node.name, lambda: self.calls(node))
        strided = of_columns(call, node.inputs[2].shape[-1]) if node is self.chain.first else None
        for (v, axis), before in zip(self.cuts(node), (None, *node.inputs)):
            if strided and axis is not WHOLE:
                self.places[_small(v)] = Part(v, v.shape[-1] // self.count)
            elif axis is not WHOLE and v.name not in self.made:
                yield from self.external(node, v, axis, before)
        small, call = self.first(node), strided or call
        for v, s in zip(node.outputs, small.outputs):
            self.internal(node, v, s, later)
        yield Step(node.name, self.placed(call), tuple(self.room_of(s) for s in small.outputs))

    def cuts(self, node: Node) -> list[tuple[Value, int | None]]:
        """Its inputs, and the axis of each that has channels."""
        return list(zip(node.inputs, groups_of(node).axes, strict=True))

    def cut(self, node: Node, t: int) -> Node:
        """The node on the channels of group t only."""
        cuts = self.cuts(node)
        read = tuple(v if a is WHOLE else Value(_small(v), _cut_type(v.type, a, t, self.count)) for v, a in cuts)
        made = node.op.apply("infer", tuple(v.type for v in read), dict(node.attrs))
        types = made if isinstance(made, tuple) else (made,)
        outputs = tuple(Value(_small(v), s) for v, s in zip(node.outputs, types, strict=True))
        return Node(node.op, read, outputs, node.attrs)

    def first(self, node: Node) -> Node:
        """The node on the channels of the first group."""
        if node.name not in self.known.cut:
            self.known.cut[node.name] = self.cut(node, 0)
        return self.known.cut[node.name]

    def chosen(self, name: str, calls: Callable[[], list[Call]]) -> Call:
        if name not in self.known.calls:
            self.known.calls[name] = calls()
        return self.known.choice(name, self.most)

    def calls(self, node: Node) -> list[Call]:
        """For all groups, the fastest first."""
        levels = range(LEVELS + 1) if node.op.asks("emit", "tight") else (0,)
        cut = [self.first(node), *(self.cut(node, t) for t in range(1, self.count))]
        return [_alike([self.emit(_at(small, level)) for small in cut]) for level in levels]

    # places -------------------------------------------------------------------------------------

    def external(self, node: Node, v: Value, axis: int | None, before: Value | None) -> Iterator[Step]:
        """A value from outside: pointed into, or its part of each row copied side by side."""
        rows = _rows(v, before)
        narrow = v.type.size // rows // self.count
        if rows == 1:
            self.places[_small(v)] = Part(v, narrow)
            return
        to = self.room(Value(_small(v), _cut_type(v.type, axis, 0, self.count)))
        box = box_shape(v, (rows, narrow), (narrow, 1), (narrow * self.count, 1))
        yield Step(node.name, Call("copy_box", to, Part(v, narrow), box), (to,))

    def internal(self, node: Node, v: Value, small: Value, later: tuple[Node, ...]) -> None:
        """A value made inside: a room of one group, over its source if that is not needed any more; or, if its channels
        are side by side and others read it, or it is read between the passes, the whole value."""
        source = node.shared().get(v.name)
        if groups_of(node).ends and (v.name in self.outputs or any(v in n.inputs for n in self.chain.between)):
            if v.name not in self.outputs:
                self.keep(v)
            self.places[small.name] = Part(v, v.type.size // self.count)
        elif source is not None and source.name in self.made and not any(source in n.inputs for n in self.after(later)):
            self.places[small.name] = self.places[_small(source)]
        else:
            self.room(small)

    def after(self, later: tuple[Node, ...]) -> Iterator[Node]:
        """The nodes that may read a node's input after it; in the second pass the gradient of the weight comes last."""
        yield from later
        yield from (n for n in (self.chain.sums, self.chain.dw) if n)

    def room(self, value: Value, kept: bool = False) -> Value:
        self.rooms[value.name] = Room(value, value.type.bytes, value.type.bytes if kept else 0)
        self.places[value.name] = value
        return value

    def keep(self, value: Value) -> Value:
        return self.room(value, kept=True)

    def room_of(self, small: Value) -> Value:
        place = self.places[small.name]
        return place.value if isinstance(place, Part) else place

    def placed(self, call: Call) -> Call:
        """The call with the places of its values."""
        return Call(call.function, *(self.places.get(a.name, a) if isinstance(a, Value) else a for a in call.args))

    # across the groups ------------------------------------------------------------------------------

    def exponents(self, node: Node) -> Iterator[Step]:
        """The exponents of all groups side by side, as the sums need them."""
        sums = self.chain.sums
        if sums is None or sums.inputs[1] not in node.outputs:
            return
        e, rows = sums.inputs[1], sums.inputs[0].type.rows
        narrow = e.type.size // rows // self.count
        box = box_shape(e, (rows, narrow), (narrow * self.count, 1), (narrow, 1))
        yield Step(node.name, Call("copy_box", Part(e, narrow), self.places[_small(e)], box), (e,))

    def sums(self, sums: Node) -> Step:
        """One group added to the sums."""
        gradient = (*(self.places[_small(v)] for v in sums.inputs[:2]), sums.inputs[1])
        call = self.chosen(sums.name, lambda: [part_of_sums(sums, gradient, self.channels, t) for t in (0, 1)])
        return Step(self.chain.dx[-1].name, call, sums.outputs)  # counted with their result

    def between(self, node: Node) -> Step:
        """A node as it is, on kept values; a value that it changes in place has the name it has outside."""
        known = {v.name: self.outside(v) for v in (*node.outputs, *node.inputs)}
        call = self.emit(node)
        args = (known.get(a.name, a) if isinstance(a, Value) else a for a in call.args)
        return Step(node.name, Call(call.function, *args), tuple(known[v.name] for v in node.outputs))

    def outside(self, value: Value) -> Value:
        return value if value.name in self.outputs else source_of(self.chain.between, value)

    def update(self, update: Node, dw: Node) -> tuple[Step, Step, Step]:
        """The use of the gradient of a weight: its squares added, the factor, and the update."""
        how = update.op.facts.tiles
        assert how
        norm = self.keep(Value(f"{dw.name}.norm", how.norm))
        made = tuple(self.room_of(s) for s in self.first(dw).outputs)
        add = Step(dw.name, how.add(update, norm, made), (norm,))
        factor = Step(update.name, how.factor(update, norm), (norm, update.outputs[-1]))
        return add, factor, Step(update.name, how.step(update, norm, made), update.outputs)


def _at(node: Node, level: int) -> Node:
    return Tight(node.op, node.inputs, node.outputs, node.attrs, level) if level else node


def _small(value: Value) -> str:
    return f"{value.name}.group"


def _rows(value: Value, before: Value | None) -> int:
    """The number of its runs of channels: for an exponent, those of the mantissas before it."""
    if len(value.shape) > 1:
        return prod(value.shape[:-1])
    return before.type.rows if before else 1


def _cut_type(type: Type, axis: int | None, t: int, count: int) -> Type:
    """The type of group t of `count`; per-channel scales are picked with their channels."""
    if axis is None:
        return type
    axis %= type.rank
    n = type.shape[axis] // count
    shape, q = (*type.shape[:axis], n, *type.shape[axis + 1 :]), type.quant
    if q is not None and q.axis == axis:
        q = replace(q, scale=q.scale[t * n : (t + 1) * n])
    return replace(type, shape=shape, quant=q)


def _alike(calls: list[Call]) -> Call:
    """One call for all groups."""
    if len({(c.function, len(c.args)) for c in calls}) > 1:
        raise _Unlike
    return Call(calls[0].function, *map(_argument, zip(*(c.args for c in calls))))


def _argument(each: tuple):
    """The same in all groups, or the next part of one table in each."""
    one = each[0]
    if isinstance(one, Source):
        return None  # the scales of a group are a part of a table: they cannot be computed from others
    if isinstance(one, Table):
        if all(np.array_equal(a.array, one.array) for a in each):
            return Table(one.array)
        return Entries(Table(np.concatenate([a.array for a in each])), one.array.size)
    if not all(_same(one, a) for a in each):
        raise _Unlike
    return one


def _same(a, b) -> bool:
    if isinstance(a, Value):
        return a.name == b.name
    if isinstance(a, Struct):
        return (a.struct, a.fields) == (b.struct, b.fields)  # with tables inside, they are not equal
    return isinstance(a, int | float | Scratch | None) and a == b
