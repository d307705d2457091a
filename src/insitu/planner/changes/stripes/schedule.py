"""Which rows of each value of a region are made in which stripe, and what that needs: bytes, calls, copies.

Nothing is computed twice. Rows are made as late as possible, but never more at once than a value's share of a stripe,
so that filling and emptying the pipeline needs no larger buffers than running it. Everything is an array over stripes:
many regions and heights are examined before one becomes a loop (loop.py). How a value is made depends only on its
readers, so regions with the same end share the results for their last values.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import Any

import numpy as np

from insitu.graph import Node, Value
from insitu.graph.loops import Picked, Room, Rows, row_bytes
from insitu.planner.changes.stripes.region import Region, identity, reads

FAR = 1 << 40  # beyond every row
ABOVE = Rows(top=1)  # how an op reads its own result that makes each row from the row above
Sizes = tuple  # of a call, see Spans.sizes


@dataclass(frozen=True, eq=False)
class Spans:
    """The calls of a node, one entry each: the stripe, the rows it makes and reads, the padding above and below."""

    stripe: np.ndarray
    first: np.ndarray
    end: np.ndarray
    read: tuple[tuple[Value, np.ndarray, np.ndarray], ...]  # value, first row, one past the last
    pads: tuple[np.ndarray, np.ndarray]
    picked: tuple[Picked, np.ndarray] | None = None  # how an input is read, if not by even steps; its first rows

    @cached_property
    def sizes(self) -> list[Sizes]:
        """(rows made, padding above and below, rows read of each input) of each call: the sizes for the kernel. If rows
        are picked, then also which ones, from the first row read on."""
        columns = [self.end - self.first, *self.pads, *(hi - lo for _, lo, hi in self.read)]
        lists = [c.tolist() for c in columns]
        return list(zip(*lists, *([self._picks] if self.picked else [])))

    @property
    def _picks(self) -> list[tuple[int, ...]]:
        assert self.picked
        rows, tops = self.picked
        spans = zip(self.first.tolist(), self.end.tolist(), tops.tolist())
        return [tuple(p - lo for p in rows.picks[first:end]) for first, end, lo in spans]


@dataclass(frozen=True, eq=False)
class Pace:
    """How the rows of one value are made, from the first stripe that makes some to the last of the region."""

    node: Node
    readers: tuple[tuple[Pace, Rows], ...]  # in the region
    rate: Fraction  # rows per stripe
    made: np.ndarray  # rows made before the first of these stripes (none), and after each

    def of_last(self, count: int) -> np.ndarray:
        """`made` over the last `count` stripes."""
        more = count + 1 - len(self.made)
        return np.concatenate([np.zeros(more, np.int64), self.made]) if more > 0 else self.made[-more:]

    @property
    def stripes(self) -> int:
        return len(self.made) - 1

    def unread(self, rows: Rows, count: int, after: bool) -> np.ndarray:
        """The first row of an input that it still needs, before or after each of the last `count` stripes."""
        made = self.of_last(count)
        now = made[1:] if after else made[:-1]
        return np.where(now < made[-1], np.maximum(rows.first(now), 0), FAR)

    @cached_property
    def start(self) -> np.ndarray:
        """Before each stripe, the first row that is still needed: the first in its line buffer."""
        found = self.made[:-1]
        for reader, rows in self.readers:
            found = np.minimum(found, reader.unread(rows, self.stripes, after=False))
        if self.node.op.facts.carries:
            found = np.minimum(found, self.unread(ABOVE, self.stripes, after=False))
        return found

    @cached_property
    def room(self) -> Room:
        """Its line buffer: how many rows it must hold and keep."""
        rows, kept = int((self.made[1:] - self.start).max()), int((self.made[:-1] - self.start).max())
        row = row_bytes(self.node.output)
        return Room(self.node.output, rows * row, kept * row)

    @cached_property
    def spans(self) -> Spans:
        stripe = np.flatnonzero(self.made[1:] > self.made[:-1])
        first, end = self.made[:-1][stripe], self.made[1:][stripe]
        above = below = np.zeros_like(first)
        read, picked = [], None
        for v, rows in reads(self.node) or ():
            top, bottom = rows.first(first), rows.end(end - 1)
            lo, hi = np.maximum(top, 0), np.minimum(bottom, v.shape[1])
            above, below = lo - top, bottom - hi
            read.append((v, lo, hi))
            picked = (rows, lo) if isinstance(rows, Picked) else picked
        return Spans(stripe, first, end, tuple(read), (above, below), picked)

    @cached_property
    def sizes(self) -> frozenset[Sizes]:
        """The sizes of its calls, each once."""
        return frozenset(self.spans.sizes)

    @property
    def calls(self) -> int:
        return len(self.spans.stripe)

    @cached_property
    def read_bytes(self) -> int:
        """Of all its calls."""
        return sum(int((hi - lo).sum()) * row_bytes(v) for v, lo, hi in self.spans.read)

    def moves(self, away: bool) -> tuple[np.ndarray, np.ndarray]:
        """After each stripe except the last: from which row of its line buffer how many move, to its front or away."""
        by, kept = self.start[1:] - self.start[:-1], self.made[1:-1] - self.start[1:]
        return by, kept if away else np.where(by > 0, kept, 0)

    @cached_property
    def moved_bytes(self) -> tuple[int, int]:
        """Bytes that are copied; rows that are kept away count twice."""
        rows = [int(self.moves(away)[1].sum()) for away in (False, True)]
        return rows[0] * row_bytes(self.node.output), 2 * rows[1] * row_bytes(self.node.output)


Paces = dict[tuple[Any, ...], Pace]  # by node, height and the paces of its readers


def _pace(node: Node, readers: tuple[tuple[Pace, Rows], ...], whole: bool, last: bool, height: Fraction) -> Pace:
    """From the last stripe back: a value must have the rows that its readers need by then."""
    y = node.output
    rate = max((pace.rate * rows.stride for pace, rows in readers), default=height)
    if last:
        count = ceil(y.shape[1] / height)
        left = np.maximum(y.shape[1] - np.arange(count + 1) * height.numerator // height.denominator, 0)
        return Pace(node, readers, rate, left[::-1])
    most, longest = max(1, ceil(rate)), max((pace.stripes for pace, _ in readers), default=0)
    needed = np.zeros(longest + y.shape[1] // most + 2, np.int64)
    for pace, rows in readers:
        np.maximum(needed, _needed(pace.of_last(len(needed) - 1)[::-1], rows, y), out=needed)
    needed[0] = y.shape[1] if whole else needed[0]
    by = most * np.arange(len(needed))
    left = np.maximum.accumulate(needed + by) - by
    return Pace(node, readers, rate, left[int(np.argmax(left == 0)) :: -1])


@dataclass(frozen=True, eq=False)
class Schedule:
    """Stripes of this height, in rows of the region's last value."""

    region: Region
    height: Fraction
    known: Paces = field(default_factory=dict)  # of other regions

    @cached_property
    def pace(self) -> dict[str, Pace]:
        """Of each value."""
        found: dict[str, Pace] = {}
        for node in reversed(self.region.nodes):
            readers = tuple((found[name], rows) for name, rows in self.region.readers[node.name])
            whole, last = node.name in self.region.whole, node is self.region.nodes[-1]
            key = (*identity(node), whole, last, self.height, *(id(pace) for pace, _ in readers))
            if key not in self.known:
                self.known[key] = _pace(node, readers, whole, last, self.height)
            found[node.name] = self.known[key]
        return {node.name: found[node.name] for node in self.region.nodes}

    @cached_property
    def stripes(self) -> int:
        return max(pace.stripes for pace in self.pace.values())

    def before(self, name: str) -> int:
        """The number of stripes before the first that makes rows of a value."""
        return self.stripes - self.pace[name].stripes

    @cached_property
    def room(self) -> dict[str, Room]:
        """The line buffers."""
        return {name: self.pace[name].room for name in self.region.last}

    @cached_property
    def turn(self) -> dict[str, int]:
        """Node -> its number."""
        return {n.name: i for i, n in enumerate(self.region.nodes)}

    def moves(self, away: Container[str]) -> Iterator[tuple[Value, int, int, int]]:
        """(value, stripe after which, from which row of its line buffer, how many): kept rows move as soon as their
        last reader is done."""
        for name in self.region.last:
            columns = (column.tolist() for column in self.pace[name].moves(name in away))
            for stripe, (by, rows) in enumerate(zip(*columns), self.before(name)):
                if rows:
                    yield self.region.made[name], stripe, by, rows

    def moved_bytes(self, away: Container[str]) -> int:
        return sum(self.pace[name].moved_bytes[name in away] for name in self.region.last)

    def grows_over(self, source: Value) -> bool:
        """Can the last value have the place of an input? If so, no row is written before the bytes there are read."""
        result = self.region.nodes[-1].output
        unread = np.full(self.stripes, FAR)
        for node in self.region.nodes:
            rows = [r for v, r in self.region.reads[node.name] if v == source]
            if len(rows) < sum(v == source for v in node.inputs):
                return False  # another node reads it whole
            for r in rows:
                late = node.name != result.name
                np.minimum(unread, self.pace[node.name].unread(r, self.stripes, late), out=unread)
        made = self.pace[result.name].of_last(self.stripes)
        written, there = made[1:] * row_bytes(result), unread < FAR
        return bool(there.any() and (written <= unread * row_bytes(source))[there & (np.diff(made) > 0)].all())


def _needed(made: np.ndarray, rows: Rows, value: Value) -> np.ndarray:
    """Rows of a value that must exist when its reader has made this many."""
    return np.where(made > 0, np.clip(rows.end(made - 1), 0, value.shape[1]), 0)
