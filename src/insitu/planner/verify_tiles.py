"""An independent proof that passes over tiles are safe: it replays them on what each room holds.

Shares no code with tiles.py. A room must fit its scratch and be written in a tile before it is read there; what is
walked through part by part, and what is counted, must end where the value ends.
"""

from __future__ import annotations

from insitu.errors import GraphError
from insitu.graph import Node, Value
from insitu.graph.call import Scratch, Struct
from insitu.graph.tiles import Count, Part, Pass, Step, Tiles


def verify_tiles(tiles: Tiles, node: Node) -> None:
    """Raise a GraphError that names the value and the tile where something is wrong."""
    _check_rooms(tiles)
    rooms = {v.name for v in tiles.rooms}
    whole = {v.name: v for v in (*node.inputs, *node.outputs)}
    written: set[str] = set()  # rooms that hold something
    for p in tiles.passes:
        for t in range(p.count):
            written &= tiles.kept
            for step in p.steps:
                _reads(step, rooms, written, t)
                _inside(step, rooms, whole)
                written |= {v.name for v in step.writes} & rooms
        _ends(p, whole)
    made = {v.name for step in tiles.passes[-1].steps for v in step.writes}
    missing = [v for v in node.outputs if v.name not in made]
    if missing:
        raise GraphError("no pass makes it", where=f"%{missing[0].name}")


def _check_rooms(tiles: Tiles) -> None:
    *sizes, scratch = (a.bytes for a in tiles.args if isinstance(a, Scratch))
    if len({v.name for v in tiles.rooms}) != len(sizes):
        raise GraphError(f"{len(tiles.rooms)} rooms have {len(sizes)} buffers", where=tiles.nodes[0].name)
    for room, size in zip(tiles.rooms, sizes, strict=True):
        if size < room.type.bytes:
            raise GraphError(f"needs {room.type.bytes} bytes and has {size}", where=f"%{room.name}")
    for step in tiles.steps:
        if sum(-(-a.bytes // 16) * 16 for a in step.call.args if isinstance(a, Scratch)) > scratch:
            raise GraphError("needs more scratch than there is", where=f"%{step.layer}")


def _reads(step: Step, rooms: set[str], written: set[str], t: int) -> None:
    made = {v.name for v in step.writes}
    for arg in step.call.args:
        if isinstance(arg, Value) and arg.name in rooms - made - written:
            raise GraphError(f"tile {t} reads it before it is written", where=f"%{arg.name}")


def _inside(step: Step, rooms: set[str], whole: dict[str, Value]) -> None:
    """Every value is a room of its size, or the node's own."""
    values = [a.value if isinstance(a, Part) else a for a in step.call.args if isinstance(a, Value | Part)]
    for v in values:
        if v.name not in rooms and whole.get(v.name) != v:
            raise GraphError("is neither a room nor a value of the node", where=f"%{v.name}")


def _ends(p: Pass, whole: dict[str, Value]) -> None:
    """All tiles together are the whole: of channels that are walked through, and of elements that are counted."""
    for step in p.steps:
        values = [a for a in step.call.args if isinstance(a, Value)]
        for arg in step.call.args:
            if isinstance(arg, Part):
                _walked(arg, p, step)
            if isinstance(arg, Count):
                _counted(arg, p, values, step, whole)


def _walked(arg: Part, p: Pass, step: Step) -> None:
    """A copy takes `step` elements of each row, all tiles together take the rows, and there is room for a tile."""
    box = next(a for a in step.call.args if isinstance(a, Struct)).fields
    size, unit = step.writes[0].type.size, arg.value.type.numpy.itemsize
    rows = arg.value.type.size // (arg.step * p.count)
    if arg.step * p.count * rows != arg.value.type.size or size * p.count != arg.value.type.size:
        raise GraphError(f"{p.count} tiles of {arg.step} are not all of it", where=f"%{arg.value.name}")
    fits = (box["item"], box["size"]) == (arg.step * unit, (rows,))
    if not fits or (rows > 1 and box["x"] != (arg.step * p.count * unit,)):
        raise GraphError(f"a tile of it is not {step.writes[0].type}", where=f"%{arg.value.name}")


def _counted(arg: Count, p: Pass, values: list[Value], step: Step, whole: dict[str, Value]) -> None:
    """The elements of the tile's gradient, tile after tile, are those of the parameter."""
    sizes = {v.type.size for v in values if v.name not in whole}
    owned = {v.type.size for v in step.writes if v.name in whole and v.type.size > 3}  # counters are three numbers
    if arg.step not in sizes or any(arg.step * p.count != size for size in owned):
        raise GraphError(f"{p.count} tiles of {arg.step} elements are not all of it", where=f"%{step.layer}")
