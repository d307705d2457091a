"""Arithmetic on tensors of a LiteRT subgraph, written as in numpy: `a * b` appends a MUL.

Shapes are computed here, and constants made of plain numbers. What an insitu op means in these terms is in the tables
beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from insitu.exporters.litert_train.sheet import Place, Sheet

Number = float | int


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor with operators."""

    place: Place

    @property
    def sheet(self) -> Sheet:
        return self.place.sheet

    @property
    def shape(self) -> tuple[int, ...]:
        return self.place.shape

    @property
    def dtype(self) -> str:
        return self.place.dtype

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    def const(self, value: Number | Sequence[Number] | np.ndarray, dtype: type = np.float32) -> Tensor:
        """A constant of the same subgraph."""
        return Tensor(self.sheet.constant(np.asarray(value, dtype)))

    def __add__(self, other: Tensor | Number) -> Tensor:
        return _pair("ADD", self, other)

    def __sub__(self, other: Tensor | Number) -> Tensor:
        return _pair("SUB", self, other)

    def __rsub__(self, other: Number) -> Tensor:
        return self.const(other) - self

    def __mul__(self, other: Tensor | Number) -> Tensor:
        return _pair("MUL", self, other)

    def __truediv__(self, other: Tensor | Number) -> Tensor:
        return _pair("DIV", self, other)

    def __rtruediv__(self, other: Number) -> Tensor:
        return self.const(other) / self

    def __neg__(self) -> Tensor:
        return unary("NEG", self)

    def __gt__(self, other: Tensor | Number) -> Tensor:
        return _pair("GREATER", self, other, "b1")

    def __ge__(self, other: Tensor | Number) -> Tensor:
        return _pair("GREATER_EQUAL", self, other, "b1")

    def __lt__(self, other: Tensor | Number) -> Tensor:
        return _pair("LESS", self, other, "b1")

    def __le__(self, other: Tensor | Number) -> Tensor:
        return _pair("LESS_EQUAL", self, other, "b1")

    def __and__(self, other: Tensor) -> Tensor:
        return _pair("LOGICAL_AND", self, other, "b1")

    def __or__(self, other: Tensor) -> Tensor:
        return _pair("LOGICAL_OR", self, other, "b1")

    def __invert__(self) -> Tensor:
        return unary("LOGICAL_NOT", self)


NUMPY = {"f32": np.float32, "s32": np.int32, "u32": np.uint32}


def _pair(op: str, a: Tensor, b: Tensor | Number, dtype: str | None = None, **options) -> Tensor:
    """An operator of two tensors that broadcast."""
    b = b if isinstance(b, Tensor) else a.const(b, NUMPY[a.dtype])
    shape = np.broadcast_shapes(a.shape, b.shape)
    return Tensor(a.sheet.add(op, [a.place, b.place], dtype or a.dtype, shape, **options))


def call(op: str, inputs: Sequence[Tensor], shape: Sequence[int], dtype: str | None = None, **options) -> Tensor:
    places = [v.place for v in inputs]
    return Tensor(inputs[0].sheet.add(op, places, dtype or inputs[0].dtype, shape, **options))


def unary(op: str, x: Tensor, **options) -> Tensor:
    return call(op, [x], x.shape, **options)


def equal(a: Tensor, b: Tensor | Number) -> Tensor:
    return _pair("EQUAL", a, b, "b1")


def maximum(a: Tensor, b: Tensor | Number) -> Tensor:
    return _pair("MAXIMUM", a, b)


def minimum(a: Tensor, b: Tensor | Number) -> Tensor:
    return _pair("MINIMUM", a, b)


def where(condition: Tensor, yes: Tensor | Number, no: Tensor | Number) -> Tensor:
    """Elements of `yes` or of `no`, of which at least one is a tensor. NaN in the other one stays out."""
    known = next(v for v in (yes, no) if isinstance(v, Tensor))
    a, b = (v if isinstance(v, Tensor) else known.const(v, NUMPY[known.dtype]) for v in (yes, no))
    shape = np.broadcast_shapes(condition.shape, a.shape, b.shape)
    return call("SELECT_V2", [condition, a, b], shape, a.dtype)


def cast(x: Tensor, dtype: str) -> Tensor:
    return call("CAST", [x], x.shape, dtype)


def exp(x: Tensor) -> Tensor:
    return unary("EXP", x)


def log(x: Tensor) -> Tensor:
    return unary("LOG", x)


def absolute(x: Tensor) -> Tensor:
    return unary("ABS", x)


def sqrt(x: Tensor) -> Tensor:
    return unary("SQRT", x)


def square(x: Tensor) -> Tensor:
    return unary("SQUARE", x)


def logistic(x: Tensor) -> Tensor:
    return unary("LOGISTIC", x)


# shapes -----------------------------------------------------------------------------------------


def ints(x: Tensor, values: Sequence[int]) -> Tensor:
    return x.const(np.array(values, np.int32), np.int32)


