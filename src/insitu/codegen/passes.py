"""Passes over channels as C: one loop per pass, one line per call with its layer."""

from __future__ import annotations

from collections.abc import Callable

from insitu.codegen import c
from insitu.graph.call import Call, Scratch
from insitu.graph.graph import Value
from insitu.graph.loops import Count, Entries, Loop, Part, scratch_places

TURN = "t"


def pass_lines(loop: Loop, starts: tuple[int, int], place: Callable[[Value], str], argument: Callable) -> list[str]:
    """The C lines. `starts` says where rooms and scratch begin, and where the value that lends its bytes begins;
    `place(value)` is the address of another value, `argument` any other argument."""
    lines, (own, lent) = [], starts
    for i, p in enumerate(loop.passes):
        its = {key: at for (at_pass, key), at in loop.places.items() if at_pass == i}
        places = {key: own + at if at < loop.end else lent + at - loop.end for key, at in its.items()}
        values = [room.value for room in loop.rooms if room.value.name in places]
        rooms = {v.name: _room(v, places[v.name]) for v in values}
        calls = [_line(s.call, s.layer, rooms, places.get(j, 0), place, argument) for j, s in enumerate(p.steps)]
        head = f"    for (int32_t {TURN} = 0; {TURN} < {p.count}; {TURN}++) {{"
        lines += [head, *(f"    {line}" for line in calls), "    }"] if p.count > 1 else calls
    return lines


def _room(value: Value, at: int) -> str:
    return f"({value.type.ctype} *)(arena + {at})"


def _line(call: Call, layer: str, rooms: dict[str, str], scratch: int, place: Callable, argument: Callable) -> str:
    free = iter(scratch_places(call, scratch))

    def text(arg) -> str:
        if isinstance(arg, Value) and arg.name in rooms:
            return rooms[arg.name]
        if isinstance(arg, Part):
            return f"{rooms.get(arg.value.name) or place(arg.value)} + {TURN} * {arg.step}"
        if isinstance(arg, Entries):
            return f"{argument(arg.table, layer)} + {TURN} * {arg.step}"
        if isinstance(arg, Count):
            return f"{TURN} * {arg.step}"
        if isinstance(arg, Scratch):
            return f"arena + {next(free)}"
        return argument(arg, layer)

    return c.call(call.function, [text(a) for a in call.args], layer)
