"""A part of a graph that runs in stripes, row by row through all of its ops, as values: nothing is planned here.

An op's `stripe` rule says which rows of each input a row of its output needs (`Rows`, or None for an input that is
read whole). From that planner/changes/stripes makes a `Loop`: the call of one fused node, in which every value inside
has a buffer of a few rows. codegen/stripes.py writes it down as a C loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from insitu.graph.call import Call, Scratch
from insitu.graph.graph import Node, Value


@dataclass(frozen=True)
class Rows:
    """Output row i needs the input's rows i * stride - top + u * dilation, for u below `kernel`."""

    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    top: int = 0

    def first(self, i: int) -> int:
        """The first row that output row i needs; below zero where it is padding."""
        return i * self.stride - self.top

    def end(self, i: int) -> int:
        """One past the last row that output row i needs."""
        return self.first(i) + (self.kernel - 1) * self.dilation + 1


@dataclass(frozen=True)
class Piece:
    """Rows first..first+count-1 of a value, which start at row `slot` of its buffer."""

    value: Value
    first: int
    count: int
    slot: int


@dataclass(frozen=True, eq=False)
class Window:
    """One call of a kernel on some rows: `call` has the sizes, the pieces say where its rows lie."""

    call: Call
    made: Piece
    read: tuple[Piece, ...]


@dataclass(frozen=True)
class Move:
    """The rows of a value that are still needed go to the front of its buffer, or away to where they are kept: `count`
    of them, from row `slot` on."""

    value: Value
    slot: int
    count: int
    away: bool = False


@dataclass(frozen=True, eq=False)
class Turn:
    """What a stripe does for one node: rows come back that were kept away, rows are made, rows move of values that
    nobody reads after it; each may be nothing."""

    window: Window | None
    moves: tuple[Move, ...] = ()
    back: int = 0


@dataclass(frozen=True)
class Line:
    """The buffer of a value inside a loop: `rows` rows of it, of which `kept` are there from one stripe to the next."""

    value: Value
    rows: int
    kept: int

    @property
    def bytes(self) -> int:
        return self.rows * row_bytes(self.value)


@dataclass(frozen=True, eq=False)
class Loop(Call):
    """Stripe after stripe, each node its turn. All lines, and the scratch of all calls, lie in one piece of so many
    bytes: `places` says at which, of a line by its value's name, of a node's scratch by the node's number, of rows that
    are kept away from their line by (name,)."""

    nodes: tuple[Node, ...] = ()
    lines: tuple[Line, ...] = ()
    stripes: tuple[tuple[Turn, ...], ...] = ()  # [stripe][node]
    places: Mapping[str | int | tuple[str], int] = field(default_factory=dict)
    bytes: int = 0

    def __init__(self, nodes, lines, stripes, places, bytes):
        super().__init__("loop", Scratch(bytes))
        given = {"nodes": nodes, "lines": lines, "stripes": stripes, "places": places, "bytes": bytes}
        for name, value in given.items():
            object.__setattr__(self, name, value)

    @property
    def source(self) -> Value | None:
        """The input of the graph whose rows arrive one after the other, where the loop takes them."""
        first = self.nodes[0]
        taken = first.op.facts.arrives and any(line.value == first.output for line in self.lines)
        return first.inputs[0] if taken else None

    @property
    def windows(self) -> list[Window]:
        return [turn.window for stripe in self.stripes for turn in stripe if turn.window]

    @property
    def moved(self) -> list[list[Value]]:
        """For each node, the values of which rows move after its turn, in some stripe."""
        found: list[dict[str, Value]] = [{} for _ in self.nodes]
        for stripe in self.stripes:
            for values, turn in zip(found, stripe):
                values.update({m.value.name: m.value for m in turn.moves})
        return [list(values.values()) for values in found]

    @property
    def functions(self) -> set[str]:
        """The kernels it calls."""
        moves = [m for stripe in self.stripes for turn in stripe for m in turn.moves]
        moving = {"copy_bytes" if m.away else "slide_bytes" for m in moves}
        return {w.call.function for w in self.windows} | moving


def row_bytes(value: Value) -> int:
    return value.type.bytes // value.shape[1]


def scratch_bytes(call: Call) -> int:
    """What one call needs, each part rounded up to 16 bytes."""
    return sum((a.bytes + 15) // 16 * 16 for a in call.args if isinstance(a, Scratch))


def scratch_places(call: Call, start: int) -> list[int]:
    """Where each scratch of a call lies: one after the other."""
    found = []
    for arg in call.args:
        if isinstance(arg, Scratch):
            found.append(start)
            start += (arg.bytes + 15) // 16 * 16
    return found
