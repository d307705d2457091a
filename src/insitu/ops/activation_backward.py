"""The gradients of activations: dx from g, the gradient of the output, and from y or x.

Those that can be told from y take y: x is then free as soon as y exists. At a kink the slope is torch's.
"""

from __future__ import annotations

import math

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, f32, op, s8
from insitu.graph.call import Call
from insitu.ops._pairs import pair_shape
from insitu.ops._rules import broadcast
from insitu.ops.activation import erf, sigmoid_of

BOTH = [Case("odd", (f32(1, 3, 5), f32(1, 3, 5))), Case("one", (f32(1), f32(1))), Case("long", (f32(67), f32(67)))]
KINKS = [Case("kinks", (f32(6), np.array([0.0, 6.0, -3.0, 3.0, -0.0, 1.0], np.float32)))]
HUGE = [Case("huge", (f32(6), np.array([1e30, 90.0, 4.0, -1e30, -90.0, -4.0], np.float32)))]


def both(**attrs) -> list[Case]:
    return [Case(c.name, c.inputs, attrs) for c in BOTH + KINKS]


def like(g, x):
    if g.shape != x.shape or g.dtype not in ("f32", "f64"):
        raise GraphError(f"a gradient {g} does not belong to {x}")
    return g


def over_gradient(dx, g, x) -> int:
    return 0


def binary(function: str):
    """emit: function(dx, g, x, n)."""

    def emit(dx, g, x):
        return Call(function, dx, g, x, dx.type.size)

    return emit


@op
class relu_dx:
    """dx = g where y > 0, else 0"""

    cases = BOTH + KINKS
    infer = like
    in_place = over_gradient
    emit = binary("relu_dx_f32")

    def eval(g, y):
        return np.where(y > 0, g, 0)


@op
class relu6_dx:
    """dx = g where 0 < y < 6, else 0"""

    cases = BOTH + KINKS
    infer = like
    in_place = over_gradient
    emit = binary("relu6_dx_f32")

    def eval(g, y):
        return np.where((y > 0) & (y < 6), g, 0)


@op
class clamp_dx:
    """dx = g where lo <= x <= hi, else 0"""

    cases = both(lo=-0.5, hi=1.0) + both(lo=0.0)
    in_place = over_gradient

    def infer(g, x, *, lo=-math.inf, hi=math.inf):
        return like(g, x)

    def eval(g, x, *, lo, hi):
        return np.where((x >= lo) & (x <= hi), g, 0)

    def emit(dx, g, x, *, lo, hi):
        return Call("clamp_dx_f32", dx, g, x, dx.type.size, float(lo), float(hi))


@op
class leaky_relu_dx:
    """dx = g where x > 0, else slope * g"""

    cases = both(slope=0.3)
    in_place = over_gradient

    def infer(g, x, *, slope=0.01):
        return like(g, x)

    def eval(g, x, *, slope):
        return np.where(x > 0, g, g * slope)

    def emit(dx, g, x, *, slope):
        return Call("leaky_relu_dx_f32", dx, g, x, dx.type.size, float(slope))


@op
class sigmoid_dx:
    """dx = g y (1 - y)"""

    cases = BOTH
    infer = like
    in_place = over_gradient
    emit = binary("sigmoid_dx_f32")

    def eval(g, y):
        return g * y * (1 - y)


@op
class tanh_dx:
    """dx = g (1 - y^2)"""

    cases = BOTH
    infer = like
    in_place = over_gradient
    emit = binary("tanh_dx_f32")

    def eval(g, y):
        return g * (1 - y * y)


@op
class hard_sigmoid_dx:
    """dx = alpha g where 0 < alpha x + beta < 1, else 0"""

    cases = both() + both(alpha=0.2, beta=0.4)
    in_place = over_gradient

    def infer(g, x, *, alpha=1 / 6, beta=0.5):
        return like(g, x)

    def eval(g, x, *, alpha, beta):
        return np.where((x > -beta / alpha) & (x < (1 - beta) / alpha), g * alpha, 0)

    def emit(dx, g, x, *, alpha, beta):
        bounds = -beta / alpha, (1 - beta) / alpha
        return Call("hard_sigmoid_dx_f32", dx, g, x, dx.type.size, float(alpha), *bounds)


