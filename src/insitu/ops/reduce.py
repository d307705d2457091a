"""Mean, sum and maximum over axes, and running sums. Global pooling of an image is one of these over axes (1, 2)."""

from __future__ import annotations

import numpy as np

from insitu.graph import Case, Node, Type, Value, f32, op, s8
from insitu.graph.call import Call, Scratch
from insitu.graph.op import Grads
from insitu.ops._axes import reduce_count, reduce_output, reduce_struct
from insitu.ops._requant import (
    quantised,
    quantize_multiplier,
    quantize_multipliers,
    requant_struct,
    rescaled,
    want_s8,
)
from insitu.ops._rules import axis_of, walk_along, want_float
from insitu.ops._types import Array, Ints, Masked, Out
from insitu.ops.mask import apart, beside, channels_of, clamped, unclamped, with_masks
from insitu.ops.shape_backward import amax_dx, expand, want_ties


def mean_dx(g, x, axes):
    """The gradient of a mean, float or int8: g / count everywhere."""
    share = 1 / reduce_count(x.type, axes)
    return expand(g, shape=x.shape, axes=axes, factor=share, name=f"{x.name}.grad")


FLOAT_CASES = [
    Case("global pool", (f32(2, 3, 4, 5),), {"axes": (1, 2)}),
    Case("global pool, many channels", (f32(2, 3, 1, 70),), {"axes": (1, 2)}),
    Case("last", (f32(3, 17),), {"axes": (-1,), "keepdims": True}),
    Case("first", (f32(3, 5),), {"axes": (0,)}),
    Case("apart", (f32(2, 3, 4, 5),), {"axes": (0, 2)}),
    Case("all", (f32(2, 3, 5),), {"axes": (0, 1, 2), "keepdims": True}),
    Case("one", (f32(1, 1),), {"axes": (1,)}),
]


mean = op("mean", "The mean over `axes`; with keepdims they stay, with size 1", cases=FLOAT_CASES)


@mean.infer
def _(x: Type, *, axes: Ints, keepdims: bool = False) -> Type:
    return Type(x.dtype, reduce_output(x, axes, keepdims))


@mean.eval
def _(x: Array, *, axes: Ints, keepdims: bool) -> Array:
    return x.mean(axis=tuple(axes), keepdims=keepdims)


@mean.grad
def _(g: Value, y: Value, x: Value, *, axes: Ints) -> Grads:
    return (mean_dx(g, x, axes),)


@mean.emit
def _(y: Value, x: Value, *, axes: Ints) -> Call:
    return Call("mean_f32", y, x, reduce_struct(x.type, axes))


mean_s8 = op(
    "mean_s8",
    """requantise(sum over `axes` of x - x_zero), by s_x / (s_y count)

    single   the multiplier is that real number
    litert   the multiplier of s_x / s_y is divided by the count in integers, as LiteRT does
    """,
    cases=[
        Case("global pool", (s8(2, 3, 5, 19, s=0.1, z=-7),), {"axes": (1, 2)}, out=s8(s=0.08, z=3)),
        Case(
            "litert, global pool", (s8(2, 3, 5, 19, s=0.1, z=-7),),
            {"axes": (1, 2), "keepdims": True, "rounding": "litert"}, out=s8(s=0.03, z=-12),
        ),
        Case("litert, last", (s8(3, 17, s=0.1, z=5),), {"axes": (-1,), "rounding": "litert"}, out=s8(s=0.1, z=5)),
        Case("apart", (s8(2, 3, 4, 5, s=0.1, z=5),), {"axes": (0, 2)}, out=s8(s=0.04, z=5)),
        Case("one", (s8(1, 1, s=0.1, z=5),), {"axes": (1,)}, out=s8(s=0.2)),
        Case("mask", (s8(2, 3, 2, 19, s=0.1, z=-7),), {"axes": (1, 2), "mask": True}, out=s8(s=0.01, z=3)),
        Case("litert, mask", (s8(4, 3, 2, s=0.1),), {"axes": (1, 2), "mask": True, "rounding": "litert"},
             out=s8(s=0.01)),
    ],
)  # fmt: skip
mean.may(int8=mean_s8)


@mean_s8.infer
def _(
    x: Type, *, axes: Ints, keepdims: bool = False, rounding: str = "single", mask: bool = False, out: Out
) -> Type | tuple[Type, ...]:
    want_s8("mean_s8", x=x)
    return beside(quantised("mean_s8", out, reduce_output(x, axes, keepdims), rounding), mask)


