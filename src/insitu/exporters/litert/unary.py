"""Functions of one value as LiteRT's operators: float ones, and the tables of int8 graphs.

A table becomes LiteRT's own operator if its 256 results are the same under the reference kernels; any other table is
looked up with GATHER, which moves bytes and is exact in every runtime.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, pi, sqrt

import numpy as np

from insitu.exporters.litert import alike
from insitu.exporters.litert.step import NONE, Step, numerics, plain
from insitu.graph import Op, Type
from insitu.ops import activation, arith, unary
from insitu.ops._tables import litert_table
from insitu.ops.normalize import normalize, table
from insitu.ops.quant import dequantize, quantize, requantize_s8

# operators whose int8 reference kernel gives the results of `litert_table`; LOGISTIC and TANH fix their scale
NATIVE = ("RELU", "RELU6", "LOGISTIC", "TANH", "HARD_SWISH")
ERF_IS_ONE = 10.0  # in float32, from 4 on
FIXED = {"LOGISTIC": (1 / 256, -128), "TANH": (1 / 128, 0)}


def one(name: str, **options) -> Callable[[Step], None]:
    """A node that is one operator."""

    def run(s: Step) -> None:
        s.op(name, [s.x()], s.y(), **options)

    return run


def number(s: Step, value: float, word: str) -> int:
    return s.constant(np.array([value], np.float32), word)


def clamp(s: Step) -> None:
    x, ends = s.x(), [(name, end) for name, end in (("MAXIMUM", s["lo"]), ("MINIMUM", s["hi"])) if abs(end) != inf]
    for name, end in ends:
        x = s.via(name, [x, number(s, end, f"{name.lower()}_end")], s.out)
    s.op("RESHAPE", [x, s.ints(*s.out.shape)], s.y(), newShape=list(s.out.shape))


def leaky_relu(s: Step) -> None:
    s.op("LEAKY_RELU", [s.x()], s.y(), alpha=s["slope"])


def gelu(s: Step) -> None:
    s.op("GELU", [s.x()], s.y(), approximate=s["approximate"] == "tanh")


def hard_sigmoid(s: Step) -> None:
    x = s.via("MUL", [s.x(), number(s, s["alpha"], "alpha")], s.out, fusedActivationFunction=NONE)
    x = s.via("ADD", [x, number(s, s["beta"], "beta")], s.out, fusedActivationFunction=NONE)
    x = s.via("MAXIMUM", [x, number(s, 0.0, "zero")], s.out)
    s.op("MINIMUM", [x, number(s, 1.0, "one")], s.y())


def silu(s: Step) -> None:
    gate = s.via("LOGISTIC", [s.x()], s.out)
    s.op("MUL", [s.x(), gate], s.y(), fusedActivationFunction=NONE)


def elu(s: Step) -> None:
    """ELU has alpha 1; another one scales the part below zero: max(x, 0) + alpha min(elu(x), 0)."""
    if s["alpha"] == 1:
        s.op("ELU", [s.x()], s.y())
        return
    below = s.via("MINIMUM", [s.via("ELU", [s.x()], s.out), number(s, 0.0, "zero")], s.out)
    scaled = s.via("MUL", [below, number(s, s["alpha"], "alpha")], s.out, fusedActivationFunction=NONE)
    s.op("ADD", [s.via("RELU", [s.x()], s.out), scaled], s.y(), fusedActivationFunction=NONE)


def softplus(s: Step) -> None:
    """max(x, 0) + log(1 + exp(-|x|)), which does not overflow."""
    small = s.via("EXP", [s.via("NEG", [s.via("ABS", [s.x()], s.out)], s.out)], s.out)
    log = s.via("LOG", [s.via("ADD", [small, number(s, 1.0, "one")], s.out, fusedActivationFunction=NONE)], s.out)
    s.op("ADD", [s.via("RELU", [s.x()], s.out), log], s.y(), fusedActivationFunction=NONE)


def erf(s: Step) -> None:
    """LiteRT has no erf, but GELU(x) = x (1 + erf(x / sqrt 2)) / 2. Near zero that loses digits: 2 x / sqrt pi."""
    ends = s.via("MINIMUM", [s.x(), number(s, ERF_IS_ONE, "hi")], s.out)
    x = s.via("MAXIMUM", [ends, number(s, -ERF_IS_ONE, "lo")], s.out)
    size = s.via("ABS", [x], s.out)
    wide = s.via("MUL", [size, number(s, sqrt(2), "root")], s.out, "wide", fusedActivationFunction=NONE)
    safe = s.via("MAXIMUM", [wide, number(s, 1e-3, "least")], s.out, "safe")
    half = s.via("DIV", [s.via("GELU", [safe], s.out, approximate=False), safe], s.out, fusedActivationFunction=NONE)
    twice = s.via("MUL", [half, number(s, 2.0, "two")], s.out, "twice", fusedActivationFunction=NONE)
    far = s.via("SUB", [twice, number(s, 1.0, "one")], s.out, fusedActivationFunction=NONE)
    near = s.via("MUL", [size, number(s, 2 / sqrt(pi), "slope")], s.out, "near", fusedActivationFunction=NONE)
    some = s.via("MAXIMUM", [size, number(s, 1e-30, "tiny")], s.out, "some")
    sign = s.via("DIV", [x, some], s.out, "sign", fusedActivationFunction=NONE)
    s.op("MUL", [s.via("MINIMUM", [far, near], s.out, "smaller"), sign], s.y(), fusedActivationFunction=NONE)


def reciprocal(s: Step) -> None:
    s.op("DIV", [number(s, 1.0, "one"), s.x()], s.y(), fusedActivationFunction=NONE)


def prelu(s: Step) -> None:
    """PRELU wants slopes without the batch; a single one must have the rank of an image."""
    slope = s.array(1)
    shape = (1,) * max(s.type(0).rank - 1 - slope.ndim, 0) + slope.shape
    s.op("PRELU", [s.x(), s.constant(slope.reshape(shape[-max(s.type(0).rank - 1, 1) :]), "slope")], s.y())


# int8 -----------------------------------------------------------------------------------------------


def lookup(s: Step) -> None:
    """lut_s8."""
    entries, x, y = s.array(1), s.type(0), s.out
    name = next((name for name in NATIVE if _is_native(name, entries, x, y)), None)
    if name:
        s.op(name, [s.x()], s.y())
    else:
        gather(s, s.x(), entries, 128)


def _is_native(name: str, entries: np.ndarray, x: Type, y: Type) -> bool:
    if name in FIXED and (y.scale, y.zero) != FIXED[name]:
        return False
    return bool(np.array_equal(litert_table(name, x, y), entries))


def gather(s: Step, x: int, entries: np.ndarray, start: int | np.ndarray) -> None:
    """entries[x + start]: positions in int32, then GATHER."""
    shape = s.type(0)
    wide = s.via("CAST", [x], plain(shape, "s32"), "wide")
    offset = s.constant(np.atleast_1d(np.asarray(start, np.int32)), "offset")
    at = s.via("ADD", [wide, offset], plain(shape, "s32"), "at", fusedActivationFunction=NONE)
    s.op("GATHER", [s.constant(entries.reshape(-1), "table", **numerics(s.out)), at], s.y(), axis=0, batchDims=0)


def requantised(s: Step) -> None:
    """QUANTIZE; for `single` rounding, if XNNPACK's has other results, a MUL by one or a lookup."""
    x, y = s.type(0), s.out
    if s["rounding"] == "litert" or alike.quantize_is_alike(x, y):
        s.op("QUANTIZE", [s.x()], s.y())
        return
    found = alike.factor_of_one(x, y)
    if found is None:
        gather(s, s.x(), alike.requantised(x, y), 128)
        return
    one = s.constant(np.array([found[0]], np.int8), "one", scale=[found[1]], zero=0)
    s.op("MUL", [s.x(), one], s.y(), fusedActivationFunction=NONE)


