"""Depthwise convolutions, float and int8, NHWC: x[N,H,W,C], w[KH,KW,O], b[O] -> y[N,OH,OW,O] with O = C * m.

Output channel o reads input channel o // m. The channels of weights are last, so that a kernel runs along them.
"""

from __future__ import annotations

import numpy as np

from insitu.graph import Case, Node, Type, Value, f32, op, s8, s32
from insitu.graph.call import Call, Scratch
from insitu.graph.op import Grads, Parameters
from insitu.ops._requant import align16, channel_multipliers, layer_requant, quantised, ramp, rescaled, want_weights
from insitu.ops._stripes import depthwise_rows
from insitu.ops._types import Array, Masked, Out, Padding, Pair
from insitu.ops._windows import (
    centred,
    depthwise_eval,
    depthwise_output,
    depthwise_shape,
    integer_sums,
    taps_scratch,
)
from insitu.ops.conv_backward import bias_grad
from insitu.ops.depthwise_backward import depthwise2d_dw, depthwise2d_dx
from insitu.ops.mask import beside, clamped, unclamped, with_mask, with_masks


def depthwise_grads(g, x, w, b, attrs) -> tuple:
    """The gradients of x, w and, if there is one, the bias."""
    size = {"size": x.shape[1:3], "channels": x.shape[3]}
    dx = depthwise2d_dx(g, w, **size, **attrs, name=f"{x.name}.grad")
    dw = depthwise2d_dw(g, x, kernel=w.shape[:2], **attrs, name=f"{w.name}.grad")
    return (dx, dw) if b is None else (dx, dw, bias_grad(g, name=f"{b.name}.grad"))


depthwise2d = op(
    "depthwise2d",
    "y[n,i,j,o] = b[o] + sum over u,v of w[u,v,o] x[n, i*sh + u*dh - top, j*sw + v*dw - left, o // m]",
    cases=[
        Case("3x3 same", (f32(1, 5, 4, 7), f32(3, 3, 7), f32(7)), {"padding": (1, 1, 1, 1)}),
        Case("stride, asymmetric", (f32(2, 7, 6, 3), f32(3, 3, 3)), {"stride": (2, 2), "padding": (0, 1, 0, 1)}),
        Case("multiplier 2", (f32(1, 4, 5, 3), f32(3, 2, 6), f32(6)), {"padding": (1, 1, 0, 1)}),
        Case("one channel to five", (f32(1, 4, 4, 1), f32(3, 3, 5), f32(5))),
        Case("long row", (f32(1, 2, 23, 19), f32(2, 5, 19)), {"stride": (1, 2), "padding": (0, 0, 2, 2)}),
        Case("tall", (f32(2, 9, 5, 35), f32(3, 3, 35), f32(35)), {"padding": (1, 1, 1, 1)}),
        Case("tall, no padding", (f32(1, 11, 3, 16), f32(3, 3, 16))),
        Case(
            "dilated, wide", (f32(1, 6, 6, 19), f32(3, 3, 19), f32(19)), {"dilation": (2, 1), "padding": (2, 2, 1, 1)}
        ),
    ],
)
depthwise2d.may(stripes=depthwise_rows, parameters=Parameters())


@depthwise2d.infer
def _(
    x: Type, w: Type, b: Type | None = None, *, stride: Pair = (1, 1), padding: Padding = (0, 0, 0, 0),
    dilation: Pair = (1, 1),
) -> Type:  # fmt: skip
    return Type(x.dtype, depthwise_output(x, w, b, stride, padding, dilation))


@depthwise2d.eval
def _(x: Array, w: Array, b: Array | None = None, *, stride: Pair, padding: Padding, dilation: Pair) -> Array:
    y = depthwise_eval(x, w, stride, padding, dilation)
    return y if b is None else y + b


@depthwise2d.grad
def _(
    g: Value, y: Value, x: Value, w: Value, b: Value | None = None, *, stride: Pair, padding: Padding, dilation: Pair
) -> Grads:
    attrs = {"stride": stride, "padding": padding, "dilation": dilation}
    return depthwise_grads(g, x, w, b, attrs)


