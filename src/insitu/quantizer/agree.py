"""Scales with which other runtimes round as we do, in every result.

We multiply a sum by a 31-bit integer and round halves up; XNNPACK, LiteRT's default, multiplies in float32 and rounds
halves to even. We add with multipliers of 16 bits, XNNPACK with 21. With the same scales, one result in a million
differs after a convolution and one in 3,000 after a sum, and each difference spreads through the layers behind.

Neither kind of rounding falls when the sum rises, so they are equal in every result if they step at the same sums:
ours steps to k at the first sum that is at least (k - 1/2) / M. A scale that fails is replaced by the next larger one
that passes: a few float32 neighbours for a product, up to a few percent for a sum. Nothing here knows graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from insitu.ops._fixed import pair_multipliers

Ends = tuple[int, int]  # the lowest and the highest result, without the zero point
Reals = Callable[[np.ndarray], list[tuple[np.ndarray, np.ndarray]]]
DEEPEST = 2.0**-22  # a smaller multiplier is that of a dead channel: its results never leave zero
ROUNDED = 2.0**-31  # the largest share by which a 31-bit integer differs from its multiplier
TRIES = 512  # float32 neighbours of a scale
TOGETHER = 256  # scales that are tried at a time
WIDEST = 1.04  # how much larger a sum's scale may become
BITS = 20  # XNNPACK's larger multiplier of a sum is at least 2^20


def rounds_alike(real: np.ndarray, single: np.ndarray, ends: Ends, zero: int = 0) -> np.ndarray:
    """Does every integer sum times `single` in float32 give the integer that it gives times `real` in 31 bits?

    Results are lo..hi, without the zero point; `zero` if the runtime adds it before it rounds.
    """
    steps = np.arange(ends[0] + 1, ends[1] + 1, dtype=np.float32)
    at = (steps - 0.5) / real[..., None]
    first, by = np.ceil(at), single.astype(np.float32)[..., None]
    near = np.abs(at - np.rint(at)) <= 1e-6 + np.abs(at) * ROUNDED  # a tie, or too near to one to tell
    above, below = (np.rint(n.astype(np.float32) * by + np.float32(zero)) - zero for n in (first, first - 1))
    return ((above >= steps) & (below < steps) & ~near).all(axis=-1) | (real < DEEPEST)


def neighbours(scale: np.ndarray, start: int, count: int) -> np.ndarray:
    """[N, count]: the float32 numbers from the start-th after each scale on."""
    bits = scale.astype(np.float32).view(np.int32)[:, None] + np.arange(start, start + count, dtype=np.int32)
    return bits.view(np.float32).astype(np.float64)


def agreeing(scale: np.ndarray, reals: Reals, ends: Ends, zero: int = 0) -> np.ndarray:
    """Each scale, or the next float32 one for which all kinds of rounding agree; itself if none does.

    reals(scales)    pairs of a multiplier for these scales and another runtime's float32 form of it
    """
    found, left = scale.copy(), np.arange(len(scale))
    start = 0
    while len(left) and start < TRIES:
        count = int(np.clip(TOGETHER // len(left), 1, 64))
        tried = neighbours(scale[left], start, count)
        passes = np.logical_and.reduce([rounds_alike(*pair, ends, z) for pair in reals(tried) for z in {0, zero}])
        some = passes.any(axis=1)
        found[left[some]] = tried[some, passes[some].argmax(axis=1)]
        left, start = left[~some], start + count
    return found


def agreeing_weights(scale: np.ndarray, x: float, y: float, ends: Ends) -> np.ndarray:
    """The scales of weights whose products with x become y."""

    def reals(w):
        return [(x * w / y, np.float32(x) * w.astype(np.float32) / np.float32(y))]

    return agreeing(scale, reals, ends)


def agreeing_product(a: float, b: float, y: float, ends: Ends) -> float:
    """The scale of a product of two values."""

    def reals(scale):
        return [(a * b / scale, np.float32(a) * np.float32(b) / scale.astype(np.float32))]

    return float(agreeing(np.array([y]), reals, ends)[0])


def agreeing_mean(x: float, counts: Iterable[int], y: float, ends: Ends, zero: int) -> float:
    """The scale of means of so many elements.

    Runtimes compute a mean in different orders, and some add the zero point before they round.
    """
    f = np.float32(x)

    def reals(scale):
        single, found = scale.astype(np.float32), []
        for n in counts:
            share, real = np.float32(1 / n), x / scale / n
            found += [(real, f / single * share), (real, f * share / single), (real, f / (single * np.float32(n)))]
        return found

    return float(agreeing(np.array([y]), reals, ends, zero)[0])


def agreeing_sum(a: float, b: float, y: float) -> float:
    """The scale of a sum with which our 16-bit multipliers are XNNPACK's 21-bit ones; y itself if there is none."""
    return next((scale for scale in _sum_scales(max(a, b), y) if sums_alike(a, b, scale)), y)


def _sum_scales(larger: float, y: float) -> Iterator[float]:
    """y, and the scales above it with which the larger multiplier is exact."""
    yield y
    m, _, s = pair_multipliers(larger / y, 0.0)
    while m > 0 and larger * 2.0**s <= WIDEST * y * m:
        yield float(np.float32(larger * 2.0**s / m))
        m -= 1


def sums_alike(a: float, b: float, y: float) -> bool:
    """Are both multipliers of a sum the same in XNNPACK?"""
    ratios = np.float32(a) / np.float32(y), np.float32(b) / np.float32(y)
    ma, mb, s = pair_multipliers(a / y, b / y)
    more = BITS - (int(np.frexp(max(ratios))[1]) - 1) - s
    return [ma << more, mb << more] == [int(np.rint(np.ldexp(float(r), s + more))) for r in ratios]
