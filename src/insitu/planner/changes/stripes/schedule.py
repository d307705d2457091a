"""Which rows of each value of a region are made in which stripe, and what that needs: bytes, calls, copies.

Nothing is computed twice. Rows are made as late as they can be, but never more at a time than a value's share of a
stripe, so that filling and emptying the pipeline needs no larger buffers than running it. Everything is an array over
stripes: many regions and heights are asked about before one is made a loop (loop.py).
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil

import numpy as np

from insitu.graph import Node, Value
from insitu.graph.loops import Room, Rows, row_bytes
from insitu.planner.changes.stripes.region import Region

FAR = 1 << 40  # beyond every row
Counts = dict[str, np.ndarray]  # value -> a number for each stripe


@dataclass(frozen=True, eq=False)
class Spans:
    """The calls of a node, an entry each: the stripe, the rows it makes and reads, the padding above and below."""

    stripe: np.ndarray
    first: np.ndarray
    end: np.ndarray
    read: tuple[tuple[Value, np.ndarray, np.ndarray], ...]  # value, first row, one past the last
    pads: tuple[np.ndarray, np.ndarray]

    @cached_property
    def sizes(self) -> list[tuple[int, ...]]:
        """(rows made, padding above and below, rows read of each input) of each call: what the kernel is told."""
        columns = [self.end - self.first, *self.pads, *(hi - lo for _, lo, hi in self.read)]
        return list(zip(*(c.tolist() for c in columns)))


@dataclass(frozen=True, eq=False)
class Schedule:
    """Stripes of this height, in rows of the region's last value."""

    region: Region
    height: Fraction

    @cached_property
    def made(self) -> Counts:
        """Rows made of each value: before the first stripe, and after each."""
        count = int(self.region.nodes[-1].output.shape[1] / self.height) + 8
        while True:
            found = self._from_the_end(count)
            left = np.max(list(found.values()), axis=0)
            if not left[-1]:
                stripes = int(np.argmax(left == 0))
                return {name: rows[stripes::-1] for name, rows in found.items()}
            count *= 2

    def _from_the_end(self, count: int) -> Counts:
        """The same from the last stripe back: a value must have the rows that its readers need by then."""
        k = np.arange(count)
        found: Counts = {}
        last = self.region.nodes[-1].name
        for node in reversed(self.region.nodes):
            y, readers = node.output, self.region.readers[node.name]
            needed = np.zeros(count, np.int64)
            for reader, rows in readers:
                np.maximum(needed, _needed(found[reader], rows, y), out=needed)
            full = y.shape[1] if y.name in self.region.whole else int(needed[0])
            most = self.most[y.name]
            if y.name == last:
                slow = full - k * self.height.numerator // self.height.denominator
                found[y.name] = np.maximum(np.maximum(slow, needed), 0)
            else:
                needed[0] = full
                found[y.name] = np.maximum.accumulate(needed + most * k) - most * k
        return found

    @cached_property
    def most(self) -> dict[str, int]:
        """Value -> so many rows of it are made at a time."""
        rate: dict[str, Fraction] = {}
        for node in reversed(self.region.nodes):
            readers = self.region.readers[node.name]
            rate[node.name] = max((rate[r] * rows.stride for r, rows in readers), default=self.height)
        return {name: max(1, ceil(r)) for name, r in rate.items()}

    @cached_property
    def start(self) -> Counts:
        """Before each stripe, the first row of each value with a line buffer that is still needed: the first in it."""
        found: Counts = {}
        for name in self.region.last:
            start = self.made[name][:-1]
            for reader, rows in self.region.readers[name]:
                start = np.minimum(start, self._unread(reader, rows, after=False))
            found[name] = start
        return found

    def _unread(self, reader: str, rows: Rows, after: bool) -> np.ndarray:
        """The first row that a reader still needs, before or after each stripe."""
        made = self.made[reader]
        now = made[1:] if after else made[:-1]
        return np.where(now < made[-1], np.maximum(now * rows.stride - rows.top, 0), FAR)

    @cached_property
    def rooms(self) -> tuple[Room, ...]:
        """The line buffers: how many rows each must hold, and keep."""
        found = []
        for name, start in self.start.items():
            made = self.made[name]
            rows, kept = int((made[1:] - start).max()), int((made[:-1] - start).max())
            row = row_bytes(self.region.made[name])
            found.append(Room(self.region.made[name], rows * row, kept * row))
        return tuple(found)

    @cached_property
    def spans(self) -> dict[str, Spans]:
        return {node.name: self._spans(node) for node in self.region.nodes}

    def _spans(self, node: Node) -> Spans:
        made = self.made[node.name]
        stripe = np.flatnonzero(made[1:] > made[:-1])
        first, end = made[:-1][stripe], made[1:][stripe]
        above = below = np.zeros_like(first)
        read = []
        for v, rows in self.region.reads[node.name]:
            top, bottom = first * rows.stride - rows.top, _end(end - 1, rows)
            lo, hi = np.maximum(top, 0), np.minimum(bottom, v.shape[1])
            above, below = lo - top, bottom - hi
            read.append((v, lo, hi))
        return Spans(stripe, first, end, tuple(read), (above, below))

    @cached_property
    def room(self) -> dict[str, Room]:
        return {room.value.name: room for room in self.rooms}

    @cached_property
    def turn(self) -> dict[str, int]:
        """Node -> its number."""
        return {n.name: i for i, n in enumerate(self.region.nodes)}

    def moves(self, away: Container[str]) -> Iterator[tuple[Value, np.ndarray, np.ndarray]]:
        """Of each value with a line buffer, after each stripe but the last: from which row of it how many move, to its
        front or away; what is kept moves as soon as its last reader is done."""
        for name, start in self.start.items():
            by, kept = start[1:] - start[:-1], self.made[name][1:-1] - start[1:]
            yield self.region.made[name], by, np.where(by > 0, kept, 0) if name not in away else kept

    def moved_bytes(self, away: Container[str]) -> int:
        """Bytes that are copied; what is kept away, twice."""
        return sum(int(n.sum()) * row_bytes(v) * (1 + (v.name in away)) for v, _, n in self.moves(away))

    def grows_over(self, source: Value) -> bool:
        """Whether the last value can lie where an input lies: no row is written before what was there has been read."""
        result = self.region.nodes[-1].output
        unread = np.full(len(self.made[result.name]) - 1, FAR)
        for node in self.region.nodes:
            rows = [r for v, r in self.region.reads[node.name] if v == source]
            if len(rows) < sum(v == source for v in node.inputs):
                return False  # somebody reads it whole
            for r in rows:
                np.minimum(unread, self._unread(node.name, r, after=node.name != result.name), out=unread)
        written, there = self.made[result.name][1:] * row_bytes(result), unread < FAR
        new = np.diff(self.made[result.name]) > 0
        return bool(there.any() and (written <= unread * row_bytes(source))[there & new].all())


def _end(row: np.ndarray, rows: Rows) -> np.ndarray:
    """One past the last row that an output row needs."""
    return row * rows.stride - rows.top + (rows.kernel - 1) * rows.dilation + 1


def _needed(made: np.ndarray, rows: Rows, value: Value) -> np.ndarray:
    """Rows of a value that must be there when so many of its reader's are."""
    return np.where(made > 0, np.clip(_end(made - 1, rows), 0, value.shape[1]), 0)
