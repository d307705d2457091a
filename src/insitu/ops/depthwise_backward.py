"""The gradients of depthwise convolutions: of the input (dx) and of the weights (dw). See conv_backward.py."""

from __future__ import annotations

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Node, Type, Value, f32, op, s8
from insitu.graph.call import Call, Scratch, Struct
from insitu.ops._functions import real
from insitu.ops._types import Array, Padding, Pair
from insitu.ops._windows import depthwise_output, patches, scatter_patches, taps_scratch
from insitu.ops.conv_backward import scale_source, scale_table


def depthwise_struct(g, x, kernel, stride, padding, dilation) -> Struct:
    n, h, w, c = x.shape
    _, oh, ow, o = g.shape
    return Struct(
        "conv2d_shape", n=n, h=h, w=w, c=c, oh=oh, ow=ow, o=o, kh=kernel[0], kw=kernel[1],
        sh=stride[0], sw=stride[1], dh=dilation[0], dw=dilation[1], pt=padding[0], pl=padding[2], groups=c,
    )  # fmt: skip


def gathered_dx(dx, g, w, shape: Struct, over: bool = False) -> Call:
    """The kernel for microcontrollers: sixteen channels at a time; from a copy of them if dx overwrites g."""
    floats = w.shape[0] * w.shape[1] + (g.shape[1] * g.shape[2] if over else 0)
    scale = scale_source(w.type, w.shape[2])
    return Call("depthwise2d_gather_dx_s8", dx, g, w, *scale, int(over), shape, Scratch(64 * floats))


depthwise2d_dx = op(
    "depthwise2d_dx",
    "dx[n,r,q,c] = sum over i,j and the m outputs o of channel c of g[n,i,j,o] w[u,v,o] where tap u,v lies on r,q",
    kind="any",
    cases=[
        Case("3x3 same", (f32(1, 5, 4, 7), f32(3, 3, 7)), {"size": (5, 4), "channels": 7, "padding": (1, 1, 1, 1)}),
        Case("multiplier 2", (f32(1, 4, 4, 6), f32(3, 2, 6)), {"size": (4, 4), "channels": 3, "padding": (1, 1, 0, 1)}),
        Case(
            "stride, s8",
            (f32(1, 4, 3, 19), s8(3, 3, 19, s=np.linspace(0.01, 0.2, 19), axis=2)),
            {"size": (7, 6), "channels": 19, "stride": (2, 2), "padding": (1, 1, 0, 1)},
        ),
        Case("multiplier 2, s8", (f32(1, 4, 4, 6), s8(3, 2, 6, s=np.linspace(0.1, 0.2, 6), axis=2)),
             {"size": (4, 4), "channels": 3, "padding": (1, 1, 0, 1)}),
        Case("stride beyond the kernel", (f32(1, 2, 3, 3), f32(2, 2, 3)),
             {"size": (5, 8), "channels": 3, "stride": (3, 3)}),
        Case("long row, s8", (f32(1, 1, 21, 5), s8(1, 5, 5, s=0.02)), {"size": (1, 25), "channels": 5}),
        Case("wide", (f32(2, 6, 7, 19), f32(3, 3, 19)), {"size": (8, 6), "channels": 19, "padding": (0, 0, 1, 2)}),
        Case("tall", (f32(2, 9, 5, 35), f32(3, 3, 35)), {"size": (9, 5), "channels": 35, "padding": (1, 1, 1, 1)}),
        Case("tall, stride", (f32(2, 6, 3, 17), f32(3, 3, 17)),
             {"size": (12, 6), "channels": 17, "stride": (2, 2), "padding": (0, 1, 0, 1)}),
        Case("dilated", (f32(1, 6, 6, 33), f32(3, 3, 33)),
             {"size": (6, 6), "channels": 33, "dilation": (2, 1), "padding": (2, 2, 1, 1)}),
    ],
)  # fmt: skip


@depthwise2d_dx.infer
def _(
    g: Type, w: Type, *, size: Pair, channels: int, stride: Pair = (1, 1), padding: Padding = (0, 0, 0, 0),
    dilation: Pair = (1, 1),
) -> Type:  # fmt: skip
    dx = Type(g.dtype, (g.shape[0], *size, channels))
    if depthwise_output(dx, w, None, stride, padding, dilation) != g.shape:
        raise GraphError(f"the gradient {g} does not match an input of {size} and weights {w}")
    return dx


@depthwise2d_dx.eval
def _(
    g: Array, w: Array, *, size: Pair, channels: int, stride: Pair, padding: Padding, dilation: Pair, node: Node
) -> Array:
    w = real(w, node.inputs[1].type)
    kernel, n = w.shape[:2], g.shape[0]
    parts = g.reshape(*g.shape[:3], channels, -1)
    cols = np.einsum("nijcm,uvcm->nijuvc", parts, w.reshape(*kernel, channels, -1))
    return scatter_patches(cols.reshape(n, *g.shape[1:3], *kernel, channels), size, kernel, stride, padding, dilation)


