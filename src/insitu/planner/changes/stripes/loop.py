"""A set of nodes as one loop over stripes: the calls, where their rows are, which rows move when.

schedule.py says when each row is made, lines.py where line buffers lie, cuts.py which nodes form a loop and how high a
stripe is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from insitu.graph import Node, Value
from insitu.graph.call import Call
from insitu.graph.loops import Loop, Move, Piece, Turn, Window, row_bytes, scratch_bytes
from insitu.graph.op import ask
from insitu.planner.changes.less_scratch import level_of
from insitu.planner.changes.stripes.lines import Kept, kept_best, place_lines
from insitu.planner.changes.stripes.region import Region, identity, reads
from insitu.planner.changes.stripes.schedule import Schedule, Sizes

Emit = Callable[[Node], Call]  # the kernel call of a node
Known = dict[tuple[Any, ...], Call]  # calls by node and size: the same in many stripes, and for many regions


def loop_of(region: Region, height: Fraction, emit: Emit, known: Known | None = None) -> Loop:
    """The region as a loop of stripes of this height."""
    made = _Loop(Schedule(region, height), emit, {} if known is None else known)
    places = place_lines(made.schedule, made.kept, made.scratch)
    return Loop(region.nodes, tuple(made.schedule.room.values()), *places, stripes=made.stripes())


def call_on(node: Node, sizes: Sizes, emit: Emit, known: Known) -> Call:
    """The call on this many rows: see `Spans.sizes`."""
    key = (identity(node), level_of(node), *sizes)
    if key not in known:
        known[key] = emit(cut(node, sizes))
    return known[key]


@dataclass(frozen=True, eq=False)
class _Loop:
    schedule: Schedule
    emit: Emit
    known: Known

    @cached_property
    def starts(self) -> dict[str, list[int]]:
        """The first row in each line buffer, before each stripe."""
        pace, before = self.schedule.pace, self.schedule.before
        return {name: [0] * before(name) + pace[name].start.tolist() for name in self.schedule.room}

    @cached_property
    def windows(self) -> list[dict[int, Window]]:
        """The calls of each node, by stripe."""
        return [dict(self._windows(node)) for node in self.schedule.region.nodes]

    def _windows(self, node: Node):
        spans = self.schedule.pace[node.name].spans
        columns = [spans.stripe + self.schedule.before(node.name), spans.first, *(lo for _, lo, _ in spans.read)]
        for sizes, (t, first, *tops) in zip(spans.sizes, zip(*(c.tolist() for c in columns))):
            made = self._piece(node.output, t, first, sizes[0])
            read = tuple(self._piece(v, t, lo, n) for (v, _, _), lo, n in zip(spans.read, tops, sizes[3:]))
            yield t, Window(call_on(node, sizes, self.emit, self.known), made, read)

    def _piece(self, value: Value, t: int, first: int, count: int) -> Piece:
        start = self.starts[value.name][t] if value.name in self.starts else 0
        return Piece(value, first, count, first - start)

    @cached_property
    def scratch(self) -> list[int]:
        """Bytes of each node's scratch."""
        calls = [{id(w.call): w.call for w in windows.values()} for windows in self.windows]
        return [max(map(scratch_bytes, found.values()), default=0) for found in calls]

    @cached_property
    def kept(self) -> Kept:
        return kept_best(self.schedule, self.scratch)

    def stripes(self) -> tuple[tuple[Turn, ...], ...]:
        region, turn, away = self.schedule.region, self.schedule.turn, self.kept.away
        count = self.schedule.stripes
        moves: list[list[list[Move]]] = [[[] for _ in turn] for _ in range(count)]
        back = [[0] * len(turn) for _ in range(count)]
        for value, t, slot, rows in self.schedule.moves(away):
            moves[t][turn[region.last[value.name]]].append(Move(value, slot, rows, value.name in away))
            back[t + 1][turn[value.name]] = rows if value.name in away else 0
        return tuple(
            tuple(Turn(self.windows[i].get(t), tuple(moves[t][i]), back[t][i]) for i in range(len(turn)))
            for t in range(count)
        )


def grows_over(loop: Loop, result: Value, source: Value) -> bool:
    """Can the result have the place of the source? If so, no row is written before the bytes there are read."""
    if any(source in n.inputs and source not in (v for v, _ in reads(n) or ()) for n in loop.nodes):
        return False  # another node reads it whole
    unread: int | None = None  # the first byte of the source that is still to be read
    for window in reversed(loop.windows):
        starts = [p.first * row_bytes(source) for p in window.read if p.value == source]
        unread = min([*starts, *([] if unread is None else [unread])], default=None)
        ends = (window.made.first + window.made.count) * row_bytes(result)
        if window.made.value == result and unread is not None and ends > unread:
            return False
    return unread is not None


def cut(node: Node, sizes: Sizes) -> Node:
    """The node on this many rows only."""
    made, above, below, *counts = sizes
    short = {v.name: _short(v, n) for (v, _), n in zip(reads(node) or (), counts)}
    inputs = tuple(short.get(v.name, v) for v in node.inputs)
    attrs = {**node.attrs, **_changed(node, made, (above, below), counts)}
    return replace(node, inputs=inputs, outputs=(_short(node.output, made),), attrs=attrs)


def _changed(node: Node, made: int, pads: tuple[int, int], counts: list) -> dict:
    """The attributes that tell of rows, for some rows only."""
    if node.op.facts.on_rows:
        return ask(node.op.facts.on_rows, (), node.attrs, made=made, picks=counts[-1])
    return {"padding": (*pads, *node.attrs["padding"][2:])} if "padding" in node.attrs else {}


def _short(value: Value, rows: int) -> Value:
    n, _, *rest = value.shape
    return Value(value.name, value.type.with_shape(n, rows, *rest))
