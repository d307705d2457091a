"""A set of nodes as one loop over stripes: which rows each makes when, and how many rows of each value must be kept.

Nothing is computed twice. Rows are made as late as they can be, but never more at a time than a value's share of a
stripe, so that filling and emptying the pipeline needs no larger buffers than running it. Which nodes, and how high a
stripe is, is not decided here (stream.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import ceil

from insitu.graph import Graph, Node, Value
from insitu.graph.call import Call
from insitu.graph.stripes import Line, Loop, Move, Piece, Rows, Turn, Window, row_bytes

Emit = Callable[[Node], Call]  # the kernel call of a node
Known = dict[tuple, Call]  # calls by node and size: the same in many stripes, and for many regions


def reads(node: Node) -> tuple[tuple[Value, Rows], ...] | None:
    """The inputs a node reads row by row; None where it cannot run in stripes."""
    y = node.output
    if not node.op.has("stripe") or len(node.outputs) > 1 or len(y.shape) != 4 or y.shape[0] != 1:
        return None
    rows = node.rule("stripe", *node.outputs, *node.inputs)
    if rows is None:
        return None
    found = tuple((v, r) for v, r in zip(node.inputs, rows) if r is not None)
    fits = all(_never_padding_alone(r, v.shape[1], y.shape[1]) for v, r in found)
    return found if found and fits else None


def _never_padding_alone(rows: Rows, height: int, made: int) -> bool:
    """Every output row has a row of the input under it: a window of nothing but padding has no rows to point at."""
    return rows.end(0) > 0 and rows.first(made - 1) < height


@dataclass(frozen=True, eq=False)
class Region:
    """Nodes of a graph, in its order, that run as one; `whole` are the results that others read."""

    nodes: tuple[Node, ...]
    whole: frozenset[str]

    @cached_property
    def made(self) -> dict[str, Value]:
        return {n.output.name: n.output for n in self.nodes}

    @cached_property
    def reads(self) -> dict[str, tuple[tuple[Value, Rows], ...]]:
        """Result -> the values its node reads row by row."""
        return {n.output.name: reads(n) or () for n in self.nodes}

    @cached_property
    def readers(self) -> dict[str, list[tuple[str, Rows]]]:
        """Value made inside -> who reads it, and how."""
        found: dict[str, list[tuple[str, Rows]]] = {name: [] for name in self.made}
        for reader, inputs in self.reads.items():
            for v, rows in inputs:
                if v.name in found:
                    found[v.name].append((reader, rows))
        return found

    @cached_property
    def inputs(self) -> tuple[Value, ...]:
        """What comes from outside, constants and all."""
        return tuple({v.name: v for n in self.nodes for v in n.inputs if v.name not in self.made}.values())

    @cached_property
    def outputs(self) -> tuple[Value, ...]:
        return tuple(v for v in self.made.values() if v.name in self.whole)


def region_of(graph: Graph, nodes: Iterable[Node]) -> Region:
    """These nodes, and which of their results must exist whole."""
    inside = tuple(nodes)
    names = {n.name for n in inside}
    wanted = {v.name for v in graph.results}
    used = {v.name for n in graph.nodes if n.name not in names for v in n.inputs}
    return Region(inside, frozenset(names & (wanted | used)))


def heights(region: Region) -> dict[str, int]:
    """How many rows of each value are made: all that somebody reads."""
    found: dict[str, int] = {}
    for node in reversed(region.nodes):
        y = node.output
        needed = [_needed(found[reader], rows, y) for reader, rows in region.readers[y.name]]
        found[y.name] = y.shape[1] if y.name in region.whole else max(needed)
    return found


def _needed(made: int, rows: Rows, value: Value) -> int:
    """Rows of a value that must be there when so many of its reader's are."""
    return min(max(rows.end(made - 1), 0), value.shape[1]) if made else 0


def progress(region: Region, height: Fraction) -> list[dict[str, int]]:
    """Rows made of each value: before the first stripe, and after each; `height` is in rows of the last value."""
    rate: dict[str, Fraction] = {}
    for node in reversed(region.nodes):
        name = node.name
        rate[name] = max((rate[r] * rows.stride for r, rows in region.readers[name]), default=height)
    most = {name: max(1, ceil(r)) for name, r in rate.items()}
    steps = [heights(region)]
    last = region.nodes[-1].name
    while any(steps[-1].values()):
        back, later = {}, steps[-1]
        for node in reversed(region.nodes):
            y = node.output
            needed = [_needed(back[r], rows, y) for r, rows in region.readers[y.name]]
            slow = steps[0][last] - int(len(steps) * height) if y.name == last else later[y.name] - most[y.name]
            back[y.name] = max(0, slow, *needed)
        steps.append(back)
    return steps[::-1]


