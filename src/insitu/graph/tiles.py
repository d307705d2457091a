"""Calls that are made again for tile after tile of a value, as values: nothing is planned here.

Where a value need not exist whole, planner/changes makes a `Tiles`: the call of one fused node that runs passes over
tiles, each pass the same few kernels on the next part of what they work on. codegen/tiles.py writes it down in C.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from insitu.graph.call import Call, Scratch, Table
from insitu.graph.graph import Node, Value
from insitu.graph.types import Type


def aligned(bytes: int) -> int:
    """As values in the arena are."""
    return -(-bytes // 16) * 16


@dataclass(frozen=True)
class Part:
    """An argument: a pointer to elements t * step.. of a value in tile t."""

    value: Value
    step: int


@dataclass(frozen=True, eq=False)
class Entries:
    """An argument: a pointer to entries t * step.. of a table in tile t."""

    table: Table
    step: int


@dataclass(frozen=True)
class Count:
    """An argument: the number t * step in tile t."""

    step: int


@dataclass(frozen=True)
class TiledUpdate:
    """How an update works on tiles of its gradient; `grad` are the indices of the inputs that are the gradient.

    Two passes over the tiles: the first adds up the squares of the norm, by which the gradient is clipped, the second
    takes the step. `norm` holds what the first leaves. The bytes are those of the whole update.
    """

    grad: tuple[int, ...]
    norm: Type
    add: Callable[[Node, Value, tuple[Value, ...]], Call]  # squares of a tile
    factor: Callable[[Node, Value], Call]
    step: Callable[[Node, Value, tuple[Value, ...]], Call]


@dataclass(frozen=True, eq=False)
class Step:
    """One call in a tile: the layer it belongs to, and the values it writes."""

    layer: str
    call: Call
    writes: tuple[Value, ...]


@dataclass(frozen=True, eq=False)
class Pass:
    """Steps for each of the tiles 0..count-1."""

    count: int
    steps: tuple[Step, ...]


@dataclass(frozen=True, eq=False)
class Tiles(Call):
    """Pass after pass. A room is a value inside: it exists for a tile, or, if it is `kept`, over tiles and passes. All
    rooms, and the scratch of all calls, lie in one piece of so many bytes. `places` says at which byte: of room `name`
    in pass i by (i, name), of the scratch of its step j by (i, j). From byte `end` on, that is in the `lender`: a
    result of the node, which is free until a pass writes it."""

    nodes: tuple[Node, ...] = ()
    rooms: tuple[Value, ...] = ()
    kept: frozenset[str] = frozenset()
    passes: tuple[Pass, ...] = ()
    places: Mapping[tuple[int, str | int], int] = field(default_factory=dict)
    bytes: int = 0
    lender: Value | None = None

    def __init__(self, nodes, rooms, kept, passes, places, bytes, lender=None):
        super().__init__("tiles", Scratch(bytes))
        given = {"nodes": nodes, "rooms": rooms, "kept": frozenset(kept), "passes": passes, "places": places}
        for name, value in {**given, "bytes": bytes, "lender": lender}.items():
            object.__setattr__(self, name, value)

    @property
    def end(self) -> int:
        """Of its own piece, rounded up so that what is lent lies as it does in the arena."""
        return aligned(self.bytes)

    @property
    def steps(self) -> list[Step]:
        """In the order in which they stand in the C."""
        return [step for p in self.passes for step in p.steps]

    @property
    def functions(self) -> set[str]:
        """The kernels it calls."""
        return {step.call.function for step in self.steps}
