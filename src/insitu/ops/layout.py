"""Ops that move elements and compute nothing: they take any element type, quantised or not.

The output has the numerics of the input, so a quantised value keeps its meaning. Kernels get the size of an element in
bytes, and no type.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Node, Type, Value, f32, op, s8
from insitu.graph.call import Call, Table
from insitu.graph.loops import Rows, picked
from insitu.graph.op import Grads
from insitu.ops._boxes import box_shape, row_steps
from insitu.ops._functions import COORDINATES, ROUNDINGS, nearest
from insitu.ops._rules import axis_of
from insitu.ops._types import Array, Ints, Pair
from insitu.ops.arith import add
from insitu.ops.shape_backward import resize_dx, slice_dx


def per_tensor(x: Type) -> Type:
    """The type, if its numerics do not depend on an axis that is about to move."""
    if x.quant is not None and x.quant.per_channel:
        raise GraphError(f"{x} has one scale per channel, which this op does not support")
    return x


def both(name: str, *shapes: tuple[int, ...], **attrs) -> list[Case]:
    """The case in f32 and in s8."""
    return [
        Case(name, tuple(f32(*s) for s in shapes), attrs),
        Case(f"{name}, s8", tuple(s8(*s, s=0.1, z=-3) for s in shapes), attrs),
    ]


reshape = op(
    "reshape",
    "The same elements in the same order with another shape; one -1 is inferred",
    kind="any",
    cases=both("flatten", (2, 3, 5), shape=(2, -1)) + both("split", (6,), shape=(2, 3)),
)
reshape.may(in_place=True, moves=True)


@reshape.infer
def _(x: Type, *, shape: Ints) -> Type:
    known = prod(d for d in shape if d != -1)
    if list(shape).count(-1) > 1 or known < 1 or (x.size % known if -1 in shape else x.size != known):
        raise GraphError(f"{x} cannot be reshaped to {tuple(shape)}")
    return per_tensor(x).with_shape(*(x.size // known if d == -1 else d for d in shape))


@reshape.eval
def _(x: Array, *, shape: Ints) -> Array:
    return x.reshape(shape)


@reshape.grad
def _(g: Value, y: Value, x: Value) -> Grads:
    return (reshape(g, shape=x.shape, name=f"{x.name}.grad"),)


@reshape.emit
def _(y: Value, x: Value) -> Call:
    return Call("copy_bytes", y, x, y.type.bytes, alias=True)


FEW = (2, 3, 4)  # channels of images that a host has a kernel for

transpose = op(
    "transpose",
    "y[i[perm[0]], i[perm[1]], ...] = x[i[0], i[1], ...], as numpy.transpose",
    kind="any",
    cases=(
        both("matrix", (3, 5), perm=(1, 0))
        + both("nchw to nhwc", (2, 3, 4, 5), perm=(0, 2, 3, 1))
        + both("nchw to nhwc, two channels", (1, 2, 9, 7), perm=(0, 2, 3, 1))
        + both("inner kept", (2, 3, 4, 5), perm=(1, 0, 2, 3))
        + both("reversed", (2, 3, 1, 2, 3), perm=(4, 3, 2, 1, 0))
    ),
)
transpose.may(moves=True)


@transpose.infer
def _(x: Type, *, perm: Ints) -> Type:
    if sorted(perm) != list(range(x.rank)):
        raise GraphError(f"{tuple(perm)} is not a permutation of the {x.rank} dimensions of {x}")
    q = x.quant
    if q is not None and q.axis is not None:
        q = replace(q, axis=perm.index(q.axis))
    return Type(x.dtype, tuple(x.shape[p] for p in perm), q)


@transpose.eval
def _(x: Array, *, perm: Ints) -> Array:
    return np.ascontiguousarray(x.transpose(perm))


@transpose.grad
def _(g: Value, y: Value, x: Value, *, perm: Ints) -> Grads:
    back = tuple(int(i) for i in np.argsort(perm))
    return (transpose(g, perm=back, name=f"{x.name}.grad"),)


@transpose.emit
def _(y: Value, x: Value, *, perm: Ints, target: str = "host") -> Call:
    if target == "host" and x.dtype == "f32" and tuple(perm) == (0, 2, 3, 1) and x.shape[1] in FEW:
        return Call("channels_last_f32", y, x, *x.shape[:2], x.shape[2] * x.shape[3])
    steps = row_steps(x.shape)
    return Call("copy_box", y, x, box_shape(y, y.shape, row_steps(y.shape), [steps[p] for p in perm]))


pad = op(
    "pad",
    """x with `pads` = ((before, after), ...) per dimension, filled with `value`

    `value` is a real number: for a quantised x, the elements are round(value / s) + z.
    """,
    kind="any",
    cases=(
        both("image", (1, 2, 3, 2), pads=((0, 0), (1, 2), (0, 1), (0, 0)))
        + both("value", (2, 3), pads=((1, 0), (2, 1)), value=0.75)
        + both("channels", (1, 2, 2, 3), pads=((0, 0), (0, 0), (0, 0), (0, 2)))
    ),
)
pad.may(moves=True)


@pad.infer
def _(x: Type, *, pads: tuple[Pair, ...], value: float = 0.0) -> Type:
    if len(pads) != x.rank or any(len(p) != 2 or min(p) < 0 for p in pads):
        raise GraphError(f"pads {pads} do not fit {x}", hint="one (before, after) per dimension, not negative")
    return per_tensor(x).with_shape(*(d + b + a for d, (b, a) in zip(x.shape, pads)))


@pad.eval
def _(x: Array, *, pads: tuple[Pair, ...], value: float, node: Node) -> Array:
    return np.pad(x, pads, constant_values=pad_value(node.inputs[0].type, value))


@pad.grad
def _(g: Value, y: Value, x: Value, *, pads: tuple[Pair, ...]) -> Grads:
    starts = tuple(b for b, _ in pads)
    stops = tuple(b + d for b, d in zip(starts, x.shape))
    return (slice(g, starts=starts, stops=stops, steps=(1,) * len(starts), name=f"{x.name}.grad"),)


@pad.emit
def _(y: Value, x: Value, *, pads: tuple[Pair, ...], value: float) -> Call:
    steps = row_steps(y.shape)
    box = box_shape(y, x.shape, steps, row_steps(x.shape), y_at=sum(b * s for (b, _), s in zip(pads, steps)))
    fill = pad_value(x.type, value)
    kernel = {"f32": "pad_b4", "s8": "pad_b1", "u8": "pad_b1", "b1": "pad_b1"}.get(x.dtype)
    if kernel is None:
        raise GraphError(f"pad has no kernel for {x.type}")
    return Call(kernel, y, x, box, y.type.size, float(fill) if x.dtype == "f32" else int(fill))


def pad_value(x: Type, value: float):
    """The number in memory that represents this real value."""
    if x.quant is None:
        return x.numpy.type(value)
    return int(np.clip(round(value / x.scale) + x.zero, -128, 127))


concat = op(
    "concat",
    "All inputs, one after the other along `axis`; quantised ones must share scale and zero point",
    kind="any",
    cases=(
        both("channels", (1, 2, 3, 2), (1, 2, 3, 5), axis=-1)
        + both("rows", (2, 3), (1, 3), (4, 3), axis=0)
        + both("one", (2, 3), axis=1)
    ),
)
concat.may(operands=True)


@concat.infer
def _(*xs: Type, axis: int) -> Type:
    if not xs:
        raise GraphError("concat needs an input")
    axis = axis_of(axis, xs[0])
    for x in xs:
        if x.dtype != xs[0].dtype or _without(x.shape, axis) != _without(xs[0].shape, axis):
            raise GraphError(f"{x} cannot follow {xs[0]} along axis {axis}")
        if per_tensor(x).quant != xs[0].quant:
            raise GraphError(f"{x} and {xs[0]} differ in scale", hint="requantize_s8 to one scale first")
    size = sum(x.shape[axis] for x in xs)
    return xs[0].with_shape(*xs[0].shape[:axis], size, *xs[0].shape[axis + 1 :])


@concat.eval
def _(*xs: Array, axis: int) -> Array:
    return np.concatenate(xs, axis=axis)


@concat.grad
def _(g: Value, y: Value, *xs: Value, axis: int) -> Grads:
    axis = axis_of(axis, y.type)
    return split(g, sizes=tuple(x.shape[axis] for x in xs), axis=axis, name=f"{y.name}.grad.parts")


@concat.emit
def _(y: Value, *xs: Value, axis: int) -> Call:
    return Call("concat_bytes", y, *cuts(y, xs, axis), *xs)


def cuts(whole, pieces, axis: int) -> tuple[int, int, Table]:
    """Rows, pieces, and the bytes of each piece per row: how one value is cut along an axis."""
    rows = prod(whole.shape[: axis_of(axis, whole.type)])
    return rows, len(pieces), Table(np.array([p.type.bytes // rows for p in pieces], np.int32))


def _without(shape, axis: int) -> tuple[int, ...]:
    return tuple(shape[:axis]) + tuple(shape[axis + 1 :])


slice = op(
    "slice",
    "y[i, j, ...] = x[starts[0] + steps[0] i, starts[1] + steps[1] j, ...] up to `stops`; one entry per dimension",
    kind="any",
    cases=(
        both("rows", (4, 3), starts=(1, 0), stops=(3, 3), steps=(1, 1))
        + both("steps", (7, 5), starts=(1, 0), stops=(7, 5), steps=(2, 3))
        + both("inner", (2, 3, 5), starts=(0, 1, 1), stops=(2, 3, 4), steps=(1, 1, 1))
    ),
)


def _sliced_rows(y: Value, x: Value, *, starts: Ints, steps: Ints) -> tuple[Rows] | None:
    """None if it takes one image of several: rows of the others lie between."""
    return (Rows(stride=steps[1], top=-starts[1]),) if x.shape[0] == 1 else None


def _slice_some(*, starts: Ints) -> dict[str, Ints]:
    """The first row that is read is the first that is needed."""
    return {"starts": (starts[0], 0, *starts[2:])}


slice.may(moves=True, stripes=_sliced_rows, on_rows=_slice_some)


@slice.infer
def _(x: Type, *, starts: Ints, stops: Ints, steps: Ints) -> Type:
    if not len(starts) == len(stops) == len(steps) == x.rank:
        raise GraphError(f"a slice of {x} needs {x.rank} starts, stops and steps")
    for d, a, b, s in zip(x.shape, starts, stops, steps):
        if not (0 <= a < b <= d and s >= 1):
            raise GraphError(f"{a}:{b}:{s} is not a slice of a dimension of {d}")
    return per_tensor(x).with_shape(*(-((a - b) // s) for a, b, s in zip(starts, stops, steps)))


@slice.eval
def _(x: Array, *, starts: Ints, stops: Ints, steps: Ints) -> Array:
    index = tuple(np.s_[a:b:s] for a, b, s in zip(starts, stops, steps))
    return np.ascontiguousarray(x[index])


@slice.grad
def _(g: Value, y: Value, x: Value, *, starts: Ints, steps: Ints) -> Grads:
    return (slice_dx(g, shape=x.shape, starts=starts, steps=steps, name=f"{x.name}.grad"),)


@slice.emit
def _(y: Value, x: Value, *, starts: Ints, steps: Ints) -> Call:
    along = row_steps(x.shape)
    x_at = sum(a * n for a, n in zip(starts, along))
    x_steps = [s * n for s, n in zip(steps, along)]
    return Call("copy_box", y, x, box_shape(y, y.shape, row_steps(y.shape), x_steps, x_at=x_at))


split = op(
    "split",
    "x cut along `axis` into pieces of these sizes",
    kind="any",
    cases=both("channels", (1, 2, 3, 6), sizes=(1, 3, 2), axis=-1) + both("rows", (4, 3), sizes=(3, 1), axis=0),
)
split.may(moves=True)


@split.infer
def _(x: Type, *, sizes: Ints, axis: int) -> tuple[Type, ...]:
    axis = axis_of(axis, x)
    if sum(sizes) != x.shape[axis] or min(sizes, default=0) < 1:
        raise GraphError(f"axis {axis} of {x} cannot be cut into {tuple(sizes)}")
    per_tensor(x)
    return tuple(x.with_shape(*x.shape[:axis], n, *x.shape[axis + 1 :]) for n in sizes)


@split.eval
def _(x: Array, *, sizes: Ints, axis: int) -> tuple[Array, ...]:
    pieces = np.split(x, np.cumsum(sizes)[:-1], axis=axis)
    return tuple(np.ascontiguousarray(p) for p in pieces)


@split.grad
def _(gs: tuple[Value | None, ...], ys: tuple[Value, ...], x: Value, *, sizes: Ints, axis: int) -> Grads:
    if None not in gs:
        return (concat(*gs, axis=axis, name=f"{x.name}.grad"),)
    axis, total = axis_of(axis, x.type), None
    for at, g in zip(np.cumsum((0, *sizes)), gs):
        if g is not None:
            part = placed(g, x, axis, int(at))
            total = part if total is None else add(total, part, name=f"{x.name}.grad")
    return (total,)


@split.emit
def _(*values: Value, axis: int) -> Call:
    *ys, x = values
    return Call("split_bytes", x, *cuts(x, ys, axis), *ys)


def placed(g, x, axis: int, at: int):
    """The gradient of one piece of x, at its place among zeros."""
    starts = tuple(at if d == axis else 0 for d in range(len(x.shape)))
    return slice_dx(g, shape=x.shape, starts=starts, steps=(1,) * len(starts), name=f"{x.name}.grad")


resize = op(
    "resize",
    "Nearest-neighbour resampling of x[N,H,W,C] to `size` = (OH, OW); coordinates and rounding named as in ONNX",
    kind="any",
    cases=(
        both("twice", (1, 2, 3, 2), size=(4, 6))
        + both("odd", (2, 3, 5, 1), size=(5, 3), coordinates="half_pixel", rounding="round_prefer_ceil")
        + both("corners", (1, 3, 4, 3), size=(7, 2), coordinates="align_corners", rounding="round_prefer_floor")
    ),
)


def _resized_rows(y: Value, x: Value, *, size: Pair, coordinates: str, rounding: str) -> tuple[Rows]:
    return (picked(nearest(x.shape[1], size[0], coordinates, rounding), x.shape[1]),)


def _resize_some(*, size: Pair, made: int, picks: Ints) -> dict[str, Ints]:
    """`picks` is no attribute of the op: only a call on some rows has it."""
    return {"size": (made, size[1]), "picks": picks}


resize.may(moves=True, stripes=_resized_rows, on_rows=_resize_some)


@resize.infer
def _(x: Type, *, size: Pair, coordinates: str = "asymmetric", rounding: str = "floor") -> Type:
    if x.rank != 4:
        raise GraphError(f"resize needs rank 4, not {x}")
    if coordinates not in COORDINATES or rounding not in ROUNDINGS:
        raise GraphError(f"resize does not support coordinates {coordinates!r} with rounding {rounding!r}")
    if len(size) != 2 or min(size) < 1:
        raise GraphError(f"{x} cannot be resized to {tuple(size)}")
    return per_tensor(x).with_shape(x.shape[0], *size, x.shape[3])


@resize.eval
def _(x: Array, *, size: Pair, coordinates: str, rounding: str) -> Array:
    rows, columns = (nearest(x.shape[i + 1], size[i], coordinates, rounding) for i in (0, 1))
    return np.ascontiguousarray(x[:, rows][:, :, columns])


@resize.grad
def _(g: Value, y: Value, x: Value, *, coordinates: str, rounding: str) -> Grads:
    attrs = {"size": x.shape[1:3], "coordinates": coordinates, "rounding": rounding}
    return (resize_dx(g, **attrs, name=f"{x.name}.grad"),)


@resize.emit
def _(y: Value, x: Value, *, size: Pair, coordinates: str, rounding: str, picks: Ints = ()) -> Call:
    n, h, w, c = x.shape
    rows, columns = (nearest(x.shape[i + 1], size[i], coordinates, rounding) for i in (0, 1))
    maps = [Table(np.array(picks, np.int32) if picks else rows), Table(columns)]
    return Call("resize_nearest", y, x, *maps, n, h, w, *size, c * x.type.numpy.itemsize)
