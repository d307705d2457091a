"""The gradients of max_pool2d and avg_pool2d, always f32."""

from __future__ import annotations

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Type, Value, f32, op, s8
from insitu.graph.call import Call
from insitu.ops._types import Array, Padding, Pair
from insitu.ops._windows import patches, pool_output, pool_shape, scatter_patches, window_counts

max_pool2d_dx = op(
    "max_pool2d_dx",
    "dx = the sum of g over the windows whose first maximum, row by row, is that element",
    kind="any",
    cases=[
        Case("2x2", (f32(1, 2, 2, 3), f32(1, 5, 4, 3)), {"kernel": (2, 2), "stride": (2, 2)}),
        Case(
            "3x3 padded", (f32(2, 3, 3, 17), f32(2, 5, 6, 17)),
            {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1, 0, 1)},
        ),
        Case(
            "dilated", (f32(1, 4, 3, 1), f32(1, 6, 7, 1)), {"kernel": (2, 3), "stride": (1, 1), "dilation": (2, 2)}
        ),
        Case(
            "s8", (f32(1, 2, 6, 19), s8(1, 5, 6, 19, s=0.1, z=-3)),
            {"kernel": (3, 2), "stride": (2, 1), "padding": (1, 0, 1, 0)},
        ),
        Case(
            "ties", (f32(1, 2, 2, 1), np.zeros((1, 3, 3, 1), np.float32)), {"kernel": (2, 2), "stride": (1, 1)},
        ),
    ],
)  # fmt: skip


@max_pool2d_dx.infer
def _(
    g: Type, x: Type, *, kernel: Pair, stride: Pair, padding: Padding = (0, 0, 0, 0), dilation: Pair = (1, 1)
) -> Type:
    if pool_output(x, kernel, stride, padding, dilation) != g.shape:
        raise GraphError(f"the gradient {g} does not match windows of {kernel} on {x}")
    return Type(g.dtype, x.shape)


@max_pool2d_dx.eval
def _(g: Array, x: Array, *, kernel: Pair, stride: Pair, padding: Padding, dilation: Pair) -> Array:
    lowest = -np.inf if x.dtype.kind == "f" else -129
    wide = x if x.dtype.kind == "f" else x.astype(np.int16)
    cols = patches(wide, kernel, stride, padding, dilation, fill=lowest)
    flat = cols.reshape(*g.shape[:3], -1, g.shape[3])
    first = flat.argmax(axis=3)[:, :, :, None] == np.arange(flat.shape[3])[:, None]
    parts = (first * g[:, :, :, None]).reshape(cols.shape)
    return scatter_patches(parts, x.shape[1:3], kernel, stride, padding, dilation)


@max_pool2d_dx.emit
def _(dx: Value, g: Value, x: Value, *, kernel: Pair, stride: Pair, padding: Padding, dilation: Pair) -> Call:
    return Call(f"max_pool2d_dx_{x.dtype}", dx, g, x, pool_shape(g, x, kernel, stride, padding, dilation))


avg_pool2d_dx = op(
    "avg_pool2d_dx",
    "dx = the sum of g / count over the windows that contain the element; `size` is that of x",
    cases=[
        Case("2x2", (f32(1, 2, 2, 3),), {"size": (5, 4), "kernel": (2, 2), "stride": (2, 2)}),
        Case(
            "padded", (f32(2, 3, 3, 17),),
            {"size": (5, 6), "kernel": (3, 3), "stride": (2, 2), "padding": (1, 1, 0, 1)},
        ),
        Case(
            "padding counts", (f32(1, 4, 5, 1),),
            {
                "size": (4, 5), "kernel": (3, 2), "stride": (1, 1), "padding": (1, 1, 1, 0),
                "count_include_pad": True,
            },
        ),
    ],
)  # fmt: skip


@avg_pool2d_dx.infer
def _(
    g: Type, *, size: Pair, kernel: Pair, stride: Pair, padding: Padding = (0, 0, 0, 0), count_include_pad: bool = False
) -> Type:
    dx = g.with_shape(g.shape[0], *size, g.shape[3])
    if pool_output(dx, kernel, stride, padding) != g.shape:
        raise GraphError(f"the gradient {g} does not match windows of {kernel} on {size}")
    return dx


@avg_pool2d_dx.eval
def _(g: Array, *, size: Pair, kernel: Pair, stride: Pair, padding: Padding, count_include_pad: bool) -> Array:
    counts = window_counts(size, kernel, stride, padding, count_include_pad)
    each = (g / counts.astype(g.dtype))[:, :, :, None, None]
    parts = np.broadcast_to(each, (*g.shape[:3], *kernel, g.shape[3]))
    return scatter_patches(parts, size, kernel, stride, padding, (1, 1))


@avg_pool2d_dx.emit
def _(dx: Value, g: Value, *, kernel: Pair, stride: Pair, padding: Padding, count_include_pad: bool) -> Call:
    return Call("avg_pool2d_dx_f32", dx, g, pool_shape(g, dx, kernel, stride, padding), int(count_include_pad))
