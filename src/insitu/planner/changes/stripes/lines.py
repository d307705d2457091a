"""Places of line buffers and scratch in a loop over stripes: those not needed in the same turn may share their bytes.

A line buffer has all its rows from the turn that makes them to the turn of their last reader, and otherwise only the
rows that the next stripe needs. It may keep these at its front, so that other buffers can lie after them; this is
possible for one line buffer only, because of two, one lies above the other. Or they are kept away: copied elsewhere
after the last reader, and back before new rows are made. Then other buffers can use all of its bytes. schedule.py says
how many rows these are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from insitu.graph.loops import Key, aligned, away
from insitu.planner.changes.stripes.schedule import Schedule
from insitu.planner.lifetimes import Buffer
from insitu.planner.place.placer import place

ROUNDS = 200  # of search if the first places leave a gap


@dataclass(frozen=True)
class Kept:
    """How line buffers keep rows: one has others after its kept rows; `away` are those that keep them elsewhere."""

    front: str
    away: frozenset[str]
    lines: tuple[int, ...]  # bytes of all line buffers in each turn


def kept_best(schedule: Schedule, scratch: Sequence[int]) -> Kept:
    """The way that needs least, given the scratch of each turn; of equals, the one with the fewest copies."""
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
    """Bytes of a line in each turn: if nothing is shared, if others lie after its kept rows, if these are kept away."""
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
    """The buffers to place; a step of their life is a turn of the stripe."""
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
    """Buffers that always exist come first, and among them those that do not grow."""
    always = b.last - b.first + 1 == turns
    return not always, b.bytes - min(size for _, _, size in b.pieces) if always else 0


# who is placed first: the largest, or those that stay
FIRST = (
    lambda turns, b: (*_growth(turns, b), -b.bytes),
    lambda turns, b: (*_growth(turns, b), b.first - b.last, -b.bytes),
    lambda turns, b: (*_growth(turns, b), -sum((last - first + 1) * size for first, last, size in b.pieces)),
    lambda turns, b: -b.bytes,
)
