"""Scales chosen by the quantiser give the same integers in our arithmetic and in XNNPACK's, for every sum."""

from __future__ import annotations

import numpy as np
import pytest

from insitu.ops._fixed import pair_multipliers
from insitu.ops._requant import quantize_multipliers, requant_single
from insitu.quantizer.agree import agreeing_mean, agreeing_product, agreeing_sum, agreeing_weights

BYTES = np.arange(-128, 128)


def differing(real: np.ndarray, single: np.ndarray, ends: tuple[int, int], most: int, zero: int = 0) -> np.ndarray:
    """How many of all sums up to `most` get another integer in float32, for each multiplier."""
    sums = np.arange(-most, most + 1)
    m, shift = quantize_multipliers(real)
    ours = requant_single(sums, m[:, None], shift[:, None])
    theirs = np.rint(sums.astype(np.float32) * single.astype(np.float32)[:, None] + np.float32(zero)) - zero
    return (np.clip(ours, *ends) != np.clip(theirs, *ends)).sum(axis=1)


@pytest.mark.parametrize("ends", [(0, 255), (-131, 124)])
@pytest.mark.parametrize("bits", [8, 9])
def test_every_sum_of_products_rounds_alike(bits: int, ends: tuple[int, int]):
    rng = np.random.default_rng(bits)
    x, y = np.float32([0.0235, 0.0235 * 0.004 * 2**bits]).astype(np.float64)
    scale = rng.uniform(0.0035, 0.004, 20).astype(np.float32).astype(np.float64)

    def count(w):
        single = np.float32(x) * w.astype(np.float32) / np.float32(y)
        return differing(x * w / y, single, ends, int(260 * 2.0 ** (bits + 0.3)))

    chosen = agreeing_weights(scale, x, y, ends)
    assert count(scale).any() and not count(chosen).any()
    assert (chosen >= scale).all() and (chosen <= scale * (1 + 1e-4)).all()


def theirs_added(a: float, b: float, y: float) -> np.ndarray:
    """The sums of all pairs of bytes as XNNPACK computes them: multipliers of 21 bits, halves up."""
    ratios = np.float32([a, b]) / np.float32(y)
    shift = 21 - int(np.frexp(ratios.max())[1])
    ma, mb = np.rint(np.ldexp(ratios.astype(np.float64), shift)).astype(np.int64)
    return (ma * BYTES[:, None] + mb * BYTES + (1 << (shift - 1))) >> shift


def ours_added(a: float, b: float, y: float) -> np.ndarray:
    ma, mb, shift = pair_multipliers(a / y, b / y)
    return (ma * BYTES[:, None] + mb * BYTES + (1 << (shift - 1))) >> shift


def test_every_sum_of_two_values_rounds_alike():
    rng = np.random.default_rng(0)
    before = 0
    for _ in range(20):
        a, b = np.float32(rng.uniform(0.02, 0.3, 2)).tolist()
        y = float(np.float32(rng.uniform(0.6, 1.1) * (a + b)))
        chosen = agreeing_sum(a, b, y)
        before += int((ours_added(a, b, y) != theirs_added(a, b, y)).sum())
        np.testing.assert_array_equal(ours_added(a, b, chosen), theirs_added(a, b, chosen))
        assert y <= chosen <= 1.04 * y
    assert before


def test_products_and_means_that_are_halves_round_alike():
    chosen = agreeing_product(0.5, 0.5, 0.25 * 110, (-128, 127))
    single = np.float32(0.25) / np.float32([chosen])
    assert not differing(0.25 / np.array([chosen]), single, (-128, 127), 65025).any()
    assert differing(np.array([1 / 110]), np.float32([1 / 110]), (-128, 127), 65025).any()
    for count, zero in ((4, 0), (4, 5), (64, -7)):
        y = agreeing_mean(0.5, [count], 0.5, (-128 - zero, 127 - zero), zero)
        real, single = np.array([0.5 / y / count]), np.float32([0.5]) / np.float32(y) * np.float32(1 / count)
        assert not differing(real, single, (-128 - zero, 127 - zero), 255 * count, zero).any()