@depthwise2d_dx.emit
def _(dx: Value, g: Value, w: Value, *, stride: Pair, padding: Padding, dilation: Pair, target: str = "host") -> Call:
    shape = depthwise_struct(g, dx, w.shape[:2], stride, padding, dilation)
    scale = scale_table(w.type, w.shape[2])
    if g.shape[3] == dx.shape[3]:
        if target == "mcu" and w.dtype == "s8" and dilation == (1, 1):
            return gathered_dx(dx, g, w, shape)
        scratch = taps_scratch(w.shape[:2])
        return Call(f"depthwise2d_dx_{w.dtype}", dx, g, w, *([scale] if scale else []), shape, scratch)
    if w.dtype == "s8":
        return Call("depthwise2d_wide_dx_s8", dx, g, w, scale, shape, Scratch(4 * w.shape[2]))
    return Call("depthwise2d_wide_dx_f32", dx, g, w, shape)


@depthwise2d_dx.macs
def _(dx: Value, g: Value, w: Value) -> int:
    return g.type.size * w.shape[0] * w.shape[1]


depthwise2d_dw = op(
    "depthwise2d_dw",
    "dw[u,v,o] = sum over n,i,j of g[n,i,j,o] x[n, i*sh + u*dh - top, j*sw + v*dw - left, o // m]",
    kind="any",
    cases=[
        Case("3x3 same", (f32(1, 5, 4, 7), f32(1, 5, 4, 7)), {"kernel": (3, 3), "padding": (1, 1, 1, 1)}),
        Case("multiplier 2", (f32(1, 4, 4, 6), f32(1, 4, 4, 3)), {"kernel": (3, 2), "padding": (1, 1, 0, 1)}),
        Case(
            "stride, s8",
            (f32(1, 4, 3, 19), s8(1, 7, 6, 19, s=0.05, z=3)),
            {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1, 0, 1)},
        ),
        Case("multiplier 2, s8", (f32(1, 4, 4, 6), s8(1, 4, 4, 3, s=0.1, z=-9)),
             {"kernel": (3, 2), "padding": (1, 1, 0, 1)}),
        Case("wide, stride", (f32(2, 4, 3, 19), f32(2, 7, 6, 19)),
             {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1, 0, 1)}),
        Case("dilated, narrow", (f32(1, 6, 2, 33), f32(1, 6, 2, 33)),
             {"kernel": (3, 3), "dilation": (2, 1), "padding": (2, 2, 1, 1)}),
        Case("5x5, s8", (f32(1, 5, 6, 18), s8(1, 5, 6, 18, s=0.05, z=-128)),
             {"kernel": (5, 5), "padding": (2, 2, 2, 2)}),
    ],
)  # fmt: skip


@depthwise2d_dw.infer
def _(
    g: Type, x: Type, *, kernel: Pair, stride: Pair = (1, 1), padding: Padding = (0, 0, 0, 0), dilation: Pair = (1, 1)
) -> Type:
    dw = Type(g.dtype, (*kernel, g.shape[3]))
    if depthwise_output(x, dw, None, stride, padding, dilation) != g.shape:
        raise GraphError(f"the gradient {g} does not match an input {x} and a kernel of {kernel}")
    return dw


@depthwise2d_dw.eval
def _(g: Array, x: Array, *, kernel: Pair, stride: Pair, padding: Padding, dilation: Pair, node: Node) -> Array:
    x = real(x, node.inputs[1].type)
    cols = patches(x, kernel, stride, padding, dilation)
    parts = g.reshape(*g.shape[:3], x.shape[3], -1)
    return np.einsum("nijcm,nijuvc->uvcm", parts, cols).reshape(*kernel, g.shape[3])


@depthwise2d_dw.emit
def _(
    dw: Value, g: Value, x: Value, *, kernel: Pair, stride: Pair, padding: Padding, dilation: Pair,
    target: str = "host",
) -> Call:  # fmt: skip
    shape = depthwise_struct(g, x, kernel, stride, padding, dilation)
    if target == "host" and x.dtype == "f32" and kernel == (3, 3) and g.shape[3] == x.shape[3]:
        return Call("depthwise2d_windows_dw_f32", dw, g, x, shape)
    quant = (x.type.scale, x.type.zero) if x.dtype == "s8" else ()
    if g.shape[3] == x.shape[3]:
        return Call(f"depthwise2d_dw_{x.dtype}", dw, g, x, *quant, shape, taps_scratch(kernel))
    return Call(f"depthwise2d_wide_dw_{x.dtype}", dw, g, x, *quant, shape)


@depthwise2d_dw.macs
def _(dw: Value, g: Value, x: Value) -> int:
    return dw.type.size * g.type.size // g.shape[3]
