"""An independent proof that passes over tiles are safe: it replays them on a map of their rooms and scratch.

Shares no code with changes/ and place/. A room must contain what a step reads: written in the same tile or, if it is
kept, in an earlier one, or part by part in an earlier pass. Values that are walked part by part, and counts, must end
where the value ends.
"""

from __future__ import annotations

from insitu.errors import GraphError
from insitu.graph import Node, Value
from insitu.graph.call import Scratch, Struct
from insitu.graph.loops import Count, Entries, Loop, Part, Pass, Step
from insitu.planner.verify.bytemap import ByteMap, overlap


def verify_passes(loop: Loop, node: Node) -> None:
    """Raise a GraphError that names the value and the tile at which something is wrong."""
    whole = {v.name: v for v in (*node.inputs, *node.outputs)}
    _check_lender(loop, node)
    replay, newest = _Replay(loop), _Newest(node)
    for i, p in enumerate(loop.passes):
        for t in range(p.count):
            replay.forget()
            for j, step in enumerate(p.steps):
                _known(step, replay.ids, whole)
                newest.step(i, t, step)
                replay.step(i, t, j, p, step)
        _ends(p, whole)
    made = {v.name for step in loop.steps for v in step.writes}
    missing = [v for v in node.outputs if v.name not in made]
    if missing:
        raise GraphError("no pass makes it", where=f"%{missing[0].name}")


def _check_lender(loop: Loop, node: Node) -> None:
    """Only a result that does not overlap the node's inputs may lend its bytes."""
    lender = loop.lender
    if lender and (lender not in node.outputs or lender in node.inputs or lender.name in node.shared()):
        raise GraphError("lends its bytes, but is not a result with its own place", where=f"%{lender.name}")


