"""Softmax and the normalisations; the int8 softmax below its float op.

batch_norm and dropout are as in inference: the quantizer folds them, and training replaces them by their other form.
"""

from __future__ import annotations

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Node, Type, Value, f32, op, s8
from insitu.graph.call import Call, Scratch
from insitu.graph.op import Grads, Parameters
from insitu.ops._fixed import softmax_s8 as fixed_softmax
from insitu.ops._fixed import softmax_scaling
from insitu.ops._gradients import from_output, straight
from insitu.ops._rules import SMALL, axis_of, same, small, walk_along, want_float, want_rounding, want_s8
from insitu.ops._types import Array
from insitu.ops.norm_backward import (
    batch_norm_dscale,
    batch_norm_dx,
    layer_norm_dscale,
    layer_norm_dx,
    log_softmax_dx,
    softmax_dx,
)
from insitu.ops.quant import dequantize
from insitu.ops.reduce import sum as sum_of
from insitu.ops.shape_backward import fitted

MAX_CLASSES = 4095  # the sum of exponentials has 12 integer bits
AXES = [
    Case("last axis", (f32(2, 3, 7),)),
    Case("middle axis", (f32(2, 5, 3),), {"axis": 1}),
    Case("first axis", (f32(4, 3),), {"axis": 0}),
    Case("one", (f32(3, 1),)),
    Case("large", (np.array([[1000.0, 1001.0, -1000.0]], np.float32),)),
]


def infer_along(x, *, axis=-1):
    axis_of(axis, x)
    return same(x)


softmax = op("softmax", "y = exp(x - max x) / sum of exp(x - max x), along one axis", cases=AXES)
softmax.infer(infer_along)
softmax.grad(from_output(softmax_dx))
softmax.may(in_place=True, bounds=(0.0, 1.0))


@softmax.eval
def _(x: Array, *, axis: int) -> Array:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


@softmax.emit
def _(y: Value, x: Value, *, axis: int) -> Call:
    return Call("softmax_f32", y, x, *walk_along(x, axis))


softmax_s8 = op(
    "softmax_s8",
    """Softmax along the last axis in fixed point; the result has scale 1/256 and zero point -128

    Differences to the maximum have 5 integer bits; exp is a polynomial, the reciprocal Newton's method. Both roundings
    are the same.
    """,
    cases=[
        Case("odd", (s8(3, 7, s=0.1, z=5),)),
        Case("one", (s8(2, 1, s=0.1),)),
        Case("steep", (s8(3, 11, s=0.5, z=-3),), {"rounding": "litert"}),
        Case("flat", (s8(2, 67, s=0.004),)),
        Case("many alike", (s8(2, 1500, s=0.0005),)),
    ],
)
softmax_s8.may(in_place=True)
softmax.may(int8=softmax_s8)


@softmax_s8.infer
def _(x: Type, *, rounding: str = "single") -> Type:
    want_s8(x)
    want_rounding(rounding)
    if x.rank < 1 or x.shape[-1] > MAX_CLASSES:
        raise GraphError(f"softmax_s8 sums at most {MAX_CLASSES} exponentials, not {x}", hint="dequantize first")
    return s8(*x.shape, s=1 / 256, z=-128)


@softmax_s8.eval
def _(x: Array, *, node: Node) -> Array:
    return fixed_softmax(x, node.inputs[0].type.scale)


@softmax_s8.grad
def _(g: Value, y: Value, x: Value) -> Grads:
    return (softmax_dx(g, dequantize(y), name=f"{x.name}.grad"),)


