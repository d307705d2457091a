"""Block floating numbers in numpy: the arithmetic that every op on integer gradients shares. No op is declared here.

A value is a pair: mantissas m (s16b or s8b) and one exponent e a block, an image row (s8[blocks]); it stands for
m * 2^e in real units. One rounding everywhere: to the nearest, halves up. docs/numerics.md has the rules, c/block.h
is the same in C.
"""

from __future__ import annotations

from math import frexp

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Type, s8

BITS = {"s16b": 15, "s8b": 7}  # of a mantissa's size; arithmetic is done on 15, s8b having zeros below its 7
SHARE = 15  # fractional bits of a factor of at most one
ZERO = -128  # the exponent of a block of zeros
LEAST, MOST = -120, 127  # exponents of other blocks; what would need a smaller one is zero, a larger one is infinite


def rounded(x, d):
    """x / 2^d to the nearest, halves up, for |x| < 2^31; a negative d multiplies."""
    x, d = np.asarray(x, np.int64), np.asarray(d, np.int64)
    right = np.clip(d, 1, 32)
    return np.where(d > 0, ((x >> (right - 1)) + 1) >> 1, x << np.clip(-d, 0, 31))


def bit_length(n: int) -> int:
    return int(n).bit_length()


def widened(m, e, type: Type):
    """Mantissas with 15 bits and exponents to go with them, both int64; mantissas by block: [blocks, elements]."""
    more = 15 - BITS[type.dtype]
    return m.astype(np.int64).reshape(type.blocks, -1) << more, e.astype(np.int64) - more


def lowest(type: Type) -> int:
    """The exponent of a block of zeros, widened."""
    return ZERO - (15 - BITS[type.dtype])


def packed(x, e, type: Type):
    """(mantissas of this type, exponents): each block of whole numbers x (|x| < 2^31) times 2^e, normalised."""
    rows = np.asarray(x, np.int64).reshape(type.blocks, -1)
    bits = BITS[type.dtype]
    most = np.abs(rows).max(axis=1)
    d = np.array([bit_length(n) for n in most], np.int64) - bits
    d += rounded(most, d) >> bits  # rounding up may take a bit more
    e = np.asarray(e, np.int64) + d
    nothing = (most == 0) | (e < LEAST)
    m = np.where(nothing[:, None], 0, rounded(rows, d[:, None]))
    e = np.where(nothing, ZERO, np.minimum(e, MOST))
    return m.astype(type.numpy).reshape(type.shape), e.astype(np.int8)


def single(e) -> np.ndarray:
    """The one exponent of a sum, as a value."""
    return np.array([np.clip(e, ZERO, MOST)], np.int8)


def shares(scales) -> tuple[np.ndarray, int]:
    """(u16 table, k) with scale = table / 2^15 * 2^k, the largest within a factor of two of 2^k."""
    scales = np.atleast_1d(np.asarray(scales, np.float64))
    fraction, k = frexp(scales.max())
    k -= fraction == 0.5  # a power of two is exact
    return np.floor(np.ldexp(scales, SHARE - k) + 0.5).astype(np.uint16), int(k)


def weight_shares(w: Type, channels: int) -> tuple[np.ndarray, int]:
    """The shares of a weight's scales, one a channel."""
    if w.dtype != "s8" or w.quant is None or w.quant.zero:
        raise GraphError(f"integer gradients want s8 weights with zero point 0, got {w}")
    return shares(np.broadcast_to(np.array(w.quant.scale), channels))


def headroom(terms: int, bits: int) -> int:
    """By how many bits numbers of 15 bits are shortened, so that sums of products with `bits` bits stay below 2^31."""
    return max(0, bit_length(terms) - (31 - 15 - bits))


def mantissas(dtype: str, shape) -> Type:
    return Type(dtype, tuple(shape))


def exponents(m: Type) -> Type:
    return s8(m.blocks)


def want_block(m: Type, e: Type) -> None:
    if m.dtype not in BITS or e != exponents(m):
        raise GraphError(f"{m} and {e} are no block floating value")


def pair(dtype: str, shape) -> tuple[Type, Type]:
    """The types of a block floating value."""
    m = mantissas(dtype, shape)
    return m, exponents(m)


def both(name: str, /, gradient, *others, **attrs) -> list[Case]:
    """A case for each width: a gradient of this shape, its exponents close together, one block of zeros among many."""
    made = []
    for dtype in BITS:
        m, e = pair(dtype, gradient)
        made.append(Case(f"{name}, {dtype}", (m, some_exponents(e.size), *others), attrs))
    return made


def some_exponents(blocks: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(blocks + seed)
    e = rng.integers(-26, -18, blocks).astype(np.int8)
    if blocks > 3:
        e[2] = ZERO
    return e
