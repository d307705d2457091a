"""The gradients of activations: dx from g, the gradient of the output, and from y or x.

Those that can be computed from y take y: x is then free as soon as y exists. At a kink the slope is torch's.
"""

from __future__ import annotations

import math

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Type, Value, f32, op, s8
from insitu.graph.call import Call
from insitu.ops._functions import erf, sigmoid_of
from insitu.ops._pairs import pair_shape
from insitu.ops._rules import broadcast
from insitu.ops._types import Array

BOTH = [Case("odd", (f32(1, 3, 5), f32(1, 3, 5))), Case("one", (f32(1), f32(1))), Case("long", (f32(67), f32(67)))]
KINKS = [Case("kinks", (f32(6), np.array([0.0, 6.0, -3.0, 3.0, -0.0, 1.0], np.float32)))]
HUGE = [Case("huge", (f32(6), np.array([1e30, 90.0, 4.0, -1e30, -90.0, -4.0], np.float32)))]


def both(**attrs) -> list[Case]:
    return [Case(c.name, c.inputs, attrs) for c in BOTH + KINKS]


def like(g, x):
    if g.shape != x.shape or g.dtype not in ("f32", "f64"):
        raise GraphError(f"the gradient {g} does not match {x}")
    return g


def binary(function: str):
    """emit: function(dx, g, x, n)."""

    def emit(dx, g, x):
        return Call(function, dx, g, x, dx.type.size)

    return emit


relu_dx = op("relu_dx", "dx = g where y > 0, else 0", cases=BOTH + KINKS)
relu_dx.infer(like)
relu_dx.emit(binary("relu_dx_f32"))
relu_dx.may(in_place=True)


@relu_dx.eval
def _(g: Array, y: Array) -> Array:
    return np.where(y > 0, g, 0)


relu6_dx = op("relu6_dx", "dx = g where 0 < y < 6, else 0", cases=BOTH + KINKS)
relu6_dx.infer(like)
relu6_dx.emit(binary("relu6_dx_f32"))
relu6_dx.may(in_place=True)


@relu6_dx.eval
def _(g: Array, y: Array) -> Array:
    return np.where((y > 0) & (y < 6), g, 0)


clamp_dx = op("clamp_dx", "dx = g where lo <= x <= hi, else 0", cases=both(lo=-0.5, hi=1.0) + both(lo=0.0))
clamp_dx.may(in_place=True)


@clamp_dx.infer
def _(g: Type, x: Type, *, lo: float = -math.inf, hi: float = math.inf) -> Type:
    return like(g, x)


@clamp_dx.eval
def _(g: Array, x: Array, *, lo: float, hi: float) -> Array:
    return np.where((x >= lo) & (x <= hi), g, 0)


@clamp_dx.emit
def _(dx: Value, g: Value, x: Value, *, lo: float, hi: float) -> Call:
    return Call("clamp_dx_f32", dx, g, x, dx.type.size, float(lo), float(hi))


leaky_relu_dx = op("leaky_relu_dx", "dx = g where x > 0, else slope * g", cases=both(slope=0.3))
leaky_relu_dx.may(in_place=True)


@leaky_relu_dx.infer
def _(g: Type, x: Type, *, slope: float = 0.01) -> Type:
    return like(g, x)


@leaky_relu_dx.eval
def _(g: Array, x: Array, *, slope: float) -> Array:
    return np.where(x > 0, g, g * slope)


@leaky_relu_dx.emit
def _(dx: Value, g: Value, x: Value, *, slope: float) -> Call:
    return Call("leaky_relu_dx_f32", dx, g, x, dx.type.size, float(slope))


sigmoid_dx = op("sigmoid_dx", "dx = g y (1 - y)", cases=BOTH)
sigmoid_dx.infer(like)
sigmoid_dx.emit(binary("sigmoid_dx_f32"))
sigmoid_dx.may(in_place=True)


@sigmoid_dx.eval
def _(g: Array, y: Array) -> Array:
    return g * y * (1 - y)


tanh_dx = op("tanh_dx", "dx = g (1 - y^2)", cases=BOTH)
tanh_dx.infer(like)
tanh_dx.emit(binary("tanh_dx_f32"))
tanh_dx.may(in_place=True)


@tanh_dx.eval
def _(g: Array, y: Array) -> Array:
    return g * (1 - y * y)


hard_sigmoid_dx = op(
    "hard_sigmoid_dx",
    "dx = alpha g where 0 < alpha x + beta < 1, else 0",
    cases=both() + both(alpha=0.2, beta=0.4),
)
hard_sigmoid_dx.may(in_place=True)


@hard_sigmoid_dx.infer
def _(g: Type, x: Type, *, alpha: float = 1 / 6, beta: float = 0.5) -> Type:
    return like(g, x)


@hard_sigmoid_dx.eval
def _(g: Array, x: Array, *, alpha: float, beta: float) -> Array:
    return np.where((x > -beta / alpha) & (x < (1 - beta) / alpha), g * alpha, 0)


@hard_sigmoid_dx.emit
def _(dx: Value, g: Value, x: Value, *, alpha: float, beta: float) -> Call:
    bounds = -beta / alpha, (1 - beta) / alpha
    return Call("hard_sigmoid_dx_f32", dx, g, x, dx.type.size, float(alpha), *bounds)


hard_swish_dx = op("hard_swish_dx", "dx = 0 where x <= -3, g where x >= 3, else g (x / 3 + 1 / 2)", cases=BOTH + KINKS)
hard_swish_dx.infer(like)
hard_swish_dx.emit(binary("hard_swish_dx_f32"))
hard_swish_dx.may(in_place=True)


