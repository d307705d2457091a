"""Activations: unary functions of a float value, element by element; in int8 they are all one op, lut_s8.

The plain mathematical functions (exp, sqrt, ...) are in unary.py.
"""

from __future__ import annotations

import math

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Type, Value, f32, op, s8
from insitu.graph.call import Call
from insitu.graph.op import Grads, Parameters
from insitu.ops._functions import erf, sigmoid_of
from insitu.ops._gradients import fitted_slope, from_input, from_output
from insitu.ops._pairs import pair_shape
from insitu.ops._rules import EXTREME, SMALL, broadcast, quantised, same, small, unary, want_float, want_s8
from insitu.ops._stripes import alike
from insitu.ops._types import Array, Out
from insitu.ops.activation_backward import (
    clamp_dx,
    elu_dx,
    gelu_dx,
    hard_sigmoid_dx,
    hard_swish_dx,
    leaky_relu_dx,
    lut_dx,
    prelu_dx,
    relu6_dx,
    relu_dx,
    sigmoid_dx,
    silu_dx,
    softplus_dx,
    tanh_dx,
)
from insitu.ops.arith import mul
from insitu.ops.shape_backward import fitted


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi).astype(x.dtype) * (x + 0.044715 * x * x * x)))


def gelu_erf(x):
    return (0.5 * x * (1 + erf(x.astype(np.float64) / math.sqrt(2)))).astype(x.dtype)


GELU = {"none": gelu_erf, "tanh": gelu_tanh}


relu = op("relu", "y = max(x, 0)", cases=SMALL)
relu.infer(same)
relu.grad(from_output(relu_dx))
relu.emit(unary("relu_f32"))
relu.may(in_place=True, stripes=alike, unary=True, bounds=(0.0, math.inf))


@relu.eval
def _(x: Array) -> Array:
    return np.maximum(x, 0)


relu6 = op("relu6", "y = min(max(x, 0), 6)", cases=SMALL)
relu6.infer(same)
relu6.grad(from_output(relu6_dx))
relu6.may(in_place=True, stripes=alike, unary=True, bounds=(0.0, 6.0))


@relu6.eval
def _(x: Array) -> Array:
    return np.clip(x, 0, 6)


@relu6.emit
def _(y: Value, x: Value) -> Call:
    return Call("clamp_f32", y, x, y.type.size, 0.0, 6.0)


RANGES = {relu: (0.0, math.inf), relu6: (0.0, 6.0)}  # ops that only clamp, and to what


def clamp_bounds(y: Value, x: Value, *, lo: float, hi: float) -> tuple[float, float]:
    return float(lo), float(hi)


clamp = op("clamp", "y = min(max(x, lo), hi)", cases=small(lo=-0.5, hi=0.25) + small(lo=0.1))
clamp.grad(from_input(clamp_dx))
clamp.may(in_place=True, stripes=alike, unary=True, bounds=clamp_bounds)


@clamp.infer
def _(x: Type, *, lo: float = -math.inf, hi: float = math.inf) -> Type:
    if not lo <= hi:
        raise GraphError(f"clamp from {lo} to {hi} is empty")
    return same(x)


@clamp.eval
def _(x: Array, *, lo: float, hi: float) -> Array:
    return np.clip(x, lo, hi)


@clamp.emit
def _(y: Value, x: Value, *, lo: float, hi: float) -> Call:
    return Call("clamp_f32", y, x, y.type.size, float(lo), float(hi))


leaky_relu = op("leaky_relu", "y = x where x > 0, else slope * x", cases=SMALL + small(slope=0.3))
leaky_relu.grad(from_input(leaky_relu_dx))
leaky_relu.may(in_place=True, stripes=alike, unary=True)


@leaky_relu.infer
def _(x: Type, *, slope: float = 0.01) -> Type:
    return same(x)


@leaky_relu.eval
def _(x: Array, *, slope: float) -> Array:
    return np.where(x > 0, x, x * slope)


@leaky_relu.emit
def _(y: Value, x: Value, *, slope: float) -> Call:
    return Call("leaky_relu_f32", y, x, y.type.size, float(slope))


sigmoid = op("sigmoid", "y = 1 / (1 + exp(-x))", cases=SMALL + EXTREME)
sigmoid.infer(same)
sigmoid.grad(from_output(sigmoid_dx))
sigmoid.emit(unary("sigmoid_f32"))
sigmoid.eval(sigmoid_of)
sigmoid.may(in_place=True, stripes=alike, unary=True, bounds=(0.0, 1.0))


tanh = op("tanh", "y = (exp(x) - exp(-x)) / (exp(x) + exp(-x))", cases=SMALL + EXTREME)
tanh.infer(same)
tanh.grad(from_output(tanh_dx))
tanh.emit(unary("tanh_f32"))
tanh.may(in_place=True, stripes=alike, unary=True, bounds=(-1.0, 1.0))


@tanh.eval
def _(x: Array) -> Array:
    return np.tanh(x)


hard_sigmoid = op("hard_sigmoid", "y = min(max(alpha * x + beta, 0), 1)", cases=SMALL + small(alpha=0.2, beta=0.4))
hard_sigmoid.grad(from_input(hard_sigmoid_dx))
hard_sigmoid.may(in_place=True, stripes=alike, unary=True, bounds=(0.0, 1.0))


@hard_sigmoid.infer
def _(x: Type, *, alpha: float = 1 / 6, beta: float = 0.5) -> Type:
    return same(x)


@hard_sigmoid.eval
def _(x: Array, *, alpha: float, beta: float) -> Array:
    return np.clip(x * alpha + beta, 0, 1)