@depthwise2d.emit
def _(y: Value, x: Value, w: Value, b: Value | None = None, *, stride: Pair, padding: Padding, dilation: Pair) -> Call:
    shape = depthwise_shape(y, x, w, stride, padding, dilation)
    if y.shape[3] != x.shape[3]:
        return Call("depthwise2d_wide_f32", y, x, w, b, shape)
    return Call("depthwise2d_f32", y, x, w, b, shape, taps_scratch(w.shape[:2]))


@depthwise2d.macs
def _(y: Value, x: Value, w: Value, b: Value | None = None) -> int:
    return y.type.size * w.shape[0] * w.shape[1]


BAND_LINES = 16  # rows of outputs that depthwise2d_planes_s8 computes at a time, at most
PLANE_BYTES = 4096  # of rows of four channels, or as much as one row of outputs needs


def planes_band(whole: bool = False, *, oh, ow, kh, kw, sh, sw, **_) -> tuple[int, int, int]:
    """Of depthwise2d_planes_s8: rows of outputs at a time, 16-bit numbers in a row of a plane, scratch. `whole`: all
    rows at once."""
    width = ((ow + 3) // 4 * 4 - 1) * sw + kw + 1 & ~1
    rows = max(PLANE_BYTES // (8 * width), kh)
    most = oh if whole else min(oh, (rows - kh) // sh + 1, BAND_LINES)
    band = -(-oh // -(-oh // most))  # bands of even height
    return band, width, 16 * band + 4 * (band * ow + 4) + 16 * kh * kw + 8 * ((band - 1) * sh + kh) * width


depthwise2d_s8 = op(
    "depthwise2d_s8",
    """acc[n,i,j,o] = b[o] + sum over u,v of w[u,v,o] (x[.., o // m] - x_zero); y = requantise(acc), clamped to lo..hi

    The padding is x_zero. Weights are symmetric: one scale, or one per output channel (axis 2).
    """,
    cases=with_masks([
        Case(
            "3x3 same, per channel", (s8(1, 5, 4, 7, s=0.1, z=-7), s8(3, 3, 7, s=ramp(7), axis=2), s32(7)),
            {"padding": (1, 1, 1, 1)}, out=s8(s=0.3, z=4),
        ),
        Case(
            "litert, stride, asymmetric, wide",
            (s8(2, 7, 6, 35, s=0.05, z=127), s8(3, 3, 35, s=ramp(35), axis=2), s32(35)),
            {"stride": (2, 2), "padding": (0, 1, 0, 1), "lo": -100, "hi": 90, "rounding": "litert"},
            out=s8(s=0.2, z=-128),
        ),
        Case(
            "wider than the image", (s8(1, 2, 3, 16, s=0.1, z=5), s8(5, 4, 16, s=0.02)),
            {"padding": (2, 2, 1, 2)}, out=s8(s=0.3, z=4),
        ),
        Case(
            "litert, dilated", (s8(1, 7, 8, 3, s=0.1, z=5), s8(3, 3, 3, s=0.02), s32(3)),
            {"dilation": (2, 3), "padding": (2, 2, 3, 3), "rounding": "litert"}, out=s8(s=0.3, z=4),
        ),
        Case(
            "litert, multiplier 2", (s8(1, 4, 5, 3, s=0.1, z=-9), s8(3, 2, 6, s=ramp(6), axis=2), s32(6)),
            {"padding": (1, 1, 0, 1), "rounding": "litert"}, out=s8(s=0.3, z=4),
        ),
        Case("one large multiplier among small ones",
             (s8(1, 5, 8, 21, s=0.1, z=-7), s8(3, 3, 21, s=(*ramp(9), 4.0, *ramp(11)), axis=2), s32(21)),
             {"padding": (1, 1, 1, 1)}, out=s8(s=1.0, z=4)),
        Case("5x5 on a long row", (s8(1, 5, 14, 19, s=0.1, z=-7), s8(5, 5, 19, s=ramp(19), axis=2), s32(19)),
             {"padding": (2, 2, 2, 2)}, out=s8(s=0.5, z=4)),
        Case("7x7, stride, four outputs per row", (s8(1, 5, 8, 5, s=0.1, z=-7), s8(7, 7, 5, s=ramp(5), axis=2), s32(5)),
             {"stride": (2, 2), "padding": (3, 3, 3, 3)}, out=s8(s=0.5, z=4)),
        Case("one channel to five", (s8(1, 4, 4, 1, s=0.1, z=3), s8(3, 3, 5, s=0.02), s32(5)), out=s8(s=0.3)),
    ]),
)  # fmt: skip
depthwise2d_s8.may(stripes=depthwise_rows, parameters=Parameters())
depthwise2d.may(int8=depthwise2d_s8)


@depthwise2d_s8.infer
def _(
    x: Type, w: Type, b: Type | None = None, *, stride: Pair = (1, 1), padding: Padding = (0, 0, 0, 0),
    dilation: Pair = (1, 1), lo: int = -128, hi: int = 127, rounding: str = "single", mask: bool = False, out: Out,
) -> Type | tuple[Type, ...]:  # fmt: skip
    want_weights("depthwise2d_s8", x, w, b, axis=2)
    shape = depthwise_output(x, w, b, stride, padding, dilation)
    return beside(quantised("depthwise2d_s8", out, shape, rounding, lo, hi), mask)


@depthwise2d_s8.eval
def _(
    x: Array, w: Array, b: Array | None = None, *, stride: Pair, padding: Padding, dilation: Pair, lo: int, hi: int,
    rounding: str, mask: bool, node: Node,
) -> Array | tuple[Array, ...]:  # fmt: skip
    tx, tw, ty = node.inputs[0].type, node.inputs[1].type, node.output.type
    acc = depthwise_eval(centred(x, tx.zero), w.astype(np.float64), stride, padding, dilation)
    m, shift = channel_multipliers(tx, tw, ty, w.shape[2])
    return clamped(rescaled(integer_sums(acc, b), m, shift, ty.zero, rounding), lo, hi, mask)


@depthwise2d_s8.grad
def _(
    g: Masked, y: Masked, x: Value, w: Value, b: Value | None = None, *, stride: Pair, padding: Padding, dilation: Pair
) -> Grads:
    attrs = {"stride": stride, "padding": padding, "dilation": dilation}
    return depthwise_grads(unclamped(g, y), x, w, b, attrs)


@depthwise2d_s8.emit
def _(
    *values: Value, stride: Pair, padding: Padding, dilation: Pair, lo: int, hi: int, rounding: str, node: Node,
    target: str = "host",
) -> Call:  # fmt: skip
    y, mask, x, w, b = with_mask(node)
    shape = depthwise_shape(y, x, w, stride, padding, dilation)
    multipliers = channel_multipliers(x.type, w.type, y.type, w.shape[2])
    q = layer_requant(x.type, y.type, multipliers, lo, hi, rounding)
    if y.shape[3] != x.shape[3]:
        return Call("depthwise2d_wide_s8", y, mask, x, w, b, shape, q)
    if target == "mcu" and dilation == (1, 1):
        band, width, scratch = planes_band(False, **shape.sizes)
        return Call("depthwise2d_planes_s8", y, mask, x, w, b, band, width, shape, q, Scratch(scratch))
    return Call(
        "depthwise2d_s8",
        y,
        mask,
        x,
        w,
        b,
        shape,
        q,
        Scratch(align16(8 * w.shape[0]) + align16(4 * y.shape[3]) + y.shape[3]),
    )


@depthwise2d_s8.macs
def _(y: Value, x: Value, w: Value, b: Value | None = None) -> int:
    return y.type.size * w.shape[0] * w.shape[1]
