"""Convolutions, float and int8, NHWC: x[N,H,W,C], w[O,KH,KW,C/groups], b[O] -> y[N,OH,OW,O].

Padding is (top, bottom, left, right), so that it can be asymmetric. Depthwise convolutions are an op of their own
(depthwise.py): their weights have a different layout.
"""

from __future__ import annotations

from collections.abc import Collection
from math import inf

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Node, Type, Value, f32, op, s8, s32
from insitu.graph.call import Call, Packed, Scratch, Struct
from insitu.graph.op import Grads, Parameters
from insitu.ops._requant import (
    PANEL,
    TILE,
    align16,
    channel_multipliers,
    layer_requant,
    offsets_s8,
    packed_f32,
    packed_s8,
    quantised,
    ramp,
    rescaled,
    turned_panel,
    want_weights,
)  # fmt: skip
from insitu.ops._stripes import conv_rows
from insitu.ops._types import Array, Masked, Out, Padding, Pair
from insitu.ops._windows import centred, conv_eval, conv_output, conv_shape, integer_sums, is_pointwise
from insitu.ops.conv_backward import bias_grad, conv2d_dw, conv2d_dx, in_patches, patch_tile
from insitu.ops.layout import reshape
from insitu.ops.mask import beside, clamped, unclamped, with_mask, with_masks

NO_END = (None, -inf, inf)  # nothing is added, nothing clamped


