"""Orders of placing that come close to the lower bound, found by stacking the buffers around the peak again and again.

Only the steps that need most are looked at, and buffers that are alive at the same of them are one block. Blocks are
stacked: each lies on the highest of those below it, and what stays empty under it is waste, which costs most where
least is to spare. The next to be laid is the one of highest priority, less what it would waste. A seeded hill climb
changes the priorities of those that stick out. All in integers, so that every machine finds the same. Where things lie
in the end is decided in arena.py, from the order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import log2
from random import Random

import numpy as np

from insitu.planner.lifetimes import Buffer

# of the lower bound: steps that need less are left out, first most of them, then fewer
CROWDED = (0.9, 0.8, 0.7, 0.6)
UNIT = 1 << 16  # of priorities and weights
CHAINS = 4  # so many of the first stacks are improved on
# what a first stack is drawn from: how much a long life counts, what waste costs, the least there counts as to spare
LIFE, COST, SPARE = (0.5, 1, 2, 3), (-0.5, 1.5), (16, 100, 500)


def stacked(buffers: tuple[Buffer, ...], align: int, rounds: int) -> Iterator[list[int]]:
    """Orders in which to place the buffers, by number: those around the peak as they were stacked, then the others."""
    for crowded in CROWDED:
        blocks = blocks_of(buffers, align, crowded)
        others = set(range(len(buffers))).difference(*blocks.members)
        last = sorted(others, key=lambda i: (-buffers[i].bytes, buffers[i].first, buffers[i].names))
        for order in _climbed(blocks, Random(len(buffers)), rounds):
            yield [*(i for block in order for i in blocks.members[block]), *last]


def _climbed(blocks: Blocks, rng: Random, rounds: int) -> Iterator[list[int]]:
    """Orders of blocks, each promising more than the one before it in its chain."""
    found = [_drawn(blocks, rng) for _ in range(rounds * 2 // 3)]
    for best in sorted(found, key=lambda s: s.excess)[:CHAINS]:
        yield best.order
        for _ in range(rounds // 3):
            if not best.excess:
                break
            tried = _changed(blocks, best, rng)
            if tried.excess < best.excess:
                yield tried.order
            best = tried if tried.excess <= best.excess else best


@dataclass(frozen=True, eq=False)
class Stack:
    """How blocks came to lie: what decided the order, the order, and how high each column became."""

    priority: np.ndarray  # of each block
    cost: np.ndarray  # of a byte wasted in each column
    order: list[int]
    tops: np.ndarray
    excess: int  # bytes beyond the lower bound, over all columns


@dataclass(frozen=True, eq=False)
class Blocks:
    """Bytes of each block in each column; a column is a step that no other makes needless."""

    bytes: np.ndarray  # [block, column]
    members: list[list[int]]  # the buffers of each block

    @cached_property
    def alive(self) -> np.ndarray:
        return self.bytes > 0

    @cached_property
    def life(self) -> list[int]:
        return self.alive.sum(1).tolist()

    @cached_property
    def spare(self) -> np.ndarray:
        live = self.bytes.sum(0)
        return live.max() - live

    @cached_property
    def bound(self) -> int:
        return int(self.bytes.sum(0).max())

    @cached_property
    def parts(self) -> list[list[tuple[int, np.ndarray, np.ndarray]]]:
        """For each block and each size it has: the size, the columns in which it has it, the blocks it meets there."""
        found = []
        for row in self.bytes:
            sizes = (int(size) for size in np.unique(row[row > 0]))
            found.append([(size, row == size, self.alive[:, row == size].any(1)) for size in sizes])
        return found

    def stack(self, priority: np.ndarray, cost: np.ndarray) -> Stack:
        """Every block on what is below it, the one with the highest priority less its waste next."""
        costs = self.alive * cost
        whole = costs.sum(1)
        tops, least = np.zeros(len(cost), np.int64), np.zeros(len(priority), np.int64)
        left, order = priority.copy(), []
        for _ in self.members:
            block = int((left - least * whole + costs @ tops).argmax())
            at = int(least[block])
            for size, columns, met in self.parts[block]:
                tops[columns] = at + size
                np.maximum(least, at + size, out=least, where=met)
            left[block] = np.iinfo(np.int64).min >> 1
            order.append(block)
        return Stack(priority, cost, order, tops, int(np.maximum(tops - self.bound, 0).sum()))


def blocks_of(buffers: tuple[Buffer, ...], align: int, crowded: float) -> Blocks:
    """The buffers that are alive at crowded steps; those that are so at the same of them, as one."""
    table = np.zeros((len(buffers), max(b.last for b in buffers) + 2), np.int64)  # the first column is step -1
    for row, b in zip(table, buffers):
        for first, last, size in b.pieces:
            row[first + 1 : last + 2] = -(-size // align) * align
    live = table.sum(0)
    table = _needed(table[:, live >= crowded * live.max()])
    groups: dict[tuple, list[int]] = {}
    for i, row in enumerate(table):
        if row.any():
            shrinks = len(np.unique(row[row > 0])) > 1
            groups.setdefault((i,) if shrinks else tuple(np.flatnonzero(row)), []).append(i)
    return Blocks(np.array([table[group].sum(0) for group in groups.values()]), list(groups.values()))


def _needed(table: np.ndarray) -> np.ndarray:
    """Without the columns in which nothing is alive that is not so, and as large, in the one before or after."""
    kept: list[np.ndarray] = []
    for column in table.T:
        if kept and (column <= kept[-1]).all():
            continue
        while kept and (kept[-1] <= column).all():
            kept.pop()
        kept.append(column)
    return np.array(kept).T


def _drawn(blocks: Blocks, rng: Random) -> Stack:
    """A stack from priorities that grow with the length of a life, and some chance."""
    life, cost, spare = rng.choice(LIFE), 10 ** rng.uniform(*COST), rng.choice(SPARE)
    chance = 10 ** rng.uniform(-2, 0.5)
    priority = [round(UNIT * (life * log2(n) + chance * rng.random())) for n in blocks.life]
    weight = [round(UNIT * cost / max(int(bytes), spare)) for bytes in blocks.spare]
    return blocks.stack(np.array(priority), np.array(weight))


def _changed(blocks: Blocks, stack: Stack, rng: Random) -> Stack:
    """Another priority for a few blocks of a column that is too high; now and then, more or less cost of its waste."""
    priority, cost = stack.priority.copy(), stack.cost
    column = rng.choice(np.flatnonzero(stack.tops > blocks.bound).tolist())
    there = np.flatnonzero(blocks.alive[:, column]).tolist()
    for block in rng.sample(there, min(len(there), rng.randint(1, 3))):
        priority[block] += round(UNIT * rng.gauss(0, 1) * 10 ** rng.uniform(-1, 1))
    if rng.random() < 0.3:
        cost = cost.copy()
        cost[column] = max(1, round(int(cost[column]) * 2 ** rng.gauss(0, 1)))
    return blocks.stack(priority, cost)
