"""Ops that move, repeat or join elements, and reductions, with their gradients: rows of table.py."""

from __future__ import annotations

import numpy as np

from insitu.exporters.litert_train.table import TABLE, means
from insitu.exporters.litert_train.tensor import (
    Tensor,
    average,
    call,
    cast,
    cut,
    equal,
    gather,
    highest,
    ints,
    join,
    matmul,
    pad,
    repeated,
    reshape,
    spread,
    stepped,
    total,
    transpose,
    where,
)
from insitu.graph import Node
from insitu.ops import channels, layout, norm, normalize, reduce, shape_backward
from insitu.ops._axes import reduced_axes
from insitu.ops._functions import nearest
from insitu.ops._types import Ints, Pair

TABLE |= {
    layout.transpose: lambda x, *, perm: transpose(x, perm),
    channels.take_channels: lambda x, *, channels: gather(x, channels, -1),
    norm.dropout: lambda x: x,  # in inference
    reduce.mean: lambda x, *, axes, keepdims: average(x, axes, keepdims),
    reduce.sum: lambda x, *, axes, keepdims: total(x, axes, keepdims),
    reduce.amax: lambda x, *, axes, keepdims: highest(x, axes, keepdims),
}


@means(layout.reshape)
def _(x: Tensor, *, node: Node) -> Tensor:
    return reshape(x, node.output.shape)


@means(layout.pad)
def _(x: Tensor, *, pads: tuple[Pair, ...], value: float) -> Tensor:
    return pad(x, pads, value)


@means(layout.concat)
def _(*parts: Tensor, axis: int) -> Tensor:
    return join(parts, axis)


@means(layout.slice)
def _(x: Tensor, *, starts: Ints, steps: Ints, node: Node) -> Tensor:
    return stepped(x, starts, node.output.shape, steps)


@means(layout.split)
def _(x: Tensor, *, sizes: Ints, axis: int) -> tuple[Tensor, ...]:
    axis, at, found = axis % x.rank, 0, []
    for size in sizes:
        starts = [at if d == axis else 0 for d in range(x.rank)]
        found.append(cut(x, starts, [size if d == axis else n for d, n in enumerate(x.shape)]))
        at += size
    return tuple(found)


@means(layout.resize)
def _(x: Tensor, *, size: Pair, coordinates: str, rounding: str) -> Tensor:
    for d in (0, 1):
        x = gather(x, nearest(x.shape[1 + d], size[d], coordinates, rounding).tolist(), 1 + d)
    return x


@means(shape_backward.resize_dx)
def _(g: Tensor, *, size: Pair, coordinates: str, rounding: str) -> Tensor:
    """Along each axis a product with the matrix that says which pixel each output copied."""
    n, oh, ow, c = g.shape
    high, wide = (_copied(size[d], g.shape[1 + d], coordinates, rounding) for d in (0, 1))
    g = matmul(repeated(g.const(high[None]), (n, *high.shape)), reshape(g, (n, oh, ow * c)))
    lines = reshape(g, (n * size[0], ow, c))
    return reshape(matmul(repeated(g.const(wide[None]), (n * size[0], *wide.shape)), lines), (n, *size, c))


def _copied(size: int, count: int, coordinates: str, rounding: str) -> np.ndarray:
    found = np.zeros((size, count), np.float32)
    found[nearest(size, count, coordinates, rounding), np.arange(count)] = 1
    return found


@means(shape_backward.slice_dx)
def _(g: Tensor, *, shape: Ints, starts: Ints, steps: Ints) -> Tensor:
    for d, step in enumerate(steps):
        g = spread(g, d, step)
    return pad(g, [(a, n - a - m) for a, n, m in zip(starts, shape, g.shape)])


@means(shape_backward.unbroadcast)
def _(g: Tensor, *, shape: Ints) -> Tensor:
    return reshape(total(g, shape_backward.repeated_axes(g.shape, shape)), shape)


@means(shape_backward.expand)
def _(g: Tensor, *, shape: Ints, axes: Ints, factor: float) -> Tensor:
    gone = reduced_axes(len(shape), axes)
    g = reshape(g, [1 if d in gone else n for d, n in enumerate(shape)])
    return repeated(g if factor == 1 else g * factor, shape)


@means(shape_backward.amax_dx)
def _(g: Tensor, x: Tensor, *, axes: Ints, ties: str) -> Tensor:
    gone = reduced_axes(x.rank, axes)
    g = reshape(g, [1 if d in gone else n for d, n in enumerate(x.shape)])
    top = equal(x, highest(x, gone, keep=True))
    if ties == "even":
        count = total(where(top, x.const(1.0), 0), gone, keep=True)
        return where(top, g / count, 0)
    order = [d for d in range(x.rank) if d not in gone] + list(gone)
    last = reshape(transpose(x, order), (g.size, -1))
    first = call("ARG_MAX", [last, ints(x, [1])], (g.size,), "s32", outputType=2)
    chosen = one_hot(first, last.shape[1]) * reshape(transpose(g, order), (g.size, 1))
    return transpose(reshape(chosen, [x.shape[d] for d in order]), np.argsort(order).tolist())


def one_hot(labels: Tensor, classes: int) -> Tensor:
    """f32[samples, classes]; all zeros where the label is no class."""
    given = [labels, labels.const(classes, np.int32), labels.const(1.0), labels.const(0.0)]
    return call("ONE_HOT", given, (*labels.shape, classes), "f32", axis=-1)


@means(reduce.cumsum)
def _(x: Tensor, *, axis: int, reverse: bool, exclusive: bool) -> Tensor:
    at = x.const(axis % x.rank, np.int32)
    return call("CUMSUM", [x, at], x.shape, exclusive=exclusive, reverse=reverse)


@means(channels.merge_channels)
def _(trained: Tensor, fixed: Tensor, *, channels: Ints) -> Tensor:
    count = trained.shape[-1] + fixed.shape[-1]
    rest = [c for c in range(count) if c not in set(channels)]
    return gather(join([trained, fixed], -1), np.argsort([*channels, *rest]).tolist(), -1)


@means(normalize.normalize)
def _(x: Tensor, *, mean: tuple[float, ...], std: tuple[float, ...], axis: int) -> Tensor:
    x = x if x.dtype == "f32" else cast(x, "f32")
    shape = [-1 if d == axis % x.rank and len(mean) > 1 else 1 for d in range(x.rank)]
    return (x - x.const(np.reshape(mean, shape))) / x.const(np.reshape(std, shape))
