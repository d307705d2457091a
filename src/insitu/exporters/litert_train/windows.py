"""Convolutions, pooling, matrix products and their gradients: rows of table.py.

LiteRT pads only as SAME or VALID; any other padding becomes an operator of its own. A weight gradient is a convolution
whose filters are the gradients; an input gradient is a transposed one.
"""

from __future__ import annotations

from collections.abc import Sequence

import ai_edge_litert.schema_py_generated as schema
import numpy as np

from insitu.exporters.litert_train.table import means
from insitu.exporters.litert_train.tensor import (
    Tensor,
    call,
    cut,
    equal,
    gather,
    groups_of,
    ints,
    join,
    matmul,
    maximum,
    pad,
    reshape,
    spread,
    stepped,
    total,
    transpose,
    where,
)
from insitu.graph import Node
from insitu.ops import (
    conv,
    conv_backward,
    conv_transpose,
    depthwise,
    depthwise_backward,
    linear,
    linear_backward,
    pool,
    pool_backward,
)
from insitu.ops._types import Ints, Padding, Pair
from insitu.ops._windows import window_counts, window_size

SAME, VALID = schema.Padding.SAME, schema.Padding.VALID
LOWEST = -3.4028234e38


def around(padding: Padding) -> tuple[tuple[int, int], ...]:
    return ((0, 0), padding[:2], padding[2:], (0, 0))


def fitted(x: Tensor, kernel: Pair, stride: Pair, padding: Padding, dilation: Pair, fill: float = 0.0):
    """x, padded if LiteRT cannot, and the padding that LiteRT is told."""
    if not any(padding):
        return x, VALID
    if fill == 0 and all(
        _is_same(x.shape[1 + d], kernel[d], stride[d], dilation[d], padding[2 * d : 2 * d + 2]) for d in (0, 1)
    ):
        return x, SAME
    return pad(x, around(padding), fill), VALID


