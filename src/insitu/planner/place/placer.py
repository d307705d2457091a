"""Give every buffer an offset, so that no two use the same bytes at the same step: the one placer.

It places the values of a graph in the arena, and the contents of a loop in the loop's own bytes. Each buffer in turn
gets the lowest offset that is free for its whole life; several rules give the order. If all of them leave a gap to the
lower bound, few buffers are tried in every order; for many, a seeded search improves on the best, starting from orders
that stacking.py proposes. Nothing here chooses the order of the graph (order.py) or trusts itself (verify/).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf
from random import Random

from insitu.planner.lifetimes import Buffer, lower_bound
from insitu.planner.place.stacking import stacked

ALIGN = 16
EXACT = 7  # up to this many buffers: every order is tried
SMALL = 128  # times smaller than the arena counts as small: such buffers fill gaps between others

Order = list[int]  # numbers of buffers
Placed = tuple[int, tuple[int, ...]]  # total bytes, one offset per buffer
Best = tuple[Placed, Order]

# the order in which buffers are placed
FIRST: tuple[Callable[[Buffer], tuple], ...] = (
    lambda b: (-b.bytes, b.first, b.names),
    lambda b: (-b.bytes * (b.last - b.first + 1), b.first, b.names),
    lambda b: (-(b.last - b.first), -b.bytes, b.first, b.names),
    lambda b: (b.first, -b.bytes, b.names),
    lambda b: (-b.last, -b.bytes, b.names),
)


def place(buffers: tuple[Buffer, ...], align: int = ALIGN, rounds: int = 0, *, first=FIRST, stack: bool = True
          ) -> tuple[dict[Buffer, int], int]:  # fmt: skip
    """Buffer -> offset, and the total bytes.

    rounds   how long to search if the rules leave a gap
    first    the rules: which buffer is placed first
    stack    whether stacking.py proposes orders for the search
    """
    if not buffers:
        return {}, 0
    problem = problem_of(buffers, align)
    orders = (sorted(range(len(buffers)), key=lambda i: key(buffers[i])) for key in first)
    best = problem.best_of(None, orders, problem.least)
    if len(buffers) <= EXACT:
        best = problem.exact(best)
    elif rounds and best[0][0] > problem.tight:
        proposed = _proposed(buffers, align, rounds) if stack else ()
        best = problem.polished(problem.best_of(best, proposed, problem.tight), rounds)
    total, offsets = best[0]
    return dict(zip(buffers, offsets)), total


def fitted(buffers: Iterable[Buffer], room: int, align: int = ALIGN) -> dict[Buffer, int]:
    """Buffer -> offset of those that fit into `room` bytes, one after the other; the rest are left out."""
    found: dict[Buffer, int] = {}
    for b in buffers:
        met = ((at, *_met(b, other)) for other, at in found.items() if b.overlaps(other))
        taken = sorted((at, at + its, own) for at, own, its in met)
        at = _first_gap(taken, align)
        if at + b.bytes <= room:
            found[b] = at
    return found


def arena_bytes(offsets: Mapping[Buffer, int]) -> int:
    return max((offset + b.bytes for b, offset in offsets.items()), default=0)


def _proposed(buffers: tuple[Buffer, ...], align: int, rounds: int) -> Iterator[Order]:
    """Orders in which the buffers around the peak were stacked; then the large ones in the order of their places
    without the others, from the lowest up, and the small ones, which fill gaps: with fewer to move, a search gets
    further."""
    yield from stacked(buffers, align, rounds)
    least = lower_bound(buffers) // SMALL
    large = tuple(b for b in buffers if b.bytes >= least)
    if len(large) < len(buffers):
        at, _ = place(large, align, rounds)
        yield sorted(range(len(buffers)), key=lambda i: (buffers[i] not in at, at.get(buffers[i], -buffers[i].bytes)))


def _met(a: Buffer, b: Buffer) -> tuple[int, int]:
    """The most bytes of each while both are alive."""
    if not a.later and not b.later:
        return a.bytes, b.bytes
    steps = max(a.first, b.first), min(a.last, b.last)
    return a.most(*steps), b.most(*steps)


def problem_of(buffers: tuple[Buffer, ...], align: int) -> Problem:
    rivals: list[list[tuple[int, int, int]]] = [[] for _ in buffers]
    alive: list[int] = []
    for i in sorted(range(len(buffers)), key=lambda i: buffers[i].first):
        b = buffers[i]
        alive = [j for j in alive if buffers[j].last >= b.first]
        for j in alive:
            own, its = _met(b, buffers[j])
            rivals[i].append((j, own, its))
            rivals[j].append((i, its, own))
        alive.append(i)
    return Problem([b.bytes for b in buffers], rivals, _least(buffers, align), align)


def _least(buffers: tuple[Buffer, ...], align: int) -> int:
    """The lower bound for aligned offsets: at each step, all live buffers but the highest are rounded up."""
    if len(buffers) > EXACT:
        return lower_bound(buffers)  # a few bytes less, and faster
    steps = {first for b in buffers for first, _, _ in b.pieces}
    live = ([b.size(step) for b in buffers if b.first <= step <= b.last] for step in steps)
    return max(sum(-(-size // align) * align for size in its) - max(-size % align for size in its) for its in live)


@dataclass(frozen=True)
class Problem:
    """Buffers by number: the bytes of each, and (number, own bytes, its bytes) of each alive at the same time."""

    size: list[int]
    rivals: list[list[tuple[int, int, int]]]
    least: int  # no placement needs fewer bytes
    align: int

    @property
    def tight(self) -> int:
        """Nothing below this is worth searching for: alignment alone can cost a few bytes per buffer."""
        return self.least + max(4 * self.align, self.least // 512)

    def greedy(self, order: Order, kept: int = 0, known: tuple[int, ...] = (), most: float = inf) -> Placed | None:
        """Each buffer at the lowest offset that is free for its whole life; None once that needs more than `most`.

        kept    how many at the start of the order keep their places of `known`
        """
        at, top = [-1] * len(self.size), 0
        for turn, i in enumerate(order):
            at[i] = known[i] if turn < kept else self._lowest(i, at)
            top = max(top, at[i] + self.size[i])
            if top > most:
                return None
        return top, tuple(at)

    def _lowest(self, i: int, at: list[int]) -> int:
        taken = [(at[j], at[j] + its, own) for j, own, its in self.rivals[i] if at[j] >= 0]
        taken.sort()
        if i not in self.steady:
            return _first_gap(taken, self.align)
        offset, size = 0, self.size[i]
        for start, end, _ in taken:
            if start >= offset + size:
                break
            if end > offset:
                offset = -(-end // self.align) * self.align
        return offset

    @cached_property
    def steady(self) -> set[int]:
        """Buffers with the same size beside every other buffer: the first gap that is large enough is theirs."""
        return {i for i, (size, its) in enumerate(zip(self.size, self.rivals)) if all(own == size for _, own, _ in its)}

    def best_of(self, best: Best | None, orders: Iterable[Order], enough: int) -> Best:
        """The best result of these orders, or the best so far; stops as soon as one is good enough."""
        for order in orders:
            found = _placed(self.greedy(order)), order
            best = min(best, found) if best else found
            if best[0][0] <= enough:
                break
        assert best
        return best

    def polished(self, best: Best, rounds: int) -> Best:
        """Repeatedly give the buffers that stick out an earlier turn; seeded, so the result is always the same."""
        rng = Random(len(self.size))
        current = best
        for _ in range(rounds):
            (top, at), order = current
            if top <= self.tight:
                break
            moved = rng.choice([i for i, a in enumerate(at) if a + self.size[i] == top])
            turn = order.index(moved)
            earlier = rng.randrange(turn + 1)
            changed = [*order[:earlier], moved, *order[earlier:turn], *order[turn + 1 :]]
            found = self.greedy(changed, earlier, at, top)
            if found is None and rng.random() < 0.05:  # now and then a step up, to leave a dead end
                found = self.greedy(changed, earlier, at)
            if found:
                current = found, changed
                best = min(best, current)
        return best

    def exact(self, best: Best) -> Best:
        """The best of all orders: a greedy placement in the right order is optimal. Orders whose start is already as
        bad as the best known are skipped."""
        todo: list[tuple[Order, list[int], int]] = [([], [-1] * len(self.size), 0)]
        while todo and best[0][0] > self.least:
            order, at, top = todo.pop()
            if len(order) == len(at) and top < best[0][0]:
                best = (top, tuple(at)), order
            for i in (i for i, offset in enumerate(at) if offset < 0):
                placed = [*at[:i], self._lowest(i, at), *at[i + 1 :]]
                if max(top, placed[i] + self.size[i]) < best[0][0]:
                    todo.append(([*order, i], placed, max(top, placed[i] + self.size[i])))
        return best


def _placed(found: Placed | None) -> Placed:
    assert found  # without a limit there is always a place
    return found


def _first_gap(taken: list[tuple[int, int, int]], align: int) -> int:
    """The lowest free offset: (start, end, bytes that must fit below the start)."""
    offset, before = 0, -1
    while offset != before:
        before = offset
        for start, end, size in taken:
            if offset < end and start < offset + size:
                offset = -(-end // align) * align
    return offset
