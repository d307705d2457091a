"""Integer gradients, element by element: block floating values from floats and back, masked, added, spread, summed.

Twins of the f32 gradient ops of the same name; training/integer_gradients.py puts them in their place. What a block
is, and which number a mantissa stands for: docs/numerics.md. Convolutions: block_conv.py.
"""

from __future__ import annotations

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Type, f32, op, quant
from insitu.graph.call import Call
from insitu.ops._block import (
    BITS,
    LEAST,
    MOST,
    SHARE,
    ZERO,
    bit_length,
    both,
    exponents,
    packed,
    pair,
    rounded,
    shares,
    single,
    some_exponents,
    want_block,
    widened,
)
from insitu.ops.mask import channels_of, mask_type

GUARD = 14  # bits below the mantissas that a sum of two keeps until it is rounded
EXTREMES = [np.inf, -1e-3, 3e38, -2e-45, 1e-39, 1.0]


def float_parts(g: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(whole number of 24 bits with its sign, exponent, is it finite) of float32s; what is below 2^-126 is 0."""
    bits = np.ascontiguousarray(g, np.float32).view(np.uint32).astype(np.int64)
    exponent = bits >> 23 & 255
    whole = np.where(exponent == 0, 0, bits & 0x7FFFFF | 0x800000)
    return np.where(bits >> 31, -whole, whole), exponent - 150, exponent < 255


def power(e) -> np.ndarray:
    """2^e as float32; 0 below what a float has, infinite above."""
    e = np.asarray(e, np.int64)
    with np.errstate(over="ignore"):
        return np.where(e < -126, 0, np.ldexp(1.0, np.clip(e, -126, 128))).astype(np.float32)


@op(kind="int8")
class to_block:
    """(m, e) = g as block floating numbers, each block with the smallest exponent that holds its largest number

    Where a block has a number that is not finite, its exponent is the largest there is, and only those are not 0.
    """

    cases = [
        Case(f"{name}, {dtype}", (g,), {"dtype": dtype})
        for dtype in BITS
        for name, g in {
            "image": f32(1, 3, 4, 5),
            "rows": f32(2, 7),
            "rounds up to a bit more": np.array([[1.9999999, -1.9999999, 1e-3]], np.float32),
            "zeros": np.zeros((1, 2, 1, 3), np.float32),
            "extremes": np.array(EXTREMES, np.float32).reshape(1, 2, 1, 3),
            "tiny": np.array([[1e-38, -3e-38], [1e-39, -1e-40]], np.float32),
        }.items()
    ]

    def infer(g, *, dtype):
        if g.dtype != "f32" or dtype not in BITS:
            raise GraphError(f"{g} cannot become {dtype}")
        return pair(dtype, g.shape)

    def eval(g, *, dtype, node):
        m = node.output.type
        whole, exponent, finite = (x.reshape(m.blocks, -1) for x in float_parts(g))
        highest = np.where(whole != 0, exponent, -1000).max(axis=1, keepdims=True)
        top = np.where(exponent == highest, np.abs(whole), 0)  # the largest number of each block decides
        _, e = packed(np.broadcast_to(top.max(axis=1)[:, None], top.shape), highest[:, 0], m)
        d = np.where(e == ZERO, 99, e - highest[:, 0])[:, None] + np.where(whole != 0, highest - exponent, 0)
        found = rounded(whole, d)
        endless = ~finite.all(axis=1)
        limit = (1 << BITS[dtype]) - 1
        found = np.where(endless[:, None], np.where(finite, 0, np.sign(whole) * limit), found)
        e = np.where(endless, MOST, e).astype(np.int8)
        return found.astype(m.numpy).reshape(m.shape), e

    def emit(m, e, g):
        return Call(f"to_block_{m.dtype}", m, e, g, m.type.blocks, m.type.size // m.type.blocks)


@op(kind="int8")
class from_block:
    """g = scale * m * 2^e in f32: a block floating value, or a sum of products (s32b, whose type has a scale)"""

    cases = [
        *both("image", (1, 5, 2, 3)),
        Case("sums", (Type("s32b", (3, 1, 1, 5), quant(0.03)), some_exponents(1))),
        Case("too large", (Type("s32b", (7,)), np.array([127], np.int8))),
    ]

    def infer(m, e):
        if e != exponents(m) or (m.dtype != "s32b" and m.dtype not in BITS):
            raise GraphError(f"{m} and {e} are no block floating value")
        return f32(*m.shape)

    def eval(m, e, *, node):
        t = node.inputs[0].type
        with np.errstate(over="ignore"):
            real = m.reshape(t.blocks, -1).astype(np.float32) * power(e)[:, None]
            return (real * np.float32(t.scale) if t.quant else real).reshape(m.shape)

    def emit(g, m, e):
        t = m.type
        factor = [t.scale if t.quant else 1.0] if t.dtype == "s32b" else []
        return Call(f"from_block_{t.dtype}", g, m, e, *factor, t.blocks, t.size // t.blocks)

    def in_place(g, m, e):
        return 0 if m.dtype == "s32b" else None


@op(kind="int8")
class mask_grad_block:
    """y = m where the mask's bit is one, else 0; the exponents stay"""

    cases = [
        Case(f"{name}, {dtype}", (Type(dtype, shape), Type("u8", mask)))
        for dtype in BITS
        for name, shape, mask in (("image", (1, 2, 3, 5), (6, 1)), ("whole bytes", (3, 16), (3, 2)))
    ]

    def infer(m, mask):
        if m.dtype not in BITS or mask != mask_type(m):
            raise GraphError(f"{mask} is no mask of {m}")
        return m

    def eval(m, mask):
        rows = m.reshape(mask.shape[0], -1)
        bits = np.unpackbits(mask, axis=1, count=rows.shape[1], bitorder="little")
        return np.where(bits, rows, rows.dtype.type(0)).reshape(m.shape)

    def emit(y, m, mask):
        return Call(f"mask_grad_{m.dtype}", y, m, mask, mask.shape[0], channels_of(m.type))

    def in_place(y, m, mask):
        return 0


@op(kind="int8")
class add_block:
    """(m, e) = a + b: block by block at the larger exponent, with 14 bits below, then normalised"""

    cases = [
        Case(f"{name}, {dtype}", (Type(dtype, shape), ea, Type(dtype, shape), eb))
        for dtype in BITS
        for name, shape, ea, eb in (
            ("image", (1, 5, 2, 3), some_exponents(5), some_exponents(5, 1)),
            ("apart", (4, 7), np.array([-20, -5, -60, -20], np.int8), np.array([-33, -20, -20, -36], np.int8)),
            ("ends", (3, 2), np.array([127, -128, -120], np.int8), np.array([127, -128, -121], np.int8)),
        )
    ]

    def infer(a, ae, b, be):
        want_block(a, ae)
        if (b, be) != (a, ae):
            raise GraphError(f"{a} and {b} are of two kinds")
        return a, ae

    def eval(a, ae, b, be, *, node):
        t = node.output.type
        (x, ex), (y, ey) = widened(a, ae, t), widened(b, be, t)
        e = np.maximum(ex, ey)
        total = rounded(x << GUARD, (e - ex)[:, None]) + rounded(y << GUARD, (e - ey)[:, None])
        return packed(total, e - GUARD, t)

    def emit(m, e, a, ae, b, be):
        return Call(f"add_{m.dtype}", m, e, a, ae, b, be, m.type.blocks, m.type.size // m.type.blocks)

    def in_place(m, e, a, ae, b, be):
        return 0, 1


@op(kind="int8")
class expand_block:
    """factor * g for every pixel of an image: the gradient of its mean (g[N,C] or [N,1,1,C] -> shape [N,H,W,C])"""

    cases = [
        *both("sixteenth", (1, 5), shape=(1, 4, 4, 5), factor=1 / 16),
        *both("twelfth", (2, 1, 1, 5), shape=(2, 3, 4, 5), factor=1 / 12),
    ]

    def infer(m, e, *, shape, factor=1.0):
        want_block(m, e)
        if len(shape) != 4 or m.shape[0] != shape[0] or m.size != shape[0] * shape[3] or not factor > 0:
            raise GraphError(f"{m} is no mean of each image of {shape}")
        return pair(m.dtype, shape)

    def eval(m, e, *, shape, factor):
        n, h, _, c = shape
        share, k = shares(factor)
        x = rounded(m.astype(np.int64).reshape(n, 1, 1, c) * int(share[0]), SHARE)
        e = np.where(e < LEAST, ZERO, np.clip(e.astype(np.int64) + k, ZERO, MOST))
        return np.broadcast_to(x, shape).astype(m.dtype), np.repeat(e, h).astype(np.int8)

    def emit(y, ye, m, e, *, shape, factor):
        n, h, w, c = shape
        share, k = shares(factor)
        return Call(f"expand_{m.dtype}", y, ye, m, e, n, h, w, c, int(share[0]), k)


def sum_room(pixels: int) -> int:
    """Bits that fit below the mantissas in a sum over so many pixels."""
    return 16 - bit_length(pixels)


@op(kind="int8")
class bias_grad_block:
    """(db, e): db[o] * 2^e = the sum over all positions of g[.., o], at the largest exponent"""

    cases = [*both("map", (1, 5, 3, 7)), *both("row", (1, 7)), *both("wide", (1, 4, 300, 2))]

    def infer(m, e):
        want_block(m, e)
        return Type("s32b", (m.shape[-1],)), exponents(Type("s32b"))

    def eval(m, e, *, node):
        t = node.inputs[0].type
        x, ex = widened(m, e, t)
        highest, room = ex.max(), sum_room(t.size // t.shape[-1])
        terms = rounded(x, (highest - ex)[:, None] - room)
        return terms.reshape(-1, t.shape[-1]).sum(0).astype(np.int32), single(highest - room)

    def emit(db, de, m, e):
        t = m.type
        c = t.shape[-1]
        return Call(f"bias_grad_{t.dtype}", db, de, m, e, t.blocks, t.size // t.blocks // c, c, sum_room(t.size // c))
