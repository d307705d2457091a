"""The 256 results of a unary function between two int8 types: the tables of lut_s8.

`unary_table` is the plain meaning: the function in float64, rounded to the nearest integer, ties away from zero.
`litert_table` gives the results of LiteRT's reference kernels for an operator of a .tflite. Some of them use
fixed-point arithmetic that may end one step away from the nearest integer; the bytes must agree, so that arithmetic is
repeated here.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from insitu.errors import Unsupported
from insitu.graph import Op, Type
from insitu.ops._fixed import divide_by_pot, fixed_rsqrt
from insitu.ops._requant import quantize_multiplier, requant_litert
from insitu.ops._rules import want_s8
from insitu.ops.activation import elu, gelu, tanh
from insitu.ops.unary import exp, log, square

QS = np.arange(-128, 128, dtype=np.int64)  # every int8, in the order of a table


def unary_table(function: Callable | Op, x: Type, y: Type, **attrs) -> np.ndarray:
    """s8[256]: entry q + 128 is y's nearest to function(x.scale * (q - x.zero)). An op stands for its meaning.

    NaN (the log of a negative number) becomes the lowest value; infinities saturate.
    """
    want_s8(x, y)
    real = x.scale * (QS - x.zero).astype(np.float64)
    with np.errstate(all="ignore"):
        if isinstance(function, Op):
            result = function.apply("eval", (real,), function.complete(attrs))
        else:
            result = function(real, **attrs)
        steps = np.asarray(result, np.float64) / y.scale
    return _narrow(_round_half_away(np.nan_to_num(steps, nan=-1e9, posinf=1e9, neginf=-1e9)), y)


def _round_half_away(x):
    return np.trunc(x + np.copysign(0.5, x))


def _narrow(q, y: Type, lo: int = -128, hi: int = 127) -> np.ndarray:
    """Add the zero point and clamp."""
    return np.clip(q + y.zero, lo, hi).astype(np.int8)


def _quotient(*scales: float) -> float:
    """The first times all but the last, divided by the last, in float32, as LiteRT does before it widens."""
    product = np.float32(scales[0])
    for s in scales[1:-1]:
        product = product * np.float32(s)
    return float(product / np.float32(scales[-1]))


# --- LiteRT's reference kernels ---


def float_table(function: Callable) -> Callable[..., np.ndarray]:
    """A table that LiteRT fills in float32: function(s (q - z)) times the inverse of the output's scale."""

    def table(x: Type, y: Type, **attrs) -> np.ndarray:
        real = np.float32(x.scale) * (QS - x.zero).astype(np.float32)
        with np.errstate(all="ignore"):
            steps = np.asarray(function(real, **attrs), np.float32) * (np.float32(1) / np.float32(y.scale))
        steps = np.nan_to_num(steps.astype(np.float64), nan=-1e9, posinf=1e9, neginf=-1e9)
        return _narrow(_round_half_away(steps), y)

    return table


def meaning(op: Op) -> Callable:
    """An op's own meaning, computed in float64."""

    def function(x, **attrs):
        return op.apply("eval", (x.astype(np.float64),), op.complete(attrs))

    return function


def logistic(x):
    """1 / (1 + exp(-x)), every step rounded to float32."""
    e = np.exp(-x.astype(np.float64)).astype(np.float32)
    return np.float32(1) / (np.float32(1) + e)


def relu_table(x: Type, y: Type, *, lo: float = 0.0, hi: float = np.inf) -> np.ndarray:
    """Rescaled, then clamped to the range in the output's integers."""
    bounds = [np.clip(float(np.float32(v) / np.float32(y.scale)), -1e6, 1e6) for v in (lo, hi)]
    low, high = (int(np.clip(_round_half_away(b) + y.zero, -128, 127)) for b in bounds)
    return _narrow(requant_litert(QS - x.zero, *quantize_multiplier(_quotient(x.scale, y.scale))), y, low, high)


def leaky_relu_table(x: Type, y: Type, *, alpha: float) -> np.ndarray:
    """Two multipliers, one per side of zero."""
    d = QS - x.zero
    above = requant_litert(d, *quantize_multiplier(_quotient(x.scale, y.scale)))
    slope = _quotient(x.scale, abs(alpha), y.scale)
    m, shift = quantize_multiplier(slope)
    below = requant_litert(d, m if alpha >= 0 else -m, shift)
    return _narrow(np.where(d >= 0, above, below), y)


def abs_table(x: Type, y: Type) -> np.ndarray:
    d = np.abs(QS - x.zero)
    return _narrow(requant_litert(d, *quantize_multiplier(_quotient(x.scale, y.scale))), y)


