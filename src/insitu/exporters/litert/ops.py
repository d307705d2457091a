"""What each op becomes in a .tflite file: one table, OPS, of small functions. An op that is not in it is refused.

Layers and pooling are in layers.py, functions of one value in unary.py; sums, reductions and layout are here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from insitu.exporters.litert import alike
from insitu.exporters.litert.layers import LAYERS, VALID, Window, equal_weights, reshaped
from insitu.exporters.litert.step import NONE, Step, finish, numerics
from insitu.exporters.litert.unary import UNARY, number
from insitu.graph import Op, Type
from insitu.ops import arith, layout, norm, reduce
from insitu.ops._functions import nearest
from insitu.ops._types import Pair
from insitu.ops.layout import pad_value

MOST_PADDED = 5  # dimensions
# resize: our coordinates and rounding -> LiteRT's (align_corners, half_pixel_centers)
RESIZES = {
    ("asymmetric", "floor"): (False, False),
    ("align_corners", "round_prefer_ceil"): (True, False),
    ("half_pixel", "round_prefer_ceil"): (False, True),
}


def pair(name: str) -> Callable[[Step], None]:
    def run(s: Step) -> None:
        finish(s, name, [s.x(0), s.x(1)])

    return run


# reductions -----------------------------------------------------------------------------------------


def reduction(name: str) -> Callable[[Step], None]:
    def run(s: Step) -> None:
        axes = [a % s.type(0).rank for a in s["axes"]]
        s.op(name, [s.x(), s.ints(*axes)], s.y(), keepDims=s["keepdims"])

    return run


def mean_s8(s: Step) -> None:
    """MEAN; of an image, if XNNPACK's rounds exact halves in another way, a convolution with equal weights."""
    t, axes = s.type(0), [a % s.type(0).rank for a in s["axes"]]
    if s["rounding"] == "litert" or axes != [1, 2] or alike.mean_is_alike(t, s.out, t.shape[1] * t.shape[2]):
        reduction("MEAN")(s)
        return
    n, h, w, c = t.shape
    inputs, options = equal_weights(s, s.x(), Window((h, w), (1, 1), (0, 0, 0, 0), (1, 1), (1, 1)))
    whole = s.out.with_shape(n, 1, 1, c)
    y = s.via("DEPTHWISE_CONV_2D", inputs, whole, "whole", padding=VALID, fusedActivationFunction=NONE, **options)
    s.op("RESHAPE", [y, s.ints(*s.out.shape)], s.y(), newShape=list(s.out.shape))


def running_sum(s: Step) -> None:
    axis = s.constant(np.array(s["axis"] % s.type(0).rank, np.int32), "axis")
    s.op("CUMSUM", [s.x(), axis], s.y(), exclusive=s["exclusive"], reverse=s["reverse"])


def softmax(name: str, **options) -> Callable[[Step], None]:
    """Along the last axis; another one is turned there and back."""

    def run(s: Step) -> None:
        rank = s.type(0).rank
        axis = s.node.attrs.get("axis", -1) % rank
        if axis == rank - 1:
            s.op(name, [s.x()], s.y(), **options)
            return
        perm = [d for d in range(rank) if d != axis] + [axis]
        turned = s.out.with_shape(*(s.out.shape[d] for d in perm))
        x = s.via("TRANSPOSE", [s.x(), s.ints(*perm)], turned, "turned")
        y = s.via(name, [x], turned, "along", **options)
        s.op("TRANSPOSE", [y, s.ints(*(int(d) for d in np.argsort(perm)))], s.y())

    return run


def layer_norm(s: Step) -> None:
    """mean, difference, mean of squares, rsqrt: in the order of the formula."""
    t, dims = s.type(0), s["dims"]
    axes = s.ints(*range(t.rank - dims, t.rank))
    few = Type("f32", t.shape[: t.rank - dims] + (1,) * dims)
    mean = s.via("MEAN", [s.x(), axes], few, "mean", keepDims=True)
    moved = s.via("SUB", [s.x(), mean], t, "moved", fusedActivationFunction=NONE)
    var = s.via("MEAN", [s.via("SQUARE", [moved], t, "squares"), axes], few, "var", keepDims=True)
    above = s.via("ADD", [var, number(s, s["epsilon"], "epsilon")], few, "above", fusedActivationFunction=NONE)
    y = s.via("MUL", [moved, s.via("RSQRT", [above], few, "rstd")], t, "unit", fusedActivationFunction=NONE)
    for i, name in enumerate(("MUL", "ADD")[: s.count - 1], 1):
        y = s.via(name, [y, s.x(i)], t, f"affine{i}", fusedActivationFunction=NONE)
    s.op("RESHAPE", [y, s.ints(*t.shape)], s.y(), newShape=list(t.shape))


