"""Functions of single elements, and their gradients: rows of table.py. See ops/activation.py for the formulas."""

from __future__ import annotations

import math

import numpy as np

from insitu.exporters.litert_train.table import TABLE, means
from insitu.exporters.litert_train.tensor import (
    Tensor,
    absolute,
    call,
    exp,
    log,
    logistic,
    maximum,
    minimum,
    sqrt,
    square,
    unary,
    where,
)
from insitu.ops import activation as a
from insitu.ops import activation_backward as back
from insitu.ops import arith
from insitu.ops import unary as u

FLOAT_MAX = float(np.finfo(np.float32).max)
TINY = 1e-3  # below this |x|, gelu(x) / x is replaced by its series

TABLE |= {
    arith.add: lambda x, y: x + y,
    arith.sub: lambda x, y: x - y,
    arith.mul: lambda x, y: x * y,
    arith.div: lambda x, y: x / y,
    u.abs: absolute,
    u.exp: exp,
    u.log: log,
    u.neg: lambda x: -x,
    u.sqrt: sqrt,
    u.square: square,
    u.rsqrt: lambda x: unary("RSQRT", x),
    u.reciprocal: lambda x: 1.0 / x,
    a.relu: lambda x: unary("RELU", x),
    a.relu6: lambda x: unary("RELU6", x),
    a.sigmoid: logistic,
    a.tanh: lambda x: unary("TANH", x),
    a.hard_swish: lambda x: unary("HARD_SWISH", x),
    a.silu: lambda x: x * logistic(x),
    a.softplus: lambda x: log(exp(-absolute(x)) + 1.0) + maximum(x, 0.0),
    back.relu_dx: lambda g, y: where(y > 0, g, 0),
    back.relu6_dx: lambda g, y: where((y > 0) & (y < 6), g, 0),
    back.sigmoid_dx: lambda g, y: g * y * (1.0 - y),
    back.tanh_dx: lambda g, y: g * (1.0 - y * y),
    back.hard_swish_dx: lambda g, x: g * where(x <= -3, 0, where(x >= 3, 1, x / 3 + 0.5)),
    back.softplus_dx: lambda g, x: g * logistic(x),
    back.abs_dx: lambda g, x: where(x > 0, g, where(x < 0, -g, 0)),
    back.prelu_dx: lambda g, x, slope: where(x > 0, g, g * slope),
}


@means(a.clamp)
def _(x: Tensor, *, lo: float, hi: float) -> Tensor:
    x = maximum(x, lo) if lo > -math.inf else x
    return minimum(x, hi) if hi < math.inf else x


@means(back.clamp_dx)
def _(g: Tensor, x: Tensor, *, lo: float, hi: float) -> Tensor:
    return where((x >= max(lo, -FLOAT_MAX)) & (x <= min(hi, FLOAT_MAX)), g, 0)


@means(a.leaky_relu)
def _(x: Tensor, *, slope: float) -> Tensor:
    return unary("LEAKY_RELU", x, alpha=float(slope))


@means(back.leaky_relu_dx)
def _(g: Tensor, x: Tensor, *, slope: float) -> Tensor:
    return where(x > 0, g, g * slope)


@means(a.prelu)
def _(x: Tensor, slope: Tensor) -> Tensor:
    return where(x > 0, x, x * slope)


@means(a.elu)
def _(x: Tensor, *, alpha: float) -> Tensor:
    if alpha == 1:
        return unary("ELU", x)
    return where(x > 0, x, (exp(minimum(x, 0)) - 1) * alpha)


@means(back.elu_dx)
def _(g: Tensor, x: Tensor, *, alpha: float) -> Tensor:
    return g * where(x > 0, 1, exp(minimum(x, 0)) * alpha)


@means(a.hard_sigmoid)
def _(x: Tensor, *, alpha: float, beta: float) -> Tensor:
    return minimum(maximum(x * alpha + beta, 0), 1)


@means(back.hard_sigmoid_dx)
def _(g: Tensor, x: Tensor, *, alpha: float, beta: float) -> Tensor:
    return where((x > -beta / alpha) & (x < (1 - beta) / alpha), g * alpha, 0)


@means(back.silu_dx)
def _(g: Tensor, x: Tensor) -> Tensor:
    s = logistic(x)
    return g * s * (x * (1.0 - s) + 1.0)


@means(a.gelu)
def _(x: Tensor, *, approximate: str) -> Tensor:
    return unary("GELU", x, approximate=approximate == "tanh")


@means(back.gelu_dx)
def _(g: Tensor, x: Tensor, *, approximate: str) -> Tensor:
    return g * (_tanh_slope(x) if approximate == "tanh" else _normal(x) + x * _density(x))


def _tanh_slope(x: Tensor) -> Tensor:
    k = math.sqrt(2 / math.pi)
    x = minimum(maximum(x, -30), 30)
    t = unary("TANH", (x + x * x * x * 0.044715) * k)
    return (t + 1.0) * 0.5 + x * 0.5 * (1.0 - t * t) * (x * x * (3 * 0.044715) + 1.0) * k


def _density(x: Tensor) -> Tensor:
    return exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi))


def _normal(x: Tensor) -> Tensor:
    """Phi(x) = gelu(x) / x: LiteRT has no erf. Near zero, 1/2 + x phi(0)."""
    near = absolute(x) < TINY
    safe = where(near, TINY, x)
    ratio = call("GELU", [safe], x.shape, approximate=False) / safe
    return where(near, x * (1 / math.sqrt(2 * math.pi)) + 0.5, ratio)


@means(u.erf)
def _(x: Tensor) -> Tensor:
    return _normal(x * math.sqrt(2)) * 2.0 - 1.0
