"""Where line buffers and scratch of a loop over stripes lie: what is not needed in the same turn may share its bytes.

A line buffer has all its rows from the turn that makes them to that of their last reader, and else only those that the
next stripe needs. These it keeps at its front, so that others can lie behind them; but that is for one line buffer
alone, as of two one lies above the other. Or they are kept away: copied elsewhere after the last reader, and back
before new ones are made. Then others can have all of its bytes. How many rows these are is said by schedule.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from insitu.graph.stripes import ARRIVE, row_bytes
from insitu.planner.changes.stripes.schedule import Schedule
from insitu.planner.place.arena import ALIGN, Problem

ROUNDS = 200  # of search where the first places leave a gap

Key = str | int | tuple[str]  # whose bytes: a value's name, a node's number, (name,) for rows that are kept away
Sizes = dict[Key, list[int]]  # bytes in each turn of a stripe


@dataclass(frozen=True)
class Kept:
    """How line buffers keep rows: one has others behind what it keeps; `away` are those that keep them elsewhere."""

    front: str
    away: frozenset[str]
    lines: tuple[int, ...]  # bytes of all in each turn


def kept_best(schedule: Schedule, scratch: Sequence[int]) -> Kept:
    """The way that needs least with so many bytes of scratch in each turn; of equals, that with the fewest copies."""
    sizes = {line.value.name: _ways(schedule, line.value.name) for line in schedule.lines}
    taken = schedule.region.nodes[0].name if schedule.region.nodes[0].op.name == ARRIVE else ""
    movable = [name for name, (fixed, front, _) in sizes.items() if fixed != front]
    best: tuple[tuple[int, int], Kept] | None = None
    for front in movable or [""]:
        total = [sum(turn) for turn in zip(list(scratch), *(w[name == front] for name, w in sizes.items()))]
        away: list[str] = []
        for name in sorted(movable, key=lambda name: max(sizes[name][2]) - max(sizes[name][0])):
            if name in (front, taken):
                continue
            fixed, _, gone = sizes[name]
            tried = [t - a + b for t, a, b in zip(total, fixed, gone)]
            if max(tried) < max(total):
                total = tried
                away.append(name)
        found = (max(total), len(away)), Kept(front, frozenset(away), tuple(t - s for t, s in zip(total, scratch)))
        best = found if best is None or found[0] < best[0] else best
    assert best
    return best[1]


def _ways(schedule: Schedule, name: str) -> tuple[list[int], list[int], list[int]]:
    """Bytes of a line in each turn: if nothing is shared, behind what it keeps, if that is kept away."""
    line, turn = schedule.line[name], schedule.turn
    row, first, last = row_bytes(line.value), turn[name], turn[schedule.region.last[name]]
    full, kept = (-(-n * row // ALIGN) * ALIGN for n in (line.rows, line.kept))
    busy = [first <= i <= last for i in range(len(turn))]
    if not line.kept:
        only = [full if b else 0 for b in busy]
        return only, only, only
    return [full] * len(busy), [full if b else kept for b in busy], [full + kept if b else kept for b in busy]


def sizes_of(schedule: Schedule, kept: Kept, scratch: Sequence[int]) -> Sizes:
    """What has to be placed."""
    found: Sizes = {}
    count = len(schedule.turn)
    for line in schedule.lines:
        name, bytes = line.value.name, line.kept * row_bytes(line.value)
        fixed, front, gone = _ways(schedule, name)
        if name in kept.away:
            found[(name,)] = [bytes] * count
            found[name] = [line.bytes if g > min(gone) else 0 for g in gone]
        else:
            found[name] = front if name == kept.front else fixed
    found |= {i: [bytes if i == j else 0 for j in range(count)] for i, bytes in enumerate(scratch) if bytes}
    return found


def place_turns(sizes: Mapping[Key, Sequence[int]], align: int = ALIGN) -> tuple[dict[Key, int], int]:
    """Key -> offset, and the bytes of all."""
    if not sizes:
        return {}, 0
    turns = list(sizes.values())
    rivals = [[(j, *met) for j, b in enumerate(turns) if j != i and (met := _met(a, b))[0]]
              for i, a in enumerate(turns)]  # fmt: skip
    problem = Problem([max(s) for s in turns], rivals, max(map(sum, zip(*turns))), align)
    orders = [sorted(range(len(turns)), key=lambda i: key(turns[i])) for key in FIRST]
    best = min((problem.greedy(order), order) for order in orders)
    total, offsets = problem.polished(best, ROUNDS)[0]
    return dict(zip(sizes, offsets)), total


def _met(a: Sequence[int], b: Sequence[int]) -> tuple[int, int]:
    """The most bytes of each in a turn in which both have some."""
    both = [(x, y) for x, y in zip(a, b) if x and y]
    return max((x for x, _ in both), default=0), max((y for _, y in both), default=0)


# who is given a place first: what is always there, and of that what does not grow; then the largest, or what stays
FIRST = (
    lambda s: (min(s) == 0, max(s) - min(s) if min(s) else 0, -max(s)),
    lambda s: (min(s) == 0, max(s) - min(s) if min(s) else 0, -sum(map(bool, s)), -max(s)),
    lambda s: (min(s) == 0, max(s) - min(s) if min(s) else 0, -sum(s)),
    lambda s: -max(s),
)
