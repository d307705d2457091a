"""How a table function of the torch importer sees one aten call: a name for its result, and constants.

Values keep torch's own shapes (channels first). An op that is NHWC inside gets a transpose on either side, which
clean.py removes. conv.py, layout.py and math.py say what each aten op means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

import insitu.ops  # noqa: F401  (declares the ops that `make` looks up)
from insitu.errors import Unsupported
from insitu.graph import Builder, Value
from insitu.importers.canonical.transposes import CHANGED, make

TO_LAST = {3: (0, 2, 1), 4: (0, 2, 3, 1)}  # N,C,.. -> N,..,C
TO_FIRST = {3: (0, 2, 1), 4: (0, 3, 1, 2)}


@dataclass(frozen=True, eq=False)
class Call:
    """One call of an aten op: the name of its result, and the graph being built."""

    op: str  # "conv2d"
    name: str  # "features.0"
    builder: Builder
    weights: dict  # (name, perm) -> value: a tied weight stays one constant

    def make(self, op: str, *inputs: Value, **attrs) -> Any:
        """The op that stands for the call."""
        return make(op, *inputs, name=self.name, **attrs)

    def step(self, op: str, *inputs: Value, **attrs) -> Any:
        """One of several ops that the call becomes."""
        return make(op, *inputs, name=f"{self.name}.{op}", **attrs)

    def constant(self, array, name: str = "") -> Value:
        return self.builder.constant(name or f"{self.name}.value", np.asarray(array, np.float32))

    def scalar(self, number: float) -> Value:
        return self.constant(np.float32(number))

    def value(self, x: Value | float) -> Value:
        """A number, or a constant of integers, as floats."""
        if not isinstance(x, Value):
            return self.scalar(x)
        array = None if x.dtype == "f32" else self.builder.array(x)
        return x if array is None else self.constant(array)

    def weight(self, w: Value, perm: Sequence[int]) -> Value:
        """A parameter in another layout, under its own name."""
        key = (w.name, tuple(perm))
        if key not in self.weights:
            self.weights[key] = self._permuted(w, perm)
        return self.weights[key]

    def _permuted(self, w: Value, perm: Sequence[int]) -> Value:
        array = self.builder.array(w)
        if array is None:
            return make("transpose", w, perm=tuple(perm), name=w.name + CHANGED)
        return self.builder.constant(w.name + CHANGED, np.ascontiguousarray(array.transpose(perm)))

    def reshape(self, x: Value, *shape: int) -> Value:
        return x if x.shape == shape else self.make("reshape", x, shape=shape)

    def transpose(self, x: Value, perm: Sequence[int]) -> Value:
        return make("transpose", x, perm=tuple(perm), name=self.name + CHANGED)

    def last(self, x: Value) -> Value:
        """Channels last."""
        return self.transpose(x, TO_LAST[x.type.rank])

    def first(self, x: Value) -> Value:
        """Channels first."""
        return self.transpose(x, TO_FIRST[x.type.rank])

    def refuse(self, what: str, hint: str = "") -> Unsupported:
        return Unsupported(f"aten.{self.op} does not support {what}", where=self.name, hint=hint)


def pair(x: int | Sequence[int], n: int = 2) -> tuple[int, ...]:
    """torch's `3`, `[3]` or `[3, 3]`."""
    items = (x,) if isinstance(x, int) else tuple(x)
    return items * n if len(items) == 1 else items


def same_padding(kernel: Sequence[int], dilation: Sequence[int]) -> tuple[int, ...]:
    """padding="same": an odd element goes at the end."""
    totals = [d * (k - 1) for k, d in zip(kernel, dilation)]
    return tuple(p for t in totals for p in (t // 2, t - t // 2))


def both_sides(padding: Sequence[int]) -> tuple[int, ...]:
    return tuple(p for p in padding for _ in (0, 1))


def axes_of(dims: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Axes counted from the front; all axes if none is given."""
    if dims is None or dims == []:
        return tuple(range(rank))
    return tuple(sorted({d % rank for d in ((dims,) if isinstance(dims, int) else dims)}))


def resolve_shape(shape: Sequence[int], size: int) -> tuple[int, ...]:
    """A shape without -1."""
    known = prod(d for d in shape if d != -1)
    return tuple(size // known if d == -1 else int(d) for d in shape)
