"""Our exp, log, tanh, erf and sqrt in C: errors in units in the last place, over all magnitudes, against float64."""

import ctypes
import math

import numpy as np
import pytest

from insitu.toolchain.compiler import NATIVE, SCALAR, build_library

ULPS = {"exp": 1, "log": 1, "tanh": 3, "erf": 2, "sigmoid": 3, "sqrt": 0.5}
MEANING = {
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "erf": np.vectorize(math.erf),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sqrt": np.sqrt,
}
POSITIVE = ("log", "sqrt")


def computed(function: str, x: np.ndarray, flag: str) -> np.ndarray:
    name = f"{function}_f32"
    kernel = getattr(ctypes.CDLL(str(build_library({"none.c": "typedef int none;\n"}, (name,), (flag,)))), name)
    y = np.empty_like(x)
    kernel(ctypes.c_void_p(y.ctypes.data), ctypes.c_void_p(x.ctypes.data), ctypes.c_int32(x.size))
    return y


def floats(function: str) -> np.ndarray:
    """Every 4001st float, except those whose result overflows."""
    x = np.arange(0, 1 << 32, 4001, dtype=np.uint64).astype(np.uint32).view(np.float32)
    x = x[np.isfinite(x)]
    if function in POSITIVE:
        return x[x > 0]
    return x[(x > -80) & (x < 88)] if function in ("exp", "sigmoid") else x


@pytest.mark.parametrize("flag", [NATIVE, SCALAR])
@pytest.mark.parametrize("function", ULPS)
def test_error_in_units_in_the_last_place(function, flag):
    x = floats(function)
    want = MEANING[function](x.astype(np.float64))
    error = np.abs(computed(function, x, flag) - want) / np.spacing(np.abs(want).astype(np.float32))
    assert error.max() <= ULPS[function]


@pytest.mark.parametrize("function", ULPS)
def test_both_builds_give_the_same_bits(function):
    x = floats(function)
    np.testing.assert_array_equal(computed(function, x, NATIVE), computed(function, x, SCALAR))


def test_edges_are_ieee():
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], np.float32)
    with np.errstate(all="ignore"):
        for function in ("exp", "log", "tanh", "sqrt"):
            np.testing.assert_array_equal(computed(function, x, NATIVE), MEANING[function](x).astype(np.float32))


@pytest.mark.parametrize("function", POSITIVE)
def test_below_zero_is_not_a_number(function):
    assert np.isnan(computed(function, np.array([-1.0, -1e-40], np.float32), NATIVE)).all()