@softmax_s8.emit
def _(y: Value, x: Value) -> Call:
    n = x.shape[-1]
    return Call("softmax_s8", y, x, x.type.size // n, n, *softmax_scaling(x.type.scale))


log_softmax = op("log_softmax", "y = x - max x - log(sum of exp(x - max x)), along one axis", cases=AXES)
log_softmax.infer(infer_along)
log_softmax.grad(from_output(log_softmax_dx))
log_softmax.may(in_place=True)


@log_softmax.eval
def _(x: Array, *, axis: int) -> Array:
    d = x - x.max(axis=axis, keepdims=True)
    return d - np.log(np.exp(d).sum(axis=axis, keepdims=True))


@log_softmax.emit
def _(y: Value, x: Value, *, axis: int) -> Call:
    return Call("log_softmax_f32", y, x, *walk_along(x, axis))


batch_norm = op(
    "batch_norm",
    "y = (x - mean) / sqrt(var + epsilon) * scale + bias, one of each per channel of `axis`",
    domain=(0.1, 2.0),
    cases=[
        Case("nhwc", (f32(2, 3, 2, 5), f32(5), f32(5), f32(5), f32(5))),
        Case("flat", (f32(3, 7), f32(7), f32(7), f32(7), f32(7)), {"epsilon": 1e-3}),
        Case("axis 1", (f32(2, 3, 4), f32(3), f32(3), f32(3), f32(3)), {"axis": 1}),
    ],
)
batch_norm.may(in_place=True, parameters=Parameters(layer=False, by_channel=False), inference=False)


@batch_norm.infer
def _(
    x: Type, scale: Type, bias: Type, mean: Type, var: Type, *, axis: int = -1, epsilon: float = 1e-05,
    momentum: float = 0.1,
) -> Type:  # fmt: skip
    want_float(x, scale, bias, mean, var)
    channels = x.shape[axis_of(axis, x)]
    for v in (scale, bias, mean, var):
        if v.shape != (channels,):
            raise GraphError(f"{v} must have one number per channel ({channels})")
    return x


@batch_norm.eval
def _(x: Array, scale: Array, bias: Array, mean: Array, var: Array, *, axis: int, epsilon: float) -> Array:
    shape = [-1 if d == axis % x.ndim else 1 for d in range(x.ndim)]
    scale, bias, mean, var = (v.reshape(shape) for v in (scale, bias, mean, var))
    return (x - mean) / np.sqrt(var + epsilon) * scale + bias


@batch_norm.grad
def _(
    g: Value, y: Value, x: Value, scale: Value, bias: Value, mean: Value, var: Value, *, axis: int, epsilon: float
) -> Grads:
    """Mean and var are statistics, not parameters: they have no gradient."""
    dx = batch_norm_dx(g, scale, var, axis=axis, epsilon=epsilon, name=f"{x.name}.grad")
    dscale = batch_norm_dscale(g, x, mean, var, axis=axis, epsilon=epsilon, name=f"{scale.name}.grad")
    others = tuple(d for d in range(len(x.shape)) if d != axis % len(x.shape))
    return dx, dscale, sum_of(g, axes=others, name=f"{bias.name}.grad"), None, None


@batch_norm.emit
def _(y: Value, x: Value, scale: Value, bias: Value, mean: Value, var: Value, *, axis: int, epsilon: float) -> Call:
    walk = walk_along(x, axis)
    scratch = Scratch(4 * walk[1])
    return Call("batch_norm_f32", y, x, scale, bias, mean, var, *walk, float(epsilon), scratch)


layer_norm = op(
    "layer_norm",
    "y = (x - mean) / sqrt(var + epsilon) * scale + bias; mean and var over the last `dims` dimensions",
    cases=[
        Case("last", (f32(2, 3, 7), f32(7), f32(7))),
        Case("no bias", (f32(3, 5), f32(5))),
        Case("bare", (f32(3, 5),), {"epsilon": 1e-3}),
        Case("two dims", (f32(2, 3, 4), f32(3, 4), f32(3, 4)), {"dims": 2}),
    ],
)
layer_norm.may(in_place=True, parameters=Parameters(layer=False, by_channel=False))


@layer_norm.infer
def _(x: Type, scale: Type | None = None, bias: Type | None = None, *, dims: int = 1, epsilon: float = 1e-05) -> Type:
    want_float(x)
    if not 1 <= dims <= x.rank:
        raise GraphError(f"cannot normalise {dims} dimensions of {x}")
    for v in (scale, bias):
        if v is not None and v.shape != x.shape[x.rank - dims :]:
            raise GraphError(f"{v} does not fit the last {dims} dimensions of {x}")
    return x


@layer_norm.eval
def _(x: Array, scale: Array | None = None, bias: Array | None = None, *, dims: int, epsilon: float) -> Array:
    axes = tuple(range(x.ndim - dims, x.ndim))
    d = x - x.mean(axis=axes, keepdims=True)
    y = d / np.sqrt((d * d).mean(axis=axes, keepdims=True) + epsilon)
    y = y if scale is None else y * scale
    return y if bias is None else y + bias


@layer_norm.grad
def _(
    g: Value, y: Value, x: Value, scale: Value | None = None, bias: Value | None = None, *, dims: int, epsilon: float
) -> Grads:
    known = (x,) if scale is None else (x, scale)
    dx = layer_norm_dx(g, *known, dims=dims, epsilon=epsilon, name=f"{x.name}.grad")
    if scale is None:
        return (dx,)
    dscale = layer_norm_dscale(g, x, dims=dims, epsilon=epsilon, name=f"{scale.name}.grad")
    return dx, dscale, None if bias is None else fitted(g, bias)


@layer_norm.emit
def _(y: Value, x: Value, scale: Value | None = None, bias: Value | None = None, *, dims: int, epsilon: float) -> Call:
    n = int(np.prod(x.shape[len(x.shape) - dims :]))
    return Call("layer_norm_f32", y, x, scale, bias, y.type.size // n, n, float(epsilon))


dropout = op(
    "dropout",
    "y = x in inference; in training each element becomes zero with probability p, and the others are divided by 1 - p",
    cases=SMALL + small(p=0.2),
)
dropout.grad(straight)
dropout.may(in_place=True, inference=False)


@dropout.infer
def _(x: Type, *, p: float = 0.5) -> Type:
    if not 0 <= p < 1:
        raise GraphError(f"dropout needs 0 <= p < 1, not {p}")
    return same(x)


@dropout.eval
def _(x: Array) -> Array:
    return x


@dropout.emit
def _(y: Value, x: Value) -> Call:
    return Call("copy_bytes", y, x, y.type.bytes, alias=True)
