"""The tables of ops that listen: window, twiddles, mel bands, logarithm, cosines. No op is declared here.

All are integers. The kernels and the numpy meaning read the same tables, so both give the same bytes.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from insitu.errors import GraphError

FULL = 1 << 15  # a sample of 1.0
WINDOW_BITS = 15
INPUT_BITS = 13  # fraction bits of samples when a transform starts
LOG_BITS = 9  # fraction bits of a binary logarithm
TABLE_BITS = 15  # fraction bits of the tables of logarithms and powers
LOG_STEPS = 6  # bits of the mantissa that choose an entry of the table of logarithms
NEAREST = 1 << 31

WINDOWS = {
    "hann": lambda n: 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n) / n),
    "hamming": lambda n: 0.54 - 0.46 * np.cos(2 * np.pi * np.arange(n) / n),
    "none": np.ones,
}


def points(window: int) -> int:
    """The length of the transform of a window: the next power of two, at least 16."""
    return max(16, 1 << (window - 1).bit_length())


def spectrum_scale(n: int) -> float:
    """The unit of an amplitude, for samples between -1 and 1: all passes of the transform but the first two halve."""
    return 2.0 * (n // 2) / 4 / (1 << INPUT_BITS) / FULL


@cache
def window_table(shape: str, length: int) -> np.ndarray:
    """int16: a window that repeats after `length`, as for spectra, with 15 fraction bits."""
    if shape not in WINDOWS:
        raise GraphError(f"there is no window {shape!r}", hint=", ".join(WINDOWS))
    rounded = np.rint(WINDOWS[shape](length) * (1 << WINDOW_BITS))
    return np.clip(rounded, 0, (1 << WINDOW_BITS) - 1).astype(np.int16)


@cache
def twiddles(n: int) -> np.ndarray:
    """int32 [n / 2, 2]: cos and -sin of 2 pi k / n, with 31 fraction bits."""
    angle = 2 * np.pi * np.arange(n // 2) / n
    both = np.stack([np.cos(angle), -np.sin(angle)], axis=1)
    return np.clip(np.rint(both * NEAREST), -NEAREST, NEAREST - 1).astype(np.int32)


@cache
def reversed_bits(count: int) -> np.ndarray:
    """uint16: where each of `count` (a power of two) numbers goes before the passes of a transform."""
    bits, order = count.bit_length() - 1, np.zeros(1, np.int64)
    for _ in range(bits):
        order = np.concatenate([2 * order, 2 * order + 1])
    return order.astype(np.uint16)


def mel(hertz: float | np.ndarray) -> np.ndarray:
    """The pitch of a frequency on the mel scale of HTK, TensorFlow and most others."""
    return 1127.0 * np.log1p(np.asarray(hertz, np.float64) / 700.0)


def mel_weights(bands: int, n: int, rate: int, low: float, high: float) -> np.ndarray:
    """[bands, n / 2 + 1]: triangles of height 1 with their corners at equal distances in mel; bin 0 counts nowhere."""
    if not 0 <= low < high <= rate / 2 or bands < 1:
        what = f"{bands} bands from {low} to {high} Hz do not fit a rate of {rate} Hz"
        raise GraphError(what, hint="0 <= low < high <= rate / 2")
    at = mel(np.linspace(0, rate / 2, n // 2 + 1))[None, 1:]
    corner = np.linspace(mel(low), mel(high), bands + 2)[:, None]
    up, down = (at - corner[:-2]) / np.diff(corner, axis=0)[:-1], (corner[2:] - at) / np.diff(corner, axis=0)[1:]
    return np.pad(np.maximum(0, np.minimum(up, down)), ((0, 0), (1, 0)))


@cache
def band_tables(bands: int, n: int, rate: int, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """(uint16 [bands, 2]: first bin and number of bins; uint16 weights with 15 fraction bits, band after band)."""
    weights = np.rint(mel_weights(bands, n, rate, low, high) * (1 << WINDOW_BITS)).astype(np.int64)
    spans, parts = [], []
    for row in weights:
        used = np.flatnonzero(row)
        if not len(used):
            what = f"{bands} bands from {low} to {high} Hz are too narrow: one contains no frequency of the spectrum"
            raise GraphError(what, hint="fewer bands, or a longer window")
        spans.append((used[0], used[-1] + 1 - used[0]))
        parts.append(row[used[0] : used[-1] + 1])
    return np.array(spans, np.uint16), np.concatenate(parts).astype(np.uint16)


def bins_used(bands: int, n: int, rate: int, low: float, high: float) -> int:
    """How many bins of a spectrum the bands look at, from bin 0 on."""
    spans, _ = band_tables(bands, n, rate, low, high)
    return int(spans.sum(axis=1).max())


@cache
def log_table() -> np.ndarray:
    """uint16 [65]: log2(1 + i / 64) with 15 fraction bits; between two entries it is a straight line."""
    steps = 1 << LOG_STEPS
    return np.rint(np.log2(1 + np.arange(steps + 1) / steps) * (1 << TABLE_BITS)).astype(np.uint16)


def log2(x: np.ndarray) -> np.ndarray:
    """The binary logarithm of uint64 numbers (of 0: that of 1) as integers with LOG_BITS fraction bits."""
    less = TABLE_BITS - LOG_BITS
    return (log2_fine(x) + (1 << less - 1)) >> less


def log2_fine(x: np.ndarray) -> np.ndarray:
    """The same with TABLE_BITS fraction bits."""
    x = np.maximum(x, np.uint64(1))
    bits = bit_lengths(x)
    mantissa = (x << (np.uint64(64) - bits)) >> np.uint64(32)  # from 2^31 to 2^32
    entry = ((mantissa >> np.uint64(31 - LOG_STEPS)) & np.uint64((1 << LOG_STEPS) - 1)).astype(np.int64)
    share = ((mantissa >> np.uint64(15 - LOG_STEPS)) & np.uint64(0xFFFF)).astype(np.int64)
    table = log_table().astype(np.int64)
    fraction = table[entry] + (((table[entry + 1] - table[entry]) * share) >> 16)
    return ((bits.astype(np.int64) - 1) << TABLE_BITS) + fraction


@cache
def power_table() -> np.ndarray:
    """uint16 [65]: 2^(i / 64) - 1 with 15 fraction bits; between two entries it is a straight line."""
    steps = 1 << LOG_STEPS
    return np.rint((2.0 ** (np.arange(steps + 1) / steps) - 1) * (1 << TABLE_BITS)).astype(np.uint16)


def exp2(x: np.ndarray) -> np.ndarray:
    """2 to the power of numbers from 0 to 30 with TABLE_BITS fraction bits, rounded to integers (int64)."""
    whole, part = x >> TABLE_BITS, x & ((1 << TABLE_BITS) - 1)
    less, table = TABLE_BITS - LOG_STEPS, power_table().astype(np.int64)
    entry, share = part >> less, part & ((1 << less) - 1)
    mantissa = (1 << TABLE_BITS) + table[entry] + (((table[entry + 1] - table[entry]) * share) >> less)
    return ((mantissa << whole) + (1 << TABLE_BITS - 1)) >> TABLE_BITS


def bit_lengths(x: np.ndarray) -> np.ndarray:
    """uint64: the number of bits of each number."""
    bits = np.zeros(x.shape, np.uint64)
    for step in map(np.uint64, (32, 16, 8, 4, 2, 1)):
        more = np.where((x >> step) > 0, step, np.uint64(0))
        x, bits = x >> more, bits + more
    return bits + x


COSINE_BITS = 16


@cache
def cosine_table(count: int, bands: int) -> np.ndarray:
    """int16 [count, bands]: the rows of the orthonormal DCT-II as signal libraries scale it, 16 fraction bits.

    The first row is not divided by sqrt(2): cepstra of HTK and TensorFlow have all rows alike.
    """
    rows = np.cos(np.pi * np.arange(count)[:, None] * (np.arange(bands) + 0.5) / bands)
    return np.clip(np.rint(rows * np.sqrt(2 / bands) * (1 << COSINE_BITS)), -32767, 32767).astype(np.int16)