# layout ---------------------------------------------------------------------------------------------


def reshape(s: Step) -> None:
    s.op("RESHAPE", [s.x(), s.ints(*s.out.shape)], s.y(), newShape=list(s.out.shape))


def transpose(s: Step) -> None:
    s.op("TRANSPOSE", [s.x(), s.ints(*s["perm"])], s.y())


def pad(s: Step) -> None:
    """PAD takes at most five dimensions: neighbours that are not padded count as one meanwhile."""
    t, fill = s.type(0), pad_value(s.type(0), s["value"])
    shape, pads = merged(t.shape, s["pads"]) if t.rank > MOST_PADDED else (t.shape, s["pads"])
    x = s.x() if shape == t.shape else reshaped(s, s.x(), s.like(0, shape), "merged")
    wide = s.like(0, [d + sum(p) for d, p in zip(shape, pads)])
    inputs = [x, s.constant(np.array(pads, np.int32), "pads")]
    if fill != t.zero:
        inputs.append(s.constant(np.array([fill], t.numpy), "value", **numerics(t)))
    name = "PAD" if fill == t.zero else "PADV2"
    if shape == t.shape:
        s.op(name, inputs, s.y())
    else:
        y = s.via(name, inputs, wide, "padded")
        s.op("RESHAPE", [y, s.ints(*s.out.shape)], s.y(), newShape=list(s.out.shape))


def merged(shape: Sequence[int], pads: Sequence[Pair]) -> tuple[tuple[int, ...], tuple[Pair, ...]]:
    """The same padding with neighbouring dimensions that are not padded as one."""
    found: list[tuple[int, Pair]] = []
    for size, ends in zip(shape, pads):
        if found and not any(ends) and not any(found[-1][1]):
            found[-1] = (found[-1][0] * size, found[-1][1])
        else:
            found.append((size, ends))
    return tuple(size for size, _ in found), tuple(ends for _, ends in found)


def concat(s: Step) -> None:
    inputs = [s.x(i) for i in range(s.count)]
    s.op("CONCATENATION", inputs, s.y(), axis=s["axis"] % s.out.rank, fusedActivationFunction=NONE)


def strided(s: Step) -> None:
    s.op("STRIDED_SLICE", [s.x(), s.ints(*s["starts"]), s.ints(*s["stops"]), s.ints(*s["steps"])], s.y())


def split(s: Step) -> None:
    outputs = [s.y(i) for i in range(len(s.node.outputs))]
    axis = s.constant(np.array(s["axis"] % s.type(0).rank, np.int32), "axis")
    s.op("SPLIT_V", [s.x(), s.ints(*s["sizes"]), axis], *outputs, numSplits=len(outputs))


def resize(s: Step) -> None:
    """RESIZE_NEAREST_NEIGHBOR if LiteRT has these coordinates, else rows and columns are gathered."""
    how = RESIZES.get((s["coordinates"], s["rounding"]))
    if how:
        options = {"alignCorners": how[0], "halfPixelCenters": how[1]}
        s.op("RESIZE_NEAREST_NEIGHBOR", [s.x(), s.ints(*s["size"])], s.y(), **options)
        return
    n, h, w, c = s.type(0).shape
    rows, columns = (nearest(a, b, s["coordinates"], s["rounding"]) for a, b in zip((h, w), s["size"]))
    tall = s.via("GATHER", [s.x(), s.constant(rows, "rows")], s.like(0, (n, len(rows), w, c)), "tall", axis=1)
    s.op("GATHER", [tall, s.constant(columns, "columns")], s.y(), axis=2)


def amax(s: Step) -> None:
    reduction("REDUCE_MAX")(s)


OPS: dict[Op, Callable[[Step], None]] = {
    arith.add: pair("ADD"), arith.add_s8: pair("ADD"), arith.sub: pair("SUB"), arith.sub_s8: pair("SUB"),
    arith.mul: pair("MUL"), arith.mul_s8: pair("MUL"), arith.div: pair("DIV"),
    reduce.mean: reduction("MEAN"), reduce.mean_s8: mean_s8, reduce.sum: reduction("SUM"),
    reduce.amax: amax, reduce.cumsum: running_sum,
    norm.softmax: softmax("SOFTMAX", beta=1.0), norm.softmax_s8: softmax("SOFTMAX", beta=1.0),
    norm.log_softmax: softmax("LOG_SOFTMAX"), norm.layer_norm: layer_norm,
    layout.reshape: reshape, layout.transpose: transpose, layout.pad: pad, layout.concat: concat,
    layout.slice: strided, layout.split: split, layout.resize: resize,
    **LAYERS, **UNARY,
}  # fmt: skip
