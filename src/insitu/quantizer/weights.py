"""Where the channels are in the weights of each op, and weights as integers.

    SCALED[op](w, a, attrs)       the weights with output channel o multiplied by a[o]
    response(op, w, x, attrs)     each output for an input that is x[c] everywhere in channel c

Nothing here knows about graphs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from insitu.graph import Op
from insitu.ops.conv import conv1d, conv2d
from insitu.ops.conv_transpose import conv_transpose2d
from insitu.ops.depthwise import depthwise2d
from insitu.ops.linear import linear

LIMIT = 2.0**29  # an integer bias stays below this, so that the sum has room
SMALLEST = 2.0**-30  # the smallest requantisation multiplier that the kernels' shift allows
CLIPS = np.linspace(1.0, 0.5, 26)  # shares of a channel's largest weight that clipping tries


def _first(w, a, attrs):
    return w * a.reshape(-1, *[1] * (w.ndim - 1))


def _last(w, a, attrs):
    return w * a


def _transposed(w, a, attrs):
    """w[C, KH, KW, O/g] times a[O]."""
    c, kh, kw, o = w.shape
    groups = attrs["groups"]
    return (w.reshape(groups, c // groups, kh, kw, o) * a.reshape(groups, 1, 1, 1, o)).reshape(w.shape)


SCALED = {conv2d: _first, conv1d: _first, linear: _first, depthwise2d: _last, conv_transpose2d: _transposed}


def _input_first(w, x, attrs):
    """x[C] laid along the last axis of w[O, ..., C/g]."""
    groups = attrs.get("groups", 1)
    x = np.repeat(x.reshape(groups, -1), len(w) // groups, axis=0)
    return x.reshape(len(w), *[1] * (w.ndim - 2), w.shape[-1])


def _input_last(w, x, attrs):
    return np.repeat(x, w.shape[2] // len(x))


# op -> x[C] shaped so that it multiplies the input channels of w
ALONG_INPUT = {conv2d: _input_first, conv1d: _input_first, linear: _input_first, depthwise2d: _input_last}
OUTPUT_AXIS = {conv2d: 0, conv1d: 0, linear: 0, depthwise2d: 2}


def response(op: Op, w, x, attrs) -> np.ndarray:
    """Each output channel for an input that is x[c] everywhere in channel c."""
    products = np.moveaxis(w * ALONG_INPUT[op](w, x, attrs), OUTPUT_AXIS[op], 0)
    return products.reshape(len(products), -1).sum(axis=1)


@dataclass(frozen=True, eq=False)
class Weights:
    """Integers and what they stand for: real = integers * scale, per channel."""

    integers: np.ndarray  # int8, within -127..127
    scale: np.ndarray  # float64, one per output channel, or one for the tensor
    axis: int

    @property
    def real(self) -> np.ndarray:
        return self.integers * _along(self.scale, self.axis, self.integers.ndim)


def quantize_weights(
    w, floor, axis: int, *, per_channel: bool = True, clip: bool = False, room: float = 1.0, settle=None
) -> Weights:
    """Symmetric int8; a channel's scale is at least floor[o], and has room for weights this many times as large.

    `settle` may replace the scales by others that are little larger.
    """
    flat = np.moveaxis(np.abs(w), axis, 0).reshape(w.shape[axis], -1)
    largest = flat.max(axis=1) * room
    if clip:
        largest = largest * _best_clip(flat, largest)
    scale = np.maximum(largest / 127, floor)
    if not per_channel:
        scale = scale.max(keepdims=True)
    scale = scale.astype(np.float32).astype(np.float64)  # as it is stored in a file
    scale = settle(scale) if settle else scale
    integers = np.clip(np.rint(w / _along(scale, axis, w.ndim)), -127, 127)
    return Weights(integers.astype(np.int8), scale, axis)


def _best_clip(flat: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """For each channel, the share of its largest weight at which clipping gives the least squared error."""

    def error(share):
        scale = np.maximum(share * largest / 127, 1e-30)[:, None]
        return ((np.minimum(np.rint(flat / scale), 127) * scale - flat) ** 2).sum(axis=1)

    return CLIPS[np.argmin([error(s) for s in CLIPS], axis=0)]


def scale_floor(b, x_scale: float, y_scale: float) -> np.ndarray:
    """The smallest scale a channel may have: its bias must fit int32, its multiplier the kernel's shift.

    Channels whose weights are all zero, or dead (1e-9), exist in real networks, with any bias.
    """
    return np.maximum(np.abs(b) / (x_scale * LIMIT), y_scale * SMALLEST / x_scale)


def _along(scale: np.ndarray, axis: int, rank: int) -> np.ndarray:
    return scale.reshape([-1 if d == axis else 1 for d in range(rank)])
