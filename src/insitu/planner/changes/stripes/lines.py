"""Where line buffers and scratch of a loop over stripes lie: what is not needed in the same turn may share its bytes.

A line buffer has all its rows from the turn that makes them to that of their last reader, and else only those that the
next stripe needs. These it keeps at its front, so that others can lie behind them; but that is for one line buffer
alone, as of two one lies above the other. Or they are kept away: copied elsewhere after the last reader, and back
before new ones are made. Then others can have all of its bytes. How many rows these are is said by schedule.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from insitu.graph.loops import Key, aligned, away
from insitu.planner.changes.stripes.schedule import Schedule
from insitu.planner.lifetimes import Buffer
from insitu.planner.place.placer import place

ROUNDS = 200  # of search where the first places leave a gap


@dataclass(frozen=True)
class Kept:
    """How line buffers keep rows: one has others behind what it keeps; `away` are those that keep them elsewhere."""

    front: str
    away: frozenset[str]
    lines: tuple[int, ...]  # bytes of all in each turn


def kept_best(schedule: Schedule, scratch: Sequence[int]) -> Kept:
    """The way that needs least with so many bytes of scratch in each turn; of equals, that with the fewest copies."""
    sizes = {name: _ways(schedule, name) for name in schedule.room}
    taken = schedule.region.nodes[0].name if schedule.region.nodes[0].op.facts.arrives else ""
    movable = [name for name, (fixed, front, _) in sizes.items() if fixed != front]
    best: tuple[tuple[int, int], Kept] | None = None
    for front in movable or [""]:
        total = [sum(turn) for turn in zip(list(scratch), *(w[name == front] for name, w in sizes.items()))]
        apart: list[str] = []
        for name in sorted(movable, key=lambda name: max(sizes[name][2]) - max(sizes[name][0])):
            if name in (front, taken):
                continue
            fixed, _, gone = sizes[name]
            tried = [t - a + b for t, a, b in zip(total, fixed, gone)]
            if max(tried) < max(total):
                total = tried
                apart.append(name)
        found = (max(total), len(apart)), Kept(front, frozenset(apart), tuple(t - s for t, s in zip(total, scratch)))
        best = found if best is None or found[0] < best[0] else best
    assert best
    return best[1]


def _ways(schedule: Schedule, name: str) -> tuple[list[int], list[int], list[int]]:
    """Bytes of a line in each turn: if nothing is shared, behind what it keeps, if that is kept away."""
    room, turn = schedule.room[name], schedule.turn
    full, kept = aligned(room.bytes), aligned(room.kept)
    busy = [turn[name] <= i <= turn[schedule.region.last[name]] for i in range(len(turn))]
    if not room.kept:
        only = [full if b else 0 for b in busy]
        return only, only, only
    return [full] * len(busy), [full if b else kept for b in busy], [full + kept if b else kept for b in busy]


def place_lines(schedule: Schedule, kept: Kept, scratch: Sequence[int]) -> tuple[dict[Key, int], int]:
    """Key -> offset, and the bytes of all."""
    buffers = dict(_buffers(schedule, kept, scratch))
    first = tuple(partial(rule, len(schedule.turn)) for rule in FIRST)
    offsets, total = place(tuple(buffers.values()), rounds=ROUNDS, first=first, stack=False)
    return {key: offsets[b] for key, b in buffers.items()}, total


def _buffers(schedule: Schedule, kept: Kept, scratch: Sequence[int]) -> Iterator[tuple[Key, Buffer]]:
    """What has to be placed; a step of its life is a turn of the stripe."""
    turn, end = schedule.turn, len(schedule.turn) - 1
    for name, room in schedule.room.items():
        first, last = turn[name], turn[schedule.region.last[name]]
        if name in kept.away:
            yield (0, away(name)), Buffer((away(name),), room.kept, 0, end)
        if name in kept.away or not room.kept:
            yield (0, name), Buffer((name,), room.bytes, first, last)
        elif name == kept.front:
            later = ((0, room.kept), (first, room.bytes), (last + 1, room.kept))
            yield (0, name), Buffer((name,), room.bytes, 0, end, later)
        else:
            yield (0, name), Buffer((name,), room.bytes, 0, end)
    yield from (((0, i), Buffer(("scratch", str(i)), bytes, i, i)) for i, bytes in enumerate(scratch) if bytes)


def _growth(turns: int, b: Buffer) -> tuple[bool, int]:
    """What is always there comes first, and of that what does not grow."""
    always = b.last - b.first + 1 == turns
    return not always, b.bytes - min(size for _, _, size in b.pieces) if always else 0


# who is given a place first: the largest, or what stays
FIRST = (
    lambda turns, b: (*_growth(turns, b), -b.bytes),
    lambda turns, b: (*_growth(turns, b), b.first - b.last, -b.bytes),
    lambda turns, b: (*_growth(turns, b), -sum((last - first + 1) * size for first, last, size in b.pieces)),
    lambda turns, b: -b.bytes,
)