@op
class hard_swish_dx:
    """dx = 0 where x <= -3, g where x >= 3, else g (x / 3 + 1 / 2)"""

    cases = BOTH + KINKS
    infer = like
    in_place = over_gradient
    emit = binary("hard_swish_dx_f32")

    def eval(g, x):
        return g * np.where(x <= -3, 0, np.where(x >= 3, 1, x / 3 + 0.5))


@op
class silu_dx:
    """dx = g s (1 + x (1 - s)), s = sigmoid(x)"""

    cases = BOTH + HUGE
    infer = like
    in_place = over_gradient
    emit = binary("silu_dx_f32")

    def eval(g, x):
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


@op
class gelu_dx:
    """dx = g (Phi(x) + x phi(x)), or the derivative of the formula with tanh"""

    cases = BOTH + HUGE + [Case(f"{c.name}, tanh", c.inputs, {"approximate": "tanh"}) for c in BOTH + HUGE]
    in_place = over_gradient

    def infer(g, x, *, approximate="none"):
        return like(g, x)

    def eval(g, x, *, approximate):
        return g * {"none": gelu_slope, "tanh": gelu_tanh_slope}[approximate](x)

    def emit(dx, g, x, *, approximate):
        kernel = {"none": "gelu_dx_f32", "tanh": "gelu_tanh_dx_f32"}[approximate]
        return Call(kernel, dx, g, x, dx.type.size)


@op
class elu_dx:
    """dx = g where x > 0, else g alpha exp(x)"""

    cases = both() + both(alpha=0.7)
    in_place = over_gradient

    def infer(g, x, *, alpha=1.0):
        return like(g, x)

    def eval(g, x, *, alpha):
        return g * np.where(x > 0, 1, alpha * np.exp(np.minimum(x, 0)))

    def emit(dx, g, x, *, alpha):
        return Call("elu_dx_f32", dx, g, x, dx.type.size, float(alpha))


@op
class softplus_dx:
    """dx = g / (1 + exp(-x))"""

    cases = BOTH + HUGE
    infer = like
    in_place = over_gradient
    emit = binary("softplus_dx_f32")

    def eval(g, x):
        return g * sigmoid_of(x)


@op
class abs_dx:
    """dx = g sign(x), 0 at 0"""

    cases = BOTH + KINKS
    infer = like
    in_place = over_gradient
    emit = binary("abs_dx_f32")

    def eval(g, x):
        return g * np.sign(x)


@op
class prelu_dx:
    """dx = g where x > 0, else slope * g; slope broadcasts against x"""

    cases = [
        Case("a slope a channel", (f32(1, 3, 2, 5), f32(1, 3, 2, 5), f32(5))),
        Case("one slope", (f32(2, 3), f32(2, 3), f32(1))),
        Case("a slope a row", (f32(2, 3, 5), f32(2, 3, 5), f32(3, 1))),
    ]

    def infer(g, x, slope):
        if broadcast(x, slope) != x.shape:
            raise GraphError(f"the slope {slope} does not broadcast to {x}")
        return like(g, x)

    def eval(g, x, slope):
        return np.where(x > 0, g, g * slope)

    def emit(dx, g, x, slope):
        return Call("prelu_dx_f32", dx, g, x, slope, pair_shape(dx, x, slope))

    def in_place(dx, g, x, slope):
        return 0


@op(kind="any")
class lut_dx:
    """dx = g slope[x + 128]: the gradient of a table, itself a table"""

    cases = [
        Case("odd", (f32(1, 3, 5), s8(1, 3, 5, s=0.1, z=3), f32(256))),
        Case("long", (f32(67), s8(67, s=0.1), f32(256))),
    ]

    def infer(g, x, slope):
        if g.shape != x.shape or x.dtype != "s8" or slope.shape != (256,):
            raise GraphError(f"a gradient {g} does not belong to {x} with slopes {slope}")
        return g

    def eval(g, x, slope):
        return g * slope[x.astype(np.int32) + 128]

    def emit(dx, g, x, slope):
        return Call("lut_dx_s8", dx, g, x, slope, dx.type.size)

    def in_place(dx, g, x, slope):
        return 0