def kept_from(region: Region, steps: list[dict[str, int]]) -> list[dict[str, int]]:
    """For each stripe, the first row of each value that is in its buffer; 0 for one that is there whole."""
    found: list[dict[str, int]] = []
    for before, after in pairwise(steps):
        starts = {}
        for name, made in before.items():
            still = [max(rows.first(before[r]), 0) for r, rows in region.readers[name] if before[r] < steps[-1][r]]
            wanted = min([made, *still])
            idle = after[name] == made and found  # nothing comes in: nothing need move
            starts[name] = 0 if name in region.whole else found[-1][name] if idle else wanted
        found.append(starts)
    return found


def loop_of(region: Region, height: Fraction, emit: Emit, known: Known | None = None) -> Loop:
    """The region as a loop of stripes of this height."""
    known = {} if known is None else known
    steps = progress(region, height)
    starts = kept_from(region, steps)
    lines = [
        Line(v, max(after[v.name] - start[v.name] for after, start in zip(steps[1:], starts)))
        for v in region.made.values()
        if v.name not in region.whole
    ]
    stripes = []
    for t, (before, after) in enumerate(pairwise(steps)):
        old = starts[t - 1] if t else starts[t]
        stripe = _Stripe(region, before, after, old, starts[t], emit, known)
        stripes.append(tuple(stripe.turn(node) for node in region.nodes))
    return Loop(region.nodes, tuple(lines), tuple(stripes))


@dataclass(frozen=True, eq=False)
class _Stripe:
    region: Region
    before: dict[str, int]  # rows made so far
    after: dict[str, int]
    old: dict[str, int]  # first row in each buffer until now
    start: dict[str, int]
    emit: Emit
    known: Known

    def turn(self, node: Node) -> Turn:
        y = node.output
        first, end = self.before[y.name], self.after[y.name]
        by, kept = self.start[y.name] - self.old[y.name], first - self.start[y.name]
        move = Move(y, by, kept) if by and kept else None
        return Turn(move, self._window(node, first, end) if end > first else None)

    def _window(self, node: Node, first: int, end: int) -> Window:
        y, pads, read = node.output, (0, 0), []
        for v, rows in self.region.reads[y.name]:
            top, bottom = rows.first(first), rows.end(end - 1)
            lo, hi = max(top, 0), min(bottom, v.shape[1])
            pads = lo - top, bottom - hi
            read.append(Piece(v, lo, hi - lo, lo - self.start.get(v.name, 0)))
        made = Piece(y, first, end - first, first - self.start[y.name])
        key = (node, made.count, *(p.count for p in read), *pads)
        if key not in self.known:
            self.known[key] = self.emit(cut(node, made, tuple(read), pads))
        return Window(self.known[key], made, tuple(read))


def grows_over(loop: Loop, result: Value, source: Value) -> bool:
    """Whether the result can lie where the source lies: no row is written before what was there has been read."""
    if any(source in n.inputs and source not in (v for v, _ in reads(n) or ()) for n in loop.nodes):
        return False  # somebody reads it whole
    unread: int | None = None  # the first byte of the source that is read from here on
    for window in reversed(loop.windows):
        starts = [p.first * row_bytes(source) for p in window.read if p.value == source]
        unread = min([*starts, *([] if unread is None else [unread])], default=None)
        ends = (window.made.first + window.made.count) * row_bytes(result)
        if window.made.value == result and unread is not None and ends > unread:
            return False
    return unread is not None


def cut(node: Node, made: Piece, read: tuple[Piece, ...], pads: tuple[int, int]) -> Node:
    """The node on these rows alone, with so many rows of padding above and below."""
    pieces = {p.value.name: _short(p) for p in read}
    attrs = dict(node.attrs)
    if "padding" in attrs:
        attrs["padding"] = (*pads, *attrs["padding"][2:])
    inputs = tuple(pieces.get(v.name, v) for v in node.inputs)
    return replace(node, inputs=inputs, outputs=(_short(made),), attrs=attrs)


def _short(piece: Piece) -> Value:
    n, _, *rest = piece.value.shape
    return Value(piece.value.name, piece.value.type.with_shape(n, piece.count, *rest))
