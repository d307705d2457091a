"""What each LiteRT operator becomes: one table, OPS, of small functions from a Step to a value.

The layouts agree (NHWC, weights with the output channel first), so few tensors are permuted. An operator without an
int8 kernel runs as dequantize, float, quantize, with a note. Layout operators are in layout.py, functions of one value
in unary.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np

from insitu.errors import ModelError, Unsupported
from insitu.graph import Quant, Type, Value
from insitu.importers.tflite.layout import LAYOUT, axis_of, dequantised
from insitu.importers.tflite.lookups import cast, gather
from insitu.importers.tflite.read import Step, zero_of
from insitu.importers.tflite.unary import UNARY, clipped, fused, fused_range
from insitu.importers.tflite.unsigned import symmetric
from insitu.ops._requant import quantize_multiplier, rescaled
from insitu.ops.activation import clamp, prelu
from insitu.ops.arith import add, add_s8, div, mul, mul_s8, sub, sub_s8
from insitu.ops.conv import conv2d, conv2d_s8
from insitu.ops.conv_transpose import conv_transpose2d
from insitu.ops.depthwise import depthwise2d, depthwise2d_s8
from insitu.ops.layout import reshape, transpose
from insitu.ops.linear import linear, linear_s8, matmul, matmul_s8
from insitu.ops.norm import log_softmax, softmax, softmax_s8
from insitu.ops.pool import avg_pool2d, avg_pool2d_s8, max_pool2d
from insitu.ops.quant import dequantize, quantize, requantize_s8
from insitu.ops.reduce import amax, mean, mean_s8, sum

ONES = re.compile(r"/ones\d+x\d+$")
DYNAMIC_RANGE = (
    "some weights are int8 in a float network (dynamic-range quantisation): they are dequantised here, "
    "while LiteRT would also quantise the inputs of those layers at run time"
)


# --- weights ---------------------------------------------------------------------------------------


def weights(s: Step, turn: Callable, axis: int) -> Value:
    """The weights of a layer, permuted by `turn`; `axis` is then the axis of the output channels."""
    t, array = s.tensor(1), s.array(1)
    if s.int8:
        if array.dtype != np.int8 or not t.scale:
            raise Unsupported(f"int8 activations with weights of type {t.type} are not supported", where=t.where)
        turned = turn(symmetric(array, zero_of(t), t))
        per_channel = None if len(t.scale) == 1 else axis
        return s.builder.constant(f"{s.name}.weight", turned, Type("s8", turned.shape, Quant(t.scale, 0, per_channel)))
    if array.dtype == np.int8:
        if not s.as_float:
            s.builder.note(DYNAMIC_RANGE)
        array = s.importer.copied(dequantised(s, 1, array))
    return s.builder.constant(f"{s.name}.weight", s.importer.copied(np.ascontiguousarray(turn(array))))


def bias(s: Step, i: int, channels: int) -> tuple[Value, ...]:
    """The bias as a value, or nothing; int8 layers always have one."""
    if not s.has(i):
        return (s.builder.constant(f"{s.name}.bias", np.zeros(channels, np.int32)),) if s.int8 else ()
    array = s.array(i).reshape(-1)
    if s.as_float and array.dtype == np.int32:
        array = dequantised(s, i, array)
    wanted = np.int32 if s.int8 else np.float32
    if array.dtype != wanted:
        raise Unsupported(f"a bias of type {s.tensor(i).type} is not supported", where=s.tensor(i).where)
    return (s.builder.constant(f"{s.name}.bias", array),)


def through_float(function: Callable) -> Callable:
    """For an op without an int8 kernel: dequantize, compute in float, quantize; all visible in the graph."""

    def run(s: Step):
        if not s.int8:
            return function(s)
        s.builder.note(f"{s.operator.name} has no int8 kernel: {s.name} runs in float")
        y = function(replace(s, as_float=True, name=f"{s.name}.real"))
        return quantize(y, name=s.name, out=s.out)

    return run


# --- convolutions and linear layers ----------------------------------------------------------------


def same(size: int, kernel: int, stride: int, dilation: int = 1) -> tuple[int, int]:
    """(before, after) of padding SAME: ceil(size / stride) outputs, the odd element after."""
    if min(size, kernel, stride, dilation) < 1:
        raise ModelError(f"kernel {kernel}, stride {stride}, dilation {dilation} do not fit a size of {size}")
    total = max((-(-size // stride) - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    return total // 2, total - total // 2


def window(s: Step, x: Value, kernel, dilation=(1, 1)) -> dict:
    """Stride and explicit padding of a window over the image x."""
    if x.type.rank != 4:
        raise ModelError(f"{s.operator.name} needs an image, not {x.type}")
    stride = (s["stride_h"], s["stride_w"])
    if s["padding"] == "VALID":
        return {"stride": stride, "padding": (0, 0, 0, 0)}
    sides = [same(*args) for args in zip(x.shape[1:3], kernel, stride, dilation)]
    return {"stride": stride, "padding": (*sides[0], *sides[1])}


def clamped(s: Step) -> dict:
    lo, hi = fused_range(s)
    return {"lo": lo, "hi": hi, "rounding": s.rounding, "name": s.name, "out": s.out}


def conv(s: Step):
    x, w = s.x(0), weights(s, lambda a: a, axis=0)
    if w.type.rank != 4 or x.type.rank != 4:
        raise ModelError(f"weights {w.type} do not fit {x.type}")
    dilation = (s["dilation_h"], s["dilation_w"])
    how = {**window(s, x, w.shape[1:3], dilation), "dilation": dilation, "groups": x.shape[3] // w.shape[3]}
    b = bias(s, 2, w.shape[0])
    if s.int8:
        return conv2d_s8(x, w, *b, **how, **clamped(s))
    return fused(s, conv2d(x, w, *b, **how, name=s.name))


def depthwise(s: Step):
    if s.array(1).ndim != 4 or s.array(1).shape[0] != 1:
        raise ModelError(f"depthwise weights must be [1,KH,KW,O], not {s.array(1).shape}", where=s.tensor(1).where)
    x, w = s.x(0), weights(s, lambda a: a[0], axis=2)
    dilation = (s["dilation_h"], s["dilation_w"])
    how = {**window(s, x, w.shape[:2], dilation), "dilation": dilation}
    b = bias(s, 2, w.shape[2])
    if s.int8 and is_mean(s):
        return avg_pool2d_s8(x, kernel=w.shape[:2], stride=how["stride"], padding=how["padding"], **clamped(s))
    if s.int8:
        return depthwise2d_s8(x, w, *b, **how, **clamped(s))
    return fused(s, depthwise2d(x, w, *b, **how, name=s.name))


def is_mean(s: Step) -> bool:
    """A mean that insitu wrote as a convolution with equal weights, because XNNPACK rounds means otherwise."""
    return s.importer.origin.ours and s.rounding == "single" and bool(ONES.search(s.tensor(1).name))


def transpose_conv(s: Step):
    """Inputs: the output's shape, weights [O,KH,KW,I], x, bias."""
    if s.array(1).ndim != 4:
        raise ModelError(f"weights must be [O,KH,KW,I], not {s.array(1).shape}", where=s.tensor(1).where)
    x, w = s.x(2), weights(s, lambda a: a.transpose(3, 1, 2, 0), axis=3)
    size, stride = s.integers(0), (s["stride_h"], s["stride_w"])
    if len(size) != 4 or x.type.rank != 4:
        raise ModelError(f"the output shape {size} does not fit {x.type}")
    padding, extra = [], []
    for have, wanted, kernel, step in zip(x.shape[1:3], size[1:3], w.shape[1:3], stride):
        full = (have - 1) * step + kernel
        before = same(wanted, kernel, step)[0] if s["padding"] == "SAME" else 0
        padding += [before, max(full - before - wanted, 0)]
        extra.append(max(wanted - (full - before), 0))
    y = conv_transpose2d(
        x, w, *bias(s, 3, w.shape[3]), stride=stride, padding=padding, output_padding=extra, name=s.name
    )
    return fused(s, y)


