"""Integer gradients of depthwise convolutions with as many outputs as inputs. See block_conv.py."""

from __future__ import annotations

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Node, Type, Value, f32, op, s8
from insitu.graph.call import Call, Scratch, Shares, Source, Struct, Table
from insitu.graph.op import Groups, Index
from insitu.graph.types import GROUP
from insitu.ops._block import (
    SHARE,
    a_channel,
    both,
    exponents_of,
    group_shares,
    headroom,
    packed,
    pair,
    rounded,
    want_block,
    weight_shares,
    widened,
)
from insitu.ops._types import Array, Padding, Pair
from insitu.ops._windows import depthwise_output, patches
from insitu.ops.block_conv import INPUT_BITS, aligned, even_piece, gathered_rows, pixel_count, spread_taps, sums_pair
from insitu.ops.depthwise_backward import depthwise_struct

MAX_TAPS = 511  # of a kernel: sums of that many products of 15 and 7 bits stay below 2^31


PIECE_BYTES = 4096  # of the gradient that is transposed for dw
BAND_BYTES = 2048  # of rows of g that a microcontroller lays out at a time, if memory is not short


def band_rows(tight: int, *, oh, ow, kh, sh, dh, **_) -> int:
    """How many rows of g depthwise2d_dx has room for: at least those that one row of dx gathers from."""
    least = (kh - 1) * dh // sh + 1
    return min(oh, least if tight else max(least, BAND_BYTES // (2 * GROUP * ow)))


depthwise2d_dx_block = op(
    "depthwise2d_dx_block",
    """dx[n,r,q,c] = sum over i,j of g[n,i,j,c] w[u,v,c] where tap u,v lies on r,q

    All rows of an image are brought to the largest exponent of their group of channels: groups are independent.
    """,
    kind="int8",
    cases=[
        *both("3x3 same", (1, 5, 4, 7), s8(3, 3, 7, s=np.linspace(0.01, 0.2, 7), axis=2), size=(5, 4),
              padding=(1, 1, 1, 1)),
        *both("stride", (2, 4, 3, 19), s8(3, 3, 19, s=0.25), size=(7, 6), stride=(2, 2), padding=(1, 1, 0, 1)),
        *both("stride beyond the kernel", (1, 2, 3, 3), s8(2, 2, 3, s=0.1), size=(5, 8), stride=(3, 3)),
        *both("dilated", (1, 7, 13, 17), s8(3, 3, 17, s=0.1), size=(9, 13), dilation=(2, 3), padding=(1, 1, 3, 3)),
        *both("bands", (1, 8, 20, 16), s8(5, 5, 16, s=0.02), size=(8, 20), padding=(2, 2, 2, 2)),
        *both("bands, stride", (1, 5, 22, 17), s8(3, 3, 17, s=0.02), size=(10, 44), stride=(2, 2),
              padding=(0, 1, 0, 1)),
        *both("7x7 on 4x4", (1, 4, 4, 21), s8(7, 7, 21, s=0.02), size=(4, 4), padding=(3, 3, 3, 3)),
    ],
)  # fmt: skip
depthwise2d_dx_block.may(groups=Groups((-1, -1, -1), inside=True))


@depthwise2d_dx_block.infer
def _(
    m: Type, e: Type, w: Type, *, size: Pair, stride: Pair = (1, 1), padding: Padding = (0, 0, 0, 0),
    dilation: Pair = (1, 1),
) -> tuple[Type, ...]:  # fmt: skip
    want_block(m, e)
    weight_shares(w, w.shape[2])
    shape = (m.shape[0], *size, m.shape[3])
    if depthwise_output(f32(*shape), w, None, stride, padding, dilation) != m.shape:
        raise GraphError(f"the gradient {m} does not match an input of {size} and weights {w}")
    if w.shape[0] * w.shape[1] > MAX_TAPS:
        raise GraphError(f"sums over the {w.shape[0]}x{w.shape[1]} taps of {w} may overflow 32 bits")
    return pair(m.dtype, shape)


@depthwise2d_dx_block.eval
def _(m: Array, e: Array, w: Array, *, node: Node) -> tuple[Array, ...]:
    t, (table, k) = node.inputs[0].type, group_shares(node.inputs[2].type, w.shape[2])
    wide, high = widened(m, e, t)
    n, h, c = t.shape[0], t.shape[1], t.shape[3]
    highest = np.repeat(high.reshape(n, h, -1).max(axis=1), h, axis=0)
    distance = a_channel(highest - high, c)[:, None]
    p = rounded(wide * table.astype(np.int64), SHARE + distance).reshape(t.shape)
    sums, taps = np.zeros(node.output.shape, np.int64), w.astype(np.int64)
    stride, top, dilation = (node.attrs[a][0] for a in ("stride", "padding", "dilation"))
    for image, r in np.ndindex(*sums.shape[:2]):
        for u, i in gathered_rows(r, w.shape[0], stride, top, dilation, h):
            sums[image, r] += spread_taps(p[image, i][:, None] * taps[u], node)
    exponent = np.repeat(highest[::h], sums.shape[1], axis=0) + k
    return packed(sums, exponent, node.output.type)


@depthwise2d_dx_block.emit
def _(
    dx: Value, dxe: Value, m: Value, e: Value, w: Value, *, stride: Pair, padding: Padding, dilation: Pair,
    target: str = "host", tight: int = 0,
) -> Call:  # fmt: skip
    table, k = group_shares(w.type, w.shape[2])
    shares = Shares(table, k) if target == "mcu" else Table(table)
    source = Source(shares) if isinstance(shares, Shares) else None
    shape = depthwise_struct(m, dx, w.shape[:2], stride, padding, dilation)
    rows = band_rows(tight, **shape.sizes) if target == "mcu" else m.shape[1]
    scratch = Scratch(GROUP * (4 * dx.shape[2] + 2 + 2 * rows * m.shape[2]))
    return Call(f"depthwise2d_dx_{m.dtype}", dx, dxe, m, e, w, shares, source, Table(k), rows, shape, scratch)


@depthwise2d_dx_block.macs
def _(dx: Value, m: Value, e: Value, w: Value) -> int:
    return m.type.size * w.shape[0] * w.shape[1]


def over_equal_shape(dx: Value, dxe: Value, m: Value, e: Value, w: Value) -> Index:
    return (0, None) if dx.shape == m.shape else None


depthwise2d_dx_block.may(in_place=over_equal_shape)


def pairs_dw(dw, dwe, m, e, x, drop: int, shape: Struct, tight: int) -> Call:
    """The kernel for microcontrollers: transposes about 4 KB of the gradient at a time, or few pixels."""
    wide = (m.shape[3] + 3) // 4 * 4
    piece = even_piece(pixel_count(m.type), max(8, (PIECE_BYTES >> tight) // (2 * wide)))
    scratch = Scratch(piece * (4 + 2 * (1 + wide)) + wide)
    return Call(f"depthwise2d_pairs_dw_{m.dtype}", dw, dwe, m, e, x, x.type.zero, drop, piece, shape, scratch)


depthwise2d_dw_block = op(
    "depthwise2d_dw_block",
    "(dw, e): dw[u,v,c] 2^e = sum over n,i,j of g[n,i,j,c] (x - zero)[n, i*sh + u*dh - top, j*sw + v*dw - left, c]",
    kind="int8",
    cases=[
        *both("3x3 same", (1, 5, 4, 7), s8(1, 5, 4, 7, s=0.1, z=-128), kernel=(3, 3), padding=(1, 1, 1, 1)),
        *both("stride", (2, 4, 3, 19), s8(2, 7, 6, 19, s=0.05, z=3), kernel=(3, 3), stride=(2, 2),
              padding=(1, 1, 0, 1)),
        *both("5x5, many pixels", (1, 3, 100, 2), s8(1, 3, 100, 2, s=0.05, z=127), kernel=(5, 5),
              padding=(2, 2, 2, 2)),
    ],
)  # fmt: skip


@depthwise2d_dw_block.infer
def _(
    m: Type, e: Type, x: Type, *, kernel: Pair, stride: Pair = (1, 1), padding: Padding = (0, 0, 0, 0),
    dilation: Pair = (1, 1),
) -> tuple[Type, ...]:  # fmt: skip
    want_block(m, e)
    dw = (*kernel, m.shape[3])
    if x.shape[3] != m.shape[3] or depthwise_output(x, f32(*dw), None, stride, padding, dilation) != m.shape:
        raise GraphError(f"the gradient {m} does not match an input {x} and a kernel of {kernel}")
    return sums_pair(dw, x)


@depthwise2d_dw_block.eval
def _(
    m: Array, e: Array, x: Array, *, kernel: Pair, stride: Pair, padding: Padding, dilation: Pair, node: Node
) -> tuple[Array, ...]:
    t = node.inputs[0].type
    p, exponent = aligned(m, e, t, headroom(pixel_count(t), INPUT_BITS))
    cols = patches(x.astype(np.int64) - node.inputs[2].type.zero, kernel, stride, padding, dilation)
    return np.einsum("nijc,nijuvc->uvc", p, cols).astype(np.int32), exponents_of(exponent)


@depthwise2d_dw_block.emit
def _(
    dw: Value, dwe: Value, m: Value, e: Value, x: Value, *, kernel: Pair, stride: Pair, padding: Padding,
    dilation: Pair, target: str = "host", tight: int = 0,
) -> Call:  # fmt: skip
    shape = depthwise_struct(m, x, kernel, stride, padding, dilation)
    drop, scratch = headroom(pixel_count(m.type), INPUT_BITS), Scratch(2 * m.shape[2] * m.shape[3])
    if target == "mcu":
        return pairs_dw(dw, dwe, m, e, x, drop, shape, tight)
    return Call(f"depthwise2d_dw_{m.dtype}", dw, dwe, m, e, x, x.type.zero, drop, shape, scratch)


@depthwise2d_dw_block.macs
def _(dw: Value, m: Value, e: Value, x: Value) -> int:
    return m.type.size * dw.shape[0] * dw.shape[1]
