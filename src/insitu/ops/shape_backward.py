"""The gradients of ops that repeat or join elements: broadcasting, reductions, slices, nearest resampling.

Gradients are f32 without numerics, so these ops serve float and int8 graphs alike. Sums run in a fixed order.
"""

from __future__ import annotations

from math import prod

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Node, Type, Value, f32, op, s8
from insitu.graph.call import Call, Table
from insitu.ops._axes import reduce_output, reduce_struct, reduced_axes
from insitu.ops._boxes import box_shape, row_steps
from insitu.ops._functions import nearest, real
from insitu.ops._pairs import pair_shape
from insitu.ops._rules import broadcast
from insitu.ops._types import Array, Ints, Pair


def repeated_axes(shape, own) -> tuple[int, ...]:
    """The axes of `shape` along which a value of shape `own` was repeated."""
    full = (1,) * (len(shape) - len(own)) + tuple(own)
    return tuple(d for d, (n, m) in enumerate(zip(shape, full)) if n != m)


unbroadcast = op(
    "unbroadcast",
    "The sum over the axes along which a value of this `shape` was repeated: the gradient of broadcasting",
    cases=[
        Case("last axis", (f32(2, 3, 5),), {"shape": (5,)}),
        Case("rows", (f32(2, 3, 5),), {"shape": (3, 1)}),
        Case("scalar", (f32(3, 7),), {"shape": ()}),
        Case("apart", (f32(2, 3, 4, 5),), {"shape": (1, 3, 1, 5)}),
        Case("last", (f32(2, 19),), {"shape": (2, 1)}),
        Case("same", (f32(2, 3),), {"shape": (2, 3)}),
    ],
)


@unbroadcast.infer
def _(g: Type, *, shape: Ints) -> Type:
    if len(shape) > g.rank or np.broadcast_shapes(g.shape, shape) != g.shape:
        raise GraphError(f"{tuple(shape)} does not broadcast to {g}")
    return g.with_shape(*shape)


@unbroadcast.eval
def _(g: Array, *, shape: Ints) -> Array:
    return g.sum(axis=repeated_axes(g.shape, shape)).reshape(shape)


@unbroadcast.emit
def _(y: Value, g: Value, *, shape: Ints) -> Call:
    return Call("unbroadcast_f32", y, g, reduce_struct(g.type, repeated_axes(g.shape, shape)))


expand = op(
    "expand",
    "factor * g, repeated along the reduced `axes` of `shape`: the gradient of a sum or a mean over them",
    cases=[
        Case("global pool", (f32(2, 5),), {"shape": (2, 3, 4, 5), "axes": (1, 2), "factor": 1 / 12}),
        Case("last", (f32(3, 1),), {"shape": (3, 17), "axes": (-1,)}),
        Case("apart", (f32(3, 5),), {"shape": (2, 3, 4, 5), "axes": (0, 2)}),
        Case("all", (f32(),), {"shape": (2, 3), "axes": (0, 1)}),
        Case("none", (f32(2, 3),), {"shape": (2, 3), "axes": ()}),
    ],
)


@expand.infer
def _(g: Type, *, shape: Ints, axes: Ints, factor: float = 1.0) -> Type:
    x = g.with_shape(*shape)
    if g.shape not in (reduce_output(x, axes, False), reduce_output(x, axes, True)):
        raise GraphError(f"{g} is not the shape of {x} reduced over {tuple(axes)}")
    return x


@expand.eval
def _(g: Array, *, shape: Ints, axes: Ints, factor: float) -> Array:
    gone = reduced_axes(len(shape), axes)
    kept = [1 if d in gone else n for d, n in enumerate(shape)]
    return np.broadcast_to(g.reshape(kept) * factor, shape)


@expand.emit
def _(y: Value, g: Value, *, axes: Ints, factor: float) -> Call:
    return Call("expand_f32", y, g, reduce_struct(y.type, axes), float(factor))


