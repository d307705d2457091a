"""Softmax and the norms, with their gradients: rows of table.py."""

from __future__ import annotations

from collections.abc import Callable

from insitu.exporters.litert_train.table import TABLE, means
from insitu.exporters.litert_train.tensor import (
    Tensor,
    average,
    exp,
    reshape,
    sqrt,
    square,
    total,
    transpose,
    unary,
)
from insitu.ops import norm, norm_backward, norm_train


def softmax(x: Tensor) -> Tensor:
    return unary("SOFTMAX", x, beta=1.0)


def log_softmax(x: Tensor) -> Tensor:
    return unary("LOG_SOFTMAX", x)


def along(function: Callable[[Tensor], Tensor]):
    """A function of the last axis, along any axis."""

    def row(x: Tensor, *, axis: int) -> Tensor:
        order = [d for d in range(x.rank) if d != axis % x.rank] + [axis % x.rank]
        back = sorted(range(x.rank), key=order.__getitem__)
        return transpose(function(transpose(x, order)), back)

    return row


TABLE[norm.softmax] = along(softmax)
TABLE[norm.log_softmax] = along(log_softmax)


@means(norm_backward.softmax_dx)
def _(g: Tensor, y: Tensor, *, axis: int) -> Tensor:
    return y * (g - total(g * y, (axis,), keep=True))


@means(norm_backward.log_softmax_dx)
def _(g: Tensor, y: Tensor, *, axis: int) -> Tensor:
    return g - exp(y) * total(g, (axis,), keep=True)


# batch norm -------------------------------------------------------------------------------------


def channel(v: Tensor, x: Tensor, axis: int) -> Tensor:
    """One number per channel, shaped to broadcast against x."""
    return reshape(v, [n if d == axis % x.rank else 1 for d, n in enumerate(x.shape)])


def others(x: Tensor, axis: int) -> tuple[int, ...]:
    return tuple(d for d in range(x.rank) if d != axis % x.rank)


@means(norm.batch_norm)
def _(x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor, *, axis: int, epsilon: float) -> Tensor:
    factor = channel(scale / sqrt(var + epsilon), x, axis)
    return (x - channel(mean, x, axis)) * factor + channel(bias, x, axis)


@means(norm_backward.batch_norm_dx)
def _(g: Tensor, scale: Tensor, var: Tensor, *, axis: int, epsilon: float) -> Tensor:
    return g * channel(scale / sqrt(var + epsilon), g, axis)


@means(norm_backward.batch_norm_dscale)
def _(g: Tensor, x: Tensor, mean: Tensor, var: Tensor, *, axis: int, epsilon: float) -> Tensor:
    return total(g * (x - channel(mean, x, axis)), others(x, axis)) / sqrt(var + epsilon)


@means(norm_train.batch_norm_train)
def _(x: Tensor, scale: Tensor, bias: Tensor, running_mean: Tensor, running_var: Tensor, *, axis: int, epsilon: float,
      momentum: float) -> tuple[Tensor, ...]:  # fmt: skip
    mean = average(x, others(x, axis))
    apart = x - channel(mean, x, axis)
    var = average(square(apart), others(x, axis))
    rstd, count = 1.0 / sqrt(var + epsilon), x.size // scale.size
    y = apart * channel(rstd * scale, x, axis) + channel(bias, x, axis)
    unbiased = var * (momentum * count / (count - 1))
    old = 1 - momentum
    return y, mean, rstd, running_mean * old + mean * momentum, running_var * old + unbiased


@means(norm_train.batch_norm_again)
def _(x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, rstd: Tensor, *, axis: int) -> Tensor:
    return (x - channel(mean, x, axis)) * channel(rstd * scale, x, axis) + channel(bias, x, axis)


@means(norm_train.batch_norm_train_dx)
def _(g: Tensor, x: Tensor, scale: Tensor, mean: Tensor, rstd: Tensor, *, axis: int) -> tuple[Tensor, ...]:
    share = scale.size / x.size
    n = (x - channel(mean, x, axis)) * channel(rstd, x, axis)
    dscale, dbias = total(g * n, others(x, axis)), total(g, others(x, axis))
    factor, a, b = (channel(v, x, axis) for v in (scale * rstd, dbias * share, dscale * share))
    return factor * (g - a - n * b), dscale, dbias


# layer norm -------------------------------------------------------------------------------------


def last(x: Tensor, dims: int) -> tuple[int, ...]:
    return tuple(range(x.rank - dims, x.rank))


def normal(x: Tensor, dims: int, epsilon: float) -> tuple[Tensor, Tensor]:
    """(x - mean) / sqrt(var + epsilon) over the last dims, and the reciprocal root."""
    d = x - average(x, last(x, dims), keep=True)
    r = 1.0 / sqrt(average(square(d), last(x, dims), keep=True) + epsilon)
    return d * r, r


@means(norm.layer_norm)
def _(x: Tensor, scale: Tensor | None = None, bias: Tensor | None = None, *, dims: int, epsilon: float) -> Tensor:
    y, _ = normal(x, dims, epsilon)
    y = y if scale is None else y * scale
    return y if bias is None else y + bias


@means(norm_backward.layer_norm_dx)
def _(g: Tensor, x: Tensor, scale: Tensor | None = None, *, dims: int, epsilon: float) -> Tensor:
    n, r = normal(x, dims, epsilon)
    h = g if scale is None else g * scale
    axes = last(x, dims)
    return r * (h - average(h, axes, keep=True) - n * average(h * n, axes, keep=True))


@means(norm_backward.layer_norm_dscale)
def _(g: Tensor, x: Tensor, *, dims: int, epsilon: float) -> Tensor:
    return total(g * normal(x, dims, epsilon)[0], range(x.rank - dims))
