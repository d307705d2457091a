"""Max and average over windows, NHWC: x[N,H,W,C] -> y[N,OH,OW,C]. Padding is (top, bottom, left, right)."""

from __future__ import annotations

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Node, Type, Value, f32, op, s8
from insitu.graph.call import Call, Scratch
from insitu.graph.op import Grads
from insitu.ops._requant import quantised, quantize_multipliers, requant_struct, rescaled, want_s8
from insitu.ops._stripes import pool_rows
from insitu.ops._types import Array, Masked, Out, Padding, Pair
from insitu.ops._windows import patches, pool_output, pool_shape, window_counts
from insitu.ops.mask import apart, beside, clamped, unclamped
from insitu.ops.pool_backward import avg_pool2d_dx, max_pool2d_dx

max_pool2d = op(
    "max_pool2d",
    "y[n,i,j,c] = max over u,v of x[n, i*sh + u*dh - top, j*sw + v*dw - left, c]; padding never wins",
    kind="any",
    cases=[
        Case("2x2", (f32(1, 5, 4, 3),), {"kernel": (2, 2), "stride": (2, 2)}),
        Case("3x3 padded", (f32(2, 5, 6, 17),), {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1, 0, 1)}),
        Case("dilated", (f32(1, 6, 7, 1),), {"kernel": (2, 3), "stride": (1, 1), "dilation": (2, 2)}),
        Case("s8", (s8(1, 5, 6, 19, s=0.1, z=-3),), {"kernel": (3, 2), "stride": (2, 1), "padding": (1, 0, 1, 0)}),
        Case("s8 one", (s8(1, 1, 1, 1, s=0.1, z=5),), {"kernel": (1, 1), "stride": (1, 1)}),
    ],
)
max_pool2d.may(stripes=pool_rows, moves=True)


@max_pool2d.infer
def _(x: Type, *, kernel: Pair, stride: Pair, padding: Padding = (0, 0, 0, 0), dilation: Pair = (1, 1)) -> Type:
    return Type(x.dtype, pool_output(x, kernel, stride, padding, dilation), x.quant)


@max_pool2d.eval
def _(x: Array, *, kernel: Pair, stride: Pair, padding: Padding, dilation: Pair) -> Array:
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    return patches(x, kernel, stride, padding, dilation, fill=lowest).max(axis=(3, 4))


@max_pool2d.grad
def _(g: Value, y: Value, x: Value, *, node: Node) -> Grads:
    return (max_pool2d_dx(g, x, **node.attrs, name=f"{x.name}.grad"),)


@max_pool2d.emit
def _(y: Value, x: Value, *, kernel: Pair, stride: Pair, padding: Padding, dilation: Pair) -> Call:
    return Call(f"max_pool2d_{y.dtype}", y, x, pool_shape(y, x, kernel, stride, padding, dilation))


avg_pool2d = op(
    "avg_pool2d",
    "y[n,i,j,c] = the mean of the window; padding counts as zeros with count_include_pad, else not at all",
    cases=[
        Case("2x2", (f32(1, 5, 4, 3),), {"kernel": (2, 2), "stride": (2, 2)}),
        Case("padded", (f32(2, 5, 6, 17),), {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1, 0, 1)}),
        Case(
            "padding counts", (f32(1, 4, 5, 1),),
            {"kernel": (3, 2), "stride": (1, 1), "padding": (1, 1, 1, 0), "count_include_pad": True},
        ),
        Case("many channels", (f32(1, 3, 4, 70),), {"kernel": (3, 4), "stride": (3, 4)}),
    ],
)  # fmt: skip
avg_pool2d.may(stripes=pool_rows)


@avg_pool2d.infer
def _(x: Type, *, kernel: Pair, stride: Pair, padding: Padding = (0, 0, 0, 0), count_include_pad: bool = False) -> Type:
    return Type(x.dtype, pool_output(x, kernel, stride, padding))


@avg_pool2d.eval
def _(x: Array, *, kernel: Pair, stride: Pair, padding: Padding, count_include_pad: bool) -> Array:
    counts = window_counts((x.shape[1], x.shape[2]), kernel, stride, padding, count_include_pad)
    return patches(x, kernel, stride, padding, (1, 1)).sum(axis=(3, 4)) / counts.astype(x.dtype)


@avg_pool2d.grad
def _(g: Value, y: Value, x: Value, *, node: Node) -> Grads:
    return (avg_pool2d_dx(g, size=x.shape[1:3], **node.attrs, name=f"{x.name}.grad"),)


@avg_pool2d.emit
def _(y: Value, x: Value, *, kernel: Pair, stride: Pair, padding: Padding, count_include_pad: bool) -> Call:
    shape = pool_shape(y, x, kernel, stride, padding)
    return Call("avg_pool2d_f32", y, x, shape, int(count_include_pad))


