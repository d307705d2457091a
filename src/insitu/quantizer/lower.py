"""Float op -> int8 ops: one small function each, and the table of them.

A function takes the lowering in progress and a node of the float graph, and returns the s8 value (or values), or None
if there is no int8 kernel for this node: it then runs in float, and int8.py notes that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import isfinite

import numpy as np

from insitu.graph import Node, Op, Type, Value, s8, s32
from insitu.ops.activation import lut_s8, prelu
from insitu.ops.arith import add, div, mul, sub
from insitu.ops.conv import conv1d, conv2d
from insitu.ops.conv_transpose import conv_transpose2d
from insitu.ops.depthwise import depthwise2d
from insitu.ops.layout import concat, pad, reshape, transpose
from insitu.ops.layout import slice as slice_of
from insitu.ops.linear import linear, matmul, matmul_s8
from insitu.ops.norm import softmax, softmax_s8
from insitu.ops.pool import avg_pool2d
from insitu.ops.reduce import mean as mean_of
from insitu.ops.reduce import mean_s8
from insitu.ops.reduce import sum as sum_of
from insitu.quantizer.agree import agreeing_weights
from insitu.quantizer.correct import corrected_bias, mark_correction
from insitu.quantizer.lowering import Lowering, ends_of
from insitu.quantizer.settle import settle_mean, settle_pair
from insitu.quantizer.weights import LIMIT, OUTPUT_AXIS, quantize_weights, scale_floor

LARGEST = 2.0**29  # the largest requantisation multiplier; only sums that cancel to zero need more
LARGEST_OF_SUM = 2.0**13  # the same with the 16-bit multipliers of add and sub


# --- convolutions and products -----------------------------------------------------------------------------


def weighted(low: Lowering, node: Node):
    """conv2d, depthwise2d, linear."""
    found = _parameters(low, node)
    if found is None:
        return None
    x = low.s8(node.inputs[0])
    return _weighted(low, node, node.op, x, *found, low.mean(node.inputs[0]), dict(node.attrs), node.output.shape)


def lower_conv1d(low: Lowering, node: Node):
    """conv1d as a conv2d on an image of one row."""
    found = _parameters(low, node)
    if found is None:
        return None
    (w, b), a, (n, length, c) = found, node.attrs, node.inputs[0].shape
    image = reshape(low.s8(node.inputs[0]), shape=(n, 1, length, c), name=f"{node.name}.image")
    attrs = {"stride": (1, a["stride"]), "padding": (0, 0, *a["padding"]), "dilation": (1, a["dilation"])}
    if a["groups"] == c > 1:
        op, w = depthwise2d, w[:, :, 0].T[None]
    else:
        op, w, attrs = conv2d, w[:, None], {**attrs, "groups": a["groups"]}
    _, longer, o = node.output.shape
    y = _weighted(low, node, op, image, w, b, low.mean(node.inputs[0]), attrs, (n, 1, longer, o), ".conv2d")
    return y and reshape(y, shape=node.output.shape, name=node.name)


def lower_transposed(low: Lowering, node: Node):
    """Zeros between the pixels, then an ordinary convolution with the kernel rotated by 180 degrees."""
    found, a = _parameters(low, node), node.attrs
    if found is None:
        return None
    w, b = found
    span = [d * (k - 1) for d, k in zip(a["dilation"], w.shape[1:3])]
    top, bottom, left, right = a["padding"]
    before = (span[0] - top, span[1] - left)
    # each pixel, even the last one, is followed by stride - 1 zeros: the surplus is cut off
    after = [
        s - p + extra - (step - 1) for s, p, extra, step in zip(span, (bottom, right), a["output_padding"], a["stride"])
    ]
    if min(before) < 0:
        return None
    x = _spread_out(low.s8(node.inputs[0]), a["stride"], [max(0, -n) for n in after], node.name)
    padding = (before[0], max(after[0], 0), before[1], max(after[1], 0))
    attrs = {"stride": (1, 1), "padding": padding, "dilation": a["dilation"], "groups": a["groups"]}
    mean = low.mean(node.inputs[0]) / np.prod(a["stride"])
    return _weighted(low, node, conv2d, x, _turned(w, a["groups"]), b, mean, attrs, node.output.shape)


def _turned(w: np.ndarray, groups: int) -> np.ndarray:
    """w[C, KH, KW, O/g] of a transposed convolution as w[O, KH, KW, C/g] of an ordinary one."""
    c, kh, kw, o = w.shape
    w = w.reshape(groups, c // groups, kh, kw, o)[:, :, ::-1, ::-1]
    return w.transpose(0, 4, 2, 3, 1).reshape(groups * o, kh, kw, c // groups)


def _spread_out(x: Value, stride, cut, name: str) -> Value:
    """x[N,H,W,C] with stride - 1 zeros after each pixel, less `cut` rows and columns at the end."""
    (n, h, w, c), (sh, sw) = x.shape, stride
    if sh == sw == 1:
        return x
    x = reshape(x, shape=(n, h, 1, w, 1, c), name=f"{name}.pixels")
    none = (0, 0)
    x = pad(x, pads=(none, none, (0, sh - 1), none, (0, sw - 1), none), name=f"{name}.spread")
    x = reshape(x, shape=(n, h * sh, w * sw, c), name=f"{name}.image")
    if not any(cut):
        return x
    stops = (n, h * sh - cut[0], w * sw - cut[1], c)
    return slice_of(x, starts=(0,) * 4, stops=stops, steps=(1,) * 4, name=f"{name}.cut")


def _parameters(low: Lowering, node: Node) -> tuple[np.ndarray, np.ndarray] | None:
    w = low.array(node.inputs[1])
    b = low.array(node.inputs[2]) if len(node.inputs) > 2 else np.zeros(node.output.shape[-1])
    return None if w is None or b is None else (w.astype(np.float64), b.astype(np.float64))


def _weighted(low: Lowering, node, op: Op, x: Value, w, b, mean, attrs, shape, suffix: str = "") -> Value | None:
    """The int8 op with weights and bias in integers; the bias compensates for the rounding of the weights."""
    out, clamp = low.output(node)
    axis, options = OUTPUT_AXIS[op], low.options
    floor = scale_floor(b, x.type.scale, out.scale)
    kind = {"per_channel": options.per_channel, "clip": options.clip_weights, "room": options.room}
    settle = partial(agreeing_weights, x=x.type.scale, y=out.scale, ends=ends_of(out, **clamp))
    rounded = quantize_weights(w, floor, axis, **kind, settle=settle)
    if x.type.scale * rounded.scale.max() > LARGEST * out.scale:
        return None
    if options.bias_correction:
        b = corrected_bias(op, b, w, rounded, mean, attrs)
    b_scale = np.broadcast_to(rounded.scale * x.type.scale, b.shape)
    many = options.per_channel
    w_type = s8(*w.shape, s=rounded.scale, axis=axis if many else None)
    b_type = s32(*b.shape, s=b_scale if many else b_scale[0], axis=0 if many else None)
    names = [v.name for v in node.inputs[1:]] + [f"{node.name}.bias"]
    weight = low.builder.constant(names[0], rounded.integers, w_type)
    b = np.clip(np.rint(b / b_scale), -2 * LIMIT, 2 * LIMIT)  # a correction may be larger than any bias
    bias = low.builder.constant(names[1], b.astype(np.int32), b_type)
    low.stands_for(weight, names[0])
    if len(node.inputs) > 2:
        low.stands_for(bias, names[1])
    else:
        mark_correction(low.builder, bias)
    assert op.facts.int8
    return op.facts.int8(x, weight, bias, name=node.name + suffix, out=out.with_shape(*shape), **attrs, **clamp)


def lower_matmul(low: Lowering, node: Node):
    (a, b), (out, clamp) = map(low.s8, node.inputs), low.output(node)
    if a.type.scale * b.type.scale > LARGEST * out.scale:
        return None
    return matmul_s8(a, b, name=node.name, out=out, **clamp)


# --- element by element --------------------------------------------------------------------------------------


def function(low: Lowering, node: Node):
    """A function of one value, or a chain of them: a table of its 256 results."""
    chain = low.fusions.chain[node.name]
    first = next(v for v in chain[0].inputs if v.name not in low.graph.constants)
    x, out = low.s8(first), low.type(node.output)
    reals = x.type.scale * (np.arange(-128.0, 128.0) - x.type.zero)
    table = low.builder.constant(f"{node.name}.table", to_integers(_filled(_through(low, chain, reals)), out))
    slope = low.builder.constant(f"{node.name}.slope", _slopes(low, chain, reals, out))
    return lut_s8(x, table, slope, name=node.name, out=out)


def _through(low: Lowering, chain: Sequence[Node], reals: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        for step in chain:
            reals = step.rule("eval", *(_argument(low, v, reals) for v in step.inputs))
    return reals


def _slopes(low: Lowering, chain: Sequence[Node], reals: np.ndarray, out: Type) -> np.ndarray:
    """The derivative of the function itself, for training; zero where it is clamped or undefined."""
    step = 1e-3 * (reals[1] - reals[0])
    below, at, above = (_through(low, chain, reals + d) for d in (-step, 0.0, step))
    with np.errstate(all="ignore"):
        slope, q = (above - below) / (2 * step), at / out.scale + out.zero
        inside = np.isfinite(slope) & (q >= -128.5) & (q <= 127.5)
    return np.where(inside, slope, 0.0).astype(np.float32)


def _argument(low: Lowering, value: Value, reals: np.ndarray) -> np.ndarray:
    c = low.array(value)
    return reals if c is None else c.reshape(()).astype(np.float64)


def _filled(reals: np.ndarray) -> np.ndarray:
    """Where a function is undefined (sqrt(-1)), its value at the nearest point where it is defined."""
    known = np.flatnonzero(~np.isnan(reals))
    if len(known) == 0:
        return np.zeros_like(reals)
    nearest = np.abs(np.arange(len(reals))[:, None] - known).argmin(axis=1)
    return reals[known[nearest]]


def to_integers(reals: np.ndarray, t: Type) -> np.ndarray:
    q = np.floor(np.clip(reals / t.scale, -1e6, 1e6) + 0.5) + t.zero
    return np.clip(q, -128, 127).astype(np.int8)


def binary(low: Lowering, node: Node):
    """add, sub, mul of two tensors, one of which may be constant."""
    if node.name in low.fusions.chain:
        return function(low, node)
    x, y = (low.s8(v) for v in node.inputs)
    out, clamp = low.output(node)
    a, b = x.type.scale, y.type.scale
    fits = a * b <= LARGEST * out.scale if node.op is mul else max(a, b) <= LARGEST_OF_SUM * out.scale
    if not fits or not node.op.facts.int8:
        return None
    settle_pair(low, node, x.type, y.type)
    out, clamp = low.output(node)
    return node.op.facts.int8(x, y, name=node.name, out=out, **clamp)


def unary_only(low: Lowering, node: Node):
    """div and prelu: a table if they are functions of one value."""
    return function(low, node) if node.name in low.fusions.chain else None


# --- reductions ----------------------------------------------------------------------------------------------


def twin(low: Lowering, node: Node):
    """The int8 op with the same inputs and attributes."""
    op = node.op.facts.int8
    assert op is not None
    out, clamp = low.output(node) if "lo" in op.defaults else (low.type(node.output), {})
    return op(*map(low.s8, node.inputs), name=node.name, out=out, **node.attrs, **clamp)


def average(low: Lowering, node: Node):
    settle_mean(low, node, low.s8(node.inputs[0]).type)
    return twin(low, node)


def total(low: Lowering, node: Node):
    """The sum of n elements is their mean with a scale n times as large: the same integers."""
    x, out = low.s8(node.inputs[0]), low.type(node.output)
    n = node.inputs[0].type.size // node.output.type.size
    finer = s8(*out.shape, s=out.scale / n, z=out.zero)
    average = mean_s8(x, name=f"{node.name}.mean", out=finer, **node.attrs)
    table = low.builder.constant(f"{node.name}.table", np.arange(-128, 128).astype(np.int8))
    return lut_s8(average, table, name=node.name, out=out)


def lower_softmax(low: Lowering, node: Node):
    """Softmax along the last axis; another axis is moved there and back."""
    x, rank = low.s8(node.inputs[0]), node.output.type.rank
    axis = node.attrs["axis"] % rank
    if axis == rank - 1:
        return softmax_s8(x, name=node.name)
    perm = [rank - 1 if d == axis else axis if d == rank - 1 else d for d in range(rank)]
    x = transpose(x, perm=perm, name=f"{node.name}.axis")
    y = softmax_s8(x, name=f"{node.name}.softmax")
    return transpose(y, perm=perm, name=node.name)


# --- moves ---------------------------------------------------------------------------------------------------


def move(low: Lowering, node: Node):
    """The same op on s8: the type is unchanged."""
    return node.op(low.s8(node.inputs[0]), name=low.stem(node), **node.attrs)


def lower_pad(low: Lowering, node: Node):
    """A fill value below or above the range becomes the lowest or highest integer."""
    x = low.s8(node.inputs[0])
    lowest, highest = (x.type.scale * (q - x.type.zero) for q in (-128, 127))
    value = float(np.clip(node.attrs["value"], lowest, highest))
    return node.op(x, name=node.name, pads=node.attrs["pads"], value=value if isfinite(value) else 0.0)


def lower_concat(low: Lowering, node: Node):
    out = low.type(node.output)
    return node.op(*(low.s8_as(v, out) for v in node.inputs), name=node.name, axis=node.attrs["axis"])


LOWER = {
    conv2d: weighted, depthwise2d: weighted, linear: weighted, conv1d: lower_conv1d, matmul: lower_matmul,
    conv_transpose2d: lower_transposed,
    add: binary, sub: binary, mul: binary, div: unary_only, prelu: unary_only,
    sum_of: total, mean_of: average, avg_pool2d: average, softmax: lower_softmax, pad: lower_pad, concat: lower_concat,
}  # fmt: skip


def lowering_of(low: Lowering, node: Node) -> Callable | None:
    """The function for this node: its op's own, or the default for its kind of op; None if it runs in float."""
    if node.op in LOWER:
        return LOWER[node.op]
    if node.name in low.fusions.chain:
        return function
    return move if node.op.facts.moves else twin if node.op.facts.int8 else None
