"""Between float and int8, and from one int8 scale to another.

quantize and dequantize compute in float32 whatever the precision of the evaluation, exactly as the C does.
quantize has two meanings, as LiteRT has: its reference kernels divide and round halves away from zero, XNNPACK
multiplies by 1 / s and rounds halves to even.
"""

from __future__ import annotations

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Node, Type, Value, f32, op, s8
from insitu.graph.call import Call, Struct
from insitu.graph.op import Grads
from insitu.ops._gradients import straight
from insitu.ops._requant import quantize_multiplier, rescaled
from insitu.ops._rules import ROUNDINGS, quantised, want_float, want_rounding, want_s8
from insitu.ops._stripes import alike
from insitu.ops._types import Array, Out
from insitu.ops.activation_backward import clamp_dx
from insitu.ops.mask import apart, beside, channels_of, clamped, mask_cases, straight_through

ROUNDED = [
    Case(f"{name}, {rounding}", (s8(3, 7, s=0.1, z=5),), {"rounding": rounding}, s8(s=scale, z=-9))
    for rounding in ROUNDINGS
    for name, scale in {"finer": 0.03, "coarser": 0.7, "equal": 0.1}.items()
]


def round_half_away(x):
    """To the nearest integer, ties away from zero, as C's roundf; for |x| well below 2^23."""
    return np.trunc(x.astype(np.float64) + np.copysign(0.5, x))


def inverse(t: Type) -> np.float32:
    """1 / s in float32; infinite if the scale is too small."""
    with np.errstate(over="ignore", divide="ignore"):
        return np.float32(1) / np.float32(t.scale)


def usual_rounding(t: Type) -> str:
    """One rounding per result, unless the scale is so small that it has no inverse."""
    return "single" if np.isfinite(inverse(t)) else "litert"


def in_steps(x: Array, t: Type, rounding: str) -> Array:
    """Floats as int8 with this scale and zero point."""
    single, x = rounding == "single", x.astype(np.float32)
    q = x * inverse(t) if single else x / np.float32(t.scale)
    # clamp first, so that the conversion to an integer cannot overflow; NaN becomes the lowest value
    q = np.fmin(np.fmax(q, np.float32(-128 - t.zero)), np.float32(127 - t.zero))
    return ((np.rint(q) if single else round_half_away(q)) + t.zero).astype(np.int8)


HALVES = np.array([1e9, -1e9, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997], np.float32)

quantize = op(
    "quantize",
    """q = clamp(round(x / s) + z) in float32.

    litert   a division, halves away from zero: LiteRT's reference kernels; files without the attribute
    single   a product with 1 / s, halves to even: XNNPACK
    """,
    kind="any",
    cases=[
        Case(f"{name}, {rounding}", (x,), {"rounding": rounding}, out=out)
        for rounding in ROUNDINGS
        for name, x, out in (("odd", f32(3, 7), s8(s=0.01, z=-3)), ("halves", HALVES, s8(s=1.0, z=1)))
    ],
)
quantize.may(stripes=alike)


@quantize.infer
def _(x: Type, *, rounding: str = "litert", out: Out) -> Type:
    want_float(x)
    want_rounding(rounding)
    y = quantised(x.shape, out)
    if rounding == "single" and not np.isfinite(inverse(y)):
        raise GraphError(
            f"a scale of {y.scale:g} is too small to multiply by 1 / scale", hint='rounding="litert" divides'
        )
    return y


@quantize.eval
def _(x: Array, *, rounding: str, node: Node) -> Array:
    return in_steps(x, node.output.type, rounding)


@quantize.grad
def _(g: Value, q: Value, x: Value, *, rounding: str) -> Grads:
    """Straight through, but zero where the rounded value is clamped."""
    lo, hi = ((end - q.type.zero) * q.type.scale for end in (-128.5, 127.5))
    return (clamp_dx(g, x, lo=lo, hi=hi, name=f"{x.name}.grad"),)


@quantize.emit
def _(y: Value, x: Value, *, rounding: str) -> Call:
    if rounding == "single":
        return Call("quantize_s8", y, x, y.type.size, float(inverse(y.type)), y.type.zero)
    return Call("quantize_litert_s8", y, x, y.type.size, float(np.float32(y.type.scale)), y.type.zero)


dequantize = op(
    "dequantize",
    "x = s * (q - z) in float32",
    kind="any",
    cases=[Case("odd", (s8(3, 7, s=0.01, z=-3),)), Case("long", (s8(67, s=0.3, z=127),))],
)
dequantize.grad(straight)
dequantize.may(stripes=alike)


@dequantize.infer
def _(x: Type) -> Type:
    want_s8(x)
    return Type("f32", x.shape)


@dequantize.eval
def _(x: Array, *, node: Node) -> Array:
    t = node.inputs[0].type
    return np.float32(t.scale) * (x.astype(np.int32) - t.zero).astype(np.float32)


@dequantize.emit
def _(y: Value, x: Value) -> Call:
    return Call("dequantize_s8", y, x, y.type.size, float(np.float32(x.type.scale)), x.type.zero)


def rescaling(x: Type, y: Type) -> tuple[int, int]:
    """The multiplier from one scale to another."""
    if x.scale / y.scale >= 1 << 22:
        raise GraphError(f"rescaling {x} to {y} overflows 32 bits")
    return quantize_multiplier(x.scale / y.scale)


requantize_s8 = op(
    "requantize_s8",
    "The same real values with another scale and zero point: requantise x - zx with sx / sy",
    cases=ROUNDED + mask_cases(ROUNDED[::3]),
)
requantize_s8.grad(straight_through)
requantize_s8.may(stripes=alike, in_place=True)


@requantize_s8.infer
def _(x: Type, *, rounding: str = "single", mask: bool = False, out: Out) -> Type | tuple[Type, ...]:
    want_s8(x)
    want_rounding(rounding)
    return beside(quantised(x.shape, out), mask)


@requantize_s8.eval
def _(x: Array, *, node: Node, rounding: str, mask: bool) -> Array | tuple[Array, ...]:
    a, y = node.inputs[0].type, node.output.type
    return clamped(rescaled(x.astype(np.int64) - a.zero, *rescaling(a, y), y.zero, rounding), -128, 127, mask)


@requantize_s8.emit
def _(*values: Value, rounding: str) -> Call:
    y, mask, x = apart(values, 1)
    m, shift = rescaling(x.type, y.type)
    zeros = {"a_zero": x.type.zero, "b_zero": 0, "y_zero": y.type.zero}
    q = Struct("product_quant", **zeros, lo=-128, hi=127, m=m, shift=shift)
    kernel = "requantize_s8" if rounding == "single" else "requantize_litert_s8"
    return Call(kernel, y, mask, x, y.type.size, channels_of(y.type), q)
