"""Passes over tiles as C: a loop a pass, a line a call with its layer."""

from __future__ import annotations

from collections.abc import Callable

from insitu.codegen import c
from insitu.graph.call import Call, Scratch
from insitu.graph.graph import Value
from insitu.graph.stripes import scratch_places
from insitu.graph.tiles import Count, Part, Tiles

TILE = "t"


def tile_lines(tiles: Tiles, places: list[int], place: Callable[[Value], str], argument: Callable) -> list[str]:
    """`places`: where each room lies, then the scratch; `place(value)` says so for others, `argument` the rest."""
    rooms = {v.name: _room(v, at) for v, at in zip(tiles.rooms, places)}
    scratch = places[-1] if len(places) > len(tiles.rooms) else 0
    lines = []
    for p in tiles.passes:
        calls = [_line(s.call, s.layer, rooms, scratch, place, argument) for s in p.steps]
        head = f"    for (int32_t {TILE} = 0; {TILE} < {p.count}; {TILE}++) {{"
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
            return f"{place(arg.value)} + {TILE} * {arg.step}"
        if isinstance(arg, Count):
            return f"{TILE} * {arg.step}"
        if isinstance(arg, Scratch):
            return f"arena + {next(free)}"
        return argument(arg, layer)

    return c.call(call.function, [text(a) for a in call.args], layer)