class _Replay:
    """The room that each byte belongs to; negative while the room is being filled part by part. The bytes of the lender
    follow those of its own."""

    def __init__(self, loop: Loop):
        self.loop = loop
        self.own = -(-loop.bytes // 16) * 16
        self.bytes = ByteMap(self.own + (loop.lender.type.bytes if loop.lender else 0))
        self.lent = True  # until the lender is written
        self.ids = {room.value.name: k for k, room in enumerate(loop.rooms, 1)}
        if len(self.ids) < len(loop.rooms):
            raise GraphError("two rooms have one name", where=f"%{loop.nodes[0].name}")
        self.kept = {room.value.name for room in loop.rooms if room.kept}
        self.begun: set[str] = set()  # kept rooms that contain something

    def forget(self) -> None:
        """A new tile: only kept rooms are still there."""
        self.bytes.keep(self.ids[name] for name in self.kept)

    def step(self, i: int, t: int, j: int, p: Pass, step: Step) -> None:
        values = [a.value if isinstance(a, Part) else a for a in step.call.args if isinstance(a, Value | Part)]
        written = {v.name for v in step.writes}
        read = {v.name: v for v in values if v.name not in written or sum(v.name == w.name for w in values) > 1}
        for v in read.values():
            self.read(i, t, v)
        self.take_back(step, [*values, *step.writes])
        areas = {v.name: self.area(i, v) for v in (*values, *step.writes) if v.name in self.ids}
        self.claim(i, j, step, areas)
        parts = {a.value.name for a in step.call.args if isinstance(a, Part)}
        for v in {v.name: v for v in step.writes if v.name in self.ids}.values():
            self.write(v, areas, t, p.count, part=v.name in parts)

    def take_back(self, step: Step, values: list[Value]) -> None:
        """From the first step that works on the lender, nothing else may be in it."""
        lender = self.loop.lender
        if self.lent and lender and lender in values:
            self.lent = False
            self.bytes.clear(slice(self.own, None))

    def inside(self, start: int, size: int) -> bool:
        """Are these bytes the tiles' own or, while they are lent, the lender's?"""
        own = start >= 0 and start + size <= self.loop.bytes
        return own or (self.lent and self.own <= start and self.bytes.area(start, size) is not None)

    def area(self, i: int, v: Value) -> slice:
        start = self.loop.places.get((i, v.name), -1)
        if not self.inside(start, v.type.bytes):
            raise GraphError(f"has no place of {v.type.bytes} bytes in pass {i}", where=f"%{v.name}")
        return slice(start, start + v.type.bytes)

    def read(self, i: int, t: int, v: Value) -> None:
        if v.name in self.ids and self.bytes.wrong(self.area(i, v), self.ids[v.name]).any():
            raise GraphError(f"tile {t} reads it before it is written", where=f"%{v.name}")

    def claim(self, i: int, j: int, step: Step, areas: dict[str, slice]) -> None:
        """Scratch of a call: none of its operands may be there, and anything else there is lost."""
        need = sum(-(-a.bytes // 16) * 16 for a in step.call.args if isinstance(a, Scratch))
        if not need:
            return
        start = self.loop.places.get((i, j), -1)
        if not self.inside(start, need):
            raise GraphError("needs more scratch than is available", where=f"%{step.layer}")
        scratch = slice(start, start + need)
        for name, area in areas.items():
            if overlap(area, scratch):
                raise GraphError("lies in the scratch of a call that uses it", where=f"%{name}")
        self.bytes.clear(scratch)

    def write(self, v: Value, areas: dict[str, slice], t: int, count: int, part: bool) -> None:
        mine, area = self.ids[v.name], areas[v.name]
        for name, other in areas.items():
            if name != v.name and overlap(other, area):
                raise GraphError(f"is written over {name}, which the same call uses", where=f"%{v.name}")
        was = -mine if part else mine
        begun = t > 0 if part else v.name in self.begun
        if begun and self.bytes.wrong(area, was).any():
            raise GraphError(f"tile {t} adds to it, but something else was written there", where=f"%{v.name}")
        self.begun |= {v.name} & self.kept
        self.bytes.write(area, mine if not part or t == count - 1 else -mine)


class _Newest:
    """The values that the node's results overwrote: nothing may read the old content after that. A tile may read its
    own part of it, if the tile changes that part later."""

    def __init__(self, node: Node):
        self.source = {out: v.name for out, v in node.shared().items()}
        self.changed: dict[str, tuple[int, int]] = {}  # old content -> the pass and the tile that changed it last

    def step(self, i: int, t: int, step: Step) -> None:
        for arg in step.call.args:
            part, v = isinstance(arg, Part), arg.value if isinstance(arg, Part) else arg
            when = self.changed.get(v.name) if isinstance(v, Value) else None
            if when and not (part and when[0] == i and when[1] < t):
                raise GraphError(f"pass {i} reads it after its update has replaced it", where=f"%{v.name}")
        self.changed |= {self.source[v.name]: (i, t) for v in step.writes if v.name in self.source}


def _known(step: Step, rooms: dict[str, int], whole: dict[str, Value]) -> None:
    """Every value is a room, or the node's own."""
    values = [a.value if isinstance(a, Part) else a for a in step.call.args if isinstance(a, Value | Part)]
    for v in values:
        if v.name not in rooms and whole.get(v.name) != v:
            raise GraphError("is neither a room nor a value of the node", where=f"%{v.name}")


def _ends(p: Pass, whole: dict[str, Value]) -> None:
    """All tiles together must be the whole: of channels that are walked through, and of elements that are counted."""
    for step in p.steps:
        values = [a for a in step.call.args if isinstance(a, Value)]
        for arg in step.call.args:
            if isinstance(arg, Part):
                copies = step.call.function == "copy_box"  # op by name: the planner's own call, of no op
                (_moved if copies else _walked)(arg, p, step)
            if isinstance(arg, Entries) and arg.step * p.count != arg.table.array.size:
                raise GraphError(f"{p.count} tiles of {arg.step} entries are not all of it", where=f"%{step.layer}")
            if isinstance(arg, Count):
                _counted(arg, p, values, step, whole)


def _walked(arg: Part, p: Pass, step: Step) -> None:
    """A kernel gets the next `step` elements each time, of all or of each row."""
    if arg.step * p.count not in (arg.value.type.size, arg.value.shape[-1]):
        raise GraphError(f"{p.count} tiles of {arg.step} are not all of it", where=f"%{arg.value.name}")


def _moved(arg: Part, p: Pass, step: Step) -> None:
    """A copy takes `step` elements of each row, or puts them there; all tiles together are the rows, and there is room
    for a tile."""
    box = next(a for a in step.call.args if isinstance(a, Struct)).fields
    y, x = step.call.args[:2]
    room, wide, narrow = (x, "y", "x") if arg is y else (y, "x", "y")
    unit, rows = arg.value.type.numpy.itemsize, arg.value.type.size // (arg.step * p.count)
    if arg.step * p.count * rows != arg.value.type.size or room.type.size * p.count != arg.value.type.size:
        raise GraphError(f"{p.count} tiles of {arg.step} are not all of it", where=f"%{arg.value.name}")
    fits = (box["item"], box["size"], box["y_offset"], box["x_offset"]) == (arg.step * unit, (rows,), 0, 0)
    steps = rows == 1 or (box[wide], box[narrow]) == ((arg.step * p.count * unit,), (arg.step * unit,))
    if not fits or not steps:
        raise GraphError(f"a tile of it is not {room.type}", where=f"%{arg.value.name}")


def _counted(arg: Count, p: Pass, values: list[Value], step: Step, whole: dict[str, Value]) -> None:
    """The elements of the tile's gradient, tile by tile, are those of the parameter; or the outputs of a layer are
    those of its shape."""
    shapes = [a.fields["o"] for a in step.call.args if isinstance(a, Struct) and a.struct == "conv2d_shape"]
    if shapes == [arg.step * p.count]:
        return
    sizes = {v.type.size for v in values if v.name not in whole}
    owned = {v.type.size for v in step.writes if v.name in whole and v.type.size > 3}  # counters are three numbers
    if arg.step not in sizes or any(arg.step * p.count != size for size in owned):
        raise GraphError(f"{p.count} tiles of {arg.step} elements are not all of it", where=f"%{step.layer}")
