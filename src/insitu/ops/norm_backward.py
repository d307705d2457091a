"""The gradients of softmax, log_softmax, layer_norm and of batch_norm with fixed statistics.

batch_norm with the statistics of the batch is in norm_train.py.
"""

from __future__ import annotations

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Type, Value, f32, op
from insitu.graph.call import Call, Scratch
from insitu.ops._rules import axis_of, walk_along
from insitu.ops._types import Array

AXES = [
    Case("last axis", (f32(2, 3, 7), f32(2, 3, 7))),
    Case("middle axis", (f32(2, 5, 3), f32(2, 5, 3)), {"axis": 1}),
    Case("first axis", (f32(4, 3), f32(4, 3)), {"axis": 0}),
    Case("one", (f32(3, 1), f32(3, 1))),
    Case("long", (f32(2, 37), f32(2, 37))),
]


def infer_along(g, y, *, axis=-1):
    axis_of(axis, y)
    if g.shape != y.shape:
        raise GraphError(f"the gradient {g} does not match {y}")
    return g


softmax_dx = op("softmax_dx", "dx = y (g - sum of g y), along one axis", cases=AXES)
softmax_dx.infer(infer_along)
softmax_dx.may(in_place=True)


@softmax_dx.eval
def _(g: Array, y: Array, *, axis: int) -> Array:
    return y * (g - (g * y).sum(axis=axis, keepdims=True))


@softmax_dx.emit
def _(dx: Value, g: Value, y: Value, *, axis: int) -> Call:
    return Call("softmax_dx_f32", dx, g, y, *walk_along(y, axis))


log_softmax_dx = op("log_softmax_dx", "dx = g - exp(y) sum of g, along one axis", cases=AXES)
log_softmax_dx.infer(infer_along)
log_softmax_dx.may(in_place=True)


@log_softmax_dx.eval
def _(g: Array, y: Array, *, axis: int) -> Array:
    return g - np.exp(y) * g.sum(axis=axis, keepdims=True)


@log_softmax_dx.emit
def _(dx: Value, g: Value, y: Value, *, axis: int) -> Call:
    return Call("log_softmax_dx_f32", dx, g, y, *walk_along(y, axis))


def per_channel(v, rank: int, axis: int):
    return v.reshape([-1 if d == axis % rank else 1 for d in range(rank)])


def other_axes(rank: int, axis: int) -> tuple[int, ...]:
    return tuple(d for d in range(rank) if d != axis % rank)


batch_norm_dx = op(
    "batch_norm_dx",
    "dx = g scale / sqrt(var + epsilon), one factor per channel of `axis`: mean and var are fixed",
    domain=(0.1, 2.0),
    cases=[
        Case("nhwc", (f32(2, 3, 2, 5), f32(5), f32(5))),
        Case("axis 1", (f32(2, 3, 4), f32(3), f32(3)), {"axis": 1, "epsilon": 1e-3}),
    ],
)
batch_norm_dx.may(in_place=True)


@batch_norm_dx.infer
def _(g: Type, scale: Type, var: Type, *, axis: int = -1, epsilon: float = 1e-05) -> Type:
    channels = g.shape[axis_of(axis, g)]
    if scale.shape != (channels,) or var.shape != (channels,):
        raise GraphError(f"{scale} and {var} must have one number per channel ({channels})")
    return g


@batch_norm_dx.eval
def _(g: Array, scale: Array, var: Array, *, axis: int, epsilon: float) -> Array:
    return g * per_channel(scale / np.sqrt(var + epsilon), g.ndim, axis)


@batch_norm_dx.emit
def _(dx: Value, g: Value, scale: Value, var: Value, *, axis: int, epsilon: float) -> Call:
    walk = walk_along(g, axis)
    return Call("batch_norm_dx_f32", dx, g, scale, var, *walk, float(epsilon), Scratch(4 * walk[1]))


batch_norm_dscale = op(
    "batch_norm_dscale",
    "dscale = the sum of g (x - mean) / sqrt(var + epsilon) per channel of `axis`",
    domain=(0.1, 2.0),
    cases=[
        Case("nhwc", (f32(2, 3, 2, 5), f32(2, 3, 2, 5), f32(5), f32(5))),
        Case("axis 1", (f32(2, 3, 4), f32(2, 3, 4), f32(3), f32(3)), {"axis": 1, "epsilon": 1e-3}),
    ],
)


