"""Sum, difference, product and quotient of two values with numpy broadcasting; each int8 twin below its float op.

The walk over broadcasting shapes is in _pairs.py.
"""

from __future__ import annotations

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Node, Type, Value, f32, op, s8
from insitu.graph.call import Call, Struct
from insitu.graph.op import Grads
from insitu.ops._fixed import pair_multipliers
from insitu.ops._pairs import over_equal, pair_shape
from insitu.ops._requant import quantize_multiplier, requant_litert, rescaled
from insitu.ops._rules import (
    ROUNDINGS,
    SMALL,
    broadcast,
    quantised,
    same,
    unary,
    want_clamp,
    want_float,
    want_rounding,
    want_s8,
)
from insitu.ops._stripes import alike
from insitu.ops._types import Array, Masked
from insitu.ops.mask import apart, beside, channels_of, clamped, mask_cases, unclamped
from insitu.ops.shape_backward import fitted, mul_real

PAIRS = [
    Case("same shape", (f32(1, 3, 5), f32(1, 3, 5))),
    Case("scalar", (f32(3, 7), f32())),
    Case("scalar first", (f32(1), f32(3, 7))),
    Case("last axis", (f32(2, 3, 5), f32(5))),
    Case("last axis first", (f32(1, 1, 5), f32(2, 3, 5))),
    Case("rows", (f32(2, 3, 5), f32(3, 1))),
    Case("outer", (f32(4, 1), f32(1, 3))),
    Case("middle", (f32(2, 1, 3, 1, 2), f32(1, 4, 1, 3, 1))),
]


def pairs_s8(**attrs) -> list[Case]:
    """The cases of an int8 op of two values, with each rounding."""
    x, y, out = {"s": 0.05, "z": -3}, {"s": 0.02, "z": 7}, s8(s=0.06, z=-11)
    shapes = {
        "same shape": ((1, 3, 17), (1, 3, 17)),
        "scalar": ((3, 7), (1,)),
        "last axis": ((2, 3, 5), (5,)),
        "channel scale": ((1, 2, 3, 4), (1, 1, 1, 4)),
        "gate": ((1, 1, 1, 4), (1, 2, 3, 4)),
        "rows": ((2, 3, 5), (3, 1)),
    }
    made = []
    for rounding in ROUNDINGS:
        for name, (a, b) in shapes.items():
            made.append(Case(f"{name}, {rounding}", (s8(*a, **x), s8(*b, **y)), dict(rounding=rounding, **attrs), out))
    made.append(Case("clamped", (s8(3, 5, **x), s8(3, 5, **y)), dict(lo=-20, hi=30, **attrs), out))
    return made + mask_cases([made[0], made[3], made[5], made[6], made[-1]])


def infer_float(x, y):
    want_float(x, y)
    if x.dtype != y.dtype:
        raise GraphError(f"{x} and {y} have different element types")
    return Type(x.dtype, broadcast(x, y))


def infer_s8(x, y, *, lo=-128, hi=127, rounding="single", mask=False, out=None):
    want_s8(x, y)
    want_clamp(lo, hi)
    want_rounding(rounding)
    return beside(quantised(broadcast(x, y), out), mask)


def sum_multipliers(a: Type, b: Type, y: Type, sign: int) -> tuple[int, int, int]:
    """(ma, mb, s): y - zy = (ma (a - za) + mb (b - zb) + half) >> s"""
    ma, mb, s = pair_multipliers(a.scale / y.scale, b.scale / y.scale)
    return ma, sign * mb, s


LEFT = 20  # fractional bits LiteRT adds to both terms of a sum


def sum_multipliers_litert(a: Type, b: Type, y: Type) -> tuple[tuple[int, int], ...]:
    """The (m, shift) of both terms and of the sum, as in LiteRT's reference kernel."""
    # scales are float32 in a .tflite; twice the larger one keeps both terms below one
    twice = 2.0 * max(a.scale, b.scale)
    if twice > (1 << LEFT) * y.scale:
        raise GraphError(f"a sum of {a} and {b} overflows 32 bits as {y}")
    return (
        quantize_multiplier(a.scale / twice),
        quantize_multiplier(b.scale / twice),
        quantize_multiplier(twice / ((1 << LEFT) * y.scale)),
    )


