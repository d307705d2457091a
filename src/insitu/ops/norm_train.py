"""batch_norm with the statistics of the batch, as in training, and its gradient. Training replaces batch_norm by it;
the running statistics are persistent values, updated in place.
"""

from __future__ import annotations

from math import inf

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Type, Value, f32, op
from insitu.graph.call import Call, Scratch
from insitu.graph.op import Grads
from insitu.ops._rules import axis_of, walk_along, want_float
from insitu.ops._types import Array
from insitu.ops.norm_backward import other_axes, per_channel

NO_RANGE = (0, 0.0, 0.0)  # of a kernel that could clamp


def is_last(axis: int, x) -> bool:
    """Are the channels the last axis? A host has kernels of its own for that."""
    return axis % len(x.shape) == len(x.shape) - 1


batch_norm_train = op(
    "batch_norm_train",
    """y = (x - mean) / sqrt(var + epsilon) * scale + bias with mean and variance of the batch, per channel of `axis`

    Gives y, the mean, 1 / sqrt(var + epsilon), and the running statistics: (1 - momentum) of the old ones plus momentum
    of the batch's, with unbiased variance, as in torch.
    """,
    cases=[
        Case("nhwc", (f32(2, 3, 2, 5), f32(5), f32(5), f32(5), f32(5))),
        Case("flat", (f32(3, 7), f32(7), f32(7), f32(7), f32(7)), {"epsilon": 1e-3, "momentum": 0.3}),
        Case("axis 1", (f32(2, 3, 11), f32(3), f32(3), f32(3), f32(3)), {"axis": 1}),
        Case("long", (f32(150, 2), f32(2), f32(2), f32(2), f32(2))),
        Case("wide", (f32(67, 83), f32(83), f32(83), f32(83), f32(83))),
    ],
)
batch_norm_train.must(in_place=(None, None, None, 3, 4))


@batch_norm_train.infer
def _(
    x: Type, scale: Type, bias: Type, running_mean: Type, running_var: Type, *, axis: int = -1, epsilon: float = 1e-05,
    momentum: float = 0.1,
) -> tuple[Type, ...]:  # fmt: skip
    want_float(x, scale, bias, running_mean, running_var)
    channels = Type(x.dtype, (x.shape[axis_of(axis, x)],))
    for v in (scale, bias, running_mean, running_var):
        if v.shape != channels.shape:
            raise GraphError(f"{v} must have one number per channel ({channels.size})")
    if x.size == channels.size:
        raise GraphError(
            f"{x} has one element per channel, which has no variance",
            hint="a larger batch, or freeze the statistics",
        )
    return x, channels, channels, running_mean, running_var


@batch_norm_train.eval
def _(
    x: Array, scale: Array, bias: Array, running_mean: Array, running_var: Array, *, axis: int, epsilon: float,
    momentum: float,
) -> tuple[Array, ...]:  # fmt: skip
    others = other_axes(x.ndim, axis)
    mean, var = x.mean(axis=others), x.var(axis=others)
    rstd = 1 / np.sqrt(var + epsilon)
    m, factor, b = (per_channel(v, x.ndim, axis) for v in (mean, rstd * scale, bias))
    count = x.size // mean.size
    unbiased = var * (count / (count - 1))
    old = 1 - momentum
    running = old * running_mean + momentum * mean, old * running_var + momentum * unbiased
    return (x - m) * factor + b, mean, rstd, *running


@batch_norm_train.grad
def _(
    g: tuple[Value | None, ...], y: tuple[Value, ...], x: Value, scale: Value, bias: Value, running_mean: Value,
    running_var: Value, *, axis: int,
) -> Grads:  # fmt: skip
    if g[0] is None:
        return None, None, None, None, None
    _, mean, rstd, *_ = y
    found = batch_norm_train_dx(g[0], x, scale, mean, rstd, axis=axis, name=f"{x.name}.grad")
    return *found, None, None


@batch_norm_train.emit
def _(
    y: Value, mean: Value, rstd: Value, new_mean: Value, new_var: Value, x: Value, scale: Value, bias: Value,
    running_mean: Value, running_var: Value, *, axis: int, epsilon: float, momentum: float, target: str = "host",
) -> Call:  # fmt: skip
    walk = walk_along(x, axis)
    if target == "host" and is_last(axis, x):
        given = (x, scale, bias, *walk[:2], float(epsilon), float(momentum), *NO_RANGE)
        return Call("batch_norm_rows_f32", y, mean, rstd, new_mean, new_var, *given, Scratch(4 * walk[1]))
    return Call("batch_norm_train_f32", y, mean, rstd, new_mean, new_var, x, scale, bias, *walk, float(epsilon),
                float(momentum), Scratch(4 * walk[1]))  # fmt: skip


