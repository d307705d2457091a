"""Operators that XNNPACK rounds as our `single` rounding does, where LiteRT's own operator does not.

    QUANTIZE int8 -> int8    XNNPACK's multiplier has 8 bits: a MUL by one instead, or a lookup
    AVERAGE_POOL_2D, MEAN    round exact halves in another way: a depthwise convolution with equal weights instead,
                             whose bias or scale moves halves to our side

A form is used if it gives our integer for every possible input. Sums and layers with weights need nothing of this:
the quantiser chooses their scales such that the results are equal (quantizer/agree.py).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from insitu.graph import Type
from insitu.ops._requant import quantize_multiplier, rescaled

Ones = tuple[int, int, float]  # the weight, the bias, and the weight's scale
BYTES = np.arange(-128, 128)
QUANTIZES = (2.0**-8, 2.0**7)  # ratios of scales that XNNPACK's QUANTIZE takes
MULTIPLIES = (2.0**-16, 2.0**8)  # ratios that its MUL takes
FACTORS = (1, 2, 3, 5, 7, 11, 19, 29, 41, 64, 79, 101, 127)
# weight, bias, by how many float32 numbers the weight's scale is lowered
WEIGHTS = [(f, 0, lower) for f in FACTORS for lower in (0, 1, 2, -1)] + [(f, f // 8, 0) for f in FACTORS if f >= 8]


def float_rounded(acc: np.ndarray, by: np.float32, y: Type) -> np.ndarray:
    """As XNNPACK rounds a sum: a product in float32, halves to even."""
    return np.clip(np.rint(acc.astype(np.float32) * by) + y.zero, -128, 127)


def integer_rounded(acc: np.ndarray, real: float, y: Type) -> np.ndarray:
    """As we do."""
    return np.clip(rescaled(acc, *quantize_multiplier(real), y.zero, "single"), -128, 127)


def requantised(x: Type, y: Type) -> np.ndarray:
    """Our 256 results."""
    return integer_rounded(BYTES - x.zero, x.scale / y.scale, y).astype(np.int8)


def quantize_is_alike(x: Type, y: Type) -> bool:
    """Does XNNPACK's QUANTIZE, whose multiplier is a number of 256ths, give our 256 results?"""
    ratio = np.float32(x.scale) / np.float32(y.scale)
    if not QUANTIZES[0] <= ratio <= QUANTIZES[1]:
        return False
    theirs = (((BYTES - x.zero) * int(np.rint(256 * ratio)) + 128) >> 8) + y.zero
    return bool((np.clip(theirs, -128, 127) == requantised(x, y)).all())


def factor_of_one(x: Type, y: Type) -> tuple[int, float] | None:
    """(an integer, its scale) that mean 1, by which MUL gives our 256 results; None if there is none."""
    for factor in FACTORS:
        scale = np.float32(1 / factor)
        by = np.float32(x.scale) * scale / np.float32(y.scale)
        if MULTIPLIES[0] <= by < MULTIPLIES[1]:
            theirs = float_rounded((BYTES - x.zero) * factor, by, y)
            if (theirs == requantised(x, y)).all():
                return factor, float(scale)
    return None


@lru_cache(256)
def equal_weights(x: Type, y: Type, count: int) -> Ones | None:
    """Weights and a bias with which a depthwise convolution gives our mean of `count` elements; None if there are none.

    A small bias beside large weights moves exact halves up, a scale one float32 number lower moves them towards zero.
    """
    sums = np.arange(-255 * count, 255 * count + 1)
    ours = integer_rounded(sums, x.scale / y.scale / count, y)
    for factor, added, lower in WEIGHTS:
        scale = _lower(np.float32(1 / (count * factor)), lower)
        theirs = float_rounded(sums * factor + added, np.float32(x.scale) * scale / np.float32(y.scale), y)
        if (theirs == ours).all():
            return factor, added, float(scale)
    return None


def _lower(x: np.float32, steps: int) -> np.float32:
    """The float32 number that is this many before x."""
    return np.frombuffer(np.int32(x.view(np.int32) - steps).tobytes(), np.float32)[0]


def mean_is_alike(x: Type, y: Type, count: int) -> bool:
    """Does XNNPACK's MEAN, which adds the zero point before it rounds, give ours?"""
    sums = np.arange(-255 * count, 255 * count + 1)
    by = np.float32(x.scale) / np.float32(y.scale) * np.float32(1 / count)
    theirs = np.clip(np.rint(sums.astype(np.float32) * by + np.float32(y.zero)), -128, 127)
    return bool((theirs == integer_rounded(sums, x.scale / y.scale / count, y)).all())


def average_is_alike(x: Type, y: Type, count: int) -> bool:
    """Does AVERAGE_POOL_2D give our mean? Its type keeps the scale, and halves go away from zero."""
    return x.quant == y.quant and count % 2 == 1