@batch_norm_dscale.infer
def _(g: Type, x: Type, mean: Type, var: Type, *, axis: int = -1, epsilon: float = 1e-05) -> Type:
    if g.shape != x.shape:
        raise GraphError(f"the gradient {g} does not match {x}")
    return Type(g.dtype, (x.shape[axis_of(axis, x)],))


@batch_norm_dscale.eval
def _(g: Array, x: Array, mean: Array, var: Array, *, axis: int, epsilon: float) -> Array:
    sums = (g * (x - per_channel(mean, x.ndim, axis))).sum(axis=other_axes(x.ndim, axis))
    return sums / np.sqrt(var + epsilon)


@batch_norm_dscale.emit
def _(dscale: Value, g: Value, x: Value, mean: Value, var: Value, *, axis: int, epsilon: float) -> Call:
    return Call("batch_norm_dscale_f32", dscale, g, x, mean, var, *walk_along(x, axis), float(epsilon))


NORMS = [
    Case("last", (f32(2, 3, 7), f32(2, 3, 7), f32(7))),
    Case("bare", (f32(3, 5), f32(3, 5)), {"epsilon": 1e-3}),
    Case("two dims", (f32(2, 3, 4), f32(2, 3, 4), f32(3, 4)), {"dims": 2}),
    Case("long", (f32(2, 35), f32(2, 35), f32(35))),
]


def normal(x, dims: int, epsilon: float):
    """(x - mean) / sqrt(var + epsilon) over the last dims, and the reciprocal root."""
    axes = tuple(range(x.ndim - dims, x.ndim))
    d = x - x.mean(axis=axes, keepdims=True)
    r = 1 / np.sqrt((d * d).mean(axis=axes, keepdims=True) + epsilon)
    return d * r, r


layer_norm_dx = op(
    "layer_norm_dx",
    "dx = r (h - mean of h - n mean of h n), h = g scale, n the normalised x, r = 1 / sqrt(var + epsilon)",
    cases=NORMS,
)
layer_norm_dx.may(in_place=True)


@layer_norm_dx.infer
def _(g: Type, x: Type, scale: Type | None = None, *, dims: int = 1, epsilon: float = 1e-05) -> Type:
    if g.shape != x.shape:
        raise GraphError(f"the gradient {g} does not match {x}")
    return g


@layer_norm_dx.eval
def _(g: Array, x: Array, scale: Array | None = None, *, dims: int, epsilon: float) -> Array:
    axes = tuple(range(x.ndim - dims, x.ndim))
    n, r = normal(x, dims, epsilon)
    h = g if scale is None else g * scale
    return r * (h - h.mean(axis=axes, keepdims=True) - n * (h * n).mean(axis=axes, keepdims=True))


@layer_norm_dx.emit
def _(dx: Value, g: Value, x: Value, scale: Value | None = None, *, dims: int, epsilon: float) -> Call:
    n = int(np.prod(x.shape[len(x.shape) - dims :]))
    return Call("layer_norm_dx_f32", dx, g, x, scale, x.type.size // n, n, float(epsilon))


layer_norm_dscale = op(
    "layer_norm_dscale",
    "dscale = the sum over rows of g n, n the normalised x",
    cases=[Case(c.name, c.inputs[:2], c.attrs) for c in NORMS],
)


@layer_norm_dscale.infer
def _(g: Type, x: Type, *, dims: int = 1, epsilon: float = 1e-05) -> Type:
    return g.with_shape(*x.shape[x.rank - dims :])


@layer_norm_dscale.eval
def _(g: Array, x: Array, *, dims: int, epsilon: float) -> Array:
    return (g * normal(x, dims, epsilon)[0]).sum(axis=tuple(range(x.ndim - dims)))


@layer_norm_dscale.emit
def _(dscale: Value, g: Value, x: Value, *, dims: int, epsilon: float) -> Call:
    n = dscale.type.size
    return Call("layer_norm_dscale_f32", dscale, g, x, x.type.size // n, n, float(epsilon))
