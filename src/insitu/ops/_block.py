"""Block floating numbers in numpy: the arithmetic that every op on integer gradients shares. No op is declared here.

A value is a pair: mantissas m (s16b or s8b) and one exponent e per block, 16 channels of an image row (s8[blocks]). It
represents m * 2^e in real units. docs/numerics.md has the rules, c/numbers/block.h is the same in C.
"""

from __future__ import annotations

from math import frexp

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Type, s8
from insitu.graph.types import GROUP

BITS = {"s16b": 15, "s8b": 7}  # magnitude bits of a mantissa; arithmetic uses 15, with zeros below the 7 of s8b
SHARE = 15  # fractional bits of a factor of at most one
ZERO = -128  # the exponent of a block of zeros
LEAST, MOST = -120, 127  # exponents of other blocks; a smaller one gives zero, a larger one infinity


def rounded(x, d):
    """x / 2^d to the nearest, ties up, for |x| < 2^31; a negative d multiplies."""
    x, d = np.asarray(x, np.int64), np.asarray(d, np.int64)
    right = np.clip(d, 1, 32)
    return np.where(d > 0, ((x >> (right - 1)) + 1) >> 1, x << np.clip(-d, 0, 31))


def rounded_even(x, d):
    """The same with ties to even: for numbers with so few extra bits that ties are common."""
    x, d = np.asarray(x, np.int64), np.asarray(d, np.int64)
    right = np.clip(d, 1, 32)
    half = (np.int64(1) << (right - 1)) - 1 + (x >> right & 1)
    return np.where(d > 0, (x + half) >> right, x << np.clip(-d, 0, 31))


def bit_length(n: int) -> int:
    return int(n).bit_length()


def by_rows(x, type: Type) -> np.ndarray:
    """Elements as int64[rows, pixels, channels]."""
    return np.asarray(x, np.int64).reshape(type.rows, -1, type.shape[-1])


def by_blocks(x, type: Type) -> np.ndarray:
    """Elements as int64[rows, groups, elements of a block], with zeros if the last group has fewer channels."""
    x = by_rows(x, type)
    full = np.zeros((*x.shape[:2], type.groups * GROUP), np.int64)
    full[..., : x.shape[2]] = x
    return full.reshape(*x.shape[:2], type.groups, GROUP).swapaxes(1, 2).reshape(type.rows, type.groups, -1)


def a_channel(e, channels: int) -> np.ndarray:
    """Numbers per group (the last axis) as numbers per channel."""
    return np.repeat(e, GROUP, axis=-1)[..., :channels]


def widened(m, e, type: Type):
    """Mantissas with 15 bits, [rows, pixels, channels], and the exponents of their blocks, [rows, groups]; int64."""
    more = 15 - BITS[type.dtype]
    return by_rows(m, type) << more, e.astype(np.int64).reshape(type.rows, type.groups) - more


def lowest(type: Type) -> int:
    """The exponent of a block of zeros, widened."""
    return ZERO - (15 - BITS[type.dtype])


def packed(x, e, type: Type, rounded=rounded):
    """(mantissas of this type, exponents): each block of integers x (|x| < 2^31) times 2^e, normalised.

    If b is the smallest number of bits with -2^b <= x < 2^b for the block, x loses its lowest b - 15 (or 7) bits.
    """
    blocks, bits = by_blocks(x, type), BITS[type.dtype]
    reach = np.maximum(blocks, ~blocks).max(axis=2)
    d = np.array([[bit_length(n) for n in row] for row in reach], np.int64) - bits
    e = np.asarray(e, np.int64).reshape(type.rows, -1) + d
    nothing = ~blocks.any(axis=2) | (e < LEAST)
    m = np.minimum(rounded(by_rows(x, type), a_channel(d, type.shape[-1])[:, None]), (1 << bits) - 1)
    m = np.where(a_channel(nothing, type.shape[-1])[:, None], 0, m)
    e = np.where(nothing, ZERO, np.minimum(e, MOST))
    return m.astype(type.numpy).reshape(type.shape), e.astype(np.int8).reshape(-1)


def exponents_of(e) -> np.ndarray:
    """The exponents of sums, as a value."""
    return np.clip(np.atleast_1d(e), ZERO, MOST).astype(np.int8)


def shares(scales, most: int = (1 << SHARE) - 1) -> tuple[np.ndarray, int]:
    """(s16 table, k) with scale = table / 2^15 * 2^k, and the least k for which the table is at most `most`."""
    scales = np.atleast_1d(np.asarray(scales, np.float64))
    k = frexp(scales.max())[1] - 1
    while True:
        table = np.floor(np.ldexp(scales, SHARE - k) + 0.5)
        if table.max() <= most:
            return table.astype(np.int32 if most >> SHARE else np.int16), int(k)
        k += 1


def weight_scales(w: Type, channels: int) -> np.ndarray:
    """The scale of each channel of weights."""
    if w.dtype != "s8" or w.quant is None or w.quant.zero:
        raise GraphError(f"integer gradients need s8 weights with zero point 0, not {w}")
    return np.broadcast_to(np.array(w.quant.scale), channels)


def weight_shares(w: Type, channels: int) -> tuple[np.ndarray, int]:
    """The shares of a weight's scales, one per channel."""
    return shares(weight_scales(w, channels))


def group_shares(w: Type, channels: int) -> tuple[np.ndarray, np.ndarray]:
    """The same with one power of two per group of channels: enough for sums within one channel."""
    scales = weight_scales(w, channels)
    found = [shares(scales[at : at + GROUP]) for at in range(0, channels, GROUP)]
    return np.concatenate([table for table, _ in found]), np.array([k for _, k in found], np.int16)


def headroom(terms: int, bits: int) -> int:
    """How many bits 15-bit numbers lose, so that sums of products with `bits` bits stay below 2^31."""
    return max(0, bit_length(terms) - (31 - 15 - bits))


def mantissas(dtype: str, shape) -> Type:
    return Type(dtype, tuple(shape))


def exponents(m: Type) -> Type:
    return s8(m.blocks)


def want_block(m: Type, e: Type) -> None:
    if m.dtype not in BITS or e != exponents(m):
        raise GraphError(f"{m} and {e} are not a block floating value")


def pair(dtype: str, shape) -> tuple[Type, Type]:
    """The types of a block floating value."""
    m = mantissas(dtype, shape)
    return m, exponents(m)


def both(name: str, /, gradient, *others, at=None, **attrs) -> list[Case]:
    """One case per width: a gradient of this shape, its exponents `at` these, or by default close together with one
    block of zeros among many."""
    made = []
    for dtype in BITS:
        m, e = pair(dtype, gradient)
        known = some_exponents(e.size) if at is None else np.array(at, np.int8)
        made.append(Case(f"{name}, {dtype}", (m, known, *others), attrs))
    return made


def some_exponents(blocks: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(blocks + seed)
    e = rng.integers(-26, -18, blocks).astype(np.int8)
    if blocks > 3:
        e[2] = ZERO
    return e
