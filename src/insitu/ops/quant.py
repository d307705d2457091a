"""Between float and int8, and from one int8 scale to another.

quantize and dequantize compute in float32 whatever the precision of the evaluation, exactly as the C does.
"""

from __future__ import annotations

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Type, f32, op, s8
from insitu.graph.call import Call
from insitu.ops._fixed import REQUANT, quantize_multiplier
from insitu.ops._rules import quantised, want_float, want_rounding, want_s8

ROUNDED = [
    Case(f"{name}, {rounding}", (s8(3, 7, s=0.1, z=5),), dict(rounding=rounding), s8(s=scale, z=-9))
    for rounding in ("litert", "single")
    for name, scale in {"finer": 0.03, "coarser": 0.7, "equal": 0.1}.items()
]


def round_half_away(x):
    """To the nearest integer, ties away from zero, as C's roundf; for |x| well below 2^23."""
    return np.trunc(x.astype(np.float64) + np.copysign(0.5, x))


@op(kind="any")
class quantize:
    """q = clamp(round(x / s) + z), a float32 division (not a product with 1/s), ties away from zero, as LiteRT"""

    cases = [
        Case("odd", (f32(3, 7),), out=s8(s=0.01, z=-3)),
        Case(
            "saturates", (np.array([1e9, -1e9, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997], np.float32),), out=s8(s=1.0, z=1)
        ),
    ]

    def infer(x, *, out):
        want_float(x)
        return quantised(x.shape, out)

    def eval(x, *, node):
        t = node.output.type
        # the clamp comes first, so that the conversion to an integer cannot overflow; not a number becomes the lowest
        q = x.astype(np.float32) / np.float32(t.scale)
        q = np.fmin(np.fmax(q, np.float32(-128 - t.zero)), np.float32(127 - t.zero))
        return (round_half_away(q) + t.zero).astype(np.int8)

    def emit(y, x):
        return Call("quantize_s8", y, x, y.type.size, float(np.float32(y.type.scale)), y.type.zero)


@op(kind="any")
class dequantize:
    """x = s * (q - z) in float32"""

    cases = [Case("odd", (s8(3, 7, s=0.01, z=-3),)), Case("a scale a channel", (s8(3, 4, s=[0.1, 0.2, 0.3], axis=0),))]

    def infer(x):
        if x.dtype not in ("s8", "s32") or x.quant is None:
            raise GraphError(f"wants s8 with a scale, got {x}")
        return Type("f32", x.shape)

    def eval(x, *, node):
        t = node.inputs[0].type
        return t.quant.scales(t.rank).astype(np.float32) * (x.astype(np.int32) - t.zero).astype(np.float32)

    def emit(y, x):
        return Call("dequantize_s8", y, x, y.type.size, float(np.float32(x.type.scale)), x.type.zero)


@op
class requantize_s8:
    """The same real values with another scale and zero point: requantise x - zx with sx / sy"""

    cases = ROUNDED

    def infer(x, *, rounding="single", out):
        want_s8(x)
        want_rounding(rounding)
        return quantised(x.shape, out)

    def eval(x, *, node, rounding):
        a, y = node.inputs[0].type, node.output.type
        m, shift = quantize_multiplier(a.scale / y.scale)
        q = REQUANT[rounding](x.astype(np.int64) - a.zero, m, shift)
        return np.clip(q + y.zero, -128, 127).astype(np.int8)

    def in_place(y, x):
        return 0