TIED = np.array([-128, 0, 127], np.int8)
AMAX_DX = {"first": "amax_dx", "even": "amax_even_dx"}  # ties -> kernel


def want_ties(ties: str) -> None:
    if ties not in AMAX_DX:
        raise GraphError(f"ties={ties!r} must be one of {', '.join(AMAX_DX)}")


amax_dx = op(
    "amax_dx",
    """dx = g where x is the maximum over `axes`, else 0

    ties = first   of several equal maxima the first one takes all of g
           even    each of n equal maxima takes g / n
    """,
    kind="any",
    cases=[
        Case("global pool", (f32(2, 5), f32(2, 3, 4, 5)), {"axes": (1, 2)}),
        Case("last", (f32(3, 1), f32(3, 17)), {"axes": (-1,)}),
        Case("apart", (f32(3, 5), f32(2, 3, 4, 5)), {"axes": (0, 2)}),
        Case("s8, ties", (f32(4), s8(19, 4, s=0.5, z=3)), {"axes": (0,)}),
        Case("ties", (f32(2), np.zeros((2, 3), np.float32)), {"axes": (1,)}),
        Case("even", (f32(3, 5), f32(2, 3, 4, 5)), {"axes": (0, 2), "ties": "even"}),
        Case("even, ties", (f32(2), np.zeros((2, 3), np.float32)), {"axes": (1,), "ties": "even"}),
        Case("even, s8", (f32(2, 5), s8(2, 67, 5, s=0.5, z=3)), {"axes": (1,), "ties": "even"}),
        Case("even, s8 ties", (f32(1, 3), np.tile(TIED, (5, 1))), {"axes": (0,), "ties": "even"}),
    ],
)


@amax_dx.infer
def _(g: Type, x: Type, *, axes: Ints, ties: str = "first") -> Type:
    want_ties(ties)
    if g.shape not in (reduce_output(x, axes, False), reduce_output(x, axes, True)):
        raise GraphError(f"{g} is not the shape of {x} reduced over {tuple(axes)}")
    return Type(g.dtype, x.shape)


@amax_dx.eval
def _(g: Array, x: Array, *, axes: Ints, ties: str) -> Array:
    gone = reduced_axes(x.ndim, axes)
    order = [d for d in range(x.ndim) if d not in gone] + list(gone)
    rows = x.transpose(order).reshape(g.size, -1)
    dx = (_to_all if ties == "even" else _to_first)(g.reshape(-1), rows)
    return dx.reshape([x.shape[d] for d in order]).transpose(np.argsort(order))


def _to_first(g: Array, rows: Array) -> Array:
    dx = np.zeros(rows.shape, g.dtype)
    dx[np.arange(g.size), rows.argmax(axis=1)] = g
    return dx


def _to_all(g: Array, rows: Array) -> Array:
    highest = rows == rows.max(axis=1, keepdims=True)
    share = g / highest.sum(axis=1).astype(g.dtype)
    return np.where(highest, share[:, None], np.zeros((), g.dtype))


@amax_dx.emit
def _(dx: Value, g: Value, x: Value, *, axes: Ints, ties: str) -> Call:
    return Call(f"{AMAX_DX[ties]}_{x.dtype}", dx, g, x, reduce_struct(x.type, axes))


mul_real = op(
    "mul_real",
    "y = g * x in real numbers: a gradient times a value that may be quantised; x broadcasts to the shape of g",
    kind="any",
    cases=[
        Case("s8", (f32(1, 2, 3, 5), s8(1, 2, 3, 5, s=0.1, z=-3))),
        Case("s8 gate", (f32(1, 2, 3, 5), s8(1, 1, 1, 5, s=0.02, z=7))),
        Case("s8 rows", (f32(2, 3, 5), s8(3, 1, s=0.02, z=7))),
    ],
)
mul_real.may(in_place=True)