def conv_call(y, x, w, b, shape: Struct, fixed, target, end=NO_END) -> Call:
    """The float kernel. Weights (input 1) of one group are packed if they are constant and a copy fits; else a machine
    with plenty of memory transposes some outputs' at a time. `end`: what is added, and the range of the result."""
    added, lo, hi = end[0], float(end[1]), float(end[2])
    outputs, channels = w.shape[0] // shape.sizes["groups"], w.shape[-1]
    if target == "host" and shape.sizes["groups"] == 1:
        if in_patches(**shape.sizes):
            plain, weights = (0, Packed(w, packed_f32)) if 1 in fixed else (1, w)
            tile, room = patch_tile(**shape.sizes)
            scratch = Scratch(room + 4 * plain * w.type.size)
            return Call("conv2d_patches_f32", y, x, weights, b, added, lo, hi, plain, tile, shape, scratch)
        if 1 in fixed:
            return Call("conv2d_packed_f32", y, x, Packed(w, packed_f32), b, added, lo, hi, shape)
        scratch = Scratch(4 * min(PANEL, outputs) * (w.type.size // w.shape[0]))
        return Call("conv2d_turned_f32", y, x, w, b, added, lo, hi, shape, scratch)
    panel, depth = turned_panel(outputs, w.type.size // w.shape[0] // channels, channels)
    return Call("conv2d_f32", y, x, w, b, panel, depth, shape, Scratch(4 * panel * depth))


def conv_grads(g, x, w, b, attrs) -> tuple:
    """The gradients of x, w and, if there is one, the bias."""
    dx = conv2d_dx(g, w, size=x.shape[1:3], **attrs, name=f"{x.name}.grad")
    dw = conv2d_dw(g, x, kernel=w.shape[1:3], **attrs, name=f"{w.name}.grad")
    return (dx, dw) if b is None else (dx, dw, bias_grad(g, name=f"{b.name}.grad"))


conv2d = op(
    "conv2d",
    "y[n,i,j,o] = b[o] + sum over u,v,c of w[o,u,v,c] x[n, i*sh + u*dh - top, j*sw + v*dw - left, c]",
    cases=[
        Case("3x3 same", (f32(1, 5, 4, 3), f32(7, 3, 3, 3), f32(7)), {"padding": (1, 1, 1, 1)}),
        Case("1x1", (f32(2, 3, 3, 5), f32(4, 1, 1, 5), f32(4))),
        Case("no bias", (f32(1, 4, 4, 2), f32(3, 2, 2, 2))),
        Case(
            "stride, asymmetric",
            (f32(1, 7, 6, 3), f32(5, 3, 3, 3), f32(5)),
            {"stride": (2, 2), "padding": (0, 1, 0, 1)},
        ),
        Case("dilated", (f32(1, 9, 9, 2), f32(3, 3, 3, 2), f32(3)), {"dilation": (2, 3), "padding": (2, 2, 3, 3)}),
        Case("groups", (f32(1, 4, 5, 6), f32(9, 3, 3, 2), f32(9)), {"groups": 3, "padding": (1, 1, 1, 1)}),
        Case("one pixel", (f32(1, 1, 1, 1), f32(1, 3, 3, 1), f32(1)), {"padding": (1, 1, 1, 1)}),
        Case("windows on padding alone", (f32(1, 2, 3, 3), f32(4, 2, 2, 3), f32(4)), {"padding": (2, 2, 3, 2)}),
        Case("1x1, deep", (f32(1, 2, 3, 131), f32(33, 1, 1, 131), f32(33))),
        Case("1x1, wide", (f32(1, 3, 5, 6), f32(51, 1, 1, 6))),
        Case(
            "short rows", (f32(2, 17, 10, 1), f32(18, 10, 4, 1), f32(18)), {"stride": (2, 2), "padding": (5, 4, 1, 1)}
        ),
        Case("short rows, many", (f32(1, 5, 19, 2), f32(70, 3, 3, 2), f32(70)), {"padding": (1, 1, 1, 1)}),
        Case(
            "short rows that fill blocks",
            (f32(2, 5, 10, 1), f32(64, 3, 4, 1)),
            {"stride": (2, 2), "padding": (1, 1, 1, 1)},
        ),
        Case(
            "short rows, dilated", (f32(1, 9, 30, 2), f32(51, 3, 3, 2)), {"dilation": (1, 2), "padding": (1, 1, 2, 2)}
        ),
        Case("3x3, deep", (f32(2, 4, 3, 30), f32(5, 3, 3, 30), f32(5)), {"stride": (2, 1), "padding": (1, 1, 1, 1)}),
    ],
)
conv2d.may(stripes=conv_rows, parameters=Parameters())


@conv2d.infer
def _(
    x: Type, w: Type, b: Type | None = None, *, stride: Pair = (1, 1), padding: Padding = (0, 0, 0, 0),
    dilation: Pair = (1, 1), groups: int = 1,
) -> Type:  # fmt: skip
    return Type(x.dtype, conv_output(x, w, b, stride, padding, dilation, groups))


@conv2d.eval
def _(
    x: Array, w: Array, b: Array | None = None, *, stride: Pair, padding: Padding, dilation: Pair, groups: int
) -> Array:
    y = conv_eval(x, w, stride, padding, dilation, groups)
    return y if b is None else y + b


@conv2d.grad
def _(g: Value, y: Value, x: Value, w: Value, b: Value | None = None, *, node: Node) -> Grads:
    return conv_grads(g, x, w, b, dict(node.attrs))


@conv2d.emit
def _(
    y: Value, x: Value, w: Value, b: Value | None = None, *, stride: Pair, padding: Padding, dilation: Pair,
    groups: int, fixed: Collection[int] = (), target: str = "host",
) -> Call:  # fmt: skip
    shape = conv_shape(y, x, w, stride, padding, dilation, groups)
    return conv_call(y, x, w, b, shape, fixed, target)


@conv2d.macs
def _(y: Value, x: Value, w: Value, b: Value | None = None) -> int:
    return y.type.size * w.type.size // w.shape[0]


def packed_scratch(runs, *, h, w, c, oh, ow, kh, kw, sh, sw, dh, dw, **_) -> int:
    """Bytes of scratch of conv2d_packed_s8: sixteen pixels, or the rows of x that a row of outputs needs."""
    if kh * kw * sh * sw == 1 and (oh, ow) == (h, w) and c % 4 == 0:
        return 2 * TILE * c
    wide = ((ow - 1) * sw + (kw - 1) * dw + 1) * c
    return align16(8 * runs) + ((kh - 1) * dh + 1) * align16(wide + 3)


def packed_panel(outputs: int, runs: int, length: int) -> tuple[int, int]:
    """How many outputs conv2d_s8 packs at a time, and the bytes of their weights: 8 KB, or those of sixteen outputs."""
    each = runs * ((length + 3) // 4 * 4)
    panel = min(align16(outputs), max(16, 8192 // each // 16 * 16))
    return panel, panel * each


def pairs_tile(window: int, tight: int, *, n, oh, ow, **sizes) -> tuple[int, int]:
    """How many windows conv2d_pairs_s8 widens at a time, and its scratch: 8 KB of windows, at least sixteen; eight or
    four if memory is tight, but then weights are widened again for each group of windows."""
    length, pixels = (window + 3) // 4 * 4, n * oh * ow
    parts = -(-pixels // (16 >> tight if tight else max(16, min(128, 4096 // length))))
    tile = (-(-pixels // parts) + 3) // 4 * 4
    side = 0 if is_pointwise(oh=oh, ow=ow, **sizes) else 4 * length
    return tile, 512 + 2 * tile * length + 4 * length + side


conv2d_s8 = op(
    "conv2d_s8",
    """acc[n,i,j,o] = b[o] + sum over u,v,c of w[o,u,v,c] (x[..] - x_zero); y = requantise(acc), clamped to lo..hi

    The padding is x_zero. Weights are symmetric: one scale, or one per output channel (axis 0).
    """,
    cases=with_masks([
        Case(
            "3x3 same, per channel", (s8(1, 5, 4, 3, s=0.1, z=-7), s8(7, 3, 3, 3, s=ramp(7), axis=0), s32(7)),
            {"padding": (1, 1, 1, 1)}, out=s8(s=0.3, z=4),
        ),
        Case(
            "litert, stride, asymmetric",
            (s8(2, 7, 6, 5, s=0.05, z=127), s8(17, 3, 3, 5, s=ramp(17), axis=0), s32(17)),
            {"stride": (2, 2), "padding": (0, 1, 0, 1), "lo": -100, "hi": 90, "rounding": "litert"},
            out=s8(s=0.2, z=-128),
        ),
        Case("1x1, per tensor", (s8(1, 3, 3, 8, s=0.1, z=-128), s8(33, 1, 1, 8, s=0.01)), out=s8(s=0.05, z=-3)),
        Case(
            "litert, 1x1, more than a tile",
            (s8(1, 3, 5, 16, s=0.1, z=3), s8(40, 1, 1, 16, s=ramp(40), axis=0), s32(40)),
            {"rounding": "litert", "lo": -128}, out=s8(s=0.1, z=-128),
        ),
        Case("1x1, one large multiplier among small ones",
             (s8(1, 2, 6, 36, s=0.1, z=-7), s8(21, 1, 1, 36, s=(*ramp(9), 4.0, *ramp(11)), axis=0), s32(21)),
             out=s8(s=1.0, z=-5)),
        Case("1x1, more than a panel", (s8(1, 3, 6, 300, s=0.1, z=3), s8(41, 1, 1, 300, s=ramp(41), axis=0), s32(41)),
             {"lo": -100}, out=s8(s=3.0, z=-5)),
        Case(
            "dilated", (s8(1, 9, 9, 2, s=0.1, z=1), s8(3, 3, 3, 2, s=ramp(3), axis=0), s32(3)),
            {"dilation": (2, 3), "padding": (2, 2, 3, 3)}, out=s8(s=0.2),
        ),
        Case(
            "litert, groups", (s8(1, 4, 5, 6, s=0.1, z=-1), s8(9, 3, 3, 2, s=ramp(9), axis=0), s32(9)),
            {"groups": 3, "padding": (1, 1, 1, 1), "rounding": "litert"}, out=s8(s=0.2, z=9),
        ),
        Case("3x3 on a long row", (s8(1, 3, 11, 3, s=0.1, z=-7), s8(5, 3, 3, 3, s=ramp(5), axis=0), s32(5)),
             {"padding": (1, 1, 1, 1)}, out=s8(s=0.3, z=4)),
        Case("5x3 on a long row", (s8(1, 6, 14, 3, s=0.1, z=9), s8(2, 5, 3, 3, s=ramp(2), axis=0)),
             {"stride": (1, 2)}, out=s8(s=0.3, z=-4)),
        Case("multiplier above one", (s8(1, 1, 2, 1, s=0.9, z=0), s8(1, 1, 1, 1, s=0.5), s32(1)), out=s8(s=0.05)),
        Case(
            "litert, multiplier above one", (s8(1, 1, 2, 1, s=0.9, z=0), s8(1, 1, 1, 1, s=0.5), s32(1)),
            {"rounding": "litert"}, out=s8(s=0.05),
        ),
        Case(
            "tiny multipliers", (s8(1, 2, 2, 3, s=1e-4), s8(2, 1, 1, 3, s=(1e-9, 3e-3), axis=0), s32(2)),
            {"rounding": "litert"}, out=s8(s=0.5, z=2),
        ),
    ]),
)  # fmt: skip
conv2d_s8.may(stripes=conv_rows, parameters=Parameters())
conv2d.may(int8=conv2d_s8)


@conv2d_s8.infer
def _(
    x: Type, w: Type, b: Type | None = None, *, stride: Pair = (1, 1), padding: Padding = (0, 0, 0, 0),
    dilation: Pair = (1, 1), groups: int = 1, lo: int = -128, hi: int = 127, rounding: str = "single",
    mask: bool = False, out: Out,
) -> Type | tuple[Type, ...]:  # fmt: skip
    want_weights("conv2d_s8", x, w, b, axis=0)
    shape = conv_output(x, w, b, stride, padding, dilation, groups)
    return beside(quantised("conv2d_s8", out, shape, rounding, lo, hi), mask)


@conv2d_s8.eval
def _(
    x: Array, w: Array, b: Array | None = None, *, stride: Pair, padding: Padding, dilation: Pair, groups: int, lo: int,
    hi: int, rounding: str, mask: bool, node: Node,
) -> Array | tuple[Array, ...]:  # fmt: skip
    tx, tw, ty = node.inputs[0].type, node.inputs[1].type, node.output.type
    acc = conv_eval(centred(x, tx.zero), w.astype(np.float64), stride, padding, dilation, groups)
    m, shift = channel_multipliers(tx, tw, ty, w.shape[0])
    return clamped(rescaled(integer_sums(acc, b), m, shift, ty.zero, rounding), lo, hi, mask)


@conv2d_s8.grad
def _(
    g: Masked, y: Masked, x: Value, w: Value, b: Value | None = None, *, stride: Pair, padding: Padding, dilation: Pair,
    groups: int,
) -> Grads:  # fmt: skip
    attrs = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return conv_grads(unclamped(g, y), x, w, b, attrs)


@conv2d_s8.emit
def _(
    *values: Value, stride: Pair, padding: Padding, dilation: Pair, groups: int, lo: int, hi: int, rounding: str,
    node: Node, fixed: Collection[int] = (), target: str = "host", tight: int = 0,
) -> Call:  # fmt: skip
    y, mask, x, w, b = with_mask(node)
    shape = conv_shape(y, x, w, stride, padding, dilation, groups)
    multipliers = channel_multipliers(x.type, w.type, y.type, w.shape[0])
    q = layer_requant(x.type, y.type, multipliers, lo, hi, rounding)
    window = w.type.size // w.shape[0]
    if groups > 1:
        return Call("conv2d_grouped_s8", y, mask, x, w, b, shape, q, Scratch(2 * window))
    if target == "mcu":
        tile, scratch = pairs_tile(window, tight, **shape.sizes)
        return Call("conv2d_pairs_s8", y, mask, x, w, b, tile, w.shape[0], shape, q, Scratch(scratch))
    runs = w.shape[1] if dilation[1] == 1 else w.shape[1] * w.shape[2]
    scratch = packed_scratch(runs, **shape.sizes)
    if 1 in fixed:
        weights = (Packed(w, packed_s8(runs)), b, Packed(w, offsets_s8(x.type.zero)))
        return Call("conv2d_packed_s8", y, mask, x, *weights, shape, q, Scratch(scratch))
    panel, room = packed_panel(w.shape[0], runs, window // runs)
    tiles = align16(scratch)
    return Call("conv2d_s8", y, mask, x, w, b, panel, tiles, shape, q, Scratch(tiles + room + 4 * panel))


@conv2d_s8.macs
def _(y: Value, x: Value, w: Value, b: Value | None = None) -> int:
    return y.type.size * w.type.size // w.shape[0]


def widened(x: Type) -> Type:
    """A rank-3 type [N,L,C] (or a value of one) as the image [N,1,L,C] of height one."""
    n, length, c = x.shape
    return Type(x.dtype, (n, 1, length, c), x.quant)


conv1d = op(
    "conv1d",
    "y[n,i,o] = b[o] + sum over k,c of w[o,k,c] x[n, i*stride + k*dilation - before, c]; padding = (before, after)",
    cases=[
        Case("3 same", (f32(1, 5, 3), f32(7, 3, 3), f32(7)), {"padding": (1, 1)}),
        Case("stride, asymmetric", (f32(2, 8, 3), f32(5, 3, 3), f32(5)), {"stride": 2, "padding": (0, 1)}),
        Case("groups, dilated", (f32(1, 9, 4), f32(6, 3, 2)), {"dilation": 2, "padding": (2, 2), "groups": 2}),
        Case("one", (f32(1, 1, 1), f32(1, 1, 1), f32(1))),
    ],
)
conv1d.may(parameters=Parameters())


@conv1d.infer
def _(
    x: Type, w: Type, b: Type | None = None, *, stride: int = 1, padding: Pair = (0, 0), dilation: int = 1,
    groups: int = 1,
) -> Type:  # fmt: skip
    if x.rank != 3 or w.rank != 3:
        raise GraphError(f"conv1d needs x of rank 3 and w of rank 3, not {x} and {w}")
    n, _, length, o = conv_output(
        widened(x), widened(w), b, (1, stride), (0, 0, *padding), (1, dilation), groups
    )  # fmt: skip
    return Type(x.dtype, (n, length, o))


@conv1d.eval
def _(x: Array, w: Array, b: Array | None = None, *, stride: int, padding: Pair, dilation: int, groups: int) -> Array:
    y = conv_eval(x[:, None], w[:, None], (1, stride), (0, 0, *padding), (1, dilation), groups)[:, 0]
    return y if b is None else y + b


@conv1d.grad
def _(
    g: Value, y: Value, x: Value, w: Value, b: Value | None = None, *, stride: int, padding: Pair, dilation: int,
    groups: int,
) -> Grads:  # fmt: skip
    gi, xi, wi = (reshape(v, shape=widened(v.type).shape) for v in (g, x, w))
    attrs = {"stride": (1, stride), "padding": (0, 0, *padding), "dilation": (1, dilation), "groups": groups}
    dx, dw, *db = conv_grads(gi, xi, wi, b, attrs)
    flat = [reshape(d, shape=v.shape, name=f"{v.name}.grad") for d, v in ((dx, x), (dw, w))]
    return *flat, *db


@conv1d.emit
def _(
    y: Value, x: Value, w: Value, b: Value | None = None, *, stride: int, padding: Pair, dilation: int, groups: int,
    fixed: Collection[int] = (), target: str = "host",
) -> Call:  # fmt: skip
    sizes = (widened(y.type), widened(x.type), widened(w.type))
    shape = conv_shape(*sizes, (1, stride), (0, 0, *padding), (1, dilation), groups)
    return conv_call(y, x, w, b, shape, fixed, target)


@conv1d.macs
def _(y: Value, x: Value, w: Value, b: Value | None = None) -> int:
    return y.type.size * w.type.size // w.shape[0]
