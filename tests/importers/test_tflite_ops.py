"""Each LiteRT operator in a file of its own: our graph against LiteRT's reference kernels.

int8 must give the same bytes; float the same numbers. The scales of the `ties` cases are powers of two,
so that results fall exactly between two integers.
"""

from __future__ import annotations

import numpy as np
import pytest

from insitu.graph import check, evaluate
from insitu.importers.tflite.read import read_tflite
from tests.importers.tflite_files import T, const, ints, litert, one

RNG = np.random.default_rng(11)
NONE, RELU, RELU_N1, RELU6 = range(4)
SAME, VALID = range(2)


def f(*shape) -> T:
    return T(shape)


def q(*shape, s=0.05, z=3) -> T:
    return T(shape, np.int8, s, z)


def real(*shape) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def weight(*shape, axis=0, s=None) -> T:
    """int8 weights with one scale per channel of `axis`, or one scale."""
    scale = RNG.uniform(0.005, 0.02, shape[axis]).astype(np.float32) if s is None else s
    return const(RNG.integers(-127, 128, shape).astype(np.int8), scale, 0, axis)


def bias(count: int, scale=1e-3) -> T:
    return const(RNG.integers(-3000, 3000, count).astype(np.int32), scale)


def window(stride=1, padding=SAME, act=NONE, **more) -> dict:
    return dict(strideW=stride, strideH=stride, padding=padding, fusedActivationFunction=act, **more)


def conv(**more) -> dict:
    return window(dilationWFactor=more.pop("dw", 1), dilationHFactor=more.pop("dh", 1), **more)


def pool(h, w, **more) -> dict:
    return window(filterHeight=h, filterWidth=w, **more)


def act(kind) -> dict:
    return {"fusedActivationFunction": kind}


