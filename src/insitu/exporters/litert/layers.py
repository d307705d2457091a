"""Convolutions, products and pooling, float and int8, as LiteRT's operators.

LiteRT knows two paddings, VALID and SAME. Any other one becomes a PAD in front: for int8 it pads with the zero point,
so the bytes are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, product
from math import prod

import numpy as np

from insitu.exporters.litert import alike
from insitu.exporters.litert.step import NONE, Step, clamp_integers, finish, numerics
from insitu.graph import Op, Type
from insitu.ops._types import Padding, Pair
from insitu.ops._windows import window_counts
from insitu.ops.conv import conv1d as ops_conv1d
from insitu.ops.conv import conv2d, conv2d_s8
from insitu.ops.conv_transpose import conv_transpose2d
from insitu.ops.depthwise import depthwise2d, depthwise2d_s8
from insitu.ops.linear import linear as ops_linear
from insitu.ops.linear import linear_s8, matmul_s8
from insitu.ops.linear import matmul as ops_matmul
from insitu.ops.pool import avg_pool2d, avg_pool2d_s8, max_pool2d

SAME, VALID = 0, 1


# windows --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Window:
    """A window over an image: its size and steps, the padding around the image, and how many outputs it gives."""

    kernel: Pair
    stride: Pair
    padding: Padding
    dilation: Pair
    out: Pair

    @property
    def steps(self) -> dict[str, int]:
        return {"strideH": self.stride[0], "strideW": self.stride[1]}

    @property
    def dilations(self) -> dict[str, int]:
        return {"dilationHFactor": self.dilation[0], "dilationWFactor": self.dilation[1]}

    @property
    def filter(self) -> dict[str, int]:
        return {"filterHeight": self.kernel[0], "filterWidth": self.kernel[1], **self.steps}

    def needed(self, sizes: Sequence[int]) -> list[int]:
        """The rows and columns that the windows reach beyond an image of this size, on both sides together."""
        spans = ((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation))
        return [(o - 1) * step + span - size for o, step, span, size in zip(self.out, self.stride, spans, sizes)]


def window_of(s: Step, kernel: Pair) -> Window:
    """The window of a node with these attributes."""
    _, height, width, _ = s.out.shape
    return Window(kernel, s["stride"], s["padding"], s.node.attrs.get("dilation", (1, 1)), (height, width))


def padded(s: Step, x: int, t: Type, window: Window, lowest: bool = False) -> tuple[int, Type, int]:
    """The input, its type and LiteRT's padding; a PAD is appended if LiteRT has no such padding."""
    found = padding_of(t, window)
    if found is not None:
        return x, t, found
    needed = window.needed(t.shape[1:3])
    rows, columns = ((b, max(n - b, 0)) for b, n in zip(window.padding[::2], needed))
    return (*pad_image(s, x, t, rows, columns, lowest), VALID)