def neg_table(x: Type, y: Type) -> np.ndarray:
    """LiteRT negates the byte and ignores the scales: only right if both types are equal with zero point 0."""
    return (-QS).astype(np.int8)


def sqrt_table(x: Type, y: Type) -> np.ndarray:
    """Rounded towards zero, unlike every other function."""
    real = np.float32(x.scale) * np.maximum(QS - x.zero, 0).astype(np.float32)
    return _narrow(np.trunc(np.sqrt(real) / np.float32(y.scale)), y)


def rsqrt_table(x: Type, y: Type) -> np.ndarray:
    """Integer Newton steps, with 20 bits between the two rescalings; 1 / 0 saturates."""
    m, shift = quantize_multiplier(1 / (np.sqrt(np.float64(x.scale)) * y.scale))
    found = []
    for d in (QS - x.zero).tolist():
        inverse, down = fixed_rsqrt(d) if d > 0 else (0, 0)
        q = requant_litert(requant_litert(1, inverse, down + 20), m, shift - 20)
        found.append(int(q) if d > 0 else 1000)
    return _narrow(np.array(found), y)


def hard_swish_table(x: Type, y: Type) -> np.ndarray:
    """16-bit fixed point: x with 7 more bits, times min(max(x + 3, 0), 6) / 6 on a scale of 3/32768."""
    hires = np.float32(x.scale) * np.float32(1 / 128)
    out_m, out_shift = _multiplier16(float(hires / np.float32(y.scale)))
    gate_m, gate_shift = _multiplier16(float(hires / (np.float32(3) / np.float32(32768))))
    value = _wrap16((QS - x.zero) * 128)
    gate = value
    if gate_shift > 0:  # one bit is shifted after the product, so that the product keeps its precision
        gate = _saturate16(_saturate16(gate << (gate_shift - 1)))
        gate = _saturate16(_mul16(gate, gate_m) << 1)
    else:
        gate = divide_by_pot(_mul16(gate, gate_m), -gate_shift)
    gate = (gate + (1 << 15)) >> 1
    product = gate * _mul16(value, out_m)
    truncated = np.where(product >= 0, product >> 15, -((-product) >> 15))
    return _narrow(_shift16(truncated, -out_shift), y)


def _multiplier16(real: float) -> tuple[int, int]:
    """(m, shift) with 15 fractional bits."""
    m, shift = quantize_multiplier(real)
    return min((m + (1 << 15)) >> 16, 32767), shift


def _mul16(a, b: int):
    """round(a * b / 2^15), half up."""
    return (a * b + (1 << 14)) >> 15


def _wrap16(x):
    return np.asarray(x).astype(np.int16).astype(np.int64)


def _shift16(x, n: int):
    """x / 2^n, ties away from zero; from 16 on the mask is all ones, as in 16-bit arithmetic."""
    mask = _wrap16((1 << n) - 1)
    return (x >> n) + ((x & mask) > (mask >> 1) + (x < 0))


def _saturate16(x):
    return np.clip(x, -32768, 32767)


# compared with LiteRT over all 256 inputs, except ELU and SQUARE, for which it has no int8 reference kernel
LITERT: dict[str, Callable[..., np.ndarray]] = {
    "LOGISTIC": float_table(logistic),
    "TANH": float_table(meaning(tanh)),
    "HARD_SWISH": hard_swish_table,
    "LEAKY_RELU": leaky_relu_table,
    "RELU": relu_table,
    "RELU6": lambda x, y: relu_table(x, y, hi=6.0),
    "RELU_N1_TO_1": lambda x, y: relu_table(x, y, lo=-1.0, hi=1.0),
    "RELU_0_TO_1": lambda x, y: relu_table(x, y, hi=1.0),
    "ELU": float_table(meaning(elu)),
    "GELU": float_table(meaning(gelu)),
    "EXP": float_table(meaning(exp)),
    "LOG": float_table(meaning(log)),
    "SQRT": sqrt_table,
    "RSQRT": rsqrt_table,
    "ABS": abs_table,
    "NEG": neg_table,
    "SQUARE": float_table(meaning(square)),
}


def litert_table(operator: str, x: Type, y: Type, **attrs) -> np.ndarray:
    """s8[256] of this operator of the .tflite schema; LEAKY_RELU takes `alpha`, GELU takes `approximate`."""
    want_s8(x, y)
    if operator not in LITERT:
        raise Unsupported(f"{operator} in int8")
    return LITERT[operator](x, y, **attrs)
