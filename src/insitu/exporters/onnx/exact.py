"""int8 ops in ONNX with exactly our integers: for graphs that round once ("single").

Plain QDQ computes in float32 and rounds halves to even, so about one value in 100,000 ends one step away, and sums more
often. Here DequantizeLinear gives the integers themselves as floats (x - zero). Their products and sums are exact in
float32 below 2^24; weights that could exceed it are cut in two. The requantisation floor(acc m / 2^s + 1/2) is done in
float64, whose 53 bits hold it. The result is int8 again, and the same with every optimisation.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import TensorProto

from insitu.exporters.onnx.layers import pads
from insitu.exporters.onnx.step import Step
from insitu.graph import Op, Type
from insitu.ops._requant import channel_multipliers, quantize_multiplier, tensor_multipliers
from insitu.ops._windows import window_counts
from insitu.ops.arith import add_s8, mul_s8, product_multiplier, sub_s8, sum_multipliers
from insitu.ops.conv import conv2d_s8
from insitu.ops.depthwise import depthwise2d_s8
from insitu.ops.linear import linear_s8, matmul_s8
from insitu.ops.pool import avg_pool2d_s8, mean_multipliers
from insitu.ops.quant import inverse, quantize, requantize_s8, rescaling
from insitu.ops.reduce import cumsum_s8, mean_multiplier, mean_s8

LARGEST = 1 << 24  # integers up to this are exact in float32
WIDEST = 255  # the largest |x - zero|


def integers(s: Step, i: int, image: bool = False) -> str:
    """x - zero as float32."""
    name, e = s.image(i) if image else s.x(i), s.emitter
    key = f"{name} integers"
    if key not in e.reals:
        one = e.constant(np.array(1, np.float32), "one")
        zero = e.constant(np.array(s.type(i).zero, np.int8), "zero")
        e.reals[key] = e.add("DequantizeLinear", [name, one, zero], f"{name}.integers")
    return e.reals[key]


def double(s: Step, x: str, word: str = "wide") -> str:
    return s.op("Cast", [x], word, to=TensorProto.DOUBLE)


def wide(s: Step, array, word: str) -> str:
    return s.constant(np.asarray(array, np.float64), word)


def real(m, shift) -> np.ndarray:
    """A multiplier and its shift as the number they stand for, which float64 holds exactly."""
    return np.ldexp(np.asarray(m, np.float64), np.asarray(shift, np.int64) - 31)


def narrowed(s: Step, x: str, image: bool = False) -> None:
    """The node's result: float64 x + 1/2 + zero, rounded down, clamped, as int8."""
    moved = s.op("Add", [x, wide(s, 0.5 + s.out.zero, "half")], "moved")
    ends = [wide(s, s.node.attrs.get(word, usual), word) for word, usual in (("lo", -128), ("hi", 127))]
    y = s.op("Clip", [s.op("Floor", [moved], "floor"), *ends], "clipped")
    s.give(s.op("Cast", [y], to=TensorProto.INT8), image)


def requantised(s: Step, acc: str, factor, image: bool = False) -> None:
    """float64 sums times a factor as the node's result."""
    narrowed(s, s.op("Mul", [acc, wide(s, factor, "factor")], "scaled"), image)


# layers -----------------------------------------------------------------------------------------------