def fully_connected(s: Step):
    if s["weights_format"] != 0:
        raise Unsupported("weights shuffled for one kind of processor are not supported")
    x, w = s.x(0), weights(s, lambda a: a, axis=0)
    if w.type.rank != 2:
        raise ModelError(f"weights must be [O,I], not {w.shape}", where=s.tensor(1).where)
    if not s["keepdims"] and (x.type.rank != 2 or x.shape[-1] != w.shape[1]):
        if x.type.size % w.shape[1]:
            raise ModelError(f"{x.type} does not divide into rows of {w.shape[1]}")
        x = reshape(x, shape=(x.type.size // w.shape[1], w.shape[1]), name=f"{s.name}.rows")
    b = bias(s, 2, w.shape[0])
    if s.int8:
        return linear_s8(x, w, *b, **clamped(s))
    return fused(s, linear(x, w, *b, name=s.name))


def batch_matmul(s: Step):
    a, b = (turned(s, i, s[key]) for i, key in ((0, "adj_x"), (1, "adj_y")))
    if s.int8:
        return matmul_s8(a, b, rounding=s.rounding, name=s.name, out=s.out)
    return matmul(a, b, name=s.name)


def turned(s: Step, i: int, adjoint: bool) -> Value:
    x = s.x(i)
    if not adjoint:
        return x
    if x.type.rank < 2:
        raise ModelError(f"{x.type} has no last two dimensions to swap")
    perm = (*range(x.type.rank - 2), x.type.rank - 1, x.type.rank - 2)
    return transpose(x, perm=perm, name=f"{s.name}.turned{i}")


# --- arithmetic, pools, reductions -----------------------------------------------------------------


def arithmetic(float_op, int8_op) -> Callable:
    def run(s: Step):
        if s.int8:
            return int8_op(s.x(0), s.x(1), **clamped(s))
        return fused(s, float_op(s.x(0), s.x(1), name=s.name))

    return run


def multiplied(s: Step):
    """MUL; by a one that insitu wrote because XNNPACK's QUANTIZE rounds otherwise, a rescaling."""
    if s.importer.origin.ours and s.rounding == "single" and s.int8 and s.tensor(1).name.endswith("/one"):
        return requantize_s8(s.x(0), rounding=s.rounding, name=s.name, out=s.out)
    return arithmetic(mul, mul_s8)(s)


def limit(side: str) -> Callable:
    """MAXIMUM and MINIMUM with a constant: a clamp."""

    def run(s: Step):
        i = 0 if s.known(0) is not None else 1
        if s.known(i) is None or s.array(i).size != 1:
            raise Unsupported(f"{s.operator.name} of two tensors: one must be a single constant number")
        array, x = s.array(i), s.x(1 - i)
        if s.int8:
            ends = (-128, int(array.reshape(()))) if side == "hi" else (int(array.reshape(())), 127)
            return clipped(s, x, *ends, s.name)
        number = float((dequantised(s, i, array) if array.dtype == np.int8 else array).reshape(()))
        return clamp(x, **{side: number}, name=s.name)

    through = through_float(run)
    return lambda s: run(s) if s.int8 and same_scales(s) else through(s)


def same_scales(s: Step) -> bool:
    return all(s.importer.quant(s.tensor(i).index) == s.out.quant for i in range(s.count))


def average_pool(s: Step):
    x, kernel = s.x(0), (s["filter_h"], s["filter_w"])
    how = {"kernel": kernel, **window(s, x, kernel)}
    if s.int8:
        return avg_pool2d_s8(x, **how, **{**clamped(s), **halves(s, kernel)})
    return fused(s, avg_pool2d(x, **how, name=s.name))


def halves(s: Step, kernel: tuple[int, int]) -> dict:
    """LiteRT's average of uint8 rounds halves up, that of int8 away from zero; our `single` rounds them up."""
    if not s.output.unsigned:
        return {}
    whole = kernel[0] * kernel[1]
    if not all(up_is_exact(count) for count in range(whole if s["padding"] == "VALID" else 2, whole + 1)):
        s.builder.note(f"{s.name} may round an exact half down, where LiteRT's average of uint8 rounds it up")
    return {"rounding": "single"}


@lru_cache(256)
def up_is_exact(count: int) -> bool:
    """Does a multiplier of 1/count round every half up? Odd counts have no halves."""
    sums = np.arange(-255 * count, 255 * count + 1)
    ours = rescaled(sums, *quantize_multiplier(1 / count), 0, "single")
    return bool((ours == (2 * sums + count) // (2 * count)).all())


def max_pool(s: Step):
    x, kernel = s.x(0), (s["filter_h"], s["filter_w"])
    return fused(s, max_pool2d(x, kernel=kernel, **window(s, x, kernel), name=s.name))


def reduction(op, int8_op=None, **attrs) -> Callable:
    def run(s: Step):
        x = s.x(0)
        axes = tuple(sorted({axis_of(a, x) for a in s.integers(1)}))
        how = {"axes": axes, "keepdims": s["keepdims"], "name": s.name}
        return int8_op(x, **how, rounding=s.rounding, out=s.out) if s.int8 and int8_op else op(x, **how, **attrs)

    return run if int8_op else through_float(run)


def soft_max(s: Step):
    x, beta = s.x(0), s["beta"]
    if s.int8:
        if beta != 1:
            raise Unsupported(f"an int8 softmax with beta {beta} is not supported")
        return softmax_s8(x, rounding=s.rounding, name=s.name)
    if beta != 1:
        x = mul(x, s.builder.constant(f"{s.name}.beta", np.array([beta], np.float32)), name=f"{s.name}.scaled")
    return softmax(x, name=s.name)


def quantised(s: Step):
    x = s.x(0)
    if x.dtype == "s8" and x.type.quant == s.out.quant:  # uint8 to int8, or back
        return x
    if x.dtype == "s8":
        return requantize_s8(x, rounding=s.rounding, name=s.name, out=s.out)
    return quantize(x, name=s.name, out=s.out)


def slopes(s: Step):
    return prelu(s.x(0), s.x(1), name=s.name)


OPS: dict[str, Callable] = {
    "CONV_2D": conv,
    "DEPTHWISE_CONV_2D": depthwise,
    "TRANSPOSE_CONV": through_float(transpose_conv),
    "FULLY_CONNECTED": fully_connected,
    "BATCH_MATMUL": batch_matmul,
    "ADD": arithmetic(add, add_s8),
    "SUB": arithmetic(sub, sub_s8),
    "MUL": multiplied,
    "DIV": through_float(arithmetic(div, None)),
    "MAXIMUM": limit("lo"),
    "MINIMUM": limit("hi"),
    "AVERAGE_POOL_2D": average_pool,
    "MAX_POOL_2D": max_pool,
    "MEAN": reduction(mean, mean_s8),
    "SUM": reduction(sum),
    "REDUCE_MAX": reduction(amax, ties="even"),
    "SOFTMAX": soft_max,
    "LOG_SOFTMAX": through_float(lambda s: log_softmax(s.x(0), name=s.name)),
    "PRELU": through_float(slopes),
    "QUANTIZE": quantised,
    "CAST": cast,
    "GATHER": gather,
    "DEQUANTIZE": lambda s: dequantize(s.x(0), name=s.name),
    **LAYOUT,
    **UNARY,
}