# operator, inputs, results, options
FLOAT = {
    "conv same": ("CONV_2D", [f(1, 7, 6, 3), const(real(4, 3, 3, 3)), const(real(4))], [f(1, 7, 6, 4)], conv()),
    "conv strided relu": ("CONV_2D", [f(1, 7, 6, 3), const(real(4, 3, 2, 3)), const(real(4))], [f(1, 4, 3, 4)],
                          conv(stride=2, act=RELU)),
    "conv valid dilated": ("CONV_2D", [f(1, 8, 9, 2), const(real(3, 3, 3, 2)), const(real(3))], [f(1, 4, 3, 3)],
                           conv(padding=VALID, dh=2, dw=3)),
    "conv groups": ("CONV_2D", [f(1, 5, 5, 4), const(real(6, 3, 3, 2)), const(real(6))], [f(1, 5, 5, 6)], conv()),
    "depthwise": ("DEPTHWISE_CONV_2D", [f(1, 7, 6, 3), const(real(1, 3, 3, 3)), const(real(3))], [f(1, 4, 3, 3)],
                  conv(stride=2, act=RELU6, depthMultiplier=1)),
    "depthwise x2": ("DEPTHWISE_CONV_2D", [f(1, 5, 5, 3), const(real(1, 3, 3, 6)), const(real(6))], [f(1, 5, 5, 6)],
                     conv(depthMultiplier=2)),
    "transpose conv same": ("TRANSPOSE_CONV", [ints(1, 8, 6, 4), const(real(4, 3, 3, 2)), f(1, 4, 3, 2)],
                            [f(1, 8, 6, 4)], window(stride=2)),
    "transpose conv valid": ("TRANSPOSE_CONV",
                             [ints(1, 9, 7, 4), const(real(4, 3, 3, 2)), f(1, 4, 3, 2), const(real(4))],
                             [f(1, 9, 7, 4)], window(stride=2, padding=VALID)),
    "transpose conv small kernel": ("TRANSPOSE_CONV", [ints(1, 6, 6, 1), const(real(1, 1, 1, 2)), f(1, 3, 3, 2)],
                                    [f(1, 6, 6, 1)], window(stride=2)),
    "linear": ("FULLY_CONNECTED", [f(2, 5), const(real(3, 5)), const(real(3))], [f(2, 3)], act(RELU)),
    "linear of an image": ("FULLY_CONNECTED", [f(1, 2, 2, 3), const(real(4, 12)), None], [f(1, 4)], {}),
    "linear keeping dims": ("FULLY_CONNECTED", [f(2, 3, 5), const(real(4, 5)), None], [f(2, 3, 4)],
                            {"keepNumDims": True}),
    "matmul": ("BATCH_MATMUL", [f(2, 3, 4), f(2, 4, 5)], [f(2, 3, 5)], {}),
    "matmul adjoint": ("BATCH_MATMUL", [f(2, 4, 3), f(2, 5, 4)], [f(2, 3, 5)], {"adjX": True, "adjY": True}),
    "add broadcast": ("ADD", [f(1, 2, 3, 4), const(real(4))], [f(1, 2, 3, 4)], act(RELU_N1)),
    "sub": ("SUB", [f(2, 3), f(2, 3)], [f(2, 3)], {}),
    "mul": ("MUL", [f(2, 3), f(1, 3)], [f(2, 3)], act(RELU6)),
    "div": ("DIV", [f(2, 3), const(np.float32([2, -3, 0.5]))], [f(2, 3)], {}),
    "average pool same": ("AVERAGE_POOL_2D", [f(1, 5, 5, 3)], [f(1, 3, 3, 3)], pool(3, 2, stride=2)),
    "max pool": ("MAX_POOL_2D", [f(1, 5, 4, 3)], [f(1, 3, 2, 3)], pool(3, 3, stride=2, act=RELU)),
    "mean": ("MEAN", [f(2, 3, 4, 5), ints(1, 2)], [f(2, 5)], {"keepDims": False}),
    "mean keeping dims": ("MEAN", [f(2, 3, 4, 5), ints(-1, 1)], [f(2, 1, 4, 1)], {"keepDims": True}),
    "sum": ("SUM", [f(2, 3, 4), ints(-1)], [f(2, 3)], {}),
    "max": ("REDUCE_MAX", [f(2, 3, 4), ints(0, 2)], [f(3)], {}),
    "softmax": ("SOFTMAX", [f(3, 7)], [f(3, 7)], {"beta": 1.0}),
    "softmax beta": ("SOFTMAX", [f(3, 7)], [f(3, 7)], {"beta": 0.5}),
    "log softmax": ("LOG_SOFTMAX", [f(3, 7)], [f(3, 7)], {}),
    "logistic": ("LOGISTIC", [f(3, 7)], [f(3, 7)], {}),
    "tanh": ("TANH", [f(3, 7)], [f(3, 7)], {}),
    "relu": ("RELU", [f(3, 7)], [f(3, 7)], {}),
    "relu6": ("RELU6", [f(3, 7)], [f(3, 7)], {}),
    "relu -1..1": ("RELU_N1_TO_1", [f(3, 7)], [f(3, 7)], {}),
    "relu 0..1": ("RELU_0_TO_1", [f(3, 7)], [f(3, 7)], {}),
    "leaky relu": ("LEAKY_RELU", [f(3, 7)], [f(3, 7)], {"alpha": 0.2}),
    "prelu": ("PRELU", [f(1, 2, 3, 4), const(real(1, 1, 4))], [f(1, 2, 3, 4)], {}),
    "elu": ("ELU", [f(3, 7)], [f(3, 7)], {}),
    "hard swish": ("HARD_SWISH", [f(3, 7)], [f(3, 7)], {}),
    "gelu": ("GELU", [f(3, 7)], [f(3, 7)], {"approximate": False}),
    "gelu tanh": ("GELU", [f(3, 7)], [f(3, 7)], {"approximate": True}),
    "exp": ("EXP", [f(3, 7)], [f(3, 7)], {}),
    "neg": ("NEG", [f(3, 7)], [f(3, 7)], {}),
    "abs": ("ABS", [f(3, 7)], [f(3, 7)], {}),
    "square": ("SQUARE", [f(3, 7)], [f(3, 7)], {}),
    "maximum": ("MAXIMUM", [f(3, 7), const(np.float32(0.25))], [f(3, 7)], {}),
    "minimum": ("MINIMUM", [const(np.float32([0.25])), f(3, 7)], [f(3, 7)], {}),
    "pad": ("PAD", [f(1, 2, 3, 1), const(np.int32([[0, 0], [1, 2], [0, 1], [0, 0]]))], [f(1, 5, 4, 1)], {}),
    "pad with": ("PADV2", [f(2, 3), const(np.int32([[1, 0], [0, 2]])), const(np.float32([7]))], [f(3, 5)], {}),
    "reshape": ("RESHAPE", [f(2, 3, 4), ints(2, -1)], [f(2, 12)], {}),
    "reshape by option": ("RESHAPE", [f(2, 3, 4)], [f(4, 6)], {"newShape": [4, 6]}),
    "squeeze": ("SQUEEZE", [f(1, 3, 1, 2)], [f(1, 3, 2)], {"squeezeDims": [2]}),
    "squeeze all": ("SQUEEZE", [f(1, 3, 1, 2)], [f(3, 2)], {}),
    "expand": ("EXPAND_DIMS", [f(3, 2), ints(-1)], [f(3, 2, 1)], {}),
    "transpose": ("TRANSPOSE", [f(2, 3, 4), ints(2, 0, 1)], [f(4, 2, 3)], {}),
    "concat": ("CONCATENATION", [f(2, 3), f(2, 1), const(real(2, 2))], [f(2, 6)], {"axis": -1}),
    "slice": ("SLICE", [f(3, 5), ints(1, 2), ints(-1, 2)], [f(2, 2)], {}),
    "strided slice": ("STRIDED_SLICE", [f(3, 6), ints(0, 1), ints(2, 0), ints(1, 2)], [f(2, 3)], {"endMask": 2}),
    "strided slice shrinking": ("STRIDED_SLICE", [f(3, 6), ints(-1, 1), ints(3, 5), ints(1, 1)], [f(4)],
                                {"shrinkAxisMask": 1}),
    "split": ("SPLIT", [ints(1), f(2, 6)], [f(2, 2), f(2, 2), f(2, 2)], {"numSplits": 3}),
    "split uneven": ("SPLIT_V", [f(2, 6), ints(1, -1), ints(1)], [f(2, 1), f(2, 5)], {"numSplits": 2}),
    "resize": ("RESIZE_NEAREST_NEIGHBOR", [f(1, 3, 4, 2), ints(5, 9)], [f(1, 5, 9, 2)], {}),
    "resize corners": ("RESIZE_NEAREST_NEIGHBOR", [f(1, 3, 4, 2), ints(5, 9)], [f(1, 5, 9, 2)], {"alignCorners": True}),
    "resize centres": ("RESIZE_NEAREST_NEIGHBOR", [f(1, 3, 4, 2), ints(6, 2)], [f(1, 6, 2, 2)],
                       {"halfPixelCenters": True}),
}  # fmt: skip
POSITIVE = {
    "log": ("LOG", [f(3, 7)], [f(3, 7)], {}),
    "sqrt": ("SQRT", [f(3, 7)], [f(3, 7)], {}),
    "rsqrt": ("RSQRT", [f(3, 7)], [f(3, 7)], {}),
}
POW2 = {"s": 0.5, "z": 0}
INT8 = {
    "conv": ("CONV_2D", [q(1, 7, 6, 3), weight(4, 3, 3, 3), bias(4)], [q(1, 7, 6, 4, s=0.2)], conv()),
    "conv relu6": ("CONV_2D", [q(1, 7, 6, 3), weight(4, 3, 3, 3), bias(4)], [q(1, 4, 3, 4, s=0.04, z=-120)],
                   conv(stride=2, act=RELU6)),
    "conv one scale": ("CONV_2D", [q(1, 5, 5, 2), weight(4, 3, 3, 2, s=0.01), bias(4)], [q(1, 5, 5, 4, s=0.1)], conv()),
    "conv ties": ("CONV_2D", [q(1, 9, 9, 4, **POW2), weight(4, 1, 1, 4, s=0.5), bias(4)], [q(1, 9, 9, 4, s=64.0, z=0)],
                  conv()),
    "depthwise": ("DEPTHWISE_CONV_2D", [q(1, 7, 6, 3), weight(1, 3, 3, 3, axis=3), bias(3)], [q(1, 4, 3, 3, s=0.1)],
                  conv(stride=2, act=RELU, depthMultiplier=1)),
    "depthwise x2": ("DEPTHWISE_CONV_2D", [q(1, 5, 5, 3), weight(1, 3, 3, 6, axis=3), bias(6)], [q(1, 5, 5, 6, s=0.1)],
                     conv(depthMultiplier=2)),
    "linear": ("FULLY_CONNECTED", [q(9, 50), weight(30, 50, s=0.01), bias(30)], [q(9, 30, s=0.3)], act(RELU)),
    "linear no bias": ("FULLY_CONNECTED", [q(9, 50), weight(30, 50, s=0.01), None], [q(9, 30, s=0.3)], {}),
    "linear per channel": ("FULLY_CONNECTED", [q(9, 50), weight(30, 50), bias(30)], [q(9, 30, s=0.3)], {}),
    "linear ties": ("FULLY_CONNECTED", [q(40, 9, **POW2), weight(30, 9, s=0.5), bias(30)], [q(40, 30, s=64.0, z=0)],
                    {}),
    "matmul": ("BATCH_MATMUL", [q(2, 9, 20), q(2, 20, 8, s=0.02, z=-7)], [q(2, 9, 8, s=0.1)], {}),
    "matmul adjoint": ("BATCH_MATMUL", [q(2, 9, 20), q(2, 8, 20, s=0.02, z=-7)], [q(2, 9, 8, s=0.1)], {"adjY": True}),
    "matmul ties": ("BATCH_MATMUL", [q(2, 9, 6, **POW2), q(2, 6, 8, **POW2)], [q(2, 9, 8, s=64.0, z=0)], {}),
    "add": ("ADD", [q(1, 5, 5, 40), q(1, 5, 5, 40, s=0.031, z=-9)], [q(1, 5, 5, 40, s=0.07)], act(RELU)),
    "add broadcast": ("ADD", [q(1, 5, 5, 40), weight(40, s=0.03)], [q(1, 5, 5, 40, s=0.07)], {}),
    "add ties": ("ADD", [q(1, 5, 5, 40, s=0.5, z=0), q(1, 5, 5, 40, s=0.25, z=0)], [q(1, 5, 5, 40, s=1.0, z=0)], {}),
    "sub": ("SUB", [q(1, 5, 5, 40), q(1, 5, 5, 40, s=0.031, z=-9)], [q(1, 5, 5, 40, s=0.07)], {}),
    "sub ties": ("SUB", [q(1, 5, 5, 40, s=0.5, z=0), q(1, 5, 5, 40, s=0.25, z=0)], [q(1, 5, 5, 40, s=1.0, z=0)], {}),
    "mul": ("MUL", [q(1, 5, 5, 40), q(1, 5, 5, 40, s=0.031, z=-9)], [q(1, 5, 5, 40, s=0.1)], {}),
    "mul channels": ("MUL", [q(1, 5, 5, 40), q(1, 1, 1, 40, s=0.031, z=-9)], [q(1, 5, 5, 40, s=0.1)], {}),
    "mul ties": ("MUL", [q(1, 5, 5, 40, **POW2), q(1, 5, 5, 40, **POW2)], [q(1, 5, 5, 40, s=16.0, z=0)], {}),
    "average pool": ("AVERAGE_POOL_2D", [q(1, 5, 5, 9)], [q(1, 3, 3, 9)], pool(3, 2, stride=2)),
    "average pool relu": ("AVERAGE_POOL_2D", [q(1, 8, 8, 9)], [q(1, 4, 4, 9)], pool(2, 2, stride=2, act=RELU)),
    "max pool": ("MAX_POOL_2D", [q(1, 5, 4, 3)], [q(1, 3, 2, 3)], pool(3, 3, stride=2)),
    "max pool relu6": ("MAX_POOL_2D", [q(1, 5, 4, 3)], [q(1, 3, 2, 3)], pool(3, 3, stride=2, act=RELU6)),
    "mean": ("MEAN", [q(2, 7, 7, 20), ints(1, 2)], [q(2, 20, s=0.02, z=5)], {}),
    "mean keeping dims": ("MEAN", [q(2, 7, 7, 20), ints(1, 2)], [q(2, 1, 1, 20, s=0.02, z=5)], {"keepDims": True}),
    "mean same scale": ("MEAN", [q(2, 4, 4, 40), ints(1, 2)], [q(2, 40)], {}),
    "mean of rows": ("MEAN", [q(2, 7, 20), ints(-1)], [q(2, 7, s=0.02, z=5)], {}),
    "softmax": ("SOFTMAX", [q(30, 10, s=0.1)], [q(30, 10, s=1 / 256, z=-128)], {"beta": 1.0}),
    "logistic": ("LOGISTIC", [q(256, s=0.06)], [q(256, s=1 / 256, z=-128)], {}),
    "tanh": ("TANH", [q(256, s=0.03, z=-5)], [q(256, s=1 / 128, z=0)], {}),
    "relu": ("RELU", [q(256)], [q(256, s=0.03, z=-128)], {}),
    "relu6": ("RELU6", [q(256, s=0.1)], [q(256, s=6 / 255, z=-128)], {}),
    "relu -1..1": ("RELU_N1_TO_1", [q(256)], [q(256, s=0.02, z=4)], {}),
    "leaky relu": ("LEAKY_RELU", [q(256)], [q(256, s=0.04, z=-50)], {"alpha": 0.1}),
    "hard swish": ("HARD_SWISH", [q(256)], [q(256, s=0.03, z=-110)], {}),
    "elu": ("ELU", [q(256)], [q(256, s=0.04, z=-90)], {}),
    "gelu": ("GELU", [q(256)], [q(256, s=0.03, z=-100)], {"approximate": False}),
    "exp": ("EXP", [q(256, s=0.02)], [q(256, s=0.05, z=-128)], {}),
    "abs": ("ABS", [q(256)], [q(256, s=0.03, z=-128)], {}),
    "maximum": ("MAXIMUM", [q(3, 70), const(np.int8([10]), 0.05, 3)], [q(3, 70)], {}),
    "reduce max": ("REDUCE_MAX", [q(2, 3, 4), ints(0, 2)], [q(3)], {}),
    "pad": ("PAD", [q(1, 2, 3, 1), const(np.int32([[0, 0], [1, 2], [0, 1], [0, 0]]))], [q(1, 5, 4, 1)], {}),
    "pad with": ("PADV2", [q(2, 3), const(np.int32([[1, 0], [0, 2]])), const(np.int8([9]), 0.05, 3)], [q(3, 5)], {}),
    "reshape": ("RESHAPE", [q(2, 3, 4), ints(2, -1)], [q(2, 12)], {}),
    "transpose": ("TRANSPOSE", [q(2, 3, 4), ints(2, 0, 1)], [q(4, 2, 3)], {}),
    "concat": ("CONCATENATION", [q(2, 3), q(2, 1)], [q(2, 4)], {"axis": 1}),
    "strided slice": ("STRIDED_SLICE", [q(3, 6), ints(0, 1), ints(2, 0), ints(1, 2)], [q(2, 3)], {"endMask": 2}),
    "split": ("SPLIT", [ints(1), q(2, 6)], [q(2, 3), q(2, 3)], {"numSplits": 2}),
    "resize": ("RESIZE_NEAREST_NEIGHBOR", [q(1, 3, 4, 2), ints(5, 9)], [q(1, 5, 9, 2)], {}),
    "quantize": ("QUANTIZE", [f(30, 30)], [q(30, 30)], {}),
    "quantize ties": ("QUANTIZE", [f(30, 30)], [q(30, 30, s=0.25, z=0)], {}),
    "dequantize": ("DEQUANTIZE", [q(3, 7)], [f(3, 7)], {}),
    "rescale": ("QUANTIZE", [q(256)], [q(256, s=0.08, z=-4)], {}),
    "rescale ties": ("QUANTIZE", [q(256, **POW2)], [q(256, s=1.0, z=0)], {}),
}  # fmt: skip