@mean_s8.eval
def _(x: Array, *, axes: Ints, keepdims: bool, rounding: str, mask: bool, node: Node) -> Array | tuple[Array, ...]:
    tx, ty = node.inputs[0].type, node.output.type
    acc = (x.astype(np.int64) - tx.zero).sum(axis=tuple(axes), keepdims=keepdims)
    m, shift = mean_multiplier(tx, ty, reduce_count(tx, axes), rounding)
    return clamped(rescaled(acc, m, shift, ty.zero, rounding), -128, 127, mask)


@mean_s8.grad
def _(g: Masked, y: Masked, x: Value, *, axes: Ints) -> Grads:
    return (mean_dx(unclamped(g, y), x, axes),)


@mean_s8.emit
def _(*values: Value, axes: Ints, rounding: str) -> Call:
    y, mask, x = apart(values, 1)
    shape = reduce_struct(x.type, axes)
    m, shift = mean_multiplier(x.type, y.type, shape.sizes["reduce"], rounding)
    multipliers = np.array([m], np.int32), np.array([shift], np.int8)
    q = requant_struct(multipliers, x.type.zero, y.type.zero, -128, 127, rounding)
    return Call("mean_s8", y, mask, x, shape, channels_of(y.type), q, Scratch(4 * shape.sizes["inner"]))


def mean_multiplier(x: Type, y: Type, count: int, rounding: str) -> tuple[int, int]:
    """(m, shift) of the mean of `count` elements."""
    if rounding == "single":
        return quantize_multiplier(x.scale / y.scale / count)
    m, shift = quantize_multiplier(x.scale / y.scale)
    # LiteRT keeps as many extra bits as the count has, so that dividing the multiplier loses none
    extra = min(count.bit_length() - 1, 32, 31 + shift)
    return (m << extra) // count, shift - extra


sum = op("sum", "The sum over `axes`; with keepdims they stay, with size 1", cases=FLOAT_CASES)


@sum.infer
def _(x: Type, *, axes: Ints, keepdims: bool = False) -> Type:
    return Type(x.dtype, reduce_output(x, axes, keepdims))


@sum.eval
def _(x: Array, *, axes: Ints, keepdims: bool) -> Array:
    return x.sum(axis=tuple(axes), keepdims=keepdims)


@sum.grad
def _(g: Value, y: Value, x: Value, *, axes: Ints) -> Grads:
    return (expand(g, shape=x.shape, axes=axes, name=f"{x.name}.grad"),)


@sum.emit
def _(y: Value, x: Value, *, axes: Ints) -> Call:
    return Call("sum_reduce_f32", y, x, reduce_struct(x.type, axes))


amax = op(
    "amax",
    """The maximum over `axes`; with keepdims they stay, with size 1. A quantised x keeps its scale.

    `ties` says which of several equal maxima get the gradient: the `first`, as in pooling, or all (`even` shares).
    """,
    kind="any",
    cases=[
        *FLOAT_CASES,
        Case("even", (f32(2, 3, 4, 5),), {"axes": (1, 2), "ties": "even"}),
        Case("s8", (s8(2, 3, 4, 5, s=0.5, z=3),), {"axes": (1, 2)}),
        Case("s8 even", (s8(2, 67, s=0.5, z=3),), {"axes": (1,), "ties": "even"}),
    ],
)
amax.may(moves=True)


@amax.infer
def _(x: Type, *, axes: Ints, keepdims: bool = False, ties: str = "first") -> Type:
    want_ties(ties)
    return Type(x.dtype, reduce_output(x, axes, keepdims), x.quant)


@amax.eval
def _(x: Array, *, axes: Ints, keepdims: bool) -> Array:
    return x.max(axis=tuple(axes), keepdims=keepdims)


@amax.grad
def _(g: Value, y: Value, x: Value, *, axes: Ints, ties: str) -> Grads:
    return (amax_dx(g, x, axes=axes, ties=ties, name=f"{x.name}.grad"),)


@amax.emit
def _(y: Value, x: Value, *, axes: Ints) -> Call:
    return Call(f"amax_{y.dtype}", y, x, reduce_struct(x.type, axes))


cumsum = op(
    "cumsum",
    """y[i] = x[0] + .. + x[i] along `axis`

    `reverse` adds from the last element to the first; `exclusive` leaves out x[i] itself.
    """,
    cases=[
        Case("last", (f32(3, 17),)),
        Case("first", (f32(5, 3),), {"axis": 0}),
        Case("middle", (f32(2, 5, 3),), {"axis": 1}),
        Case("one", (f32(1),)),
        Case("reverse", (f32(2, 5, 3),), {"axis": -2, "reverse": True}),
        Case("exclusive", (f32(3, 7),), {"exclusive": True}),
        Case("exclusive, reverse", (f32(3, 7),), {"exclusive": True, "reverse": True}),
    ],
)
cumsum.may(in_place=True)