def halves(w: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """(factor, weights) whose sums stay exact: the weights, or their upper and lower four bits."""
    if WIDEST * np.abs(w.astype(np.int64)).reshape(len(w), -1).sum(1).max() < LARGEST:
        return [(1, w)]
    upper = (w.astype(np.int16) + 8) >> 4
    return [(16, upper.astype(np.int8)), (1, (w - 16 * upper).astype(np.int8))]


def sums(s: Step, w: np.ndarray, multiply: Callable[[str, int], str]) -> str:
    """The float64 sums of a layer whose weights are w[O, ...], without its bias."""
    total = ""
    for k, (factor, part) in enumerate(halves(w)):
        stored = s.op("DequantizeLinear", [s.constant(part, f"weight{k}"), s.number(1.0, f"one{k}")], f"integers{k}")
        acc = double(s, multiply(stored, k), f"wide{k}")
        acc = s.op("Mul", [acc, wide(s, factor, f"factor{k}")], f"part{k}") if factor > 1 else acc
        total = s.op("Add", [total, acc], "total") if total else acc
    return total


def layer(s: Step, w: np.ndarray, multiply: Callable[[str, int], str], image: bool) -> None:
    """A layer's sums, bias and requantisation; one factor per output channel."""
    acc, shape = sums(s, w, multiply), (-1, 1, 1) if image else (-1,)
    if s.count > 2:
        acc = s.op("Add", [acc, wide(s, s.array(2).reshape(shape), "bias")], "sum")
    factor = real(*channel_multipliers(s.type(0), s.type(1), s.out, len(w)))
    requantised(s, acc, factor.reshape(shape), image)


def convolve(s: Step, w: np.ndarray, groups: int) -> None:
    options = {"kernel_shape": w.shape[2:], "group": groups, "strides": s["stride"], "pads": pads(s["padding"]),
               "dilations": s["dilation"]}  # fmt: skip
    layer(s, w, lambda stored, k: s.op("Conv", [integers(s, 0, True), stored], f"acc{k}", **options), image=True)


def conv(s: Step) -> None:
    convolve(s, s.array(1).transpose(0, 3, 1, 2), s["groups"])


def depthwise(s: Step) -> None:
    convolve(s, s.array(1).transpose(2, 0, 1)[:, None], s.type(0).shape[3])


def linear(s: Step) -> None:
    def multiply(stored: str, k: int) -> str:
        return s.op("MatMul", [integers(s, 0), s.op("Transpose", [stored], f"turned{k}", perm=[1, 0])], f"acc{k}")

    layer(s, s.array(1), multiply, image=False)


def matmul(s: Step) -> None:
    """In float64: neither operand is known, so nothing bounds the sums."""
    acc = s.op("MatMul", [double(s, integers(s, i), f"wide{i}") for i in (0, 1)], "acc")
    m, shift = tensor_multipliers(s.type(0), s.type(1), s.out, "single")
    requantised(s, acc, real(m, shift)[0])


# element by element -----------------------------------------------------------------------------------


def both(s: Step) -> tuple[str, str, bool]:
    """The integers of both inputs in one layout."""
    image = {s.type(i).rank for i in (0, 1)} == {4} and (s.has_image(0) or s.has_image(1))
    return integers(s, 0, image), integers(s, 1, image), image


def weighed(sign: int) -> Callable[[Step], None]:
    """add_s8 and sub_s8: two 16-bit multipliers and one shift."""

    def run(s: Step) -> None:
        a, b, image = both(s)
        ma, mb, shift = sum_multipliers(s.type(0), s.type(1), s.out, sign)
        parts = [s.op("Mul", [double(s, x, f"wide{i}"), wide(s, np.ldexp(float(m), -shift), f"factor{i}")], f"part{i}")
                 for i, (x, m) in enumerate(((a, ma), (b, mb)))]  # fmt: skip
        narrowed(s, s.op("Add", parts, "sum"), image)

    return run


def multiplied(s: Step) -> None:
    a, b, image = both(s)
    factor = real(*product_multiplier(s.type(0), s.type(1), s.out, "single"))
    requantised(s, double(s, s.op("Mul", [a, b], "product")), factor, image)


def rescaled(s: Step) -> None:
    image = s.has_image()
    requantised(s, double(s, integers(s, 0, image)), real(*rescaling(s.type(0), s.out)), image)


def quantized(s: Step) -> None:
    """A float32 product with halves to even, or a quotient with halves away from zero."""
    image, e = s.has_image(), s.emitter
    x = s.image() if image else s.x()
    if s["rounding"] == "single":
        steps = s.op("Mul", [x, s.number(float(inverse(s.out)), "inverse")], "steps")
        whole = s.op("Round", [double(s, steps)], "whole")
    else:
        whole = away_from_zero(s, double(s, s.op("Div", [x, e.numerics(s.out)[0]], "steps")))
    at = s.op("Add", [whole, wide(s, s.out.zero, "zero")], "at")
    y = s.op("Clip", [at, wide(s, -128, "lo"), wide(s, 127, "hi")], "clipped")
    s.give(s.op("Cast", [y], to=TensorProto.INT8), image)


def away_from_zero(s: Step, steps: str) -> str:
    """The nearest integers, halves away from zero: ONNX itself rounds them to even."""
    up = s.op("Floor", [s.op("Add", [s.op("Abs", [steps], "size"), wide(s, 0.5, "half")], "above")], "up")
    return s.op("Mul", [up, s.op("Sign", [steps], "sign")], "signed")


# reductions -------------------------------------------------------------------------------------------


def avg_pool(s: Step) -> None:
    """Sums by a depthwise convolution of ones; the factor depends on how many elements a window has."""
    t, kernel, windows = s.type(0), s["kernel"], (s["stride"], s["padding"])
    ones = s.constant(np.ones((t.shape[3], 1, *kernel), np.float32), "ones")
    acc = s.op("Conv", [integers(s, 0, True), ones], "acc", kernel_shape=kernel, group=t.shape[3], strides=windows[0],
               pads=pads(windows[1]))  # fmt: skip
    found = window_counts((t.shape[1], t.shape[2]), kernel, *windows, s["count_include_pad"]).reshape(s.out.shape[1:3])
    m, shift = mean_multipliers(t, s.out, kernel)
    requantised(s, double(s, acc), real(m[found - 1], shift[found - 1]), image=True)


def mean(s: Step) -> None:
    t = s.type(0)
    axes, keep = sorted(a % t.rank for a in s["axes"]), int(s["keepdims"])
    image = s.has_image() and t.rank == 4 and axes == [1, 2]
    where = s.ints([2, 3] if image else axes, "axes")
    acc = s.op("ReduceSum", [integers(s, 0, image), where], "acc", keepdims=keep)
    factor = real(*mean_multiplier(t, s.out, _count(t, axes), "single"))
    requantised(s, double(s, acc), factor, image and bool(keep))


def _count(t: Type, axes: list[int]) -> int:
    return int(np.prod([t.shape[a] for a in axes]))


def running_sum(s: Step) -> None:
    t = s.type(0)
    how = {"exclusive": int(s["exclusive"]), "reverse": int(s["reverse"])}
    acc = s.op("CumSum", [double(s, integers(s, 0)), s.ints([s["axis"] % t.rank], "axis")], "acc", **how)
    requantised(s, acc, real(*quantize_multiplier(t.scale / s.out.scale)))


EXACT: dict[Op, Callable[[Step], None]] = {
    conv2d_s8: conv, depthwise2d_s8: depthwise, linear_s8: linear, matmul_s8: matmul, add_s8: weighed(1),
    sub_s8: weighed(-1), mul_s8: multiplied, requantize_s8: rescaled, quantize: quantized, avg_pool2d_s8: avg_pool,
    mean_s8: mean, cumsum_s8: running_sum,
}  # fmt: skip
