"""The gradients of convolutions: with respect to the input (dx) and to the weights (dw).

Gradients are f32 and in real units whatever the forward arithmetic: an s8 operand represents the reals that its type
defines. In C, each result is one chain of fused multiply-adds in the order of the formula, on every machine, so
programs with int8 forward passes train to the same bytes everywhere.
"""

from __future__ import annotations

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Node, Type, Value, f32, op, s8
from insitu.graph.call import Call, Scales, Scratch, Source, Struct, Table
from insitu.ops._functions import real
from insitu.ops._types import Array, Ints, Padding, Pair
from insitu.ops._windows import (
    conv_output,
    conv_shape,
    is_pointwise,
    patches,
    scatter_patches,
)

PIECE = 16  # pixels whose gradients are scaled, or whose channels are picked, at a time: the use of scratch
TIGHT_PIECE = 4  # the same if scratch is short


def dx_eval(g, w, size, stride, padding, dilation, groups):
    n, oh, ow, o = g.shape
    _, kh, kw, ci = w.shape
    left = g.reshape(n * oh * ow, groups, o // groups).transpose(1, 0, 2)
    cols = left @ w.reshape(groups, o // groups, -1)
    cols = cols.transpose(1, 0, 2).reshape(n, oh, ow, groups, kh, kw, ci).transpose(0, 1, 2, 4, 5, 3, 6)
    return scatter_patches(cols.reshape(n, oh, ow, kh, kw, -1), size, (kh, kw), stride, padding, dilation)


def dw_eval(g, x, kernel, stride, padding, dilation, groups):
    cols = patches(x, kernel, stride, padding, dilation)
    n, oh, ow, kh, kw, c = cols.shape
    o = g.shape[3]
    left = g.reshape(n * oh * ow, groups, o // groups).transpose(1, 2, 0)
    right = cols.reshape(n * oh * ow, kh * kw, groups, c // groups).transpose(2, 0, 1, 3)
    return (left @ right.reshape(groups, n * oh * ow, -1)).reshape(o, kh, kw, c // groups)


def scale_table(type: Type, channels: int) -> Table | None:
    """One scale per channel as f32, or None for a float operand."""
    if type.quant is None:
        return None
    return Table(np.broadcast_to(np.array(type.quant.scale, np.float32), channels).copy())


def scale_source(type: Type, channels: int) -> tuple[Scales | None, Source | None]:
    """The same as two arguments for a small machine: a table, or its source."""
    table = scale_table(type, channels)
    scales = Scales(table.array) if table else None
    return scales, Source(scales) if scales else None


FOURS_FLOATS = 4096  # of rows that linear_fours_dx_s8 and _dw_s8 lay out at a time; never fewer than sixteen rows


def rows_struct(g, x) -> Struct:
    """All dimensions but the last as rows: for linear, and for a 1x1 convolution with stride one."""
    return Struct("linear_shape", rows=g.type.size // g.shape[-1], i=x.shape[-1], o=g.shape[-1])


TIGHT_ROWS, TIGHT_DEPTH = 16, 32  # rows, and outputs of each row, laid out at a time if scratch is short


def fours_dx(dx, g, w, tight: int = 0, parts: tuple = (None, None, 0)) -> Call:
    """The kernel for microcontrollers: blocks of four rows and four columns. `parts`: if w is not the whole weight, the
    rest of it, the position of each column, and how many columns w has."""
    shape, o = rows_struct(g, dx), g.shape[-1]
    rows = g.type.size // o
    count = -(-rows // (TIGHT_ROWS if tight else max(16, FOURS_FLOATS // o)))
    tile = (-(-rows // count) + 3) // 4 * 4
    depth = min(o, TIGHT_DEPTH) if tight else o
    scratch = Scratch(1024 + 4 * (tile + 4) * depth + (4 * depth if parts[0] else 0))
    return Call("linear_fours_dx_s8", dx, g, w, *parts, *scale_source(w.type, o), tile, depth, shape, scratch)


def fours_dw(dw, g, x, channels, tight: int = 0) -> Call:
    """The same for dw; with all of the input's channels, or the trained ones."""
    shape, count = rows_struct(g, x), dw.shape[-1]
    wide = (count + 3) // 4 * 4
    piece = min(g.type.size // g.shape[-1], TIGHT_ROWS if tight else max(16, FOURS_FLOATS // wide))
    table = Table(np.array(channels, np.int32)) if channels else None
    quant = (x.type.scale, x.type.zero)
    return Call("linear_fours_dw_s8", dw, g, x, table, count, piece, *quant, shape, Scratch(4 * piece * (wide + 4)))


def windows_dw(dw, g, x, channels, shape: Struct, tight: int = 0) -> Call:
    """The same for windows of more than one pixel, tap by tap."""
    count, wide = dw.shape[-1], (dw.shape[-1] + 3) // 4 * 4
    piece = min(g.type.size // g.shape[-1], TIGHT_ROWS if tight else max(16, FOURS_FLOATS // wide))
    table = Table(np.array(channels, np.int32)) if channels else None
    sizes = (x.type.scale, x.type.zero, shape, Scratch(4 * piece * (2 + 16 + wide)))
    return Call("conv2d_fours_dw_s8", dw, g, x, table, count, piece, *sizes)


conv2d_dx = op(
    "conv2d_dx",
    "dx[n,r,q,c] = sum over i,j,o of g[n,i,j,o] w[o,u,v,c] where tap u,v of output i,j lies on r,q",
    kind="any",
    cases=[
        Case("3x3 same", (f32(1, 5, 4, 7), f32(7, 3, 3, 3)), {"size": (5, 4), "padding": (1, 1, 1, 1)}),
        Case("1x1", (f32(2, 3, 3, 4), f32(4, 1, 1, 5)), {"size": (3, 3)}),
        Case("1x1 s8", (f32(1, 3, 3, 19), s8(19, 1, 1, 37, s=np.linspace(0.01, 0.2, 19), axis=0)), {"size": (3, 3)}),
        Case("1x1 s8, deep", (f32(1, 3, 7, 131), s8(131, 1, 1, 50, s=0.02)), {"size": (3, 7)}),
        Case("3x3 s8", (f32(1, 2, 19, 3), s8(3, 3, 3, 5, s=0.02)), {"size": (2, 19), "padding": (1, 1, 1, 1)}),
        Case(
            "stride, asymmetric, s8",
            (f32(1, 3, 3, 5), s8(5, 3, 3, 3, s=0.02)),
            {"size": (7, 6), "stride": (2, 2), "padding": (0, 1, 0, 1)},
        ),
        Case("groups", (f32(1, 4, 5, 9), f32(9, 3, 3, 2)), {"size": (4, 5), "groups": 3, "padding": (1, 1, 1, 1)}),
        Case(
            "dilated", (f32(1, 7, 9, 3), f32(3, 3, 3, 2)), {"size": (9, 9), "dilation": (2, 3), "padding": (1, 1, 3, 3)}
        ),
    ],
)


@conv2d_dx.infer
def _(
    g: Type, w: Type, *, size: Pair, stride: Pair = (1, 1), padding: Padding = (0, 0, 0, 0), dilation: Pair = (1, 1),
    groups: int = 1,
) -> Type:  # fmt: skip
    dx = Type(g.dtype, (g.shape[0], *size, w.shape[3] * groups))
    if conv_output(dx, w, None, stride, padding, dilation, groups) != g.shape:
        raise GraphError(f"the gradient {g} does not match an input of {size} and weights {w}")
    return dx


@conv2d_dx.eval
def _(
    g: Array, w: Array, *, size: Pair, stride: Pair, padding: Padding, dilation: Pair, groups: int, node: Node
) -> Array:
    return dx_eval(g, real(w, node.inputs[1].type), size, stride, padding, dilation, groups)


@conv2d_dx.emit
def _(
    dx: Value, g: Value, w: Value, *, stride: Pair, padding: Padding, dilation: Pair, groups: int, target: str = "host",
    tight: int = 0,
) -> Call:  # fmt: skip
    shape = conv_shape(g, dx, w, stride, padding, dilation, groups)
    if target == "mcu" and w.dtype == "s8" and groups == 1 and is_pointwise(**shape.sizes):
        return fours_dx(dx, g, w, tight)
    if w.dtype == "s8":
        piece = min(TIGHT_PIECE if tight else PIECE, g.type.size // g.shape[3])
        scratch = Scratch(4 * piece * g.shape[3])
        return Call("conv2d_dx_s8", dx, g, w, scale_table(w.type, w.shape[0]), piece, shape, scratch)
    return Call("conv2d_dx_f32", dx, g, w, shape)


@conv2d_dx.macs
def _(dx: Value, g: Value, w: Value) -> int:
    return g.type.size * w.type.size // w.shape[0]


SHORT_ROW, PATCHES = 8, 4096  # floats in a row of a kernel; in all windows that are side by side


def in_patches(*, kh, kw, c, **_) -> bool:
    """Is a row of this kernel so short that a host copies windows together first?"""
    return kh > 1 and kw * c <= SHORT_ROW and kh * kw * c <= PATCHES // 16


def patch_tile(*, kh, kw, c, oh, ow, sh, sw, dh, dw, **_) -> tuple[int, int]:
    """How many windows are side by side, and the bytes of those and of an image with its padding."""
    tile = min(oh * ow, max(16, PATCHES // (kh * kw * c) // 12 * 12))
    rows, columns = (oh - 1) * sh + (kh - 1) * dh + 1, (ow - 1) * sw + (kw - 1) * dw + 1
    return tile, 4 * (tile * kh * kw * c + rows * columns * c + 2 * SHORT_ROW)


conv2d_dw = op(
    "conv2d_dw",
    """dw[o,u,v,k] = sum over n,i,j of g[n,i,j,o] x[n, i*sh + u*dh - top, j*sw + v*dw - left, channels[k]]

    `channels` are the input channels whose weights are trained, by default all.
    """,
    kind="any",
    cases=[
        Case("3x3 same", (f32(1, 5, 4, 7), f32(1, 5, 4, 3)), {"kernel": (3, 3), "padding": (1, 1, 1, 1)}),
        Case("1x1", (f32(2, 3, 3, 4), f32(2, 3, 3, 5)), {"kernel": (1, 1)}),
        Case("1x1 s8", (f32(1, 3, 3, 5), s8(1, 3, 3, 37, s=0.03, z=-7)), {"kernel": (1, 1)}),
        Case("1x1 s8, many pixels", (f32(1, 7, 19, 13), s8(1, 7, 19, 50, s=0.03, z=-7)), {"kernel": (1, 1)}),
        Case("some channels of many pixels", (f32(1, 5, 7, 3), s8(1, 5, 7, 20, s=0.03, z=9)),
             {"kernel": (1, 1), "channels": tuple(range(0, 20, 3))}),
        Case("some channels", (f32(1, 3, 3, 5), s8(1, 3, 3, 9, s=0.03, z=9)),
             {"kernel": (1, 1), "channels": (1, 5, 8)}),
        Case("some channels, 3x3", (f32(1, 4, 4, 2), f32(1, 4, 4, 5)),
             {"kernel": (3, 3), "padding": (1, 1, 1, 1), "channels": (4, 0)}),
        Case(
            "stride, asymmetric, s8",
            (f32(1, 3, 3, 5), s8(1, 7, 6, 3, s=0.02, z=-128)),
            {"kernel": (3, 3), "stride": (2, 2), "padding": (0, 1, 0, 1)},
        ),
        Case("groups", (f32(1, 4, 5, 9), f32(1, 4, 5, 6)), {"kernel": (3, 3), "groups": 3, "padding": (1, 1, 1, 1)}),
        Case("3x3 s8", (f32(1, 7, 6, 18), s8(1, 7, 6, 9, s=0.02, z=5)), {"kernel": (3, 3), "padding": (1, 1, 1, 1)}),
        Case("3x3 s8, some channels", (f32(2, 4, 5, 5), s8(2, 4, 5, 7, s=0.02, z=5)),
             {"kernel": (3, 3), "padding": (1, 1, 1, 1), "channels": (6, 0, 2)}),
        Case("short rows", (f32(2, 9, 5, 18), f32(2, 17, 10, 1)),
             {"kernel": (10, 4), "stride": (2, 2), "padding": (5, 4, 1, 1)}),
        Case("short rows, dilated", (f32(1, 9, 30, 5), f32(1, 9, 30, 2)),
             {"kernel": (3, 3), "dilation": (1, 2), "padding": (1, 1, 2, 2)}),
    ],
)  # fmt: skip
conv2d_dw.may(by_outputs=1, some_channels=True)


@conv2d_dw.infer
def _(
    g: Type, x: Type, *, kernel: Pair, stride: Pair = (1, 1), padding: Padding = (0, 0, 0, 0), dilation: Pair = (1, 1),
    groups: int = 1, channels: Ints = (),
) -> Type:  # fmt: skip
    ci = x.shape[3] // max(groups, 1)
    w = f32(g.shape[3], *kernel, ci)
    if conv_output(x, w, None, stride, padding, dilation, groups) != g.shape:
        raise GraphError(f"the gradient {g} does not match an input {x} and a kernel of {kernel}")
    if channels and (groups != 1 or not all(0 <= c < ci for c in channels) or len(set(channels)) < len(channels)):
        raise GraphError(f"{channels} are not distinct channels of {x} in one group")
    return Type(g.dtype, (g.shape[3], *kernel, len(channels) or ci))


@conv2d_dw.eval
def _(
    g: Array, x: Array, *, kernel: Pair, stride: Pair, padding: Padding, dilation: Pair, groups: int, channels: Ints,
    node: Node,
) -> Array:  # fmt: skip
    x = real(x, node.inputs[1].type)
    return dw_eval(g, x[..., list(channels)] if channels else x, kernel, stride, padding, dilation, groups)


@conv2d_dw.emit
def _(
    dw: Value, g: Value, x: Value, *, stride: Pair, padding: Padding, dilation: Pair, groups: int, channels: Ints,
    target: str = "host", tight: int = 0,
) -> Call:  # fmt: skip
    shape = conv_shape(g, x, dw, stride, padding, dilation, groups)
    if target == "mcu" and x.dtype == "s8" and groups == 1 and is_pointwise(**shape.sizes):
        return fours_dw(dw, g, x, channels, tight)
    if target == "mcu" and x.dtype == "s8" and groups == 1:
        return windows_dw(dw, g, x, channels, shape, tight)
    if target == "host" and x.dtype != "s8" and groups == 1 and not channels and in_patches(**shape.sizes):
        tile, room = patch_tile(**shape.sizes)
        return Call("conv2d_patches_dw_f32", dw, g, x, tile, shape, Scratch(room + 4 * dw.type.size))
    table = Table(np.array(channels, np.int32)) if channels else None
    piece = (TIGHT_PIECE if tight else 2 * PIECE) if channels else 0
    scratch = Scratch(piece * len(channels) * x.type.numpy.itemsize)
    count = (table, len(channels), piece)
    if x.dtype == "s8":
        return Call("conv2d_dw_s8", dw, g, x, *count, x.type.scale, x.type.zero, shape, scratch)
    return Call("conv2d_dw_f32", dw, g, x, *count, shape, scratch)


@conv2d_dw.macs
def _(dw: Value, g: Value, x: Value) -> int:
    return dw.type.size * g.type.size // g.shape[3]


bias_grad = op(
    "bias_grad",
    "db[o] = sum over all positions of g[.., o], in order",
    cases=[Case("map", (f32(2, 3, 3, 5),)), Case("row", (f32(1, 7),)), Case("wide", (f32(4, 37),))],
)


@bias_grad.infer
def _(g: Type) -> Type:
    return Type(g.dtype, (g.shape[-1],))


@bias_grad.eval
def _(g: Array) -> Array:
    return g.reshape(-1, g.shape[-1]).sum(0)


@bias_grad.emit
def _(db: Value, g: Value) -> Call:
    return Call("bias_grad_f32", db, g, g.type.size // g.shape[-1], g.shape[-1])
