"""Convolutions, products and pooling, float and int8, as ONNX operators over real numbers (QDQ)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from insitu.exporters.onnx.step import Step
from insitu.graph import Op
from insitu.ops.conv import conv1d, conv2d, conv2d_s8
from insitu.ops.conv_transpose import conv_transpose2d
from insitu.ops.depthwise import depthwise2d, depthwise2d_s8
from insitu.ops.linear import linear, linear_s8, matmul, matmul_s8
from insitu.ops.pool import avg_pool2d, avg_pool2d_s8, max_pool2d


def weights(s: Step, array: np.ndarray, axis: int = 0) -> str:
    """The weights as real numbers; `axis` has the output channels."""
    q = s.type(1).quant
    name = s.constant(array, "weight")
    if q is None:
        return name
    scale = s.constant(np.array(q.scale if q.per_channel else q.scale[0], np.float32), "weight.scale")
    return s.op("DequantizeLinear", [name, scale], "weight.real", **({"axis": axis} if q.per_channel else {}))


def bias(s: Step) -> list[str]:
    """The bias as real numbers, if there is one. An int8 layer's has the scale of its products."""
    if s.count < 3:
        return []
    name = s.constant(s.array(2), "bias")
    if not s.int8:
        return [name]
    q, x = s.type(1).quant, s.type(0)
    assert q is not None  # int8 weights have scales
    scales = np.broadcast_to(x.scale * np.array(q.scale, np.float64), s.array(2).shape).astype(np.float32)
    return [s.op("DequantizeLinear", [name, s.constant(scales, "bias.scale")], "bias.real", axis=0)]


def pads(padding) -> list[int]:
    """(top, bottom, left, right) in ONNX's order: all beginnings, then all ends."""
    return [*padding[::2], *padding[1::2]]


def conv(s: Step) -> None:
    w = s.array(1).transpose(0, 3, 1, 2)
    convolve(s, w, s["groups"], s["stride"], s["padding"], s["dilation"])


def depthwise(s: Step) -> None:
    w = s.array(1).transpose(2, 0, 1)[:, None]
    convolve(s, w, s.type(0).shape[3], s["stride"], s["padding"], s["dilation"])


def conv_1d(s: Step) -> None:
    w = s.array(1).transpose(0, 2, 1)
    convolve(s, w, s["groups"], (s["stride"],), s["padding"], (s["dilation"],))


def convolve(s: Step, w: np.ndarray, groups: int, stride, padding, dilation) -> None:
    inputs = [s.real(0, image=True), weights(s, w), *bias(s)]
    y = s.op("Conv", inputs, "sum" if s.int8 else "", kernel_shape=w.shape[2:], group=groups, strides=stride,
             pads=pads(padding), dilations=dilation)  # fmt: skip
    s.finish(y, image=True)


def conv_transpose(s: Step) -> None:
    w = s.array(1).transpose(0, 3, 1, 2)
    inputs = [s.real(0, image=True), weights(s, w), *bias(s)]
    y = s.op("ConvTranspose", inputs, kernel_shape=w.shape[2:], group=s["groups"], strides=s["stride"],
             pads=pads(s["padding"]), dilations=s["dilation"], output_padding=s["output_padding"])  # fmt: skip
    s.finish(y, image=True)


def linear_layer(s: Step) -> None:
    """Gemm for a matrix, which keeps weights as they are; MatMul and Add for more dimensions.

    In int8 those become a matrix, too: onnxruntime 1.31 makes a Gemm of MatMul and Add, with types that do not fit.
    """
    if s.type(0).rank == 2:
        inputs = [s.real(0), weights(s, s.array(1)), *bias(s)]
        return s.finish(s.op("Gemm", inputs, "sum" if s.int8 else "", transB=1))
    if s.int8:
        return integer_rows(s)
    y = s.op("MatMul", [s.real(0), weights(s, s.array(1).T, axis=1)], "product")
    for b in bias(s):
        y = s.op("Add", [y, b], "sum")
    return s.finish(y)


def integer_rows(s: Step) -> None:
    """A linear layer over more dimensions as one over a matrix; it is the integers that are reshaped."""
    rows = s.op("Reshape", [s.x(0), s.constant(np.array([-1, s.type(0).shape[-1]]), "rows.shape")], "rows")
    real = s.op("DequantizeLinear", [rows, *s.emitter.numerics(s.type(0))], "rows.real")
    sums = s.op("Gemm", [real, weights(s, s.array(1)), *bias(s)], "sum", transB=1)
    flat = s.op("QuantizeLinear", [s.clamped(sums), *s.emitter.numerics(s.out)], "flat")
    s.give(s.op("Reshape", [flat, s.constant(np.array(s.out.shape), "shape")]))


def product(s: Step) -> None:
    s.finish(s.op("MatMul", [s.real(0), s.real(1)], "product" if s.int8 else ""))


def max_pool(s: Step) -> None:
    windows = {"kernel_shape": s["kernel"], "strides": s["stride"], "pads": pads(s["padding"])}
    s.give(s.op("MaxPool", [s.image()], dilations=s["dilation"], **windows), image=True)


def avg_pool(s: Step) -> None:
    windows = {"kernel_shape": s["kernel"], "strides": s["stride"], "pads": pads(s["padding"])}
    y = s.op("AveragePool", [s.real(0, image=True)], "mean" if s.int8 else "",
             count_include_pad=int(s["count_include_pad"]), **windows)  # fmt: skip
    s.finish(y, image=True)


LAYERS: dict[Op, Callable[[Step], None]] = {
    conv2d: conv, conv2d_s8: conv, depthwise2d: depthwise, depthwise2d_s8: depthwise, conv1d: conv_1d,
    conv_transpose2d: conv_transpose, linear: linear_layer, linear_s8: linear_layer, matmul: product,
    matmul_s8: product, max_pool2d: max_pool, avg_pool2d: avg_pool, avg_pool2d_s8: avg_pool,
}  # fmt: skip
