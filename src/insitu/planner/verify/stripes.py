"""An independent proof that a loop over stripes is safe: it replays the stripes on a map of its bytes.

Shares no code with changes/stripes/ and place/. Each byte remembers which row of which value is there. A call must find
the rows it reads, and all rows that its op needs; every row of a result must be made once, in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Node, Value
from insitu.graph.call import Scratch, Struct, Table
from insitu.graph.loops import Loop, Move, Picked, Piece, Window, away
from insitu.planner.verify.bytemap import ByteMap, any_overlap, overlap

FAR = 1 << 32  # more than any value has rows


def verify_stripes(loop: Loop, outputs: tuple[Value, ...], over: Mapping[str, Value] = MappingProxyType({})) -> None:
    """Raise a GraphError that names the value and the stripe at which something is wrong.

    over: result -> the input whose bytes it reuses, from the first on
    """
    replay = _Rows(loop, over)
    _taken_once(loop)
    for t, stripe in enumerate(loop.stripes):
        for node, turn in zip(loop.nodes, stripe):
            if turn.back:
                replay.back(node.output, turn.back, t)
            if turn.window:
                replay.run(node, turn.window, t)
            for move in turn.moves:
                replay.move(move, t)
    for v in outputs:
        if replay.made[v.name] != v.shape[1]:
            raise GraphError(f"{replay.made[v.name]} of its {v.shape[1]} rows are made", where=f"%{v.name}")


def _taken_once(loop: Loop) -> None:
    """Rows that arrive are read only by the node that takes them, each once, from the top."""
    if loop.source is None:
        return
    came = 0
    for t, stripe in enumerate(loop.stripes):
        for i, window in ((i, turn.window) for i, turn in enumerate(stripe) if turn.window):
            for piece in (p for p in window.read if p.value == loop.source):
                if i or piece.first != came or piece.first + piece.count > loop.source.shape[1]:
                    what = f"stripe {t} reads row {piece.first} of it in {loop.nodes[i].name}, after {came} arrived"
                    raise GraphError(what, where=f"%{loop.source.name}")
                came += piece.count


class _Rows:
    def __init__(self, loop: Loop, over: Mapping[str, Value]):
        self.over = over
        self.gone: dict[str, int] = {}  # input -> how many of its bytes are overwritten
        self.loop, self.rooms = loop, {room.value.name: room for room in loop.rooms}
        self.turn = {node.name: i for i, node in enumerate(loop.nodes)}
        self.made = {node.output.name: 0 for node in loop.nodes}
        self.bytes = ByteMap(sum(a.bytes for a in loop.args if isinstance(a, Scratch)))  # tags: a row of a value
        for room in loop.rooms:
            self._within(loop.places[0, room.value.name], room.bytes, room.value.name)

    def _within(self, start: int, size: int, name: str) -> slice:
        area = self.bytes.area(start, size)
        if area is None:
            raise GraphError(f"{size} bytes from {start} on do not fit {self.loop.bytes}", where=f"%{name}")
        return area

    def _slots(self, value: Value, slot: int, count: int, t: int) -> slice:
        """The bytes of rows of a line buffer."""
        if slot < 0 or (slot + count) * _row(value) > self.rooms[value.name].bytes:
            raise GraphError(f"stripe {t} uses rows that are not in its buffer", where=f"%{value.name}")
        start = self.loop.places[0, value.name]
        return slice(start + slot * _row(value), start + (slot + count) * _row(value))

    def _tags(self, value: Value, first: int, count: int) -> np.ndarray:
        """The tags of bytes that contain these rows."""
        rows = (self.turn[value.name] + 1) * FAR + np.arange(first, first + count)
        return np.repeat(rows, _row(value))

    def move(self, move: Move, t: int) -> None:
        source = self._slots(move.value, move.slot, move.count, t)
        if move.away:
            to = self._away(move.value, move.count)
            self._copy(move.value, to, source, t)
            return
        if move.slot < 1:
            raise GraphError(f"stripe {t} moves rows to where they are", where=f"%{move.value.name}")
        self.bytes.copy(self._slots(move.value, 0, move.count, t), source)

    def back(self, value: Value, count: int, t: int) -> None:
        """Rows that were kept away return to the front of their line buffer."""
        self._copy(value, self._slots(value, 0, count, t), self._away(value, count), t)

    def _away(self, value: Value, count: int) -> slice:
        return self._within(self.loop.places[0, away(value.name)], count * _row(value), value.name)

    def _copy(self, value: Value, to: slice, source: slice, t: int) -> None:
        if overlap(to, source):
            raise GraphError(f"stripe {t} copies rows over themselves", where=f"%{value.name}")
        self.bytes.copy(to, source)

    def run(self, node: Node, window: Window, t: int) -> None:
        self._needs(node, window, t)
        for piece in window.read:
            self._read(piece, t)
        _sizes(window, t)
        self._apart(node, window, t)
        self._write(window.made, t)
        self._spared(node, window, t)

    def _apart(self, node: Node, window: Window, t: int) -> None:
        """A call's inputs, outputs and scratch are different bytes; the old contents of its scratch are lost."""
        size = sum(-(-a.bytes // 16) * 16 for a in window.call.args if isinstance(a, Scratch))
        scratch = self._within(self.loop.places.get((0, self.turn[node.name]), 0), size, node.name)
        inside = [p for p in (window.made, *window.read) if p.value.name in self.rooms]
        if any_overlap([scratch, *(self._slots(p.value, p.slot, p.count, t) for p in inside)]):
            raise GraphError(f"stripe {t} uses the same bytes twice", where=f"%{node.name}")
        self.bytes.clear(scratch)

    def _spared(self, node: Node, window: Window, t: int) -> None:
        """Values that this call reads, and values that are read whole, are not overwritten."""
        pieces = {p.value.name: p for p in window.read}
        for v in node.inputs:
            start = pieces[v.name].first * _row(v) if v.name in pieces else 0
            if start < self.gone.get(v.name, 0):
                raise GraphError(f"stripe {t} reads it where it is overwritten", where=f"%{v.name}")

    def _needs(self, node: Node, window: Window, t: int) -> None:
        """Every row that the op needs for the rows it makes exists, and padding begins where the value ends."""
        given = {p.value.name: p for p in window.read}
        first, last = window.made.first, window.made.first + window.made.count - 1
        needed = node.rows()
        if needed is None:
            raise GraphError(f"{node.op.name} cannot run in stripes", where=f"%{node.name}")
        for v, rows in zip(node.inputs, needed):
            if rows is None:
                continue
            p = given.get(v.name)
            start, end = max(rows.first(first), 0), min(rows.end(last), v.shape[1])
            if p is None or p.first != start or p.first + p.count != end:
                raise GraphError(f"stripe {t} makes {node.name} without rows {start}..{end - 1}", where=f"%{v.name}")
            for shape in _windows(window):
                if shape.fields["pt"] != p.first - rows.first(first):
                    raise GraphError(f"stripe {t} pads it with {shape.fields['pt']} rows", where=f"%{v.name}")
            if isinstance(rows, Picked):
                _picks(window, [int(rows.first(i)) - p.first for i in range(first, last + 1)], t)
        self._carried(node, window.made, t)

    def _carried(self, node: Node, made: Piece, t: int) -> None:
        """An op that makes rows from the row above finds that row just before the first that it makes."""
        if node.op.facts.carries and made.first:
            self._read(Piece(made.value, made.first - 1, 1, made.slot - 1), t)

    def _read(self, piece: Piece, t: int) -> None:
        name, wanted = piece.value.name, list(range(piece.first, piece.first + piece.count))
        if name in self.rooms:
            area = self._slots(piece.value, piece.slot, piece.count, t)
            wrong = np.asarray(self.bytes.wrong(area, self._tags(piece.value, piece.first, piece.count)))
            found = [row for row, bad in zip(wanted, np.any(wrong.reshape(piece.count, -1), axis=1)) if not bad]
        else:
            height = self.made.get(name, piece.value.shape[1])
            found = [r for r in range(piece.slot, piece.slot + piece.count) if r < height]
        if piece.slot < 0 or found != wanted:
            raise GraphError(f"stripe {t} reads rows {wanted} where {found} lie", where=f"%{name}")

    def _write(self, piece: Piece, t: int) -> None:
        name, end = piece.value.name, piece.slot + piece.count
        room = self.rooms[name].bytes // _row(piece.value) if name in self.rooms else piece.value.shape[1]
        if piece.first != self.made[name] or piece.slot < 0 or end > room:
            raise GraphError(f"stripe {t} makes row {piece.first} at row {piece.slot} of {room}", where=f"%{name}")
        if name in self.rooms:
            at = self._slots(piece.value, piece.slot, piece.count, t)
            self.bytes.write(at, self._tags(piece.value, piece.first, piece.count))
        elif piece.slot != piece.first:
            raise GraphError(f"stripe {t} puts row {piece.first} at row {piece.slot}", where=f"%{name}")
        self.made[name] += piece.count
        if name in self.over:
            self.gone[self.over[name].name] = self.made[name] * _row(piece.value)


def _row(value: Value) -> int:
    """Bytes of a row."""
    return value.type.bytes // value.shape[1]


def _sizes(window: Window, t: int) -> None:
    """The kernel gets the right number of rows."""
    counts = {p.value.name: p.count for p in (window.made, *window.read)}
    wrong = [a for a in window.call.args if isinstance(a, Value) and a.shape[1:2] != (counts.get(a.name),)
             and a.name in counts]  # fmt: skip
    heights = [(s.fields["oh"], s.fields["h"]) for s in _windows(window)]
    if wrong or any(pair != (window.made.count, window.read[0].count) for pair in heights):
        raise GraphError(f"stripe {t}: the call is of another height", where=f"%{window.made.value.name}")


def _picks(window: Window, wanted: list[int], t: int) -> None:
    """The kernel's first table says which rows it copies, from the first it gets."""
    table = next((a for a in window.call.args if isinstance(a, Table)), None)
    if table is None or table.array.tolist() != wanted:
        raise GraphError(f"stripe {t} copies other rows than {wanted}", where=f"%{window.made.value.name}")


def _windows(window: Window) -> list[Struct]:
    return [a for a in window.call.args if isinstance(a, Struct) and "pt" in a.fields]
