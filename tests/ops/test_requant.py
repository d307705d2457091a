"""Requantisation at its limits: every shift, sums at the limits of int32, ties, multipliers too small to matter."""

import numpy as np
import pytest

import insitu.ops  # noqa: F401  fills the registry
from insitu.devices.host import open_host
from insitu.graph import build, evaluate, lookup, s8, s32
from insitu.ops._requant import quantize_multiplier, requant_litert, requant_single
from insitu.toolchain.compiler import NATIVE, SCALAR

CHANNELS = 331  # not a multiple of 16
RAILS = (2**31 - 1, -(2**31), 2**30, -(2**30), 0, 1, -1)


def extreme_linear(rounding: str, shifts: range):
    """y = requantised bias, one multiplier per channel: powers of two (ties) and others, over these shifts."""
    rng = np.random.default_rng(len(shifts))
    shift = rng.choice(np.array(shifts), CHANNELS)
    scales = np.ldexp(rng.choice([0.5, 0.75, 1 - 2.0**-30, 0.6180339887], CHANNELS), shift)
    size = rng.integers(0, 31, CHANNELS)
    bias = rng.integers(-(2**31), 2**31, CHANNELS) >> size
    near = np.clip(np.ldexp(rng.integers(-300, 300, CHANNELS) + 0.5, -shift), -(2**31), 2**31 - 1)  # a tie, or close
    bias = np.where(rng.random(CHANNELS) < 0.5, near, bias).astype(np.int64)
    bias[: len(RAILS)] = RAILS
    with build("extreme") as b:
        x = b.input("x", s8(1, 1, s=1.0))
        w = b.constant("w", np.zeros((CHANNELS, 1), np.int8), s8(CHANNELS, 1, s=scales, axis=0))
        c = b.constant("b", bias.astype(np.int32), s32(CHANNELS))
        y = lookup("linear_s8")(x, w, c, rounding=rounding, lo=-120, hi=125, out=s8(s=1.0, z=-7))
        return b.graph(y)


@pytest.mark.parametrize("flag", [NATIVE, SCALAR])
@pytest.mark.parametrize("rounding", ["single", "litert"])
@pytest.mark.parametrize("shifts", [range(-40, 1), range(-12, 0), range(-31, 4)], ids=str)
def test_c_requantises_as_numpy_does_at_every_shift(shifts, rounding, flag):
    graph = extreme_linear(rounding, shifts)
    x = np.zeros((1, 1), np.int8)
    np.testing.assert_array_equal(open_host(graph, flags=(flag,)).predict(x), evaluate(graph, x))


def test_single_rounds_once_and_litert_twice():
    m, shift = quantize_multiplier(2.0**-3)
    assert (m, shift) == (2**30, -2)
    assert requant_single(np.array([4, -4, 12, -12]), m, shift).tolist() == [1, 0, 2, -1]  # half up
    assert requant_litert(np.array([4, -4, 12, -12]), m, shift).tolist() == [1, -1, 2, -2]  # half away from zero
    assert requant_litert(np.array([3]), m, shift).tolist() == [1]  # 0.375: first 3/2 becomes 2, then 2/4 becomes 1


def test_a_multiplier_below_two_to_the_minus_32_is_zero():
    assert quantize_multiplier(2.0**-33) == (0, 0)
    assert quantize_multiplier(2.0**-32)[0] == 2**30