avg_pool2d_s8 = op(
    "avg_pool2d_s8",
    """The mean of the window, clamped to lo..hi; if the padding counts, it is x_zero.

    single   requantise(sum of x - x_zero) by s_x / (s_y count)
    litert   round_half_away(sum of x / count): input and output have the same scale and zero point
    """,
    cases=[
        Case("2x2", (s8(1, 5, 4, 3, s=0.1, z=-7),), {"kernel": (2, 2), "stride": (2, 2)}, out=s8(s=0.08, z=3)),
        Case(
            "litert, padded", (s8(2, 5, 6, 17, s=0.1, z=-7),),
            {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1, 0, 1), "rounding": "litert", "lo": -90, "hi": 50},
            out=s8(s=0.1, z=-7),
        ),
        Case(
            "padded", (s8(1, 5, 6, 5, s=0.1, z=-7),),
            {"kernel": (3, 2), "stride": (1, 1), "padding": (1, 1, 1, 0)}, out=s8(s=0.1, z=-7),
        ),
        Case(
            "litert, padding counts", (s8(1, 4, 5, 1, s=0.1, z=20),),
            {
                "kernel": (3, 2), "stride": (1, 1), "padding": (1, 1, 1, 0), "count_include_pad": True,
                "rounding": "litert",
            },
            out=s8(s=0.1, z=20),
        ),
        Case(
            "padding counts", (s8(1, 4, 5, 1, s=0.1, z=20),),
            {"kernel": (3, 2), "stride": (1, 1), "padding": (1, 1, 1, 0), "count_include_pad": True}, out=s8(s=0.2),
        ),
        Case(
            "mask", (s8(2, 4, 5, 11, s=0.1, z=20),),
            {"kernel": (2, 2), "stride": (1, 2), "lo": -20, "hi": 30, "mask": True}, out=s8(s=0.07),
        ),
        Case(
            "litert, mask", (s8(1, 4, 5, 3, s=0.1, z=20),),
            {"kernel": (2, 2), "stride": (1, 2), "lo": -20, "hi": 30, "mask": True, "rounding": "litert"},
            out=s8(s=0.1, z=20),
        ),
    ],
)  # fmt: skip
avg_pool2d_s8.may(stripes=pool_rows)
avg_pool2d.may(int8=avg_pool2d_s8)


@avg_pool2d_s8.infer
def _(
    x: Type, *, kernel: Pair, stride: Pair, padding: Padding = (0, 0, 0, 0), count_include_pad: bool = False,
    lo: int = -128, hi: int = 127, rounding: str = "single", mask: bool = False, out: Out,
) -> Type | tuple[Type, ...]:  # fmt: skip
    want_s8("avg_pool2d_s8", x=x)
    y = quantised("avg_pool2d_s8", out, pool_output(x, kernel, stride, padding), rounding, lo, hi)
    if rounding == "litert" and y.quant != x.quant:
        raise GraphError(f"avg_pool2d_s8: LiteRT's average keeps the scale, but got {x} and {y}")
    return beside(y, mask)


@avg_pool2d_s8.eval
def _(
    x: Array, *, kernel: Pair, stride: Pair, padding: Padding, count_include_pad: bool, lo: int, hi: int, rounding: str,
    mask: bool, node: Node,
) -> Array | tuple[Array, ...]:  # fmt: skip
    tx, ty = node.inputs[0].type, node.output.type
    counts = window_counts((x.shape[1], x.shape[2]), kernel, stride, padding, count_include_pad)
    if rounding == "litert":
        fill = tx.zero if count_include_pad else 0
        acc = patches(x.astype(np.int64), kernel, stride, padding, (1, 1), fill).sum(axis=(3, 4))
        mean = np.sign(acc) * ((np.abs(acc) + counts // 2) // counts)
        return clamped(mean, lo, hi, mask)
    acc = patches(x.astype(np.int64) - tx.zero, kernel, stride, padding, (1, 1)).sum(axis=(3, 4))
    m, shift = mean_multipliers(tx, ty, kernel)
    return clamped(rescaled(acc, m[counts - 1], shift[counts - 1], ty.zero, rounding), lo, hi, mask)


@avg_pool2d_s8.grad
def _(
    g: Masked, y: Masked, x: Value, *, kernel: Pair, stride: Pair, padding: Padding, count_include_pad: bool
) -> Grads:
    windows = {"kernel": kernel, "stride": stride, "padding": padding, "count_include_pad": count_include_pad}
    return (avg_pool2d_dx(unclamped(g, y), size=x.shape[1:3], **windows, name=f"{x.name}.grad"),)


@avg_pool2d_s8.emit
def _(
    *values: Value, kernel: Pair, stride: Pair, padding: Padding, count_include_pad: bool, lo: int, hi: int,
    rounding: str,
) -> Call:  # fmt: skip
    y, mask, x = apart(values, 1)
    multipliers = mean_multipliers(x.type, y.type, kernel)
    q = requant_struct(multipliers, x.type.zero, y.type.zero, lo, hi, rounding)
    shape = pool_shape(y, x, kernel, stride, padding)
    return Call("avg_pool2d_s8", y, mask, x, shape, int(count_include_pad), q, Scratch(4 * x.shape[3]))


def mean_multipliers(x: Type, y: Type, kernel):
    """s_x / (s_y count) for every count from 1 to the whole window."""
    counts = np.arange(1, kernel[0] * kernel[1] + 1)
    return quantize_multipliers(x.scale / y.scale / counts)
