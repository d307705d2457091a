"""Integer gradients of linear layers: the same as for a 1x1 convolution with stride one, without an image around it."""

from __future__ import annotations

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Node, Type, Value, op, s8
from insitu.graph.call import Call, Scratch, Struct, Table
from insitu.ops._block import (
    SHARE,
    a_channel,
    both,
    exponents_of,
    headroom,
    packed,
    pair,
    rounded,
    want_block,
    weight_shares,
    widened,
)
from insitu.ops._types import Array
from insitu.ops.block_conv import (
    INPUT_BITS,
    WEIGHT_BITS,
    aligned,
    pairs_dw,
    pairs_dx,
    pixel_count,
    sums_pair,
)


def rows_struct(g, x) -> Struct:
    """A linear layer is a 1x1 convolution of an image with as many rows as g has."""
    h, o, i = g.type.rows, g.shape[-1], x.shape[-1]
    w = g.type.size // h // o
    return Struct("conv2d_shape", n=1, h=h, w=w, c=i, oh=h, ow=w, o=o, kh=1, kw=1, sh=1, sw=1, dh=1, dw=1, pt=0, pl=0,
                  groups=1)  # fmt: skip


linear_dx_block = op(
    "linear_dx_block",
    "dx[..., i] = sum over o of g[..., o] w[o,i]",
    kind="int8",
    cases=[
        *both("row", (1, 5), s8(5, 35, s=np.linspace(0.01, 0.2, 5), axis=0)),
        *both("rows", (2, 3, 17), s8(17, 19, s=0.1)),
    ],
)


@linear_dx_block.infer
def _(m: Type, e: Type, w: Type) -> tuple[Type, ...]:
    want_block(m, e)
    weight_shares(w, w.shape[0])
    if w.rank != 2 or m.shape[-1] != w.shape[0]:
        raise GraphError(f"the gradient {m} does not match weights {w}")
    return pair(m.dtype, (*m.shape[:-1], w.shape[1]))


@linear_dx_block.eval
def _(m: Array, e: Array, w: Array, *, node: Node) -> tuple[Array, ...]:
    table, k = weight_shares(node.inputs[2].type, w.shape[0])
    wide, high = widened(m, e, node.inputs[0].type)
    drop = headroom(w.shape[0], WEIGHT_BITS)
    highest = high.max(axis=1, keepdims=True)
    distance = a_channel(highest - high, w.shape[0])[:, None]
    p = rounded(wide * table.astype(np.int64), SHARE + drop + distance)
    return packed(p @ w.astype(np.int64), highest + k + drop, node.output.type)


@linear_dx_block.emit
def _(dx: Value, dxe: Value, m: Value, e: Value, w: Value, *, target: str = "host", tight: int = 0) -> Call:
    table, k = weight_shares(w.type, w.shape[0])
    if target == "mcu":
        return pairs_dx(dx, dxe, m, e, w, rows_struct(m, dx), tight)
    shape, drop = rows_struct(m, dx), headroom(w.shape[0], WEIGHT_BITS)
    scratch = Scratch(shape.sizes["w"] * (4 * w.shape[1] + 2 * w.shape[0]))
    return Call(f"conv2d_dx_{m.dtype}", dx, dxe, m, e, w, Table(table), k, drop, shape, scratch)


@linear_dx_block.macs
def _(dx: Value, m: Value, e: Value, w: Value) -> int:
    return m.type.size * w.shape[1]


linear_dw_block = op(
    "linear_dw_block",
    "(dw, e): dw[o,i] 2^e = sum over rows of g[..., o] (x - zero)[..., i]; the scale of x is in the type of dw",
    kind="int8",
    cases=[*both("row", (1, 5), s8(1, 35, s=0.04, z=-11)), *both("rows", (2, 3, 7), s8(2, 3, 9, s=0.04, z=3))],
)
linear_dw_block.may(by_outputs=2)


@linear_dw_block.infer
def _(m: Type, e: Type, x: Type) -> tuple[Type, ...]:
    want_block(m, e)
    if m.shape[:-1] != x.shape[:-1]:
        raise GraphError(f"the gradient {m} does not match an input {x}")
    return sums_pair((m.shape[-1], x.shape[-1]), x)


@linear_dw_block.eval
def _(m: Array, e: Array, x: Array, *, node: Node) -> tuple[Array, ...]:
    t = node.inputs[0].type
    p, exponent = aligned(m, e, t, headroom(pixel_count(t), INPUT_BITS))
    x = x.astype(np.int64).reshape(-1, x.shape[-1]) - node.inputs[2].type.zero
    return (p.reshape(-1, t.shape[-1]).T @ x).astype(np.int32), exponents_of(exponent)


@linear_dw_block.emit
def _(dw: Value, dwe: Value, m: Value, e: Value, x: Value, *, target: str = "host", tight: int = 0) -> Call:
    shape = rows_struct(m, x)
    if target == "mcu":
        return pairs_dw(dw, dwe, m, e, x, (), shape, tight)
    scratch = Scratch(2 * shape.sizes["w"] * m.shape[-1])
    sizes = (None, x.shape[-1], x.type.zero, headroom(pixel_count(m.type), INPUT_BITS), shape, scratch)
    return Call(f"conv2d_dw_{m.dtype}", dw, dwe, m, e, x, *sizes)


@linear_dw_block.macs
def _(dw: Value, m: Value, e: Value, x: Value) -> int:
    return m.type.size * x.shape[-1]
