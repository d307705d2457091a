"""Place every buffer of an ordered graph at a fixed offset in one arena.

Several greedy orders are tried; where they leave a gap to the lower bound, so are those that stacking.py proposes, and
a seeded search improves on the best. Small problems are searched exhaustively. Nothing here chooses the order of the
graph (order.py) or trusts itself (verify/replay.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import permutations
from random import Random

from insitu.planner.lifetimes import Buffer
from insitu.planner.place.stacking import stacked

ALIGN = 16
EXACT = 7  # so many buffers or fewer: every order is tried
SMALL = 128  # times smaller than the arena is small: such buffers fill gaps between others

# the order in which buffers are given a place
HEURISTICS = {
    "size": lambda b: (-b.bytes, b.first, b.names),
    "size x time": lambda b: (-b.bytes * (b.last - b.first + 1), b.first, b.names),
    "time": lambda b: (-(b.last - b.first), -b.bytes, b.first, b.names),
    "first use": lambda b: (b.first, -b.bytes, b.names),
    "last use": lambda b: (-b.last, -b.bytes, b.names),
}


def place(buffers: tuple[Buffer, ...], align: int = ALIGN, rounds: int = 0) -> tuple[dict[Buffer, int], int]:
    """Buffer -> offset, and the bytes of the arena. `rounds` is how long to search where that leaves a gap."""
    if not buffers:
        return {}, 0
    rivals = [
        [_rival(a, b, j) for j, b in enumerate(buffers) if j != i and a.overlaps(b)] for i, a in enumerate(buffers)
    ]
    problem = Problem([b.bytes for b in buffers], rivals, lower_bound(buffers), align)
    orders = [sorted(range(len(buffers)), key=lambda i: key(buffers[i])) for key in HEURISTICS.values()]
    best = min((problem.greedy(order), order) for order in orders)
    if len(buffers) <= EXACT:
        best = problem.exhaustive()
    elif rounds and not problem.tight(best[0][0]):
        best = problem.best_of(best, stacked(buffers, align, rounds))
        best = problem.polished(problem.best_of(best, _large_first(buffers, align, rounds)), rounds)
    total, offsets = best[0]
    return dict(zip(buffers, offsets)), total


def _large_first(buffers: tuple[Buffer, ...], align: int, rounds: int) -> Iterator[list[int]]:
    """The large ones as they are placed without the others, from the lowest up; then the small ones, which fill gaps:
    with fewer to move, a search gets further."""
    least = lower_bound(buffers) // SMALL
    large = tuple(b for b in buffers if b.bytes >= least)
    if len(large) < len(buffers):
        at, _ = place(large, align, rounds)
        yield sorted(range(len(buffers)), key=lambda i: (buffers[i] not in at, at.get(buffers[i], -buffers[i].bytes)))


def lower_bound(buffers: tuple[Buffer, ...]) -> int:
    """The largest sum of bytes alive at one step: no placement can need less."""
    change: dict[int, int] = {}
    for b in buffers:
        for first, last, size in b.pieces:
            change[first] = change.get(first, 0) + size
            change[last + 1] = change.get(last + 1, 0) - size
    live = peak = 0
    for step in sorted(change):
        live += change[step]
        peak = max(peak, live)
    return peak


def arena_bytes(offsets: dict[Buffer, int]) -> int:
    return max((offset + b.bytes for b, offset in offsets.items()), default=0)


Placed = tuple[int, tuple[int, ...]]  # bytes in all, an offset for each buffer


def _rival(a: Buffer, b: Buffer, number: int) -> tuple[int, int, int]:
    """(number of b, bytes of a, bytes of b) while both are alive."""
    met = max(a.first, b.first)
    return number, a.size(met), b.size(met)


@dataclass(frozen=True)
class Problem:
    """Buffers by number: the bytes of each, and (number, own bytes, its bytes) of each that is alive with it."""

    size: list[int]
    rivals: list[list[tuple[int, int, int]]]
    bound: int
    align: int

    def tight(self, total: int) -> bool:
        """Nothing worth searching for is left: alignment alone can cost a few bytes a buffer."""
        return total <= self.bound + max(4 * self.align, self.bound // 512)

    def greedy(self, order: list[int]) -> Placed:
        """Each buffer at the lowest offset that is free for its whole life."""
        at: list[int | None] = [None] * len(self.size)
        top = 0
        for i in order:
            taken = sorted((at[j], at[j] + its, own) for j, own, its in self.rivals[i] if at[j] is not None)  # type: ignore
            at[i] = self._first_gap(taken)  # type: ignore
            top = max(top, at[i] + self.size[i])  # type: ignore
        return top, tuple(at)  # type: ignore

    def _first_gap(self, taken: list[tuple[int, int, int]]) -> int:
        """The lowest offset that is in nobody's way: (start, end, bytes that must fit below the start)."""
        offset, before = 0, -1
        while offset != before:
            before = offset
            for start, end, size in taken:
                if offset < end and start < offset + size:
                    offset = -(-end // self.align) * self.align
        return offset

    def best_of(self, best: tuple[Placed, list[int]], orders: Iterable[list[int]]) -> tuple[Placed, list[int]]:
        """The best that one of these orders gives, or what was known; no more are asked for once it is tight."""
        for order in orders:
            best = min(best, (self.greedy(order), order))
            if self.tight(best[0][0]):
                break
        return best

    def polished(self, best: tuple[Placed, list[int]], rounds: int) -> tuple[Placed, list[int]]:
        """Give the buffers that stick out an earlier turn, again and again; seeded, so always the same."""
        rng = Random(len(self.size))
        current = best
        for _ in range(rounds):
            (top, at), order = current
            if self.tight(top):
                break
            moved = rng.choice([i for i, a in enumerate(at) if a + self.size[i] == top])
            turn = order.index(moved)
            changed = order[:turn] + order[turn + 1 :]
            changed.insert(rng.randrange(turn + 1), moved)
            found = self.greedy(changed), changed
            if found[0][0] <= top or rng.random() < 0.05:  # now and then a step up, to leave a dead end
                current = found
            best = min(best, found)
        return best

    def exhaustive(self) -> tuple[Placed, list[int]]:
        """The best of all orders: a greedy placement of the right order is optimal."""
        return min((self.greedy(list(order)), list(order)) for order in permutations(range(len(self.size))))
