"""Integer gradients, element by element: block floating values from floats and back, masked, added, spread, summed.

Twins of the f32 gradient ops of the same name; training/integer_gradients.py substitutes them. docs/numerics.md says
what a block is, and which number a mantissa represents. Convolutions: block_conv.py.
"""

from __future__ import annotations

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Node, Type, Value, f32, op, quant
from insitu.graph.call import Call
from insitu.graph.op import Groups
from insitu.ops._block import (
    BITS,
    LEAST,
    MOST,
    SHARE,
    ZERO,
    a_channel,
    bit_length,
    both,
    by_blocks,
    by_rows,
    exponents,
    exponents_of,
    packed,
    pair,
    rounded,
    rounded_even,
    shares,
    some_exponents,
    want_block,
    widened,
)
from insitu.ops._types import Array, Ints
from insitu.ops.mask import channels_of, mask_type

GUARD = 14  # bits below the mantissas that a sum of two keeps until it is rounded
EXTREMES = [np.inf, -1e-3, 3e38, -2e-45, 1e-39, 1.0]


def float_parts(g: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(24-bit integer with its sign, exponent, is it finite) of float32s; numbers below 2^-126 become 0."""
    bits = np.ascontiguousarray(g, np.float32).view(np.uint32).astype(np.int64)
    exponent = bits >> 23 & 255
    whole = np.where(exponent == 0, 0, bits & 0x7FFFFF | 0x800000)
    return np.where(bits >> 31, -whole, whole), exponent - 150, exponent < 255


def power(e) -> np.ndarray:
    """2^e as float32; 0 if that underflows, infinite if it overflows."""
    e = np.asarray(e, np.int64)
    with np.errstate(over="ignore"):
        return np.where(e < -126, 0, np.ldexp(1.0, np.clip(e, -126, 128))).astype(np.float32)


def channel_runs(t: Type) -> tuple[int, int]:
    """(channels, inner): element i of a parameter belongs to channel i // inner % channels."""
    return t.shape[t.channel_axis], int(np.prod(t.shape[t.channel_axis + 1 :]))


def row_sizes(t: Type) -> tuple[int, int, int]:
    """(rows, pixels of a row, channels)"""
    return t.rows, t.size // t.rows // t.shape[-1], t.shape[-1]


to_block = op(
    "to_block",
    """(m, e) = g as block floating numbers: the largest number of a block determines its exponent

    If a block has a number that is not finite, its exponent is the maximum, and all its finite numbers become 0.
    """,
    kind="int8",
    cases=[
        Case(f"{name}, {dtype}", (g,), {"dtype": dtype})
        for dtype in BITS
        for name, g in {
            "image": f32(1, 3, 4, 5),
            "groups": f32(1, 2, 3, 37),
            "rows": f32(2, 7),
            "rounds up to a bit more": np.array([[1.9999999, -1.9999999, 1e-3]], np.float32),
            "zeros": np.zeros((1, 2, 1, 3), np.float32),
            "extremes": np.array(EXTREMES, np.float32).reshape(1, 2, 1, 3),
            "tiny": np.array([[1e-38, -3e-38], [1e-39, -1e-40]], np.float32),
        }.items()
    ],
)


@to_block.infer
def _(g: Type, *, dtype: str) -> tuple[Type, ...]:
    if g.dtype != "f32" or dtype not in BITS:
        raise GraphError(f"{g} cannot become {dtype}")
    return pair(dtype, g.shape)


@to_block.eval
def _(g: Array, *, dtype: str, node: Node) -> tuple[Array, ...]:
    t, bits = node.output.type, BITS[dtype]
    whole, exponent, finite = (by_rows(x, t) for x in float_parts(g))
    highest = by_blocks(np.where(whole != 0, exponent + 1000, 0), t).max(axis=2) - 1000
    endless = by_blocks(1 - finite, t).any(axis=2)
    e = np.where(highest + 24 - bits < LEAST, ZERO, np.minimum(highest + 24 - bits, MOST))
    top, gone, never = (a_channel(x, t.shape[-1])[:, None] for x in (highest, e == ZERO, endless))
    found = np.minimum(rounded(whole, 24 - bits + top - exponent), (1 << bits) - 1)
    found = np.where(gone | (whole == 0), 0, found)
    found = np.where(never, np.where(finite, 0, np.sign(whole) * ((1 << bits) - 1)), found)
    return found.astype(t.numpy).reshape(t.shape), np.where(endless, MOST, e).astype(np.int8).reshape(-1)


@to_block.emit
def _(m: Value, e: Value, g: Value) -> Call:
    return Call(f"to_block_{m.dtype}", m, e, g, *row_sizes(m.type))


from_block = op(
    "from_block",
    "g = scale * m * 2^e in f32: a block floating value, or a sum of products (s32b, whose type has a scale)",
    kind="int8",
    cases=[
        *both("image", (1, 5, 2, 3)),
        *both("groups", (1, 2, 3, 37)),
        Case("sums", (Type("s32b", (3, 1, 1, 5), quant(0.03)), some_exponents(1))),
        Case("groups of sums", (Type("s32b", (37, 3), quant(0.03)), some_exponents(3))),
        Case("groups of depthwise sums", (Type("s32b", (2, 3, 37), quant(0.03)), some_exponents(3))),
        Case("too large", (Type("s32b", (7,)), np.array([127], np.int8))),
    ],
)


@from_block.infer
def _(m: Type, e: Type) -> Type:
    if e != exponents(m) or (m.dtype != "s32b" and m.dtype not in BITS):
        raise GraphError(f"{m} and {e} are not a block floating value")
    return f32(*m.shape)


@from_block.eval
def _(m: Array, e: Array, *, node: Node) -> Array:
    t = node.inputs[0].type
    if t.dtype == "s32b":
        by = spread_groups(power(e), t)
    else:
        by = np.broadcast_to(a_channel(power(e).reshape(t.rows, -1), t.shape[-1])[:, None], by_rows(m, t).shape)
    with np.errstate(over="ignore"):
        real = m.astype(np.float32) * by.reshape(m.shape)
        return real * np.float32(t.scale) if t.quant else real


@from_block.emit
def _(g: Value, m: Value, e: Value) -> Call:
    t = m.type
    if t.dtype == "s32b":
        return Call("from_block_s32b", g, m, e, t.scale if t.quant else 1.0, t.size, *channel_runs(t))
    return Call(f"from_block_{t.dtype}", g, m, e, *row_sizes(t))


def over_sums(g: Value, m: Value, e: Value) -> int | None:
    """Only for mantissas with as many bits as a float."""
    return 0 if m.dtype == "s32b" else None


from_block.may(in_place=over_sums)


def spread_groups(values: np.ndarray, t: Type) -> np.ndarray:
    """Numbers per group of a parameter (s32b), repeated for each of its elements."""
    channels, _ = channel_runs(t)
    shape = [channels if axis == t.channel_axis else 1 for axis in range(t.rank)]
    return np.broadcast_to(a_channel(values, channels).reshape(shape), t.shape)


mask_grad_block = op(
    "mask_grad_block",
    "y = m where the mask's bit is one, else 0; the exponents stay",
    kind="int8",
    cases=[
        Case(f"{name}, {dtype}", (Type(dtype, shape), Type("u8", mask)))
        for dtype in BITS
        for name, shape, mask in (("image", (1, 2, 3, 5), (6, 1)), ("whole bytes", (3, 16), (3, 2)))
    ],
)
mask_grad_block.may(in_place=True)
mask_grad_block.may(groups=Groups((-1, -1), inside=True, gradient=1))


@mask_grad_block.infer
def _(m: Type, mask: Type) -> Type:
    if m.dtype not in BITS or mask != mask_type(m):
        raise GraphError(f"{mask} is not a mask of {m}")
    return m


@mask_grad_block.eval
def _(m: Array, mask: Array) -> Array:
    rows = m.reshape(mask.shape[0], -1)
    bits = np.unpackbits(mask, axis=1, count=rows.shape[1], bitorder="little")
    return np.where(bits, rows, rows.dtype.type(0)).reshape(m.shape)


@mask_grad_block.emit
def _(y: Value, m: Value, mask: Value) -> Call:
    return Call(f"mask_grad_{m.dtype}", y, m, mask, mask.shape[0], channels_of(m.type))


add_block = op(
    "add_block",
    """(m, e) = a + b: block by block at the larger exponent, with 14 extra bits, then normalised, ties to even

    With two 8-bit mantissas of the same exponent, every odd sum is a tie: rounding ties up would add up to a bias.
    """,
    kind="int8",
    cases=[
        Case(f"{name}, {dtype}", (Type(dtype, shape), ea, Type(dtype, shape), eb))
        for dtype in BITS
        for name, shape, ea, eb in (
            ("image", (1, 5, 2, 3), some_exponents(5), some_exponents(5, 1)),
            ("groups", (1, 2, 3, 37), some_exponents(6), some_exponents(6, 1)),
            ("apart", (4, 7), np.array([-20, -5, -60, -20], np.int8), np.array([-33, -20, -20, -36], np.int8)),
            ("halves", (1, 1, 40, 7), np.array([-20], np.int8), np.array([-20], np.int8)),
            ("ends", (3, 2), np.array([127, -128, -120], np.int8), np.array([127, -128, -121], np.int8)),
        )
    ],
)
add_block.may(in_place=(0, 1))


@add_block.infer
def _(a: Type, ae: Type, b: Type, be: Type) -> tuple[Type, ...]:
    want_block(a, ae)
    if (b, be) != (a, ae):
        raise GraphError(f"{a} and {b} have different types")
    return a, ae


@add_block.eval
def _(a: Array, ae: Array, b: Array, be: Array, *, node: Node) -> tuple[Array, ...]:
    t = node.output.type
    (x, ex), (y, ey) = widened(a, ae, t), widened(b, be, t)
    e = np.maximum(ex, ey)
    dx, dy = (a_channel(e - each, t.shape[-1])[:, None] for each in (ex, ey))
    return packed(rounded(x << GUARD, dx) + rounded(y << GUARD, dy), e - GUARD, t, rounded_even)


@add_block.emit
def _(m: Value, e: Value, a: Value, ae: Value, b: Value, be: Value) -> Call:
    return Call(f"add_{m.dtype}", m, e, a, ae, b, be, *row_sizes(m.type))


expand_block = op(
    "expand_block",
    "factor * g for every pixel of an image: the gradient of its mean (g[N,C] or [N,1,1,C] -> shape [N,H,W,C])",
    kind="int8",
    cases=[
        *both("sixteenth", (1, 5), shape=(1, 4, 4, 5), factor=1 / 16),
        *both("twelfth", (2, 1, 1, 37), shape=(2, 3, 4, 37), factor=1 / 12),
    ],
)


@expand_block.infer
def _(m: Type, e: Type, *, shape: Ints, factor: float = 1.0) -> tuple[Type, ...]:
    want_block(m, e)
    if len(shape) != 4 or m.shape[0] != shape[0] or m.size != shape[0] * shape[3] or not factor > 0:
        raise GraphError(f"{m} is not the mean of each image of {shape}")
    return pair(m.dtype, shape)


@expand_block.eval
def _(m: Array, e: Array, *, shape: Ints, factor: float) -> tuple[Array, ...]:
    n, h, _, c = shape
    share, k = shares(factor, 1 << SHARE)
    x = rounded(m.astype(np.int64).reshape(n, 1, 1, c) * int(share[0]), SHARE)
    e = np.where(e < LEAST, ZERO, np.clip(e.astype(np.int64) + k, ZERO, MOST)).reshape(n, -1)
    return np.broadcast_to(x, shape).astype(m.dtype), np.repeat(e, h, axis=0).astype(np.int8).reshape(-1)


@expand_block.emit
def _(y: Value, ye: Value, m: Value, e: Value, *, shape: Ints, factor: float) -> Call:
    n, h, w, c = shape
    share, k = shares(factor, 1 << SHARE)
    return Call(f"expand_{m.dtype}", y, ye, m, e, n, h, w, c, int(share[0]), k)


def sum_room(pixels: int) -> int:
    """Bits that fit below the mantissas in a sum over this many pixels."""
    return 16 - bit_length(pixels)


bias_grad_block = op(
    "bias_grad_block",
    """(db, e): db[o] * 2^e = the sum over all positions of g[.., o], at the largest exponent of the group of o

    Rows are summed first, then brought to that exponent.
    """,
    kind="int8",
    cases=[
        *both("map", (1, 5, 3, 37)),
        *both("row", (1, 7)),
        *both("wide", (1, 4, 300, 2)),
        *both("whole words", (1, 9, 4, 28)),
    ],
)
bias_grad_block.may(groups=Groups((-1, -1), ends=True))


@bias_grad_block.infer
def _(m: Type, e: Type) -> tuple[Type, ...]:
    want_block(m, e)
    db = Type("s32b", (m.shape[-1],))
    return db, exponents(db)


@bias_grad_block.eval
def _(m: Array, e: Array, *, node: Node) -> tuple[Array, ...]:
    t = node.inputs[0].type
    x, ex = widened(m, e, t)
    highest, room = ex.max(axis=0), sum_room(t.size // t.shape[-1])
    terms = rounded(x.sum(axis=1), a_channel(highest - ex, t.shape[-1]) - room)
    return terms.sum(0).astype(np.int32), exponents_of(highest - room)


@bias_grad_block.emit
def _(db: Value, de: Value, m: Value, e: Value) -> Call:
    t = m.type
    return Call(f"bias_grad_{t.dtype}", db, de, m, e, *row_sizes(t), sum_room(t.size // t.shape[-1]))