@mul_real.infer
def _(g: Type, x: Type) -> Type:
    if broadcast(g, x) != g.shape or x.dtype != "s8" or x.quant is None or x.quant.per_channel:
        raise GraphError(f"{x} is not s8 with one scale that broadcasts to {g}")
    return g


@mul_real.eval
def _(g: Array, x: Array, *, node: Node) -> Array:
    return g * real(x, node.inputs[1].type)


@mul_real.emit
def _(y: Value, g: Value, x: Value) -> Call:
    scale = float(np.float32(x.type.scale))
    return Call("mul_real_s8", y, g, x, pair_shape(y, g, x), scale, x.type.zero)


slice_dx = op(
    "slice_dx",
    "g put back at the places it was sliced from, of a value of this `shape`; zero elsewhere",
    cases=[
        Case("rows", (f32(2, 3),), {"shape": (4, 3), "starts": (1, 0), "steps": (1, 1)}),
        Case("steps", (f32(3, 2),), {"shape": (7, 5), "starts": (1, 0), "steps": (2, 3)}),
    ],
)


@slice_dx.infer
def _(g: Type, *, shape: Ints, starts: Ints, steps: Ints) -> Type:
    for d, n, a, s in zip(shape, g.shape, starts, steps):
        if a < 0 or s < 1 or a + (n - 1) * s >= d:
            raise GraphError(f"{g} is not a slice of {tuple(shape)} from {tuple(starts)} in steps of {tuple(steps)}")
    return g.with_shape(*shape)


@slice_dx.eval
def _(g: Array, *, shape: Ints, starts: Ints, steps: Ints) -> Array:
    dx = np.zeros(shape, g.dtype)
    dx[tuple(np.s_[a : a + (n - 1) * s + 1 : s] for n, a, s in zip(g.shape, starts, steps))] = g
    return dx


@slice_dx.emit
def _(dx: Value, g: Value, *, starts: Ints, steps: Ints) -> Call:
    along = row_steps(dx.shape)
    at = sum(a * n for a, n in zip(starts, along))
    box = box_shape(dx, g.shape, [s * n for s, n in zip(steps, along)], row_steps(g.shape), y_at=at)
    return Call("pad_b4", dx, g, box, dx.type.size, 0.0)


resize_dx = op(
    "resize_dx",
    "dx[n,r,q,c] = the sum of g over all outputs that copied that pixel; `size` is that of x",
    cases=[
        Case("twice", (f32(1, 4, 6, 2),), {"size": (2, 3)}),
        Case("odd", (f32(2, 5, 3, 1),), {"size": (3, 5), "coordinates": "half_pixel", "rounding": "round_prefer_ceil"}),
    ],
)


@resize_dx.infer
def _(g: Type, *, size: Pair, coordinates: str = "asymmetric", rounding: str = "floor") -> Type:
    return g.with_shape(g.shape[0], *size, g.shape[3])


@resize_dx.eval
def _(g: Array, *, size: Pair, coordinates: str, rounding: str) -> Array:
    rows, columns = (nearest(size[i], g.shape[i + 1], coordinates, rounding) for i in (0, 1))
    dx = np.zeros((g.shape[0], *size, g.shape[3]), g.dtype)
    where = (slice(None), rows[:, None], columns[None, :])
    np.add.at(dx, where, g)  # type: ignore[arg-type]  # numpy takes slices here; its stub does not say so
    return dx


@resize_dx.emit
def _(dx: Value, g: Value, *, size: Pair, coordinates: str, rounding: str) -> Call:
    n, oh, ow, c = g.shape
    maps = [Table(nearest(size[i], g.shape[i + 1], coordinates, rounding)) for i in (0, 1)]
    return Call("resize_dx_f32", dx, g, *maps, n, prod(size), size[1], oh, ow, c)


def fitted(g: Value, x: Value) -> Value:
    """The gradient of x, which was broadcast to the shape of g: the sum over the axes along which it was repeated."""
    if g.shape == x.shape:
        return g
    return unbroadcast(g, shape=x.shape, name=f"{x.name}.grad")
