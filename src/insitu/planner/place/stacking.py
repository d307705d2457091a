"""Orders of placing that come close to the lower bound, found by repeatedly stacking the buffers around the peak.

Only the steps that need most are considered, and buffers that are alive at the same of these steps form one block.
Blocks are stacked: each lies on the highest of those below it, and empty bytes under it are waste, which costs most
where least is spare. The next block is the one with the highest priority minus the cost of its waste. A seeded hill
climb changes the priorities of blocks that stick out. Many stacks are built at once, in integers that a double
represents exactly, so every machine finds the same. placer.py decides the final places, from the order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from math import log2
from random import Random

import numpy as np

from insitu.planner.lifetimes import Buffer

# of the lower bound: steps that need less are left out, at first most steps, then fewer
CROWDED = (0.9, 0.8, 0.7, 0.6)
UNIT = 1 << 16  # of priorities and costs
EXACT = 1 << 52  # sums of integers below this are exact
CHAINS = 4  # this many of the first stacks are improved
# parameters of a first stack: the weight of a long life, the cost of waste, the least that counts as spare
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
    """Orders of blocks: those of the best first stacks, and each one that promises more than the last of its chain."""
    drawn = blocks.stack(*_drawn(blocks, rng, max(1, rounds * 2 // 3)))
    best = drawn.chosen(np.argsort(drawn.excess, kind="stable")[:CHAINS])
    yield from best.order.tolist()
    for _ in range(rounds // 3):
        if not best.excess.all():
            break
        tried = blocks.stack(*_changed(blocks, best, rng))
        yield from tried.order[tried.excess < best.excess].tolist()
        best = best.replaced(tried, tried.excess <= best.excess)


@dataclass(frozen=True, eq=False)
class Stacks:
    """Many stackings: what decided the order, the order, and the height of each column."""

    priority: np.ndarray  # [stack, block]
    cost: np.ndarray  # [stack, column]: of a wasted byte there
    order: np.ndarray  # [stack, block]
    tops: np.ndarray  # [stack, column]
    excess: np.ndarray  # [stack]: bytes beyond the lower bound, over all columns

    def chosen(self, which: np.ndarray) -> Stacks:
        return Stacks(*(getattr(self, f.name)[which] for f in fields(self)))

    def replaced(self, others: Stacks, where: np.ndarray) -> Stacks:
        """With some stacks replaced by others."""
        pairs = [(getattr(self, f.name), getattr(others, f.name)) for f in fields(self)]
        return Stacks(*(np.where(where.reshape(-1, *[1] * (a.ndim - 1)), b, a) for a, b in pairs))


@dataclass(frozen=True, eq=False)
class Blocks:
    """Bytes of each block in each column; a column is a step that no other step makes redundant."""

    bytes: np.ndarray  # [block, column]
    members: list[list[int]]  # the buffers of each block

    @cached_property
    def alive(self) -> np.ndarray:
        return (self.bytes > 0).astype(float)

    @cached_property
    def met(self) -> np.ndarray:
        """[block, other]: the most bytes of a block while the other is alive, too."""
        return (self.bytes[:, None, :] * self.alive[None]).max(2)

    @cached_property
    def live(self) -> np.ndarray:
        return self.bytes.sum(0)

    def stack(self, priority: np.ndarray, cost: np.ndarray) -> Stacks:
        """Every block on top of those below it; the next block has the highest priority minus its waste."""
        cost = np.minimum(cost, EXACT // int(self.bytes.sum() * len(self.live)))
        columns, rows = self.alive.T, np.arange(len(priority))
        tops, least, left = np.zeros_like(cost), np.zeros_like(priority), priority.copy()
        whole, order = cost @ columns, np.empty(priority.shape, int)
        for turn in range(len(self.members)):
            block = (left - least * whole + (cost * tops) @ columns).argmax(1)
            at, its, met = least[rows, block][:, None], self.bytes[block], self.met[block]
            np.copyto(tops, at + its, where=its > 0)
            np.maximum(least, at + met, out=least, where=met > 0)
            left[rows, block] = -np.inf
            order[:, turn] = block
        return Stacks(priority, cost, order, tops, np.maximum(tops - self.live.max(), 0).sum(1))


def blocks_of(buffers: tuple[Buffer, ...], align: int, crowded: float) -> Blocks:
    """The buffers alive at crowded steps; those alive at the same steps form one block."""
    table = np.zeros((len(buffers), max(b.last for b in buffers) + 2))  # the first column is step -1
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
    """Without columns whose live values are all alive, and as large, in the column before or after."""
    kept: list[np.ndarray] = []
    for column in table.T:
        if kept and (column <= kept[-1]).all():
            continue
        while kept and (kept[-1] <= column).all():
            kept.pop()
        kept.append(column)
    return np.array(kept).T


def _drawn(blocks: Blocks, rng: Random, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Priorities that grow with the length of a life, plus chance; the cost of waste, highest where least is spare."""
    life, spare = np.array([log2(n) for n in blocks.alive.sum(1)]), blocks.live.max() - blocks.live
    priority, cost = [], []
    for _ in range(count):
        long, chance = rng.choice(LIFE), 10 ** rng.uniform(-2, 0.5)
        priority.append(long * life + chance * np.array([rng.random() for _ in life]))
        cost.append(10 ** rng.uniform(*COST) / np.maximum(spare, rng.choice(SPARE)))
    return np.round(UNIT * np.array(priority)), np.round(UNIT * np.array(cost))


def _changed(blocks: Blocks, stacks: Stacks, rng: Random) -> tuple[np.ndarray, np.ndarray]:
    """New priorities for a few blocks of a column that is too high; sometimes another cost of its waste."""
    priority, cost = stacks.priority.copy(), stacks.cost.copy()
    for its, costs, tops in zip(priority, cost, stacks.tops):
        column = rng.choice(np.flatnonzero(tops > blocks.live.max()).tolist())
        there = np.flatnonzero(blocks.alive[:, column]).tolist()
        for block in rng.sample(there, min(len(there), rng.randint(1, 3))):
            its[block] += round(UNIT * rng.gauss(0, 1) * 10 ** rng.uniform(-1, 1))
        if rng.random() < 0.3:
            costs[column] = max(1, round(costs[column] * 2 ** rng.gauss(0, 1)))
    return priority, cost