def padding_of(t: Type, window: Window) -> int | None:
    """LiteRT's name for a window's padding; None if it has none."""
    sizes, before = t.shape[1:3], window.padding[::2]
    needed = window.needed(sizes)
    if before == (0, 0) and max(needed) <= 0:
        return VALID
    ceiling = all(o == -(-size // step) for o, size, step in zip(window.out, sizes, window.stride))
    return SAME if ceiling and [max(n, 0) // 2 for n in needed] == list(before) else None


def pad_image(s: Step, x: int, t: Type, rows: Pair, columns: Pair, lowest: bool = False) -> tuple[int, Type]:
    """The image with rows and columns around it: zeros, or the lowest number."""
    n, h, w, c = t.shape
    made = t.with_shape(n, h + sum(rows), w + sum(columns), c)
    pads = s.constant(np.array([(0, 0), rows, columns, (0, 0)], np.int32), "pads")
    if not lowest:
        return s.via("PAD", [x, pads], made, "padded"), made
    low = np.array([-128], np.int8) if t.dtype == "s8" else np.array([np.finfo(np.float32).min], np.float32)
    return s.via("PADV2", [x, pads, s.constant(low, "lowest", **numerics(t))], made, "padded"), made


# layers with weights ---------------------------------------------------------------------------------


def weights(s: Step, array: np.ndarray, axis: int) -> int:
    """The weights in LiteRT's layout; `axis` has the output channels."""
    q = s.type(1).quant
    if q is None:
        return s.constant(array, "weight")
    return s.constant(array, "weight", scale=q.scale, zero=0, axis=axis if q.per_channel else 0)


def bias(s: Step, outputs: int) -> int:
    """The bias, or zeros. An int8 layer's has the scale of its products."""
    array = s.array(2) if s.count > 2 else np.zeros(outputs, np.int32 if s.int8 else np.float32)
    if not s.int8:
        return s.constant(array, "bias")
    q, x = s.type(1).quant, s.type(0)
    assert q is not None  # int8 weights have scales
    return s.constant(array, "bias", scale=[x.scale * w for w in q.scale], zero=0)


def conv(s: Step) -> None:
    w = s.array(1)
    window = window_of(s, w.shape[1:3])
    x, _, padding = padded(s, s.x(), s.type(0), window)
    inputs = [x, weights(s, w, 0), bias(s, w.shape[0])]
    finish(s, "CONV_2D", inputs, padding=padding, **window.steps, **window.dilations)


def depthwise(s: Step) -> None:
    w, t = s.array(1), s.type(0)
    window = window_of(s, w.shape[:2])
    x, _, padding = padded(s, s.x(), t, window)
    inputs, times = [x, weights(s, w[None], 3), bias(s, w.shape[2])], w.shape[2] // t.shape[3]
    finish(s, "DEPTHWISE_CONV_2D", inputs, padding=padding, depthMultiplier=times, **window.steps, **window.dilations)


def conv1d(s: Step) -> None:
    """A convolution over an image of one row."""
    w, (n, length, c) = s.array(1), s.type(0).shape
    image, made = Type("f32", (n, 1, length, c)), Type("f32", (n, 1, *s.out.shape[1:]))
    window = Window((1, w.shape[1]), (1, s["stride"]), (0, 0, *s["padding"]), (1, s["dilation"]), (1, s.out.shape[1]))
    x, _, padding = padded(s, reshaped(s, s.x(), image, "image"), image, window)
    options = {"padding": padding, "fusedActivationFunction": s.activation, **window.steps, **window.dilations}
    if s["groups"] == c > 1:
        inputs = [x, s.constant(w[:, :, 0].T[None, None], "weight"), bias(s, w.shape[0])]
        y = s.via("DEPTHWISE_CONV_2D", inputs, made, "row", depthMultiplier=w.shape[0] // c, **options)
    else:
        y = s.via("CONV_2D", [x, s.constant(w[:, None], "weight"), bias(s, w.shape[0])], made, "row", **options)
    s.op("RESHAPE", [y, s.ints(*s.out.shape)], s.y(), newShape=list(s.out.shape))


def reshaped(s: Step, x: int, t: Type, word: str) -> int:
    return s.via("RESHAPE", [x, s.ints(*t.shape)], t, word, newShape=list(t.shape))


def conv_transpose(s: Step) -> None:
    """TRANSPOSE_CONV of the whole result, then the padding is cut off. Dilation and groups are written into weights."""
    t, w = s.type(0), _spread(s.array(1), s["dilation"], s["groups"])
    n, h, width, _ = t.shape
    top, bottom, left, right = s["padding"]
    size = [(a - 1) * st + k for a, st, k in zip((h, width), s["stride"], w.shape[1:3])]
    whole = Type("f32", (n, *size, w.shape[3]))
    inputs = [s.ints(*whole.shape), s.constant(np.ascontiguousarray(w.transpose(3, 1, 2, 0)), "weight"), s.x()]
    y = s.via("TRANSPOSE_CONV", [*inputs, bias(s, w.shape[3])], whole, "whole", padding=VALID, strideH=s["stride"][0],
              strideW=s["stride"][1], fusedActivationFunction=s.activation)  # fmt: skip
    extra = s["output_padding"]
    grow = [max(e - p, 0) for e, p in zip(extra, (bottom, right))]
    if any(grow):  # rows beyond the last window hold the bias alone
        raise s.refuse("with more output padding than padding")
    stops = [size[0] - bottom + extra[0], size[1] - right + extra[1]]
    lengths = (n, stops[0] - top, stops[1] - left, w.shape[3])
    s.op("SLICE", [y, s.ints(0, top, left, 0), s.ints(*lengths)], s.y())


def _spread(w: np.ndarray, dilation, groups: int) -> np.ndarray:
    """w[C,KH,KW,O/g] with zeros between its taps and between its groups: [C,KH',KW',O]."""
    c, kh, kw, o = w.shape
    wide = np.zeros((c, (kh - 1) * dilation[0] + 1, (kw - 1) * dilation[1] + 1, o * groups), w.dtype)
    each = c // groups
    for g in range(groups):
        part = w[g * each : (g + 1) * each]
        wide[g * each : (g + 1) * each, :: dilation[0], :: dilation[1], g * o : (g + 1) * o] = part
    return wide


def linear(s: Step) -> None:
    w = s.array(1)
    finish(s, "FULLY_CONNECTED", [s.x(), weights(s, w, 0), bias(s, w.shape[0])], keepNumDims=s.type(0).rank != 2)


def matmul(s: Step) -> None:
    """BATCH_MATMUL; a vector counts as a matrix meanwhile."""
    a, b = s.type(0), s.type(1)
    left, right = (1, *a.shape)[-max(a.rank, 2) :], (*b.shape, 1)[: max(b.rank, 2)]
    batch = np.broadcast_shapes(left[:-2], right[:-2])
    whole = s.out.with_shape(*batch, left[-2], right[-1])
    y = s.via("BATCH_MATMUL", [_as_matrix(s, 0, left), _as_matrix(s, 1, right)], whole, "product")
    clamps = s.int8 and (s["lo"], s["hi"]) != (-128, 127)
    if clamps:
        y = reshaped(s, y, s.out, "flat") if whole.shape != s.out.shape else y
        clamp_integers(s, y, s["lo"], s["hi"])
    else:
        s.op("RESHAPE", [y, s.ints(*s.out.shape)], s.y(), newShape=list(s.out.shape))


def _as_matrix(s: Step, i: int, shape) -> int:
    return s.x(i) if tuple(shape) == s.type(i).shape else reshaped(s, s.x(i), s.like(i, shape), f"matrix{i}")


# pooling --------------------------------------------------------------------------------------------


def max_pool(s: Step) -> None:
    if s["dilation"] != (1, 1):
        max_of_taps(s)
        return
    window = window_of(s, s["kernel"])
    x, _, padding = padded(s, s.x(), s.type(0), window, lowest=True)
    s.op("MAX_POOL_2D", [x], s.y(), padding=padding, **window.filter)


def max_of_taps(s: Step) -> None:
    """A dilated window: the maximum of one strided slice per tap."""
    window = window_of(s, s["kernel"])
    top, bottom, left, right = s["padding"]
    x, t = pad_image(s, s.x(), s.type(0), (top, bottom), (left, right), lowest=True)
    taps = [_tap(s, x, t, window, *at) for at in product(*map(range, window.kernel))]
    highest = taps[0]
    for k, tap in enumerate(taps[1:]):
        highest = s.via("MAXIMUM", [highest, tap], s.out, f"max{k}")
    s.op("RESHAPE", [highest, s.ints(*s.out.shape)], s.y(), newShape=list(s.out.shape))


def _tap(s: Step, x: int, t: Type, window: Window, u: int, v: int) -> int:
    """The elements of x at one tap of every window."""
    (sh, sw), (dh, dw), (oh, ow) = window.stride, window.dilation, window.out
    stops = (t.shape[0], u * dh + (oh - 1) * sh + 1, v * dw + (ow - 1) * sw + 1, t.shape[3])
    ends = [s.ints(0, u * dh, v * dw, 0), s.ints(*stops), s.ints(1, sh, sw, 1)]
    return s.via("STRIDED_SLICE", [x, *ends], s.out, f"tap{u}_{v}")


def avg_pool(s: Step) -> None:
    """AVERAGE_POOL_2D leaves the padding out of its mean; a padding that counts becomes a PAD."""
    t, window = s.type(0), window_of(s, s["kernel"])
    found = window_counts((t.shape[1], t.shape[2]), s["kernel"], s["stride"], s["padding"], s["count_include_pad"])
    if (found == prod(s["kernel"])).all():
        x = pad_image(s, s.x(), t, s["padding"][:2], s["padding"][2:])[0] if any(s["padding"]) else s.x()
        (plain_mean if averages(s, prod(s["kernel"])) else rescaled_mean)(s, x, window, VALID)
        return
    if padding_of(t, window) == SAME and all(averages(s, int(n)) for n in np.unique(found)):
        plain_mean(s, s.x(), window, SAME)
    else:
        mean_by_parts(s, window)


def averages(s: Step, count: int) -> bool:
    """Does AVERAGE_POOL_2D give the op's mean of this many elements?"""
    if not s.int8 or s["rounding"] == "litert":
        return not s.int8 or s.out.quant == s.type(0).quant
    return alike.average_is_alike(s.type(0), s.out, count)


def plain_mean(s: Step, x: int, window: Window, padding: int) -> None:
    finish(s, "AVERAGE_POOL_2D", [x], padding=padding, **window.filter)


def rescaled_mean(s: Step, x: int, window: Window, padding: int) -> None:
    """AVERAGE_POOL_2D keeps the scale, and rounds halves its own way: a depthwise convolution with equal weights."""
    inputs, options = equal_weights(s, x, window)
    finish(s, "DEPTHWISE_CONV_2D", inputs, padding=padding, **options)


def equal_weights(s: Step, x: int, window: Window) -> tuple[list[int], dict]:
    t, count = s.type(0), prod(window.kernel)
    plain_ones = (1, 0, float(np.float32(1 / count)))
    weight, added, share = (s["rounding"] == "single" and alike.equal_weights(t, s.out, count)) or plain_ones
    channels, word = t.shape[3], "x".join(map(str, window.kernel))
    ones = s.constant(np.full((1, *window.kernel, channels), weight, np.int8), f"ones{word}", scale=[share], zero=0)
    bias = s.constant(np.full(channels, added, np.int32), f"bias{word}", scale=[share * t.scale], zero=0)
    return [x, ones, bias], {"depthMultiplier": 1, **window.steps, "dilationHFactor": 1, "dilationWFactor": 1}


@dataclass(frozen=True)
class Span:
    """Neighbouring windows along one axis that the image's edge cuts in the same way: the rows that they cover."""

    start: int
    stop: int
    kernel: int
    count: int


def spans(size: int, kernel: int, stride: int, before: int, count: int) -> list[Span]:
    starts = [i * stride - before for i in range(count)]
    cuts = [(max(-a, 0), max(a + kernel - size, 0)) for a in starts]
    found = []
    for (low, high), group in groupby(range(count), lambda i: cuts[i]):
        members = list(group)
        stop = starts[members[-1]] + kernel - high
        found.append(Span(starts[members[0]] + low, stop, kernel - low - high, len(members)))
    return found


def mean_by_parts(s: Step, window: Window) -> None:
    """A padding that LiteRT does not have: windows of the same size are averaged together, and put side by side."""
    sizes = s.type(0).shape[1:3]
    rows, columns = (spans(*a) for a in zip(sizes, window.kernel, window.stride, window.padding[::2], window.out))
    bands = [_band(s, window, r, columns, i) for i, r in enumerate(rows)]
    if (s.node.attrs.get("lo", -128), s.node.attrs.get("hi", 127)) == (-128, 127):
        s.op("CONCATENATION", bands, s.y(), axis=1, fusedActivationFunction=NONE)
    else:
        y = s.via("CONCATENATION", bands, s.out, "whole", axis=1, fusedActivationFunction=NONE)
        clamp_integers(s, y, s["lo"], s["hi"])


def _band(s: Step, window: Window, rows: Span, columns: list[Span], i: int) -> int:
    parts = [_part(s, window, rows, c, f"{i}_{j}") for j, c in enumerate(columns)]
    t = s.out.with_shape(s.out.shape[0], rows.count, s.out.shape[2], s.out.shape[3])
    return s.via("CONCATENATION", parts, t, f"band{i}", axis=2, fusedActivationFunction=NONE)


def _part(s: Step, window: Window, rows: Span, columns: Span, at: str) -> int:
    """The mean of the windows in this rectangle, none of which reaches beyond the image."""
    n, _, _, c = s.type(0).shape
    sizes = (n, rows.stop - rows.start, columns.stop - columns.start, c)
    begin = s.ints(0, rows.start, columns.start, 0)
    x = s.via("SLICE", [s.x(), begin, s.ints(*sizes)], s.like(0, sizes), f"cut{at}")
    part = replace(window, kernel=(rows.kernel, columns.kernel), dilation=(1, 1))
    made = s.out.with_shape(n, rows.count, columns.count, c)
    if not averages(s, prod(part.kernel)):
        inputs, options = equal_weights(s, x, part)
        return s.via("DEPTHWISE_CONV_2D", inputs, made, f"mean{at}", padding=VALID, **options)
    return s.via("AVERAGE_POOL_2D", [x], made, f"mean{at}", padding=VALID, **part.filter)


LAYERS: dict[Op, Callable[[Step], None]] = {
    conv2d: conv, conv2d_s8: conv, depthwise2d: depthwise, depthwise2d_s8: depthwise, ops_conv1d: conv1d,
    conv_transpose2d: conv_transpose, ops_linear: linear, linear_s8: linear, ops_matmul: matmul, matmul_s8: matmul,
    max_pool2d: max_pool, avg_pool2d: avg_pool, avg_pool2d_s8: avg_pool,
}  # fmt: skip
