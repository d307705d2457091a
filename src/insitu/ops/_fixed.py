"""Fixed-point arithmetic in numpy for the integer kernels that do not use _requant.py: the 16-bit multipliers of a sum,
and the exponential and reciprocal of the integer softmax (gemmlowp's, whose rounding they reproduce).

Everything works on int64 arrays with int32 values; nothing here knows about ops or types.
"""

from __future__ import annotations

import math

import numpy as np

from insitu.errors import GraphError
from insitu.ops._requant import quantize_multiplier

INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1


def high_mul(a, b):
    """round(a * b / 2^31), half up."""
    return (np.asarray(a, np.int64) * np.asarray(b, np.int64) + (1 << 30)) >> 31


def divide_by_pot(x, exponent):
    """x / 2^exponent, rounded to nearest, ties away from zero."""
    x = np.asarray(x, np.int64)
    mask = (1 << exponent) - 1
    return (x >> exponent) + ((x & mask) > (mask >> 1) + (x < 0))


def multiply_by_pot(x, exponent: int):
    """x * 2^exponent, saturated to int32."""
    return np.clip(np.asarray(x, np.int64) << exponent, INT32_MIN, INT32_MAX)


def pair_multipliers(a: float, b: float) -> tuple[int, int, int]:
    """(ma, mb, s) with a = ma / 2^s, b = mb / 2^s and the larger of ma, mb in [2^14, 2^15)."""
    largest = max(abs(a), abs(b))
    s = min(15 - math.frexp(largest)[1], 30)
    if math.floor(largest * 2.0**s + 0.5) == 1 << 15:
        s -= 1
    if s < 1:
        raise GraphError(f"the multipliers {a}, {b} are too large")
    return round_half_away(a * 2.0**s), round_half_away(b * 2.0**s), s


def round_half_away(x: float) -> int:
    return int(math.copysign(math.floor(abs(x) + 0.5), x))


DIFF_BITS = 5  # integer bits of the scaled difference to the row's maximum
SUM_BITS = 12  # integer bits of the sum of exponentials
QUARTER = 1 << (31 - DIFF_BITS - 2)
# exp(-2^k) in Q31 for k = -2 .. 4
EXP_FACTORS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)


def softmax_scaling(scale: float) -> tuple[int, int, int]:
    """(multiplier, left shift, smallest difference that counts) for an input of this scale."""
    real = min(scale * (1 << (31 - DIFF_BITS)), 2.0**31 - 1)
    m, left = quantize_multiplier(real)
    return m, left, -math.floor(((1 << DIFF_BITS) - 1) * 2.0 ** (31 - DIFF_BITS) / 2.0**left)


def softmax_s8(x, scale: float):
    """The integer softmax over the last axis; the result has scale 1/256 and zero point -128."""
    m, left, diff_min = softmax_scaling(scale)
    x = np.asarray(x, np.int64)
    diff = x - x.max(axis=-1, keepdims=True)
    counts = diff >= diff_min
    e = exp_on_negative(high_mul(np.where(counts, diff, 0) << left, m))
    total = np.sum(np.where(counts, divide_by_pot(e, SUM_BITS), 0), axis=-1, keepdims=True)
    reciprocal, over = fixed_reciprocal(total)
    y = divide_by_pot(high_mul(reciprocal, e), over + 31 - 8) - 128
    return np.where(counts, np.clip(y, -128, 127), -128).astype(np.int8)


def exp_on_negative(a):
    """exp(a) in Q31 for a <= 0 with 5 integer bits: a polynomial on (-1/4, 0], then one factor per bit."""
    part = (a & (QUARTER - 1)) - QUARTER
    y = exp_on_quarter(multiply_by_pot(part, DIFF_BITS))
    rest = part - a
    for k, factor in enumerate(EXP_FACTORS):
        y = np.where(rest & (QUARTER << k), high_mul(y, factor), y)
    return np.where(a == 0, INT32_MAX, y)


def exp_on_quarter(a):
    """exp(a) in Q31 for a in [-1/4, 0): Taylor around -1/8."""
    x = a + (1 << 28)
    x2 = high_mul(x, x)
    x3 = high_mul(x2, x)
    x4 = high_mul(x2, x2)
    tail = divide_by_pot(high_mul(divide_by_pot(x4, 2) + x3, 715827883) + x2, 1)
    return 1895147668 + high_mul(1895147668, x + tail)


def fixed_reciprocal(total):
    """(1 / total in Q31 after normalising total to [1, 2), the integer bits of total)."""
    length = np.frompyfunc(int.bit_length, 1, 1)(total.astype(object))
    zeros = 32 - np.asarray(length, np.int64)
    return one_over_one_plus((total << zeros) - (1 << 31)), SUM_BITS - zeros


def one_over_one_plus(a):
    """1 / (1 + a) in Q31 for a in [0, 1): three Newton steps with 2 integer bits."""
    half = (a + INT32_MAX + 1) >> 1
    x = 1515870810 + high_mul(half, -1010580540)
    for _ in range(3):
        x = x + multiply_by_pot(high_mul(x, (1 << 29) - high_mul(half, x)), 2)
    return multiply_by_pot(x, 1)


def fixed_rsqrt(v: int) -> tuple[int, int]:
    """(m, shift) with 1 / sqrt(v) = m * 2^(shift - 31), for 1 <= v < 2^29: five Newton steps with 3 integer bits."""
    if v == 1:
        return INT32_MAX, 0
    pairs = (32 - v.bit_length() - 1) // 2 - 1  # v times 4^pairs fills the word
    half = divide_by_pot((v << 2 * pairs) >> 1, 1)
    x = np.int64(1 << 28)
    for _ in range(5):
        cube = multiply_by_pot(high_mul(high_mul(x, x), x), 6)
        x = multiply_by_pot(high_mul(3 << 27, x) - high_mul(half, cube), 3)
    m, shift = int(high_mul(x, 1518500250)), pairs - 11  # times sqrt(1/2)
    return (m << shift, 0) if shift > 0 else (m, shift)