def reshape(x: Tensor, shape: Sequence[int]) -> Tensor:
    shape = tuple(int(n) for n in shape)
    if -1 in shape:
        rest = -prod(shape)
        shape = tuple(x.size // max(rest, 1) if n == -1 else n for n in shape)
    if shape == x.shape:
        return x
    return call("RESHAPE", [x, ints(x, shape)], shape, newShape=list(shape))


def transpose(x: Tensor, perm: Sequence[int]) -> Tensor:
    if tuple(perm) == tuple(range(x.rank)):
        return x
    return call("TRANSPOSE", [x, ints(x, perm)], [x.shape[d] for d in perm])


def pad(x: Tensor, pads: Sequence[Sequence[int]], value: float = 0.0) -> Tensor:
    """x with (before, after) more elements along each axis."""
    if not any(map(any, pads)):
        return x
    shape = [n + a + b for n, (a, b) in zip(x.shape, pads)]
    sizes = x.const(np.array(pads, np.int32).reshape(-1, 2), np.int32)
    if value == 0:
        return call("PAD", [x, sizes], shape)
    return call("PADV2", [x, sizes, x.const(value)], shape)


def cut(x: Tensor, starts: Sequence[int], sizes: Sequence[int]) -> Tensor:
    if tuple(sizes) == x.shape:
        return x
    return call("SLICE", [x, ints(x, starts), ints(x, sizes)], sizes)


def stepped(x: Tensor, starts: Sequence[int], counts: Sequence[int], steps: Sequence[int]) -> Tensor:
    """`counts` elements along each axis, from `starts` on, in these steps."""
    if all(s == 1 for s in steps):
        return cut(x, starts, counts)
    stops = [a + (n - 1) * s + 1 for a, n, s in zip(starts, counts, steps)]
    where_to = [ints(x, v) for v in (starts, stops, steps)]
    return call("STRIDED_SLICE", [x, *where_to], counts)


def spread(x: Tensor, axis: int, step: int) -> Tensor:
    """x with step - 1 zeros between neighbours along an axis."""
    if step == 1 or x.shape[axis] == 1:
        return x
    before, n, after = prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :])
    wide = pad(reshape(x, (before * n, 1, after)), ((0, 0), (0, step - 1), (0, 0)))
    wide = cut(reshape(wide, (before, n * step, after)), (0, 0, 0), (before, (n - 1) * step + 1, after))
    return reshape(wide, (*x.shape[:axis], (n - 1) * step + 1, *x.shape[axis + 1 :]))


def join(parts: Sequence[Tensor], axis: int) -> Tensor:
    if len(parts) == 1:
        return parts[0]
    axis %= parts[0].rank
    shape = list(parts[0].shape)
    shape[axis] = sum(p.shape[axis] for p in parts)
    return call("CONCATENATION", parts, shape, axis=axis)


def gather(x: Tensor, indices: Sequence[int], axis: int) -> Tensor:
    axis %= x.rank
    shape = (*x.shape[:axis], len(indices), *x.shape[axis + 1 :])
    return call("GATHER", [x, ints(x, indices)], shape, axis=axis)


def groups_of(x: Tensor, axis: int, groups: int) -> list[Tensor]:
    """x in equal parts along an axis."""
    axis %= x.rank
    sizes = [n // groups if d == axis else n for d, n in enumerate(x.shape)]
    return [cut(x, [i * sizes[axis] if d == axis else 0 for d in range(x.rank)], sizes) for i in range(groups)]


def repeated(x: Tensor, shape: Sequence[int]) -> Tensor:
    if tuple(shape) == x.shape:
        return x
    return call("BROADCAST_TO", [x, ints(x, shape)], shape)


# sums -------------------------------------------------------------------------------------------


def reduced(op: str, x: Tensor, axes: Sequence[int], keep: bool = False) -> Tensor:
    gone = sorted(a % x.rank for a in axes)
    if not gone:
        return x
    shape = [1 if d in gone else n for d, n in enumerate(x.shape) if keep or d not in gone]
    return call(op, [x, ints(x, gone)], shape, keepDims=keep)


def total(x: Tensor, axes: Sequence[int] | None = None, keep: bool = False) -> Tensor:
    """The sum over these axes, by default over all."""
    return reduced("SUM", x, range(x.rank) if axes is None else axes, keep)


def average(x: Tensor, axes: Sequence[int] | None = None, keep: bool = False) -> Tensor:
    return reduced("MEAN", x, range(x.rank) if axes is None else axes, keep)


def highest(x: Tensor, axes: Sequence[int], keep: bool = False) -> Tensor:
    return reduced("REDUCE_MAX", x, axes, keep)


def matmul(a: Tensor, b: Tensor, *, turn_a: bool = False, turn_b: bool = False) -> Tensor:
    """a @ b, each transposed first if asked."""
    rows = a.shape[-1] if turn_a else a.shape[-2]
    columns = b.shape[-2] if turn_b else b.shape[-1]
    shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), rows, columns)
    return call("BATCH_MATMUL", [a, b], shape, adjX=turn_a, adjY=turn_b)
