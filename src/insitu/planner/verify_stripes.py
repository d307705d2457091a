"""An independent proof that a loop over stripes is safe: it replays the stripes on a map of rows.

Shares no code with stripes.py. Each row of a line buffer remembers which row of its value lies there; a call must find
the rows it reads, all that its op needs of them, and every row of a result must be made once, in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from insitu.errors import GraphError
from insitu.graph import Node, Value
from insitu.graph.call import Scratch, Struct
from insitu.graph.stripes import Loop, Move, Piece, Window

NOTHING = -1


def verify_loop(loop: Loop, outputs: tuple[Value, ...], over: Mapping[str, Value] = MappingProxyType({})) -> None:
    """Raise a GraphError that names the value and the stripe where something is wrong.

    over: result -> the input whose bytes it takes, from the first on
    """
    replay = _Rows(loop, over)
    _taken_once(loop)
    for t, stripe in enumerate(loop.stripes):
        for node, turn in zip(loop.nodes, stripe):
            if turn.move:
                replay.move(turn.move, t)
            if turn.window:
                replay.run(node, turn.window, t)
    for v in outputs:
        if replay.made[v.name] != v.shape[1]:
            raise GraphError(f"{replay.made[v.name]} of its {v.shape[1]} rows are made", where=f"%{v.name}")


def _taken_once(loop: Loop) -> None:
    """Rows that arrive are read by the node that takes them and by nobody else, each once, from the top."""
    if loop.source is None:
        return
    came = 0
    for t, stripe in enumerate(loop.stripes):
        for i, window in ((i, turn.window) for i, turn in enumerate(stripe) if turn.window):
            for piece in (p for p in window.read if p.value == loop.source):
                if i or piece.first != came or piece.first + piece.count > loop.source.shape[1]:
                    what = f"stripe {t} reads row {piece.first} of it in {loop.nodes[i].name}, after {came} have come"
                    raise GraphError(what, where=f"%{loop.source.name}")
                came += piece.count


class _Rows:
    def __init__(self, loop: Loop, over: Mapping[str, Value]):
        self.over = over
        self.gone: dict[str, int] = {}  # input -> so many of its bytes are overwritten
        self.lines = {line.value.name: [NOTHING] * line.rows for line in loop.lines}
        self.made = {node.output.name: 0 for node in loop.nodes}
        *sizes, self.scratch = (a.bytes for a in loop.args if isinstance(a, Scratch))
        for line, size in zip(loop.lines, sizes, strict=True):
            if size < line.rows * _row(line.value):
                raise GraphError(f"{line.rows} rows do not fit {size} bytes", where=f"%{line.value.name}")

    def move(self, move: Move, t: int) -> None:
        rows = self.lines[move.value.name]
        if move.slot + move.count > len(rows) or move.slot < 1:
            raise GraphError(f"stripe {t} moves rows that are not in its buffer", where=f"%{move.value.name}")
        rows[: move.count] = rows[move.slot : move.slot + move.count]

    def run(self, node: Node, window: Window, t: int) -> None:
        self._needs(node, window, t)
        for piece in window.read:
            self._read(piece, t)
        _sizes(window, t)
        self._write(window.made, t)
        self._spared(node, window, t)
        if sum(-(-a.bytes // 16) * 16 for a in window.call.args if isinstance(a, Scratch)) > self.scratch:
            raise GraphError(f"stripe {t} needs more scratch than there is", where=f"%{node.name}")

    def _spared(self, node: Node, window: Window, t: int) -> None:
        """What this call reads, and what is read whole, is not overwritten."""
        pieces = {p.value.name: p for p in window.read}
        for v in node.inputs:
            start = pieces[v.name].first * _row(v) if v.name in pieces else 0
            if start < self.gone.get(v.name, 0):
                raise GraphError(f"stripe {t} reads it where it is overwritten", where=f"%{v.name}")

    def _needs(self, node: Node, window: Window, t: int) -> None:
        """Every row the op needs for the rows it makes is there, and padding begins where the value ends."""
        given = {p.value.name: p for p in window.read}
        first, last = window.made.first, window.made.first + window.made.count - 1
        for v, rows in zip(node.inputs, node.rule("stripe", node.output, *node.inputs)):
            if rows is None:
                continue
            p = given.get(v.name)
            start, end = max(rows.first(first), 0), min(rows.end(last), v.shape[1])
            if p is None or p.first != start or p.first + p.count != end:
                raise GraphError(f"stripe {t} makes {node.name} without rows {start}..{end - 1}", where=f"%{v.name}")
            for shape in _windows(window):
                if shape.fields["pt"] != p.first - rows.first(first):
                    raise GraphError(f"stripe {t} pads it with {shape.fields['pt']} rows", where=f"%{v.name}")

    def _read(self, piece: Piece, t: int) -> None:
        name, wanted = piece.value.name, list(range(piece.first, piece.first + piece.count))
        if name in self.lines:
            found = self.lines[name][piece.slot : piece.slot + piece.count]
        else:
            height = self.made.get(name, piece.value.shape[1])
            found = [r for r in range(piece.slot, piece.slot + piece.count) if r < height]
        if piece.slot < 0 or found != wanted:
            raise GraphError(f"stripe {t} reads rows {wanted} where {found} lie", where=f"%{name}")

    def _write(self, piece: Piece, t: int) -> None:
        name, end = piece.value.name, piece.slot + piece.count
        room = len(self.lines[name]) if name in self.lines else piece.value.shape[1]
        if piece.first != self.made[name] or piece.slot < 0 or end > room:
            raise GraphError(f"stripe {t} makes row {piece.first} at row {piece.slot} of {room}", where=f"%{name}")
        if name in self.lines:
            self.lines[name][piece.slot : end] = range(piece.first, piece.first + piece.count)
        elif piece.slot != piece.first:
            raise GraphError(f"stripe {t} puts row {piece.first} at row {piece.slot}", where=f"%{name}")
        self.made[name] += piece.count
        if name in self.over:
            self.gone[self.over[name].name] = self.made[name] * _row(piece.value)


def _row(value: Value) -> int:
    """Bytes of a row."""
    return value.type.bytes // value.shape[1]


def _sizes(window: Window, t: int) -> None:
    """The kernel is told as many rows as there are."""
    counts = {p.value.name: p.count for p in (window.made, *window.read)}
    wrong = [a for a in window.call.args if isinstance(a, Value) and a.shape[1:2] != (counts.get(a.name),)
             and a.name in counts]  # fmt: skip
    heights = [(s.fields["oh"], s.fields["h"]) for s in _windows(window)]
    if wrong or any(pair != (window.made.count, window.read[0].count) for pair in heights):
        raise GraphError(f"stripe {t}: the call is of another height", where=f"%{window.made.value.name}")


def _windows(window: Window) -> list[Struct]:
    return [a for a in window.call.args if isinstance(a, Struct) and "pt" in a.fields]