batch_norm_again = op(
    "batch_norm_again",
    "y = (x - mean) rstd scale + bias, per channel of `axis`: recomputes y of batch_norm_train from its other results",
    cases=[
        Case("nhwc", (f32(2, 3, 2, 5), f32(5), f32(5), f32(5), f32(5))),
        Case("axis 1", (f32(2, 3, 11), f32(3), f32(3), f32(3), f32(3)), {"axis": 1}),
    ],
)
batch_norm_again.may(in_place=True)


@batch_norm_again.infer
def _(x: Type, scale: Type, bias: Type, mean: Type, rstd: Type, *, axis: int = -1) -> Type:
    if not scale.shape == bias.shape == mean.shape == rstd.shape == (x.shape[axis_of(axis, x)],):
        raise GraphError(f"{scale}, {bias}, {mean}, {rstd} must have one number per channel of {x}")
    return x


@batch_norm_again.eval
def _(x: Array, scale: Array, bias: Array, mean: Array, rstd: Array, *, axis: int) -> Array:
    m, factor, b = (per_channel(v, x.ndim, axis) for v in (mean, rstd * scale, bias))
    return (x - m) * factor + b


@batch_norm_again.emit
def _(
    y: Value, x: Value, scale: Value, bias: Value, mean: Value, rstd: Value, *, axis: int, target: str = "host"
) -> Call:
    walk = walk_along(x, axis)
    if target == "host" and is_last(axis, x):
        given = (x, scale, bias, mean, rstd, *walk[:2], *NO_RANGE)
        return Call("batch_norm_rows_again_f32", y, *given, Scratch(4 * walk[1]))
    return Call("batch_norm_again_f32", y, x, scale, bias, mean, rstd, *walk, Scratch(4 * walk[1]))


batch_norm_train_dx = op(
    "batch_norm_train_dx",
    """dx = scale r (g - dbias / count - n dscale / count), dscale = sum of g n, dbias = sum of g, per channel of `axis`

    n = (x - mean) r is the normalised x.
    """,
    cases=[
        Case("nhwc", (f32(2, 3, 2, 5), f32(2, 3, 2, 5), f32(5), f32(5), f32(5))),
        Case("axis 1", (f32(2, 3, 11), f32(2, 3, 11), f32(3), f32(3), f32(3)), {"axis": 1}),
        Case("long", (f32(150, 2), f32(150, 2), f32(2), f32(2), f32(2))),
        Case("wide", (f32(67, 83), f32(67, 83), f32(83), f32(83), f32(83))),
    ],
)
batch_norm_train_dx.may(in_place=(0, None, None))


@batch_norm_train_dx.infer
def _(g: Type, x: Type, scale: Type, mean: Type, rstd: Type, *, axis: int = -1) -> tuple[Type, ...]:
    if g.shape != x.shape or not scale.shape == mean.shape == rstd.shape == (x.shape[axis_of(axis, x)],):
        raise GraphError(f"the gradient {g} does not match {x} with {scale}, {mean}, {rstd}")
    return g, scale, scale


@batch_norm_train_dx.eval
def _(g: Array, x: Array, scale: Array, mean: Array, rstd: Array, *, axis: int) -> tuple[Array, ...]:
    others, count = other_axes(x.ndim, axis), x.size // scale.size
    n = (x - per_channel(mean, x.ndim, axis)) * per_channel(rstd, x.ndim, axis)
    dscale, dbias = (g * n).sum(axis=others), g.sum(axis=others)
    factor, a, b = (per_channel(v, x.ndim, axis) for v in (scale * rstd, dbias / count, dscale / count))
    return factor * (g - a - n * b), dscale, dbias


@batch_norm_train_dx.emit
def _(
    dx: Value, dscale: Value, dbias: Value, g: Value, x: Value, scale: Value, mean: Value, rstd: Value, *, axis: int,
    target: str = "host",
) -> Call:  # fmt: skip
    walk = walk_along(x, axis)
    if target == "host" and is_last(axis, x):  # without a range, any number does for the bias
        given = (g, x, scale, mean, mean, rstd, *walk[:2], -inf, inf)
        return Call("batch_norm_rows_dx_f32", dx, dscale, dbias, *given, Scratch(12 * walk[1]))
    scratch = Scratch(8 * walk[1])
    return Call("batch_norm_train_dx_f32", dx, dscale, dbias, g, x, scale, mean, rstd, *walk, scratch)
