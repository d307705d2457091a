"""Layers with an end: y = min(max(layer(x, w, b) + more, lo), hi), float. One kernel instead of two or three.

The planner makes them on a host from a layer, a residual add and an activation after it (planner/fuse.py). They give
the bits of those. Gradients are built before, from the ops they are made of, so these have none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import inf

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Node, Op, Type, Value, f32, op
from insitu.graph.call import Call
from insitu.ops._types import Array, Padding, Pair
from insitu.ops._windows import conv_shape, depthwise_shape, taps_scratch
from insitu.ops.conv import conv2d, conv_call
from insitu.ops.depthwise import depthwise2d
from insitu.ops.linear import linear, linear_call

SAME = (1, 1, 1, 1)
RELU6 = {"lo": 0.0, "hi": 6.0}


def split(values: Iterable, more: bool) -> tuple:
    """x, w, the bias or None, and what is added or None."""
    x, w, *rest = values
    last = rest.pop() if more else None
    return x, w, rest[0] if rest else None, last


def inferred(layer: Op, types: tuple[Type, ...], more: bool, lo: float, hi: float, **attrs) -> Type:
    x, w, b, added = split(types, more)
    y = layer.apply("infer", (x, w) if b is None else (x, w, b), attrs)
    if added is not None and added.shape != y.shape:
        raise GraphError(f"{added} cannot be added to {y}")
    if not lo <= hi:
        raise GraphError(f"from {lo} to {hi} is empty")
    return y


def evaluated(layer: Op, arrays: tuple[Array, ...], more: bool, lo: float, hi: float, **attrs) -> Array:
    x, w, b, added = split(arrays, more)
    y = layer.apply("eval", (x, w) if b is None else (x, w, b), attrs)
    return np.clip(y if added is None else y + added, lo, hi)


conv2d_ends = op(
    "conv2d_ends",
    "y = min(max(conv2d(x, w, b) + more, lo), hi); `more` says whether the last input is added",
    cases=[
        Case("relu", (f32(1, 5, 4, 3), f32(7, 3, 3, 3), f32(7)), {"padding": SAME, "lo": 0.0}),
        Case("relu6 of a sum", (f32(1, 9, 7, 5), f32(17, 3, 3, 5), f32(17), f32(1, 9, 7, 17)),
             {"padding": SAME, "more": True, **RELU6}),
        Case("sum alone, no bias", (f32(2, 3, 5, 6), f32(51, 1, 1, 6), f32(2, 3, 5, 51)), {"more": True}),
        Case("deep, stride", (f32(1, 6, 7, 70), f32(5, 3, 3, 70), f32(5)),
             {"stride": (2, 2), "padding": (0, 1, 0, 1), **RELU6}),
        Case("dilated, more taps than at a time", (f32(1, 9, 17, 2), f32(3, 7, 5, 2), f32(3), f32(1, 9, 17, 3)),
             {"dilation": (1, 2), "padding": (3, 3, 4, 4), "more": True, "lo": -4.0, "hi": 4.0}),
        Case("windows on padding alone", (f32(1, 2, 3, 3), f32(4, 2, 2, 3), f32(4)),
             {"padding": (2, 2, 3, 2), "lo": 0.0}),
        Case("short rows", (f32(2, 17, 10, 1), f32(50, 10, 4, 1), f32(50), f32(2, 9, 5, 50)),
             {"stride": (2, 2), "padding": (5, 4, 1, 1), "more": True, **RELU6}),
        Case("short rows, many", (f32(2, 5, 19, 2), f32(70, 3, 3, 2), f32(70), f32(2, 5, 19, 70)),
             {"padding": SAME, "more": True, **RELU6}),
        Case("wide image", (f32(1, 4, 33, 4), f32(16, 3, 3, 4), f32(16)), {"padding": SAME, "lo": 0.0}),
    ],
)  # fmt: skip
conv2d_ends.may(made_for="one_kernel")


@conv2d_ends.infer
def _(
    *types: Type, stride: Pair = (1, 1), padding: Padding = (0, 0, 0, 0), dilation: Pair = (1, 1), more: bool = False,
    lo: float = -inf, hi: float = inf,
) -> Type:  # fmt: skip
    return inferred(conv2d, types, more, lo, hi, stride=stride, padding=padding, dilation=dilation)


@conv2d_ends.eval
def _(
    *arrays: Array, stride: Pair, padding: Padding, dilation: Pair, more: bool, lo: float, hi: float
) -> Array:  # fmt: skip
    return evaluated(conv2d, arrays, more, lo, hi, stride=stride, padding=padding, dilation=dilation, groups=1)


@conv2d_ends.emit
def _(
    y: Value, *values: Value, stride: Pair, padding: Padding, dilation: Pair, more: bool, lo: float, hi: float,
    fixed: Collection[int] = (),
) -> Call:  # fmt: skip
    x, w, b, added = split(values, more)
    return conv_call(y, x, w, b, conv_shape(y, x, w, stride, padding, dilation, 1), fixed, "host", (added, lo, hi))


@conv2d_ends.macs
def _(y: Value, x: Value, w: Value, *rest: Value) -> int:
    return y.type.size * w.type.size // w.shape[0]


depthwise2d_ends = op(
    "depthwise2d_ends",
    "y = min(max(depthwise2d(x, w, b) + more, lo), hi), as many outputs as inputs; `more` as for conv2d_ends",
    cases=[
        Case("relu", (f32(1, 5, 4, 7), f32(3, 3, 7), f32(7)), {"padding": SAME, "lo": 0.0}),
        Case("relu6 of a sum, stride", (f32(2, 7, 9, 19), f32(3, 3, 19), f32(2, 4, 5, 19)),
             {"stride": (2, 2), "padding": SAME, "more": True, **RELU6}),
        Case("5x5", (f32(1, 6, 11, 18), f32(5, 5, 18), f32(18)), {"padding": (2, 2, 2, 2), **RELU6}),
        Case("dilated", (f32(1, 6, 6, 19), f32(3, 3, 19), f32(19)),
             {"dilation": (2, 1), "padding": (2, 2, 1, 1), "lo": -1.0, "hi": 1.0}),
        Case("narrow", (f32(1, 9, 1, 33), f32(3, 3, 33), f32(33)), {"padding": SAME, "lo": 0.0}),
    ],
)  # fmt: skip
depthwise2d_ends.may(made_for="one_kernel")


@depthwise2d_ends.infer
def _(
    *types: Type, stride: Pair = (1, 1), padding: Padding = (0, 0, 0, 0), dilation: Pair = (1, 1), more: bool = False,
    lo: float = -inf, hi: float = inf,
) -> Type:  # fmt: skip
    if types[0].shape[3:] != types[1].shape[2:]:
        raise GraphError(f"depthwise2d_ends needs as many channels in {types[0]} as in {types[1]}")
    return inferred(depthwise2d, types, more, lo, hi, stride=stride, padding=padding, dilation=dilation)


@depthwise2d_ends.eval
def _(
    *arrays: Array, stride: Pair, padding: Padding, dilation: Pair, more: bool, lo: float, hi: float
) -> Array:  # fmt: skip
    return evaluated(depthwise2d, arrays, more, lo, hi, stride=stride, padding=padding, dilation=dilation)


@depthwise2d_ends.emit
def _(
    y: Value, *values: Value, stride: Pair, padding: Padding, dilation: Pair, more: bool, lo: float, hi: float
) -> Call:  # fmt: skip
    x, w, b, added = split(values, more)
    shape = depthwise_shape(y, x, w, stride, padding, dilation)
    return Call("depthwise2d_ends_f32", y, x, w, b, added, float(lo), float(hi), shape, taps_scratch(w.shape[:2]))


@depthwise2d_ends.macs
def _(y: Value, x: Value, w: Value, *rest: Value) -> int:
    return y.type.size * w.shape[0] * w.shape[1]


linear_ends = op(
    "linear_ends",
    "y = min(max(linear(x, w, b) + more, lo), hi); `more` as for conv2d_ends",
    cases=[
        Case("relu", (f32(1, 5), f32(3, 5), f32(3)), {"lo": 0.0}),
        Case("relu6 of a sum", (f32(5, 33), f32(37, 33), f32(37), f32(5, 37)), {"more": True, **RELU6}),
        Case("no bias, deep, many rows", (f32(3, 9, 130), f32(51, 130)), {"lo": -8.0, "hi": 8.0}),
    ],
)  # fmt: skip
linear_ends.may(made_for="one_kernel")


@linear_ends.infer
def _(*types: Type, more: bool = False, lo: float = -inf, hi: float = inf) -> Type:
    return inferred(linear, types, more, lo, hi)


@linear_ends.eval
def _(*arrays: Array, more: bool, lo: float, hi: float) -> Array:
    return evaluated(linear, arrays, more, lo, hi)


@linear_ends.emit
def _(y: Value, *values: Value, more: bool, lo: float, hi: float, fixed: Collection[int] = ()) -> Call:
    x, w, b, added = split(values, more)
    return linear_call(y, x, w, b, fixed, (added, lo, hi))


@linear_ends.macs
def _(y: Value, x: Value, w: Value, *rest: Value) -> int:
    return y.type.size * w.shape[1]


def ended(node: Node) -> Op | None:
    """The op with an end that computes what this node does, if there is one."""
    if node.op is conv2d:
        return conv2d_ends if node.attrs["groups"] == 1 else None
    if node.op is depthwise2d:
        return depthwise2d_ends if node.inputs[0].shape[3] == node.output.shape[3] else None
    return linear_ends if node.op is linear else None
