"""Numbers written as C read back as the same numbers, and writing many of them is quick."""

import re
from time import process_time

import numpy as np
import pytest

from insitu.codegen import c


def floats(count: int) -> np.ndarray:
    """Every exponent, integers, zeros, the ends of the range and NaN."""
    bits = np.random.default_rng(0).integers(0, 1 << 32, count, np.uint32)
    ends = [0.0, -0.0, 1.0, -3.0, 1e10, 1 << 24, 3.4028235e38, 1e-45, np.inf, -np.inf, np.nan]
    return np.concatenate([bits.view(np.float32), np.array(ends, np.float32)])


def read(word: str) -> np.float32:
    """Read like a C compiler: a float literal has a point or an exponent."""
    if "/" in word:
        a = float(word.partition("/")[0].strip(" ()f"))
        return np.float32(np.nan if a == 0 else np.inf * a)
    assert re.fullmatch(r"-?\d+(\.\d+(e[+-]?\d+)?|e[+-]?\d+)f", word), word
    return np.float32(word.removesuffix("f"))


@pytest.mark.parametrize("count", [40, 5000])
def test_floats_read_back_as_they_were(count):
    array = floats(count)
    array[np.isnan(array)] = np.nan  # C writes only one kind of NaN
    body = c.array("w", array).partition("{")[2].partition("}")[0]
    again = np.array([read(w.strip()) for w in body.split(",")], np.float32)
    numbers = ~np.isnan(array)
    assert again[numbers].tobytes() == array[numbers].tobytes() and np.isnan(again[~numbers]).all()


def test_many_floats_are_written_about_as_fast_as_python_formats_them():
    array = np.random.default_rng(0).normal(size=20_000).astype(np.float32)

    def seconds(work) -> float:
        start = process_time()
        work()
        return process_time() - start

    plain = min(seconds(lambda: ["%.9g" % x for x in array.tolist()]) for _ in range(5))  # noqa: UP031
    assert min(seconds(lambda: c.array("w", array)) for _ in range(5)) < 4 * plain