def eval_sum(x, y, node, rounding, sign):
    """The sum before the clamp."""
    a, b = (v.type for v in node.inputs)
    x, y = x.astype(np.int64) - a.zero, y.astype(np.int64) - b.zero
    if rounding == "single":
        ma, mb, s = sum_multipliers(a, b, node.output.type, sign)
        return ((ma * x + mb * y + (1 << (s - 1))) >> s) + node.output.type.zero
    qa, qb, qy = sum_multipliers_litert(a, b, node.output.type)
    total = requant_litert(x << LEFT, *qa) + sign * requant_litert(y << LEFT, *qb)
    return requant_litert(total, *qy) + node.output.type.zero


def product_multiplier(a: Type, b: Type, y: Type, rounding: str) -> tuple[int, int]:
    real = a.scale * b.scale / y.scale
    if rounding == "litert":  # LiteRT multiplies and divides the scales in float32
        real = float(np.float32(a.scale) * np.float32(b.scale) / np.float32(y.scale))
    if real >= 1 << 14:
        raise GraphError(f"a product of {a} and {b} overflows 32 bits as {y}")
    return quantize_multiplier(real)


def zeros_and_clamp(y, a, b, lo, hi) -> dict[str, int]:
    return {"a_zero": a.type.zero, "b_zero": b.type.zero, "y_zero": y.type.zero, "lo": lo, "hi": hi}


def emit_sum(values, lo, hi, rounding, sign) -> Call:
    y, mask, a, b = apart(values, 2)
    known = zeros_and_clamp(y, a, b, lo, hi)
    where = (y, mask, a, b, pair_shape(y, a, b), channels_of(y.type))
    if rounding == "single":
        ma, mb, s = sum_multipliers(a.type, b.type, y.type, sign)
        return Call("sum_s8", *where, Struct("sum_quant", **known, ma=ma, mb=mb, shift=s))
    (ma, sa), (mb, sb), (my, sy) = sum_multipliers_litert(a.type, b.type, y.type)
    shifts = {"a_shift": sa, "b_shift": sb, "y_shift": sy}
    q = Struct("sum_litert_quant", **known, ma=ma, mb=mb, my=my, **shifts, sign=sign)
    return Call("sum_litert_s8", *where, q)


def emit_float(function: str):
    def emit(y, a, b):
        return Call(function, y, a, b, pair_shape(y, a, b))

    return emit


add = op("add", "z = x + y", cases=PAIRS)
add.infer(infer_float)
add.emit(emit_float("add_f32"))
add.may(in_place=over_equal, stripes=alike, operands=True)


@add.eval
def _(x: Array, y: Array) -> Array:
    return x + y


@add.grad
def _(g: Value, z: Value, x: Value, y: Value) -> Grads:
    return fitted(g, x), fitted(g, y)


add_s8 = op(
    "add_s8",
    """z = x + y on quantised values. `litert`: both terms get 20 more bits, are rescaled and summed, and the sum
    is rescaled (three roundings). `single`: 16-bit multipliers ma, mb, z = (ma (x - zx) + mb (y - zy) + half) >> s.""",
    cases=pairs_s8(),
)
add_s8.infer(infer_s8)
add_s8.may(in_place=over_equal, stripes=alike)
add.may(int8=add_s8)


@add_s8.eval
def _(x: Array, y: Array, *, node: Node, lo: int, hi: int, rounding: str, mask: bool) -> Array | tuple[Array, ...]:
    return clamped(eval_sum(x, y, node, rounding, 1), lo, hi, mask)


@add_s8.grad
def _(g: Masked, z: Masked, x: Value, y: Value) -> Grads:
    inside = unclamped(g, z)
    return fitted(inside, x), fitted(inside, y)


@add_s8.emit
def _(*values: Value, lo: int, hi: int, rounding: str) -> Call:
    return emit_sum(values, lo, hi, rounding, 1)