def normalised(s: Step) -> None:
    """Pixels to int8: one table per channel, laid end to end. Pixels to float: (x - mean) / std."""
    mean, std, axis = s["mean"], s["std"], s["axis"] % s.type(0).rank
    along = [-1 if d == axis else 1 for d in range(s.type(0).rank)]
    if s.int8:
        start = 256 * np.arange(len(mean), dtype=np.int32).reshape(along if len(mean) > 1 else (1,))
        gather(s, s.x(), table(mean, std, s.out, s["rounding"]), start)
        return
    made = {"u8": "CAST", "s16": "DEQUANTIZE"}.get(s.type(0).dtype)
    real = s.via(made, [s.x()], s.out, "real") if made else s.x()
    shift, scale = (s.constant(np.array(v, np.float32).reshape(along), w) for v, w in ((mean, "mean"), (std, "std")))
    moved = s.via("SUB", [real, shift], s.out, fusedActivationFunction=NONE)
    s.op("DIV", [moved, scale], s.y(), fusedActivationFunction=NONE)


UNARY: dict[Op, Callable[[Step], None]] = {
    activation.relu: one("RELU"), activation.relu6: one("RELU6"), activation.clamp: clamp,
    activation.leaky_relu: leaky_relu, activation.sigmoid: one("LOGISTIC"), activation.tanh: one("TANH"),
    activation.hard_sigmoid: hard_sigmoid, activation.hard_swish: one("HARD_SWISH"), activation.silu: silu,
    activation.gelu: gelu, activation.elu: elu, activation.softplus: softplus, activation.prelu: prelu,
    activation.lut_s8: lookup, arith.neg: one("NEG"), unary.exp: one("EXP"), unary.log: one("LOG"),
    unary.sqrt: one("SQRT"), unary.rsqrt: one("RSQRT"), unary.reciprocal: reciprocal, unary.abs: one("ABS"),
    unary.erf: erf, unary.square: one("SQUARE"), quantize: one("QUANTIZE"), dequantize: one("DEQUANTIZE"),
    requantize_s8: requantised, normalize: normalised,
}  # fmt: skip