@cumsum.infer
def _(x: Type, *, axis: int = -1, reverse: bool = False, exclusive: bool = False) -> Type:
    axis_of(axis, x)
    want_float(x)
    return x


@cumsum.eval
def _(x: Array, *, axis: int, reverse: bool, exclusive: bool) -> Array:
    return running_sums(x, axis, reverse, exclusive)


@cumsum.grad
def _(g: Value, y: Value, x: Value, *, axis: int, reverse: bool, exclusive: bool) -> Grads:
    return (cumsum_dx(g, x, axis, reverse, exclusive),)


@cumsum.emit
def _(y: Value, x: Value, *, axis: int, reverse: bool, exclusive: bool) -> Call:
    return Call("cumsum_f32", y, x, *walk_along(x, axis), int(reverse), int(exclusive))


def running_sums(x: Array, axis: int, reverse: bool, exclusive: bool) -> Array:
    turned = np.flip(x, axis) if reverse else x
    sums = np.cumsum(turned, axis, dtype=x.dtype)
    if exclusive:
        sums = np.roll(sums, 1, axis)
        np.moveaxis(sums, axis, 0)[0] = 0
    return np.flip(sums, axis) if reverse else sums


def cumsum_dx(g: Value, x: Value, axis: int, reverse: bool, exclusive: bool) -> Value:
    """The gradient of running sums, float or int8: x[i] is in all sums after it, so g is added from the other end."""
    return cumsum(g, axis=axis, reverse=not reverse, exclusive=exclusive, name=f"{x.name}.grad")


cumsum_s8 = op(
    "cumsum_s8",
    "requantise(the running sum along `axis` of x - x_zero), by s_x / s_y; `reverse`, `exclusive` as in cumsum",
    cases=with_masks([
        Case("last", (s8(3, 19, s=0.1, z=-7),), out=s8(s=0.3, z=3)),
        Case("first", (s8(5, 3, s=0.1, z=5),), {"axis": 0}, out=s8(s=0.2)),
        Case("middle, wide", (s8(2, 5, 67, s=0.1, z=5),), {"axis": 1}, out=s8(s=0.2, z=-9)),
        Case("one", (s8(1, s=0.1, z=5),), out=s8(s=0.2)),
        Case("reverse", (s8(2, 5, 3, s=0.1, z=5),), {"axis": 1, "reverse": True}, out=s8(s=0.2)),
        Case("exclusive", (s8(3, 17, s=0.1, z=-2),), {"exclusive": True}, out=s8(s=0.3)),
        Case("exclusive, reverse", (s8(3, 17, s=0.1, z=-2),), {"exclusive": True, "reverse": True}, out=s8(s=0.3)),
        Case("litert", (s8(3, 17, s=0.1, z=-2),), {"rounding": "litert"}, out=s8(s=0.3)),
    ]),
)  # fmt: skip
cumsum.may(int8=cumsum_s8)
cumsum_s8.may(in_place=True)


@cumsum_s8.infer
def _(
    x: Type, *, axis: int = -1, reverse: bool = False, exclusive: bool = False, rounding: str = "single",
    mask: bool = False, out: Out,
) -> Type | tuple[Type, ...]:  # fmt: skip
    want_s8("cumsum_s8", x=x)
    axis_of(axis, x)
    return beside(quantised("cumsum_s8", out, x.shape, rounding), mask)


@cumsum_s8.eval
def _(
    x: Array, *, axis: int, reverse: bool, exclusive: bool, rounding: str, mask: bool, node: Node
) -> Array | tuple[Array, ...]:
    tx, ty = node.inputs[0].type, node.output.type
    acc = running_sums(x.astype(np.int64) - tx.zero, axis, reverse, exclusive)
    return clamped(rescaled(acc, *quantize_multiplier(tx.scale / ty.scale), ty.zero, rounding), -128, 127, mask)


@cumsum_s8.grad
def _(g: Masked, y: Masked, x: Value, *, axis: int, reverse: bool, exclusive: bool) -> Grads:
    return (cumsum_dx(unclamped(g, y), x, axis, reverse, exclusive),)


@cumsum_s8.emit
def _(*values: Value, axis: int, reverse: bool, exclusive: bool, rounding: str) -> Call:
    y, mask, x = apart(values, 1)
    multipliers = quantize_multipliers([x.type.scale / y.type.scale])
    q = requant_struct(multipliers, x.type.zero, y.type.zero, -128, 127, rounding)
    how = *walk_along(x, axis), int(reverse), int(exclusive), channels_of(y.type)
    return Call("cumsum_s8", y, mask, x, *how, q)