@hard_sigmoid.emit
def _(y: Value, x: Value, *, alpha: float, beta: float) -> Call:
    return Call("hard_sigmoid_f32", y, x, y.type.size, float(alpha), float(beta))


hard_swish = op("hard_swish", "y = x * min(max(x + 3, 0), 6) / 6", cases=SMALL)
hard_swish.infer(same)
hard_swish.grad(from_input(hard_swish_dx))
hard_swish.emit(unary("hard_swish_f32"))
hard_swish.may(in_place=True, stripes=alike, unary=True)


@hard_swish.eval
def _(x: Array) -> Array:
    return x * np.clip(x + 3, 0, 6) / 6


silu = op("silu", "y = x / (1 + exp(-x)), also called swish", cases=SMALL + EXTREME)
silu.infer(same)
silu.grad(from_input(silu_dx))
silu.emit(unary("silu_f32"))
silu.may(in_place=True, stripes=alike, unary=True)


@silu.eval
def _(x: Array) -> Array:
    return x * sigmoid_of(x)


gelu = op(
    "gelu",
    """y = x * Phi(x), Phi the normal distribution; `approximate="tanh"` is the usual formula with tanh""",
    cases=SMALL + EXTREME + small(approximate="tanh"),
)
gelu.grad(from_input(gelu_dx))
gelu.may(in_place=True, stripes=alike, unary=True)


@gelu.infer
def _(x: Type, *, approximate: str = "none") -> Type:
    if approximate not in GELU:
        raise GraphError(f"approximate must be one of {', '.join(GELU)}, not {approximate!r}")
    return same(x)


@gelu.eval
def _(x: Array, *, approximate: str) -> Array:
    return GELU[approximate](x)


@gelu.emit
def _(y: Value, x: Value, *, approximate: str) -> Call:
    return Call({"none": "gelu_f32", "tanh": "gelu_tanh_f32"}[approximate], y, x, y.type.size)


elu = op("elu", "y = x where x > 0, else alpha * (exp(x) - 1)", cases=SMALL + EXTREME + small(alpha=0.7))
elu.grad(from_input(elu_dx))
elu.may(in_place=True, stripes=alike, unary=True)


@elu.infer
def _(x: Type, *, alpha: float = 1.0) -> Type:
    return same(x)


@elu.eval
def _(x: Array, *, alpha: float) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


@elu.emit
def _(y: Value, x: Value, *, alpha: float) -> Call:
    return Call("elu_f32", y, x, y.type.size, float(alpha))


softplus = op("softplus", "y = log(1 + exp(x))", cases=SMALL + EXTREME)
softplus.infer(same)
softplus.grad(from_input(softplus_dx))
softplus.emit(unary("softplus_f32"))
softplus.may(in_place=True, stripes=alike, unary=True)


@softplus.eval
def _(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


prelu = op(
    "prelu",
    "y = x where x > 0, else slope * x; slope broadcasts against x",
    cases=[
        Case("one slope per channel", (f32(1, 3, 2, 5), f32(5))),
        Case("one slope", (f32(2, 3), f32(1))),
        Case("one slope per row", (f32(2, 3, 5), f32(3, 1))),
    ],
)
prelu.may(in_place=True, parameters=Parameters(bias=None, layer=False, by_channel=False))


@prelu.infer
def _(x: Type, slope: Type) -> Type:
    want_float(x, slope)
    if broadcast(x, slope) != x.shape:
        raise GraphError(f"the slope {slope} does not broadcast to {x}")
    return x


@prelu.eval
def _(x: Array, slope: Array) -> Array:
    return np.where(x > 0, x, x * slope)


@prelu.grad
def _(g: Value, y: Value, x: Value, slope: Value) -> Grads:
    below = mul(g, clamp(x, hi=0.0))
    return prelu_dx(g, x, slope, name=f"{x.name}.grad"), fitted(below, slope)


@prelu.emit
def _(y: Value, x: Value, slope: Value) -> Call:
    return Call("prelu_f32", y, x, slope, pair_shape(y, x, slope))


lut_s8 = op(
    "lut_s8",
    """y = table[x + 128]: any unary function of an s8 value, with its 256 results computed at compile time

    `slope` is the derivative in real units at each x, zero where y is clamped; only the gradient uses it. Without it,
    slopes are fitted to the table.
    """,
    cases=[
        Case("odd", (s8(1, 3, 5, s=0.1, z=3), s8(256)), out=s8(s=0.05, z=-7)),
        Case("long", (s8(67, s=0.1), s8(256)), out=s8(s=0.05)),
        Case("with slopes", (s8(7, s=0.1), s8(256), f32(256)), out=s8(s=0.05)),
    ],
)
lut_s8.may(stripes=alike, in_place=True, table=True)


@lut_s8.infer
def _(x: Type, table: Type, slope: Type | None = None, *, out: Out) -> Type:
    want_s8(x)
    if table.dtype != "s8" or table.shape != (256,):
        raise GraphError(f"the table must be s8[256], not {table}")
    if slope is not None and slope != f32(256):
        raise GraphError(f"the slopes must be f32[256], not {slope}")
    return quantised(x.shape, out)


@lut_s8.eval
def _(x: Array, table: Array, slope: Array | None = None) -> Array:
    return table[x.astype(np.int32) + 128]


@lut_s8.grad
def _(g: Value, y: Value, x: Value, table: Value, slope: Value | None = None) -> Grads:
    slope = slope or fitted_slope(table, x, y)
    return lut_dx(g, x, slope, name=f"{x.name}.grad"), None, None


@lut_s8.emit
def _(y: Value, x: Value, table: Value, slope: Value | None = None) -> Call:
    return Call("lut_s8", y, x, table, y.type.size)
