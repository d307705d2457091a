"""Integer gradients of convolutions: block floating twins of conv2d_dx and conv2d_dw. Linear layers: block_linear.py.

dx: for each row of dx, the rows of g that it gathers from are brought to their largest exponent; sums are int32, and
the largest sum of a block determines its exponent. dw: each group of output channels of g is brought to its largest
exponent; sums stay int32 (s32b). Sizes are static, so mantissas are shortened in advance if int32 could overflow. See
block.py and docs/numerics.md.
"""

from __future__ import annotations

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Node, Type, Value, f32, op, quant, s8
from insitu.graph.call import Call, Scratch, Shares, Source, Struct, Table
from insitu.graph.op import Groups
from insitu.graph.types import GROUP
from insitu.ops._block import (
    SHARE,
    a_channel,
    both,
    exponents,
    exponents_of,
    headroom,
    lowest,
    packed,
    pair,
    rounded,
    want_block,
    weight_shares,
    widened,
)
from insitu.ops._requant import align16
from insitu.ops._types import Array, Ints, Padding, Pair
from insitu.ops._windows import conv_output, conv_shape, is_pointwise
from insitu.ops.conv_backward import dw_eval

WEIGHT_BITS, INPUT_BITS = 7, 8  # bits of the other factors: w, and x - zero