def fed(t: T, positive: bool) -> np.ndarray:
    rng = np.random.default_rng(5)
    if t.dtype is np.int8 and t.shape == (256,):
        return np.arange(-128, 128).astype(np.int8)
    if t.dtype is np.int8:
        return rng.integers(-128, 128, t.shape).astype(np.int8)
    x = np.round(rng.standard_normal(t.shape) * 16).astype(np.float32) / 8  # eighths: some fall between two integers
    return np.abs(x) + np.float32(0.1) if positive else x


def run(case, positive=False):
    name, inputs, results, options = case
    data = one(name, inputs, *results, **options)
    arrays = [fed(t, positive) for t in inputs if t is not None and t.data is None]
    graph = check(read_tflite(data))
    precision = np.float64 if graph.outputs[0].dtype == "f32" and graph.inputs[0].dtype == "f32" else np.float32
    found = evaluate(graph, *arrays, precision=precision)
    wanted = list(litert(data, *arrays).values())
    return graph, found if isinstance(found, tuple) else (found,), wanted


@pytest.mark.parametrize("case", [*FLOAT, *POSITIVE])
def test_a_float_operator_computes_what_litert_computes(case):
    _, found, wanted = run({**FLOAT, **POSITIVE}[case], positive=case in POSITIVE)
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape
        assert np.abs(a - b).max() <= 2e-6 * max(1, np.abs(b).max())


@pytest.mark.parametrize("case", INT8)
def test_an_int8_operator_gives_the_bytes_of_litert(case):
    graph, found, wanted = run(INT8[case])
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype == b.dtype and np.array_equal(a, b), f"{int((a != b).sum())} of {a.size} differ\n{graph}"
