"""Several nodes as one call, in a loop, as values: nothing is planned here.

If a value need not exist whole, planner/changes makes a `Loop`: the call of one node that stands for several. Over
rows, every node gets a turn on the next few rows; the op's facts (`Rows`) say which rows of each input a row of its
output needs. Over channels, the same few calls are made on the next part of their data, in one pass or several.
codegen/stripes.py and codegen/passes.py write them in C.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from insitu.graph.call import Call, Scratch, Table
from insitu.graph.graph import Node, Value
from insitu.graph.types import Type

# by rows ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """Output row i needs the input's rows i * stride - top + u * dilation, for u below `kernel`."""

    kernel: int = 1
    stride: int | Fraction = 1
    dilation: int = 1
    top: int = 0  # rows of padding above; negative if the first rows are not needed

    def first(self, i):
        """The first row that output row i (or each of an array) needs; negative for padding."""
        return i * self.stride - self.top

    def end(self, i):
        """One past the last row that output row i (or each of an array) needs."""
        return self.first(i) + (self.kernel - 1) * self.dilation + 1


@dataclass(frozen=True)
class Picked(Rows):
    """Output row i needs the input's row picks[i] alone; `picks` never go back. `stride` is their mean distance."""

    picks: tuple[int, ...] = ()

    def first(self, i):
        return np.asarray(self.picks)[np.minimum(i, len(self.picks) - 1)]


def picked(picks: np.ndarray, height: int) -> Picked:
    """For rows that are copies of these rows of an input of this height."""
    return Picked(stride=Fraction(height, len(picks)), picks=tuple(picks.tolist()))


@dataclass(frozen=True)
class Piece:
    """Rows first..first+count-1 of a value, which start at row `slot` of its room."""

    value: Value
    first: int
    count: int
    slot: int


@dataclass(frozen=True, eq=False)
class Window:
    """One call of a kernel on some rows: `call` has the sizes, the pieces say where its rows are."""

    call: Call
    made: Piece
    read: tuple[Piece, ...]


@dataclass(frozen=True)
class Move:
    """The `count` rows of a value that are still needed, from row `slot` on, move to the front of its room, or away to
    where they are kept."""

    value: Value
    slot: int
    count: int
    away: bool = False


@dataclass(frozen=True, eq=False)
class Turn:
    """The turn of one node in a stripe: rows that were kept away come back, rows are made, and rows of values that
    nothing reads afterwards move. Each of the three may be empty."""

    window: Window | None
    moves: tuple[Move, ...] = ()
    back: int = 0


# by channels ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """An argument: a pointer to elements t * step.. of a value in turn t."""

    value: Value
    step: int


@dataclass(frozen=True, eq=False)
class Entries:
    """An argument: a pointer to entries t * step.. of a table in turn t."""

    table: Table
    step: int


@dataclass(frozen=True)
class Count:
    """An argument: the number t * step in turn t."""

    step: int


@dataclass(frozen=True, eq=False)
class Step:
    """One call in a turn: the layer it belongs to, and the values it writes."""

    layer: str
    call: Call
    writes: tuple[Value, ...]


@dataclass(frozen=True, eq=False)
class Pass:
    """A pass over channels: the same steps in each of the turns 0..count-1."""

    count: int
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class TiledUpdate:
    """How an update works on tiles of its gradient; `grad` are the indices of the inputs that are the gradient.

    There are two passes over the tiles. The first adds up the squares of the norm, by which the gradient is clipped,
    and leaves the sum in `norm`. The second does the update. The bytes are those of the update as a whole.
    """

    grad: tuple[int, ...]
    norm: Type
    add: Callable[[Node, Value, tuple[Value, ...]], Call]  # squares of a tile
    factor: Callable[[Node, Value], Call]
    step: Callable[[Node, Value, tuple[Value, ...]], Call]


# both -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Room:
    """Bytes for a value inside a loop, or for some of its rows; `kept` bytes stay from one turn to the next."""

    value: Value
    bytes: int
    kept: int = 0

    @property
    def rows(self) -> int:
        """How many rows of the value fit in it."""
        return self.bytes // row_bytes(self.value)


Key = tuple[int, str | int]  # whose bytes: see Loop


@dataclass(frozen=True, eq=False)
class Loop(Call):
    """Over rows: stripe by stripe, with a turn for every node. Or over channels: pass by pass.

    All rooms, and the scratch of all calls, lie in one piece of `bytes`. `places` gives their offsets in pass i (0 for
    stripes): a room by (i, name of its value), rows kept away from their room by (i, away(name)), the scratch of a node
    or a step by (i, its number). Offsets from `end` on are in the `lender`: a result of the node, which is free until a
    pass writes it."""

    nodes: tuple[Node, ...] = ()
    stripes: tuple[tuple[Turn, ...], ...] = ()  # [stripe][node]
    passes: tuple[Pass, ...] = ()
    rooms: tuple[Room, ...] = ()
    places: Mapping[Key, int] = field(default_factory=dict)
    bytes: int = 0
    lender: Value | None = None

    def __init__(self, nodes, rooms, places, bytes, *, stripes=(), passes=(), lender=None):
        super().__init__("loop", Scratch(bytes))
        given = {"nodes": nodes, "stripes": stripes, "passes": passes, "rooms": rooms, "places": places}
        for name, value in {**given, "bytes": bytes, "lender": lender}.items():
            object.__setattr__(self, name, value)

    @property
    def functions(self) -> set[str]:
        """The kernels that it calls."""
        moves = [m for stripe in self.stripes for turn in stripe for m in turn.moves]
        moving = {"copy_bytes" if m.away else "slide_bytes" for m in moves}
        return {w.call.function for w in self.windows} | moving | {step.call.function for step in self.steps}

    @property
    def end(self) -> int:
        """The end of its own piece, rounded up so that lent bytes are aligned as in the arena."""
        return aligned(self.bytes)

    @property
    def steps(self) -> list[Step]:
        """The steps of all passes, in the order in which they appear in the C."""
        return [step for p in self.passes for step in p.steps]

    @property
    def windows(self) -> list[Window]:
        return [turn.window for stripe in self.stripes for turn in stripe if turn.window]

    @property
    def source(self) -> Value | None:
        """The input of the graph whose rows arrive one after the other, if the loop takes them."""
        first = self.nodes[0]
        taken = first.op.facts.arrives and any(room.value == first.output for room in self.rooms)
        return first.inputs[0] if taken else None

    @property
    def moved(self) -> list[list[Value]]:
        """For each node, the values with rows that move after its turn, in some stripe."""
        found: list[dict[str, Value]] = [{} for _ in self.nodes]
        for stripe in self.stripes:
            for values, turn in zip(found, stripe):
                values.update({m.value.name: m.value for m in turn.moves})
        return [list(values.values()) for values in found]


def away(name: str) -> str:
    """The key for rows of a value that are kept away from its room; with a space, which no value's name has."""
    return f"{name} kept"


def aligned(bytes: int) -> int:
    """Aligned like values in the arena."""
    return -(-bytes // 16) * 16


def row_bytes(value: Value) -> int:
    return value.type.bytes // value.shape[1]


def scratch_bytes(call: Call) -> int:
    """The bytes that one call needs, each part rounded up to 16 bytes."""
    return sum(aligned(a.bytes) for a in call.args if isinstance(a, Scratch))


def scratch_places(call: Call, start: int) -> list[int]:
    """The offset of each scratch of a call: one after the other."""
    found = []
    for arg in call.args:
        if isinstance(arg, Scratch):
            found.append(start)
            start += aligned(arg.bytes)
    return found