def gathered_rows(r: int, kernel: int, stride: int, before: int, dilation: int, rows: int) -> list[tuple[int, int]]:
    """(tap u, row i of g) for every tap of a window that lies on row r of dx."""
    at = [(u, r + before - u * dilation) for u in range(kernel)]
    return [(u, a // stride) for u, a in at if a >= 0 and a % stride == 0 and a // stride < rows]


def dx_rows(g, e, node, kernel: int, row_sums):
    """Sums of every row of dx, and their exponents. `row_sums(row of g, u, distance)` is what tap u of a row adds to
    all pixels of one, with its channels scaled down by `distance` powers of two."""
    t, (n, h, w, c) = node.inputs[0].type, node.output.shape
    stride, top, dilation = node.attrs["stride"][0], node.attrs["padding"][0], node.attrs["dilation"][0]
    wide, high = widened(g, e, t)
    wide, high = wide.reshape(t.shape), high.reshape(*t.shape[:2], -1)
    sums, exponent = np.zeros((n, h, w, c), np.int64), np.full((n, h), lowest(t))
    for image in range(n):
        for r in range(h):
            taps = gathered_rows(r, kernel, stride, top, dilation, t.shape[1])
            exponent[image, r] = max([lowest(t), *(high[image, i].max() for _, i in taps)])
            for u, i in taps:
                sums[image, r] += row_sums(
                    wide[image, i], u, a_channel(exponent[image, r] - high[image, i], t.shape[3])
                )
    return sums, exponent.reshape(-1, 1)


def spread_taps(cols, node):
    """[W,C]: the sum of cols[j, v] over all taps v of outputs j that lie on q."""
    out = np.zeros((node.output.shape[2], cols.shape[2]), np.int64)
    stride, left, dilation = node.attrs["stride"][1], node.attrs["padding"][2], node.attrs["dilation"][1]
    for v in range(cols.shape[1]):
        q = np.arange(cols.shape[0]) * stride + v * dilation - left
        inside = (q >= 0) & (q < out.shape[0])
        out[q[inside]] += cols[inside, v]
    return out


def dx_drop(w: Type, groups: int) -> int:
    """How many bits operands lose: every weight of a group of outputs may meet one pixel."""
    return headroom(w.shape[0] * w.shape[1] * w.shape[2] // groups, WEIGHT_BITS)


PAIRS_BYTES = 16384  # of windows laid out at a time; one row may need more
PAIRS_SUMS = 64  # pixels that have room, if they are more than a row
TIGHT_PIXELS, TIGHT_PIECE = 16, 32  # enough to keep the overhead at a tenth: for dx, for dw
DEEP = 32  # outputs at a time, if scratch is even shorter


def pairs_rows(lines: int, pixels: int, length: int, tight: int) -> int:
    """How many rows of this many pixels the kernel processes at a time."""
    most = (min(PAIRS_SUMS, PAIRS_BYTES // (2 * length)), TIGHT_PIXELS, 1)[tight]
    parts = -(-lines // max(1, min(lines, most // pixels)))
    return -(-lines // parts)  # as even as possible


def share_source(w: Type, channels: int) -> tuple[tuple[Shares, Source], int, int]:
    """The shares of a weight for a small machine, as a table or its source; k; and the space for computing them."""
    table, k = weight_shares(w, channels)
    shares = Shares(table, np.array([k]))
    return (shares, Source(shares)), k, align16(2 * channels) if followed(w) else 0


def followed(w: Type) -> bool:
    """Can shares be computed from the multipliers of a layer? They can if there is one per channel, of float scales."""
    scale = np.array(w.quant.scale if w.quant else (), np.float64)
    return scale.size > 1 and bool((scale.astype(np.float32) == scale).all())


def pairs_dx(dx, dxe, m, e, w, shape: Struct, tight: int, parts: tuple = (None, None, 0)) -> Call:
    """The kernel for microcontrollers, if every pixel of dx has one of g. `parts`: see fours_dx."""
    share, k, room = share_source(w.type, w.shape[0])
    lines, pixels, o = (shape.sizes[name] for name in ("h", "w", "o"))
    length = (o + 3) // 4 * 4
    rows = pairs_rows(lines * shape.sizes["n"], pixels, length, tight)
    count = rows * pixels
    sums = -(-count // 64) * 64 if count > 32 else next(p for p in (8, 16, 32) if p >= count)
    scratch = room + 4 * GROUP * sums + 2 * length * (4 + (count + 3) // 4 * 4)
    deep = deep_dx(dx, dxe, m, e, w, shape, parts) if tight > 1 else None
    if deep and deep.args[-1].bytes * 8 < scratch * 7:  # worth its instructions
        return deep
    sizes = (*share, k, headroom(o, WEIGHT_BITS), rows, shape, Scratch(scratch))
    return Call(f"conv2d_pairs_dx_{m.dtype}", dx, dxe, m, e, w, *parts, *sizes)


def deep_dx(dx, dxe, m, e, w, shape: Struct, parts: tuple) -> Call:
    """A few outputs at a time: slower, and less scratch if there are many of them."""
    share, k, room = share_source(w.type, w.shape[0])
    lines, pixels, o = (shape.sizes[name] for name in ("h", "w", "o"))
    depth = min((o + 3) // 4 * 4, DEEP)
    rows = pairs_rows(lines * shape.sizes["n"], pixels, depth, 1)
    sums = 4 * rows * pixels * shape.sizes["c"]
    scratch = Scratch(room + 512 + sums + 2 * depth * (4 + (rows * pixels + 3) // 4 * 4))
    sizes = (*share, k, headroom(o, WEIGHT_BITS), rows, depth, shape, scratch)
    return Call(f"conv2d_deep_dx_{m.dtype}", dx, dxe, m, e, w, *parts, *sizes)


def of_columns(call: Call, row: int) -> Call | None:
    """The same with a weight that is some columns of one with rows of this length; None if the kernel cannot do it."""
    if not call.function.startswith(("conv2d_pairs_dx", "conv2d_deep_dx")):
        return None
    weight, which, _ = call.args[:6], call.args[6], call.args[7]  # which columns are trained, how many: all
    return Call(call.function, *weight, which, row, *call.args[8:])


conv2d_dx_block = op(
    "conv2d_dx_block",
    "dx[n,r,q,c] = sum over i,j,o of g[n,i,j,o] w[o,u,v,c] where tap u,v of output i,j lies on r,q",
    kind="int8",
    cases=[
        *both("1x1", (1, 5, 3, 19), s8(19, 1, 1, 37, s=np.linspace(0.01, 0.2, 19), axis=0), size=(5, 3)),
        *both("1x1, deep", (1, 1, 2, 531), s8(531, 1, 1, 6, s=0.02), size=(1, 2)),
        *both("3x3", (1, 5, 4, 3), s8(3, 3, 3, 5, s=0.02), size=(5, 4), padding=(1, 1, 1, 1)),
        *both("3x3, groups of channels", (1, 3, 2, 18), s8(18, 3, 3, 17, s=0.02), size=(3, 2), padding=(1, 1, 1, 1)),
        *both("1x1, wide rows", (1, 2, 70, 6), s8(6, 1, 1, 20, s=0.02), size=(2, 70)),
        *both("stride, asymmetric", (2, 3, 3, 5), s8(5, 3, 3, 3, s=0.5), size=(7, 6), stride=(2, 2),
              padding=(0, 1, 0, 1)),
        *both("stride beyond the kernel", (1, 2, 2, 3), s8(3, 1, 1, 2, s=0.1), size=(5, 6), stride=(3, 3)),
        *both("groups", (1, 4, 5, 9), s8(9, 3, 3, 2, s=0.1), size=(4, 5), groups=3, padding=(1, 1, 1, 1)),
        *both("dilated", (1, 7, 9, 3), s8(3, 3, 3, 2, s=0.1), size=(9, 9), dilation=(2, 3), padding=(1, 1, 3, 3)),
    ],
)  # fmt: skip
conv2d_dx_block.may(groups=Groups((None, None, -1), sums=True))


@conv2d_dx_block.infer
def _(
    m: Type, e: Type, w: Type, *, size: Pair, stride: Pair = (1, 1), padding: Padding = (0, 0, 0, 0),
    dilation: Pair = (1, 1), groups: int = 1,
) -> tuple[Type, ...]:  # fmt: skip
    want_block(m, e)
    weight_shares(w, w.shape[0])
    shape = (m.shape[0], *size, w.shape[3] * groups)
    if conv_output(f32(*shape), w, None, stride, padding, dilation, groups) != m.shape:
        raise GraphError(f"the gradient {m} does not match an input of {size} and weights {w}")
    return pair(m.dtype, shape)


@conv2d_dx_block.eval
def _(m: Array, e: Array, w: Array, *, groups: int, node: Node) -> tuple[Array, ...]:
    table, k = weight_shares(node.inputs[2].type, w.shape[0])
    drop, parts = dx_drop(node.inputs[2].type, groups), w.astype(np.float64).reshape(groups, -1, *w.shape[1:])

    def row_sums(row, u, distance):
        p = rounded(row * table.astype(np.int64), SHARE + drop + distance).astype(np.float64)
        cols = np.einsum("jgo,govc->jvgc", p.reshape(len(p), groups, -1), parts[:, :, u])
        return spread_taps(cols.reshape(len(p), w.shape[2], -1).astype(np.int64), node)

    sums, exponent = dx_rows(m, e, node, w.shape[1], row_sums)
    return packed(sums, exponent + k + drop, node.output.type)


@conv2d_dx_block.emit
def _(
    dx: Value, dxe: Value, m: Value, e: Value, w: Value, *, stride: Pair, padding: Padding, dilation: Pair, groups: int,
    target: str = "host", tight: int = 0,
) -> Call:  # fmt: skip
    table, k = weight_shares(w.type, w.shape[0])
    shape = conv_shape(m, dx, w, stride, padding, dilation, groups)
    if target == "mcu" and groups == 1 and is_pointwise(**shape.sizes):
        return pairs_dx(dx, dxe, m, e, w, shape, tight)
    scratch = Scratch(4 * dx.shape[2] * dx.shape[3] + 2 * m.shape[2] * m.shape[3])
    drop = dx_drop(w.type, groups)
    return Call(f"conv2d_dx_{m.dtype}", dx, dxe, m, e, w, Table(table), k, drop, shape, scratch)


@conv2d_dx_block.macs
def _(dx: Value, m: Value, e: Value, w: Value) -> int:
    return m.type.size * w.type.size // w.shape[0]


def aligned(m, e, t: Type, drop: int):
    """(all mantissas at the largest exponent of their group, shortened by `drop` bits, and those exponents)."""
    wide, high = widened(m, e, t)
    highest = high.max(axis=0)
    distance = a_channel(highest - high, t.shape[-1])[:, None]
    return rounded(wide, distance + drop).reshape(t.shape), highest + drop


def sums_pair(shape, x: Type) -> tuple[Type, Type]:
    """The types of a sum of products with x - zero: real = scale of x * m * 2^e."""
    if x.dtype != "s8" or x.quant is None:
        raise GraphError(f"integer gradients need an s8 input with a scale, not {x}")
    m = Type("s32b", tuple(shape), quant(x.scale))
    return m, exponents(m)


def pixel_count(m: Type) -> int:
    return m.size // m.shape[-1]


def even_piece(pixels: int, most: int) -> int:
    """How many pixels a kernel processes at a time: at most `most`, in even pieces of about equal size."""
    parts = -(-pixels // min(pixels, most))
    return (-(-pixels // parts) + 1) // 2 * 2


def pairs_dw(dw, dwe, m, e, x, channels, shape: Struct, tight: int) -> Call:
    """The kernel for microcontrollers: transposes pieces of about 6 KB, or of few pixels."""
    pixels, count = pixel_count(m.type), dw.shape[-1]
    most = TIGHT_PIECE // tight if tight else PAIRS_SUMS
    piece = even_piece(pixels, max(16, min(most, 3072 // count)))
    side = 0 if is_pointwise(**shape.sizes) else (x.shape[-1] + 3) // 4 * 4
    scratch = Scratch(piece * (4 + 2 * (1 + GROUP + (count + 3) // 4 * 4)) + side)
    table = Table(np.array(channels, np.int32)) if channels else None
    sizes = (table, count, x.type.zero, headroom(pixels, INPUT_BITS), piece, shape, scratch)
    return Call(f"conv2d_pairs_dw_{m.dtype}", dw, dwe, m, e, x, *sizes)


conv2d_dw_block = op(
    "conv2d_dw_block",
    """(dw, e): dw[o,u,v,k] 2^e = sum over n,i,j of g[n,i,j,o] (x - zero)[n, i*sh + u*dh - top, .., channels[k]]

    The scale of x is in the type of dw. `channels` are those whose weights are trained; by default all.
    """,
    kind="int8",
    cases=[
        *both("1x1", (1, 4, 3, 5), s8(1, 4, 3, 37, s=0.03, z=-7), kernel=(1, 1)),
        *both("1x1, groups", (1, 3, 3, 37), s8(1, 3, 3, 9, s=0.03, z=-7), kernel=(1, 1)),
        *both("1x1, many pixels", (1, 7, 39, 3), s8(1, 7, 39, 5, s=0.03, z=-128), kernel=(1, 1)),
        *both("some channels", (1, 5, 7, 3), s8(1, 5, 7, 20, s=0.03, z=9), kernel=(1, 1), channels=(1, 5, 8, 0)),
        *both("some channels, 3x3", (1, 4, 4, 2), s8(1, 4, 4, 5, s=0.03, z=9), kernel=(3, 3), padding=(1, 1, 1, 1),
              channels=(4, 0)),
        *both("stride, asymmetric", (2, 3, 3, 5), s8(2, 7, 6, 3, s=0.02, z=127), kernel=(3, 3), stride=(2, 2),
              padding=(0, 1, 0, 1)),
        *both("groups", (1, 4, 5, 9), s8(1, 4, 5, 6, s=0.1), kernel=(3, 3), groups=3, padding=(1, 1, 1, 1)),
        *both("far exponents", (1, 5, 3, 6), s8(1, 5, 3, 5, s=0.1, z=-3), kernel=(1, 1), at=(-18, -33, -32, -34, -19)),
        *both("3x3, groups of channels", (1, 5, 5, 18), s8(1, 5, 5, 9, s=0.1, z=-3), kernel=(3, 3),
              padding=(1, 1, 1, 1)),
    ],
)  # fmt: skip
conv2d_dw_block.may(by_outputs=2, some_channels=True, groups=Groups((-1, -1, None), ends=True))


@conv2d_dw_block.infer
def _(
    m: Type, e: Type, x: Type, *, kernel: Pair, stride: Pair = (1, 1), padding: Padding = (0, 0, 0, 0),
    dilation: Pair = (1, 1), groups: int = 1, channels: Ints = (),
) -> tuple[Type, ...]:  # fmt: skip
    want_block(m, e)
    ci = x.shape[3] // max(groups, 1)
    if conv_output(x, f32(m.shape[3], *kernel, ci), None, stride, padding, dilation, groups) != m.shape:
        raise GraphError(f"the gradient {m} does not match an input {x} and a kernel of {kernel}")
    if channels and (groups != 1 or not all(0 <= c < ci for c in channels)):
        raise GraphError(f"{channels} are not channels of {x} in one group")
    return sums_pair((m.shape[3], *kernel, len(channels) or ci), x)


@conv2d_dw_block.eval
def _(
    m: Array, e: Array, x: Array, *, kernel: Pair, stride: Pair, padding: Padding, dilation: Pair, groups: int,
    channels: Ints, node: Node,
) -> tuple[Array, ...]:  # fmt: skip
    t = node.inputs[0].type
    p, exponent = aligned(m, e, t, headroom(pixel_count(t), INPUT_BITS))
    x = x.astype(np.float64) - node.inputs[2].type.zero
    x = x[..., list(channels)] if channels else x
    dw = dw_eval(p.astype(np.float64), x, kernel, stride, padding, dilation, groups)
    return dw.astype(np.int32), exponents_of(exponent)


@conv2d_dw_block.emit
def _(
    dw: Value, dwe: Value, m: Value, e: Value, x: Value, *, stride: Pair, padding: Padding, dilation: Pair, groups: int,
    channels: Ints, target: str = "host", tight: int = 0,
) -> Call:  # fmt: skip
    shape = conv_shape(m, x, dw, stride, padding, dilation, groups)
    if target == "mcu" and groups == 1:
        return pairs_dw(dw, dwe, m, e, x, channels, shape, tight)
    table = Table(np.array(channels, np.int32)) if channels else None
    drop, scratch = headroom(pixel_count(m.type), INPUT_BITS), Scratch(2 * m.shape[2] * m.shape[3])
    sizes = (table, dw.shape[3], x.type.zero, drop, shape, scratch)
    return Call(f"conv2d_dw_{m.dtype}", dw, dwe, m, e, x, *sizes)


@conv2d_dw_block.macs
def _(dw: Value, m: Value, e: Value, x: Value) -> int:
    return dw.type.size * m.type.size // m.shape[3]
