"""Transposed convolution, NHWC: x[N,H,W,C], w[C,KH,KW,O/groups], b[O] -> y[N,OH,OW,O]. Float only.

The gradient of conv2d with respect to its input, as an op of its own: torch's ConvTranspose2d.
"""

from __future__ import annotations

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Node, Type, Value, f32, op
from insitu.graph.call import Call
from insitu.graph.op import Grads, Parameters
from insitu.ops._types import Array, Padding, Pair
from insitu.ops._windows import conv_shape
from insitu.ops.conv import conv2d
from insitu.ops.conv_backward import bias_grad, conv2d_dw
from insitu.ops.layout import slice as slice_of


def transposed_size(size, kernel, stride, before, after, dilation, extra) -> int:
    if min(kernel, stride, dilation) < 1 or min(before, after, extra) < 0 or extra >= max(stride, dilation):
        raise GraphError(
            f"kernel {kernel}, stride {stride}, dilation {dilation}, padding {before},{after}, output padding {extra}"
        )
    length = (size - 1) * stride - before - after + dilation * (kernel - 1) + extra + 1
    if length < 1:
        raise GraphError(f"padding {before},{after} leaves nothing of {size} rows or columns")
    return length


def transposed_output(x: Type, w: Type, b, stride, padding, output_padding, dilation, groups) -> tuple[int, ...]:
    if x.rank != 4 or w.rank != 4:
        raise GraphError(f"conv_transpose2d needs x of rank 4 and w of rank 4, not {x} and {w}")
    n, h, wd, c = x.shape
    if groups < 1 or w.shape[0] != c or c % groups:
        raise GraphError(f"{c} input channels in {groups} groups do not fit weights {w}")
    o = w.shape[3] * groups
    if b is not None and b.shape != (o,):
        raise GraphError(f"the bias {b} must have one number per channel ({o})")
    oh = transposed_size(h, w.shape[1], stride[0], padding[0], padding[1], dilation[0], output_padding[0])
    ow = transposed_size(wd, w.shape[2], stride[1], padding[2], padding[3], dilation[1], output_padding[1])
    return n, oh, ow, o


def without_extra(g, stride, output_padding):
    """g without the rows and columns added at the end, if they would make room for another window."""
    if all(e < s for e, s in zip(output_padding, stride)):
        return g
    n, oh, ow, o = g.shape
    stops = (n, oh - output_padding[0], ow - output_padding[1], o)
    return slice_of(g, starts=(0, 0, 0, 0), stops=stops, steps=(1, 1, 1, 1))


conv_transpose2d = op(
    "conv_transpose2d",
    "y[n, i*sh + u*dh - top, j*sw + v*dw - left, o] += w[c,u,v,o] x[n,i,j,c]; plus b[o]",
    cases=[
        Case("2x2 stride 2", (f32(1, 3, 2, 3), f32(3, 2, 2, 5), f32(5)), {"stride": (2, 2)}),
        Case(
            "3x3 output padding", (f32(2, 3, 4, 2), f32(2, 3, 3, 3)),
            {"stride": (2, 2), "padding": (1, 1, 1, 1), "output_padding": (1, 1)},
        ),
        Case("asymmetric", (f32(1, 4, 3, 2), f32(2, 3, 2, 1), f32(1)), {"stride": (1, 3), "padding": (0, 1, 1, 0)}),
        Case("groups, dilated", (f32(1, 3, 3, 4), f32(4, 3, 3, 3), f32(6)), {"groups": 2, "dilation": (2, 1)}),
        Case("one pixel", (f32(1, 1, 1, 1), f32(1, 1, 1, 1))),
    ],
)  # fmt: skip
conv_transpose2d.may(parameters=Parameters(by_channel=False))


@conv_transpose2d.infer
def _(
    x: Type, w: Type, b: Type | None = None, *, stride: Pair = (1, 1), padding: Padding = (0, 0, 0, 0),
    output_padding: Pair = (0, 0), dilation: Pair = (1, 1), groups: int = 1,
) -> Type:  # fmt: skip
    return Type(x.dtype, transposed_output(x, w, b, stride, padding, output_padding, dilation, groups))


@conv_transpose2d.eval
def _(
    x: Array, w: Array, b: Array | None = None, *, stride: Pair, padding: Padding, dilation: Pair, groups: int,
    node: Node,
) -> Array:  # fmt: skip
    n, h, wd, c = x.shape
    _, kh, kw, og = w.shape
    _, oh, ow, o = node.output.shape
    top, bottom, left, right = padding
    full = np.zeros((n, oh + top + bottom, ow + left + right, groups, og), x.dtype)
    xs = x.reshape(n, h, wd, groups, c // groups)
    ws = w.reshape(groups, c // groups, kh, kw, og)
    for u in range(kh):
        for v in range(kw):
            rows = slice(u * dilation[0], u * dilation[0] + (h - 1) * stride[0] + 1, stride[0])
            cols = slice(v * dilation[1], v * dilation[1] + (wd - 1) * stride[1] + 1, stride[1])
            full[:, rows, cols] += np.einsum("nijgc,gco->nijgo", xs, ws[:, :, u, v])
    y = full[:, top : top + oh, left : left + ow].reshape(n, oh, ow, o)
    return y if b is None else y + b


@conv_transpose2d.grad
def _(
    g: Value, y: Value, x: Value, w: Value, b: Value | None = None, *, stride: Pair, padding: Padding,
    output_padding: Pair, dilation: Pair, groups: int,
) -> Grads:  # fmt: skip
    """A transposed convolution is the adjoint of a convolution: dx is that convolution of g."""
    attrs = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    used = without_extra(g, stride, output_padding)
    dx = conv2d(used, w, **attrs, name=f"{x.name}.grad")
    dw = conv2d_dw(x, used, kernel=w.shape[1:3], **attrs, name=f"{w.name}.grad")
    return (dx, dw) if b is None else (dx, dw, bias_grad(g, name=f"{b.name}.grad"))


@conv_transpose2d.emit
def _(
    y: Value, x: Value, w: Value, b: Value | None = None, *, stride: Pair, padding: Padding, dilation: Pair, groups: int
) -> Call:
    return Call("conv_transpose2d_f32", y, x, w, b, conv_shape(y, x, w, stride, padding, dilation, groups))


@conv_transpose2d.macs
def _(y: Value, x: Value, w: Value, b: Value | None = None) -> int:
    return x.type.size * w.type.size // w.shape[0]