def _is_same(size: int, kernel: int, stride: int, dilation: int, given: Sequence[int]) -> bool:
    """Is this the padding that LiteRT means by SAME?"""
    need = max((-(-size // stride) - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    return tuple(given) == (need // 2, need - need // 2)


def zeros(x: Tensor, count: int) -> Tensor:
    return x.const(np.zeros(count, np.float32))


# convolutions -----------------------------------------------------------------------------------


@means(conv.conv2d)
def conv2d(x: Tensor, w: Tensor, b: Tensor | None = None, *, stride: Pair, padding: Padding, dilation: Pair,
           groups: int) -> Tensor:  # fmt: skip
    if groups == 1:
        return one_group(x, w, b if b is not None else zeros(x, w.shape[0]), stride, padding, dilation)
    parts = zip(groups_of(x, 3, groups), groups_of(w, 0, groups))
    none = zeros(x, w.shape[0] // groups)
    y = join([one_group(xi, wi, none, stride, padding, dilation) for xi, wi in parts], 3)
    return y if b is None else y + b


def one_group(x: Tensor, w: Tensor, b: Tensor, stride: Pair, padding: Padding, dilation: Pair) -> Tensor:
    kernel = w.shape[1], w.shape[2]
    shape = x.shape[0], *outputs(x, kernel, stride, padding, dilation), w.shape[0]
    x, mode = fitted(x, kernel, stride, padding, dilation)
    return call("CONV_2D", [x, w, b], shape, padding=mode, strideH=stride[0],
                strideW=stride[1], dilationHFactor=dilation[0], dilationWFactor=dilation[1])  # fmt: skip


def outputs(x: Tensor, kernel: Pair, stride: Pair, padding: Padding, dilation: Pair = (1, 1)) -> Pair:
    top, bottom, left, right = padding
    high = window_size(x.shape[1], kernel[0], stride[0], top, bottom, dilation[0])
    return high, window_size(x.shape[2], kernel[1], stride[1], left, right, dilation[1])


@means(conv.conv1d)
def _(x: Tensor, w: Tensor, b: Tensor | None = None, *, stride: int, padding: Pair, dilation: int,
      groups: int) -> Tensor:  # fmt: skip
    """An image of height one."""
    xi, wi = (reshape(v, (v.shape[0], 1, *v.shape[1:])) for v in (x, w))
    y = conv2d(xi, wi, b, stride=(1, stride), padding=(0, 0, *padding), dilation=(1, dilation), groups=groups)
    return reshape(y, (y.shape[0], *y.shape[2:]))


@means(conv_backward.conv2d_dx)
def conv2d_dx(g: Tensor, w: Tensor, *, size: Pair, stride: Pair, padding: Padding, dilation: Pair,
              groups: int) -> Tensor:  # fmt: skip
    parts = zip(groups_of(g, 3, groups), groups_of(w, 0, groups))
    return join([_dx(gi, wi, size, stride, padding, dilation) for gi, wi in parts], 3)


def _dx(g: Tensor, w: Tensor, size: Pair, stride: Pair, padding: Padding, dilation: Pair) -> Tensor:
    if _is_product(w.shape[1:3], stride, padding):
        return reshape(matmul(rows(g), reshape(w, (w.shape[0], -1))), (*g.shape[:3], w.shape[3]))
    turned = transpose(w, (3, 1, 2, 0))
    for d in (0, 1):
        turned = spread(turned, 1 + d, dilation[d])
    full = [(g.shape[1 + d] - 1) * stride[d] + turned.shape[1 + d] for d in (0, 1)]
    shape = g.shape[0], *full, w.shape[3]
    y = call("TRANSPOSE_CONV", [ints(g, shape), turned, g], shape, "f32",
             padding=VALID, strideH=stride[0], strideW=stride[1])  # fmt: skip
    return inside(y, size, padding)


def inside(y: Tensor, size: Pair, padding: Padding) -> Tensor:
    """The image without its padding; rows and columns that no window reached are zero."""
    missing = [max(padding[2 * d] + size[d] - y.shape[1 + d], 0) for d in (0, 1)]
    y = pad(y, ((0, 0), (0, missing[0]), (0, missing[1]), (0, 0)))
    return cut(y, (0, padding[0], padding[2], 0), (y.shape[0], *size, y.shape[3]))


def _is_product(kernel: Sequence[int], stride: Pair, padding: Padding) -> bool:
    """One pixel in, one pixel out: a matrix product."""
    return tuple(kernel) == (1, 1) and tuple(stride) == (1, 1) and not any(padding)


def rows(x: Tensor) -> Tensor:
    return reshape(x, (-1, x.shape[-1]))


@means(conv_backward.conv2d_dw)
def conv2d_dw(g: Tensor, x: Tensor, *, kernel: Pair, stride: Pair, padding: Padding, dilation: Pair, groups: int,
              channels: Ints) -> Tensor:  # fmt: skip
    x = gather(x, channels, 3) if channels else x
    parts = zip(groups_of(g, 3, groups), groups_of(x, 3, groups))
    return join([_dw(gi, xi, kernel, stride, padding, dilation) for gi, xi in parts], 0)


def _dw(g: Tensor, x: Tensor, kernel: Pair, stride: Pair, padding: Padding, dilation: Pair) -> Tensor:
    o, c = g.shape[3], x.shape[3]
    if _is_product(kernel, stride, padding):
        return reshape(matmul(rows(g), rows(x), turn_a=True), (o, 1, 1, c))
    images, filters = (transpose(v, (3, 1, 2, 0)) for v in (pad(x, around(padding)), g))
    y = one_group(images, filters, zeros(x, o), dilation, (0, 0, 0, 0), stride)
    return transpose(cut(y, (0, 0, 0, 0), (c, *kernel, o)), (3, 1, 2, 0))


@means(conv_backward.bias_grad)
def _(g: Tensor) -> Tensor:
    return total(rows(g), (0,))


@means(conv_transpose.conv_transpose2d)
def _(x: Tensor, w: Tensor, b: Tensor | None = None, *, stride: Pair, padding: Padding, dilation: Pair, groups: int,
      node: Node) -> Tensor:  # fmt: skip
    """The input gradient of a convolution."""
    size = node.output.shape[1], node.output.shape[2]
    y = conv2d_dx(x, w, size=size, stride=stride, padding=padding, dilation=dilation, groups=groups)
    return y if b is None else y + b


# depthwise --------------------------------------------------------------------------------------


@means(depthwise.depthwise2d)
def depthwise2d(x: Tensor, w: Tensor, b: Tensor | None = None, *, stride: Pair, padding: Padding,
                dilation: Pair) -> Tensor:  # fmt: skip
    kernel, o = (w.shape[0], w.shape[1]), w.shape[2]
    shape = x.shape[0], *outputs(x, kernel, stride, padding, dilation), o
    multiplier = o // x.shape[3]
    x, mode = fitted(x, kernel, stride, padding, dilation)
    given = [x, reshape(w, (1, *w.shape)), zeros(x, o) if b is None else b]
    return call("DEPTHWISE_CONV_2D", given, shape, padding=mode, strideH=stride[0],
                strideW=stride[1], dilationHFactor=dilation[0], dilationWFactor=dilation[1],
                depthMultiplier=multiplier)  # fmt: skip


@means(depthwise_backward.depthwise2d_dx)
def depthwise2d_dx(g: Tensor, w: Tensor, *, size: Pair, channels: int, stride: Pair, padding: Padding,
                   dilation: Pair) -> Tensor:  # fmt: skip
    """A depthwise convolution of the spread gradients with the weights in reverse order."""
    kernel, o = (w.shape[0], w.shape[1]), w.shape[2]
    for d in (0, 1):
        g = spread(g, 1 + d, stride[d])
    margin = [(kernel[d] - 1) * dilation[d] for d in (0, 1)]
    taps = reshape(w, (kernel[0] * kernel[1], o))
    turned = reshape(call("REVERSE_V2", [taps, ints(w, [0])], taps.shape), w.shape)
    full = pad(g, ((0, 0), (margin[0],) * 2, (margin[1],) * 2, (0, 0)))
    y = inside(depthwise2d(full, turned, stride=(1, 1), padding=(0, 0, 0, 0), dilation=dilation), size, padding)
    if o == channels:
        return y
    return total(reshape(y, (*y.shape[:3], channels, o // channels)), (4,))


@means(depthwise_backward.depthwise2d_dw)
def _(g: Tensor, x: Tensor, *, kernel: Pair, stride: Pair, padding: Padding, dilation: Pair) -> Tensor:
    """Tap by tap: the sum of the products."""
    o, c = g.shape[3], x.shape[3]
    x = x if o == c else gather(x, [i // (o // c) for i in range(o)], 3)
    taps = windows(pad(x, around(padding)), g.shape, kernel, stride, dilation)
    return reshape(join([reshape(total(tap * g, (0, 1, 2)), (1, o)) for tap in taps], 0), (*kernel, o))


def windows(x: Tensor, shape: Sequence[int], kernel: Pair, stride: Pair, dilation: Pair) -> list[Tensor]:
    """For each tap of the kernel, row by row, the elements that it lies on: [N,OH,OW,C]."""
    counts = (x.shape[0], *shape[1:3], x.shape[3])
    starts = [(u * dilation[0], v * dilation[1]) for u in range(kernel[0]) for v in range(kernel[1])]
    return [stepped(x, (0, *at, 0), counts, (1, *stride, 1)) for at in starts]


# pooling ----------------------------------------------------------------------------------------


@means(pool.max_pool2d)
def _(x: Tensor, *, kernel: Pair, stride: Pair, padding: Padding, dilation: Pair) -> Tensor:
    shape = x.shape[0], *outputs(x, kernel, stride, padding, dilation), x.shape[3]
    if tuple(dilation) == (1, 1):
        return pooled("MAX_POOL_2D", pad(x, around(padding), LOWEST), shape, kernel, stride)
    first, *others = windows(pad(x, around(padding), LOWEST), shape, kernel, stride, dilation)
    for tap in others:
        first = maximum(first, tap)
    return first


def pooled(op: str, x: Tensor, shape: Sequence[int], kernel: Pair, stride: Pair) -> Tensor:
    return call(op, [x], shape, padding=VALID, filterHeight=kernel[0], filterWidth=kernel[1],
                strideH=stride[0], strideW=stride[1])  # fmt: skip


@means(pool_backward.max_pool2d_dx)
def _(g: Tensor, x: Tensor, *, kernel: Pair, stride: Pair, padding: Padding, dilation: Pair) -> Tensor:
    """Each window gives its gradient to its first maximum."""
    taps = windows(pad(x, around(padding), LOWEST), g.shape, kernel, stride, dilation)
    top = taps[0]
    for tap in taps[1:]:
        top = maximum(top, tap)
    parts, left = [], None  # left: the windows whose maximum was not seen yet
    for tap in taps:
        found = equal(tap, top)
        parts.append(where(found if left is None else found & left, g, 0))
        left = ~found if left is None else left & ~found
    return inside(scattered(parts, kernel, stride, dilation), (x.shape[1], x.shape[2]), padding)


def scattered(parts: list[Tensor], kernel: Pair, stride: Pair, dilation: Pair) -> Tensor:
    """The adjoint of `windows`: every tap's values added where they came from."""
    high, wide = parts[0].shape[1:3]
    if tuple(kernel) == tuple(stride) and tuple(dilation) == (1, 1):
        return _side_by_side(parts, kernel)
    reach = [(s - 1) * stride[d] + 1 for d, s in enumerate((high, wide))]
    size = [reach[d] + (kernel[d] - 1) * dilation[d] for d in (0, 1)]
    sums = None
    for i, part in enumerate(parts):
        at = (i // kernel[1] * dilation[0], i % kernel[1] * dilation[1])
        placed = spread(spread(part, 1, stride[0]), 2, stride[1])
        placed = pad(placed, ((0, 0), *((at[d], size[d] - reach[d] - at[d]) for d in (0, 1)), (0, 0)))
        sums = placed if sums is None else sums + placed
    assert sums is not None  # a kernel has at least one tap
    return sums


def _side_by_side(parts: list[Tensor], kernel: Pair) -> Tensor:
    """Windows that do not overlap: the taps interleaved, [N, OH*KH, OW*KW, C]."""
    n, high, wide, c = parts[0].shape
    lines = []
    for u in range(kernel[0]):
        line = [reshape(p, (n * high, wide, 1, c)) for p in parts[u * kernel[1] : (u + 1) * kernel[1]]]
        lines.append(reshape(join(line, 2), (n * high, 1, wide * kernel[1], c)))
    return reshape(join(lines, 1), (n, high * kernel[0], wide * kernel[1], c))


@means(pool.avg_pool2d)
def _(x: Tensor, *, kernel: Pair, stride: Pair, padding: Padding, count_include_pad: bool) -> Tensor:
    shape = x.shape[0], *outputs(x, kernel, stride, padding), x.shape[3]
    y = pooled("AVERAGE_POOL_2D", pad(x, around(padding)), shape, kernel, stride)
    share = kernel[0] * kernel[1] / counts_of(x.shape, kernel, stride, padding, count_include_pad)
    return y if (share == 1).all() else y * y.const(share)


def counts_of(shape: Sequence[int], kernel: Pair, stride: Pair, padding: Padding, include: bool) -> np.ndarray:
    return window_counts((shape[1], shape[2]), kernel, stride, padding, include)


@means(pool_backward.avg_pool2d_dx)
def _(g: Tensor, *, size: Pair, kernel: Pair, stride: Pair, padding: Padding, count_include_pad: bool) -> Tensor:
    c = g.shape[3]
    each = g * g.const(1 / counts_of((0, *size), kernel, stride, padding, count_include_pad))
    if tuple(kernel) == tuple(stride):
        return inside(_side_by_side([each] * (kernel[0] * kernel[1]), kernel), size, padding)
    ones = g.const(np.ones((*kernel, c), np.float32))
    return depthwise2d_dx(each, ones, size=size, channels=c, stride=stride, padding=padding, dilation=(1, 1))


# products ---------------------------------------------------------------------------------------


@means(linear.linear)
def _(x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
    given = [rows(x), w, zeros(x, w.shape[0]) if b is None else b]
    y = call("FULLY_CONNECTED", given, (x.size // x.shape[-1], w.shape[0]))
    return reshape(y, (*x.shape[:-1], w.shape[0]))


@means(linear_backward.linear_dx)
def _(g: Tensor, w: Tensor) -> Tensor:
    return reshape(matmul(rows(g), w), (*g.shape[:-1], w.shape[1]))


@means(linear_backward.linear_dw)
def _(g: Tensor, x: Tensor) -> Tensor:
    return matmul(rows(g), rows(x), turn_a=True)


@means(linear.matmul)
def _(a: Tensor, b: Tensor, *, node: Node) -> Tensor:
    """A vector is a matrix of one row (left) or one column (right)."""
    a = reshape(a, (1, *a.shape)) if a.rank == 1 else a
    b = reshape(b, (*b.shape, 1)) if b.rank == 1 else b
    return reshape(matmul(a, b), node.output.shape)
