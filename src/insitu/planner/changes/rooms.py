"""Places of the values inside a loop over channels: two that never exist at the same time may share their bytes.

A room is alive in a turn from the step that writes it to the last step that reads it; in the next pass it may have
another place. A kept room is alive from the pass that first writes it to the end of the last pass that needs it. Rooms
that are dead before the last pass may lie inside the value that only the last pass writes.
"""

from __future__ import annotations

from collections.abc import Iterable

from insitu.graph import Node, Value
from insitu.graph.loops import Key, Loop, Part, Pass, Room, Step, aligned, scratch_bytes
from insitu.planner.lifetimes import Buffer
from insitu.planner.place.placer import fitted, place

Passes = tuple[Pass, ...]
Touched = list[list[set[str]]]  # [pass][step]: the values it reads or writes


def arranged(nodes: tuple[Node, ...], rooms: Iterable[Room], passes: Passes, lender: Value | None = None) -> Loop:
    """The passes with a place for every room and every call's scratch; `lender` is a result that lends its bytes until
    it is written."""
    rooms = tuple(rooms)
    touched = [[_touched(step) for step in p.steps] for p in passes]
    found = [b for room in rooms for b in (_kept if room.kept else _of_turns)(room, passes, touched)]
    found += _scratch(passes)
    lent = _lent([b for _, b in found], lender, passes, touched) if lender else {}
    offsets, total = place(tuple(b for _, b in found if b not in lent))
    offsets |= {b: aligned(total) + at for b, at in lent.items()}
    places = {key: offsets[b] for keys, b in found for key in keys}
    return Loop(nodes, rooms, places, total, passes=passes, lender=lender)


def _lent(found: list[Buffer], lender: Value, passes: Passes, touched: Touched) -> dict[Buffer, int]:
    """Places inside the lender for buffers that fit there before the pass that writes it; the longest lives first."""
    begin = min(start for its, (start, _) in zip(touched, _spans(passes)) if any(lender.name in t for t in its))
    early = sorted((b for b in found if b.last < begin), key=lambda b: (b.first - b.last, -b.bytes))
    return fitted(early, lender.type.bytes)


Found = list[tuple[list[Key], Buffer]]  # the keys of a place, and its lifetime


def _kept(room: Room, passes: Passes, touched: Touched) -> Found:
    """Whole passes count: what one turn leaves, the next turns find."""
    name, spans = room.value.name, _spans(passes)
    uses = [i for i, its in enumerate(touched) if any(name in t for t in its)]
    buffer = Buffer((name,), room.bytes, spans[uses[0]][0], spans[uses[-1]][1])
    return [([(i, name) for i in uses], buffer)]


def _of_turns(room: Room, passes: Passes, touched: Touched) -> Found:
    found: Found = []
    name = room.value.name
    for i, (its, (start, _)) in enumerate(zip(touched, _spans(passes))):
        steps = [start + j for j, t in enumerate(its) if name in t]
        if steps:
            found.append(([(i, name)], Buffer((name, str(i)), room.bytes, steps[0], steps[-1])))
    return found


def _scratch(passes: Passes) -> Found:
    return [
        ([(i, j)], Buffer(("scratch", str(i), str(j)), scratch_bytes(step.call), start + j, start + j))
        for i, (p, (start, _)) in enumerate(zip(passes, _spans(passes)))
        for j, step in enumerate(p.steps)
        if scratch_bytes(step.call)
    ]


def _spans(passes: Passes) -> list[tuple[int, int]]:
    """The first and the last step of each pass, numbered consecutively."""
    found, start = [], 0
    for p in passes:
        found.append((start, start + len(p.steps) - 1))
        start += len(p.steps)
    return found


def _touched(step: Step) -> set[str]:
    """The values that a step reads or writes."""
    read = (a.value if isinstance(a, Part) else a for a in step.call.args)
    return {v.name for v in (*read, *step.writes) if isinstance(v, Value)}