@hard_swish_dx.eval
def _(g: Array, x: Array) -> Array:
    return g * np.where(x <= -3, 0, np.where(x >= 3, 1, x / 3 + 0.5))


silu_dx = op("silu_dx", "dx = g s (1 + x (1 - s)), s = sigmoid(x)", cases=BOTH + HUGE)
silu_dx.infer(like)
silu_dx.emit(binary("silu_dx_f32"))
silu_dx.may(in_place=True)


@silu_dx.eval
def _(g: Array, x: Array) -> Array:
    s = sigmoid_of(x)
    return g * s * (1 + x * (1 - s))


def gelu_slope(x):
    """Phi(x) + x phi(x), the normal distribution and its density."""
    wide = x.astype(np.float64)
    return 0.5 * (1 + erf(wide / math.sqrt(2))) + wide * np.exp(-0.5 * wide * wide) / math.sqrt(2 * math.pi)


def gelu_tanh_slope(x):
    k = math.sqrt(2 / math.pi)
    x = np.clip(x, -30, 30)  # the square of the tails must not overflow; tanh is one there
    t = np.tanh(k * (x + 0.044715 * x**3))
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * k * (1 + 3 * 0.044715 * x * x)


gelu_dx = op(
    "gelu_dx",
    "dx = g (Phi(x) + x phi(x)), or the derivative of the formula with tanh",
    cases=BOTH + HUGE + [Case(f"{c.name}, tanh", c.inputs, {"approximate": "tanh"}) for c in BOTH + HUGE],
)
gelu_dx.may(in_place=True)


@gelu_dx.infer
def _(g: Type, x: Type, *, approximate: str = "none") -> Type:
    return like(g, x)


@gelu_dx.eval
def _(g: Array, x: Array, *, approximate: str) -> Array:
    return g * {"none": gelu_slope, "tanh": gelu_tanh_slope}[approximate](x)


@gelu_dx.emit
def _(dx: Value, g: Value, x: Value, *, approximate: str) -> Call:
    kernel = {"none": "gelu_dx_f32", "tanh": "gelu_tanh_dx_f32"}[approximate]
    return Call(kernel, dx, g, x, dx.type.size)


elu_dx = op("elu_dx", "dx = g where x > 0, else g alpha exp(x)", cases=both() + both(alpha=0.7))
elu_dx.may(in_place=True)


@elu_dx.infer
def _(g: Type, x: Type, *, alpha: float = 1.0) -> Type:
    return like(g, x)


@elu_dx.eval
def _(g: Array, x: Array, *, alpha: float) -> Array:
    return g * np.where(x > 0, 1, alpha * np.exp(np.minimum(x, 0)))


@elu_dx.emit
def _(dx: Value, g: Value, x: Value, *, alpha: float) -> Call:
    return Call("elu_dx_f32", dx, g, x, dx.type.size, float(alpha))


softplus_dx = op("softplus_dx", "dx = g / (1 + exp(-x))", cases=BOTH + HUGE)
softplus_dx.infer(like)
softplus_dx.emit(binary("softplus_dx_f32"))
softplus_dx.may(in_place=True)


@softplus_dx.eval
def _(g: Array, x: Array) -> Array:
    return g * sigmoid_of(x)


abs_dx = op("abs_dx", "dx = g sign(x), 0 at 0", cases=BOTH + KINKS)
abs_dx.infer(like)
abs_dx.emit(binary("abs_dx_f32"))
abs_dx.may(in_place=True)


@abs_dx.eval
def _(g: Array, x: Array) -> Array:
    return g * np.sign(x)


prelu_dx = op(
    "prelu_dx",
    "dx = g where x > 0, else slope * g; slope broadcasts against x",
    cases=[
        Case("one slope per channel", (f32(1, 3, 2, 5), f32(1, 3, 2, 5), f32(5))),
        Case("one slope", (f32(2, 3), f32(2, 3), f32(1))),
        Case("one slope per row", (f32(2, 3, 5), f32(2, 3, 5), f32(3, 1))),
    ],
)
prelu_dx.may(in_place=True)


@prelu_dx.infer
def _(g: Type, x: Type, slope: Type) -> Type:
    if broadcast(x, slope) != x.shape:
        raise GraphError(f"the slope {slope} does not broadcast to {x}")
    return like(g, x)


@prelu_dx.eval
def _(g: Array, x: Array, slope: Array) -> Array:
    return np.where(x > 0, g, g * slope)


@prelu_dx.emit
def _(dx: Value, g: Value, x: Value, slope: Value) -> Call:
    return Call("prelu_dx_f32", dx, g, x, slope, pair_shape(dx, x, slope))


lut_dx = op(
    "lut_dx",
    "dx = g slope[x + 128]: the gradient of a table, itself a table",
    kind="any",
    cases=[
        Case("odd", (f32(1, 3, 5), s8(1, 3, 5, s=0.1, z=3), f32(256))),
        Case("long", (f32(67), s8(67, s=0.1), f32(256))),
    ],
)
lut_dx.may(in_place=True)


@lut_dx.infer
def _(g: Type, x: Type, slope: Type) -> Type:
    if g.shape != x.shape or x.dtype != "s8" or slope.shape != (256,):
        raise GraphError(f"the gradient {g} does not match {x} with slopes {slope}")
    return g


@lut_dx.eval
def _(g: Array, x: Array, slope: Array) -> Array:
    return g * slope[x.astype(np.int32) + 128]


@lut_dx.emit
def _(dx: Value, g: Value, x: Value, slope: Value) -> Call:
    return Call("lut_dx_s8", dx, g, x, slope, dx.type.size)