sub = op("sub", "z = x - y", cases=PAIRS)
sub.infer(infer_float)
sub.emit(emit_float("sub_f32"))
sub.may(in_place=over_equal, stripes=alike, operands=True)


@sub.eval
def _(x: Array, y: Array) -> Array:
    return x - y


@sub.grad
def _(g: Value, z: Value, x: Value, y: Value) -> Grads:
    return fitted(g, x), fitted(neg(g), y)


sub_s8 = op(
    "sub_s8",
    "z = x - y on quantised values, computed as add_s8 with the second term negated",
    cases=pairs_s8(),
)
sub_s8.infer(infer_s8)
sub_s8.may(in_place=over_equal, stripes=alike)
sub.may(int8=sub_s8)


@sub_s8.eval
def _(x: Array, y: Array, *, node: Node, lo: int, hi: int, rounding: str, mask: bool) -> Array | tuple[Array, ...]:
    return clamped(eval_sum(x, y, node, rounding, -1), lo, hi, mask)


@sub_s8.grad
def _(g: Masked, z: Masked, x: Value, y: Value) -> Grads:
    inside = unclamped(g, z)
    return fitted(inside, x), fitted(neg(inside), y)


@sub_s8.emit
def _(*values: Value, lo: int, hi: int, rounding: str) -> Call:
    return emit_sum(values, lo, hi, rounding, -1)


mul = op("mul", "z = x * y", cases=PAIRS)
mul.infer(infer_float)
mul.emit(emit_float("mul_f32"))
mul.may(in_place=over_equal, stripes=alike, operands=True)


@mul.eval
def _(x: Array, y: Array) -> Array:
    return x * y


@mul.grad
def _(g: Value, z: Value, x: Value, y: Value) -> Grads:
    return fitted(mul(g, y), x), fitted(mul(g, x), y)


mul_s8 = op("mul_s8", "z = x * y on quantised values: requantise (x - zx)(y - zy) with sx sy / sz", cases=pairs_s8())
mul_s8.infer(infer_s8)
mul_s8.may(in_place=over_equal, stripes=alike)
mul.may(int8=mul_s8)


@mul_s8.eval
def _(x: Array, y: Array, *, node: Node, lo: int, hi: int, rounding: str, mask: bool) -> Array | tuple[Array, ...]:
    a, b = (v.type for v in node.inputs)
    product = (x.astype(np.int64) - a.zero) * (y.astype(np.int64) - b.zero)
    m, shift = product_multiplier(a, b, node.output.type, rounding)
    return clamped(rescaled(product, m, shift, node.output.type.zero, rounding), lo, hi, mask)


@mul_s8.grad
def _(g: Masked, z: Masked, x: Value, y: Value) -> Grads:
    g, by = unclamped(g, z), mul_real
    return fitted(by(g, y), x), fitted(by(g, x), y)


@mul_s8.emit
def _(*values: Value, lo: int, hi: int, rounding: str) -> Call:
    y, mask, a, b = apart(values, 2)
    m, shift = product_multiplier(a.type, b.type, y.type, rounding)
    q = Struct("product_quant", **zeros_and_clamp(y, a, b, lo, hi), m=m, shift=shift)
    kernel = "mul_s8" if rounding == "single" else "mul_litert_s8"
    return Call(kernel, y, mask, a, b, pair_shape(y, a, b), channels_of(y.type), q)


div = op("div", "z = x / y", domain=(0.3, 3.0), cases=PAIRS)
div.infer(infer_float)
div.emit(emit_float("div_f32"))
div.may(in_place=over_equal, stripes=alike, operands=True)


@div.eval
def _(x: Array, y: Array) -> Array:
    return x / y


@div.grad
def _(g: Value, z: Value, x: Value, y: Value) -> Grads:
    share = div(g, y)
    return fitted(share, x), fitted(neg(mul(share, z)), y)


neg = op("neg", "y = -x", cases=SMALL)
neg.infer(same)
neg.emit(unary("neg_f32"))
neg.may(in_place=True, unary=True)


@neg.eval
def _(x: Array) -> Array:
    return -x


@neg.grad
def _(g: Value, y: Value, x: Value) -> Grads:
    return (neg(g),)
