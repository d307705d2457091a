"""A weight with only some trained channels: those are separate, in RAM; the rest are in flash.

Channels are the last axis: the input channels of a convolution, the channels of a depthwise one.
"""

from __future__ import annotations

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Quant, Type, Value, f32, op, quant, s8
from insitu.graph.call import Call, Table
from insitu.graph.op import Grads
from insitu.ops._types import Array, Ints


def rest_of(channels: tuple[int, ...], total: int) -> list[int]:
    chosen = set(channels)
    return [c for c in range(total) if c not in chosen]


def channels_type(w: Type, channels: tuple[int, ...]) -> Type:
    """The type of some channels of a weight; per-channel scales are picked with them."""
    q = w.quant
    if q is not None and q.axis == w.rank - 1:
        q = quant([q.scale[c] for c in channels], q.zero, q.axis)
    return Type(w.dtype, (*w.shape[:-1], len(channels)), q)


def merged_quant(trained: Type, fixed: Type, channels: tuple[int, ...]) -> Quant | None:
    """The numerics of the whole weight."""
    a, b = trained.quant, fixed.quant
    if a is None or b is None or a.axis != trained.rank - 1:
        return a
    scale = np.empty(trained.shape[-1] + fixed.shape[-1])
    scale[list(channels)] = a.scale
    scale[rest_of(channels, scale.size)] = b.scale
    return quant(scale, a.zero, a.axis)


def positions(channels: tuple[int, ...], total: int) -> Table:
    """For each channel of the whole: k >= 0 is trained channel k, -1-k is fixed channel k."""
    table = np.empty(total, np.int32)
    table[list(channels)] = np.arange(len(channels))
    table[rest_of(channels, total)] = -1 - np.arange(total - len(channels))
    return Table(table)


merge_channels = op(
    "merge_channels",
    "w[.., channels[k]] = trained[.., k]; the other channels of w are those of `fixed`, in order",
    kind="any",
    cases=[
        Case("f32", (f32(3, 1, 1, 2), f32(3, 1, 1, 3)), {"channels": (4, 1)}),
        Case("s8", (s8(2, 3, 3, 1, s=0.1), s8(2, 3, 3, 4, s=0.1)), {"channels": (0,)}),
        Case("per channel", (s8(2, 1, 1, 3, s=(0.1, 0.2), axis=0), s8(2, 1, 1, 2, s=(0.1, 0.2), axis=0)),
             {"channels": (0, 2, 3)}),
        Case("one scale per channel", (s8(3, 3, 2, s=(0.1, 0.2), axis=2), s8(3, 3, 1, s=(0.3,), axis=2)),
             {"channels": (2, 0)}),
    ],
)  # fmt: skip


@merge_channels.infer
def _(trained: Type, fixed: Type, *, channels: Ints) -> Type:
    total = trained.shape[-1] + fixed.shape[-1]
    alike = trained.quant == fixed.quant or (
        trained.quant and fixed.quant and trained.quant.axis == fixed.quant.axis == trained.rank - 1
    )
    if trained.shape[:-1] != fixed.shape[:-1] or trained.dtype != fixed.dtype or not alike:
        raise GraphError(f"{trained} and {fixed} are not parts of one weight")
    if len(channels) != trained.shape[-1] or len(set(channels)) < len(channels):
        raise GraphError(f"{len(channels)} channels do not fit {trained}")
    if not all(0 <= c < total for c in channels):
        raise GraphError(f"channels {channels} are not all within 0..{total - 1}")
    return Type(trained.dtype, (*trained.shape[:-1], total), merged_quant(trained, fixed, channels))


@merge_channels.eval
def _(trained: Array, fixed: Array, *, channels: Ints) -> Array:
    total = trained.shape[-1] + fixed.shape[-1]
    w = np.empty((*trained.shape[:-1], total), trained.dtype)
    w[..., list(channels)] = trained
    w[..., rest_of(channels, total)] = fixed
    return w


@merge_channels.grad
def _(g: Value, y: Value, trained: Value, fixed: Value, *, channels: Ints) -> Grads:
    others = tuple(rest_of(channels, y.shape[-1]))
    return take_channels(g, channels=channels), take_channels(g, channels=others)


@merge_channels.emit
def _(w: Value, trained: Value, fixed: Value, *, channels: Ints) -> Call:
    rows, size = w.type.size // w.shape[-1], w.type.numpy.itemsize
    table = positions(channels, w.shape[-1])
    return Call(f"merge_channels_b{size}", w, trained, fixed, table, rows, w.shape[-1], len(channels))


take_channels = op(
    "take_channels",
    "y[.., k] = x[.., channels[k]]",
    kind="any",
    cases=[
        Case("f32", (f32(3, 2, 5),), {"channels": (4, 1)}),
        Case("s8", (s8(2, 3, 3, 4, s=0.1),), {"channels": (0,)}),
    ],
)


@take_channels.infer
def _(x: Type, *, channels: Ints) -> Type:
    if not channels or not all(0 <= c < x.shape[-1] for c in channels):
        raise GraphError(f"{channels} are not channels of {x}")
    return x.with_shape(*x.shape[:-1], len(channels))


@take_channels.eval
def _(x: Array, *, channels: Ints) -> Array:
    return np.ascontiguousarray(x[..., list(channels)])


@take_channels.emit
def _(y: Value, x: Value, *, channels: Ints) -> Call:
    table = Table(np.array(channels, np.int32))
    rows, size = y.type.size // len(channels), y.type.numpy.itemsize
    return Call(f"take_channels_b{size}", y, x, table, rows, x.shape[-1], len(channels))
