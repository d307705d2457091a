"""Functions of numpy arrays that an op and its gradient share. No op is declared here."""

from __future__ import annotations

import math

import numpy as np

from insitu.graph import Type

erf = np.vectorize(math.erf, otypes=[np.float64])


def sigmoid_of(x):
    """1 / (1 + exp(-x)) without overflow."""
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)


def real(array, type: Type):
    """The real numbers of a value, as float64 if it is quantised."""
    if type.quant is None:
        return array
    return (array.astype(np.float64) - type.zero) * type.quant.scales(type.rank)


# output index i of `out` from `size` inputs -> the input coordinate as numerator and denominator: exact, without floats
COORDINATES = {
    "asymmetric": lambda i, size, out: (i * size, out),
    "half_pixel": lambda i, size, out: ((2 * i + 1) * size - out, 2 * out),
    "align_corners": lambda i, size, out: (i * (size - 1), max(out - 1, 1)),
}


ROUNDINGS = {
    "floor": lambda n, d: n // d,
    "ceil": lambda n, d: -(-n // d),
    "round_prefer_floor": lambda n, d: -((d - 2 * n) // (2 * d)),
    "round_prefer_ceil": lambda n, d: (2 * n + d) // (2 * d),
}


def nearest(size: int, out: int, coordinates: str, rounding: str) -> np.ndarray:
    """For each of `out` outputs, the input that it copies."""
    n, d = COORDINATES[coordinates](np.arange(out, dtype=np.int64), size, out)
    return np.clip(ROUNDINGS[rounding](n, d), 0, size - 1).astype(np.int32)
