"""LiteRT's functions of one value, and the activations it fuses into other operators.

In float, each is an op of its own. In int8, each is a table of 256 results (`lut_s8`), computed like the reference
kernel if that uses integer arithmetic, so that the bytes agree.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from insitu.errors import Unsupported
from insitu.graph import Op, Value
from insitu.importers.tflite.read import Step
from insitu.ops._tables import litert_table
from insitu.ops.activation import clamp, elu, gelu, hard_swish, leaky_relu, lut_s8, relu, relu6, sigmoid, tanh
from insitu.ops.arith import neg
from insitu.ops.unary import abs, exp, log, rsqrt, sqrt, square

# fused activation -> (op, attributes, range in real numbers)
FUSED: dict[str, tuple[Op, dict, tuple[float | None, float | None]]] = {
    "RELU": (relu, {}, (0.0, None)),
    "RELU6": (relu6, {}, (0.0, 6.0)),
    "RELU_N1_TO_1": (clamp, {"lo": -1.0, "hi": 1.0}, (-1.0, 1.0)),
}


def fused(s: Step, y: Value) -> Value:
    """The value after the operator's fused activation."""
    kind = s["activation"]
    if kind == "NONE":
        return y
    op, attrs, _ = _activation(kind)
    if y.dtype != "s8":
        return op(y, **attrs, name=f"{s.name}.{op.name}")
    return clipped(s, y, *fused_range(s), f"{s.name}.{op.name}")


def clipped(s: Step, x: Value, lo: int, hi: int, name: str) -> Value:
    """The integers of x, clamped."""
    return _lookup(s, x, np.clip(np.arange(-128, 128), lo, hi).astype(np.int8), name)


def fused_range(s: Step) -> tuple[int, int]:
    """The fused activation as a clamp in the integers of the output, as LiteRT rounds it."""
    if s["activation"] == "NONE":
        return -128, 127
    low, high = _activation(s["activation"])[2]
    lo = -128 if low is None else max(-128, _quantised(s, low))
    hi = 127 if high is None else min(127, _quantised(s, high))
    return min(lo, 127), max(min(lo, 127), hi)


def _activation(kind: str) -> tuple[Op, dict, tuple[float | None, float | None]]:
    if kind not in FUSED:
        raise Unsupported(f"the fused activation {kind} is not supported")
    return FUSED[kind]


def _quantised(s: Step, real: float) -> int:
    """zero + round(real / scale), with the quotient in float32 and ties away from zero."""
    quotient = np.float32(real) / np.float32(s.out.scale)
    return s.out.zero + int(np.sign(quotient) * np.floor(np.minimum(np.abs(quotient), 1e6) + np.float32(0.5)))


def _lookup(s: Step, x: Value, table: np.ndarray, name: str) -> Value:
    return lut_s8(x, s.builder.constant(f"{name}.table", table), name=name, out=s.out)


def _function(op: Op, attrs: Callable[[Step], dict] | None = None) -> Callable:
    def run(s: Step):
        given, x = attrs(s) if attrs else {}, s.x(0)
        if not s.int8:
            return op(x, **given, name=s.name)
        return _lookup(s, x, litert_table(s.operator.name, x.type, s.out, **_table_options(s)), s.name)

    return run


def _table_options(s: Step) -> dict:
    """The options of litert_table, in LiteRT's words."""
    if s.operator.name == "LEAKY_RELU":
        return {"alpha": s["alpha"]}
    return {"approximate": "tanh" if s["approximate"] else "none"} if s.operator.name == "GELU" else {}


UNARY: dict[str, Callable] = {
    "LOGISTIC": _function(sigmoid),
    "TANH": _function(tanh),
    "RELU": _function(relu),
    "RELU6": _function(relu6),
    "RELU_N1_TO_1": _function(clamp, lambda s: {"lo": -1.0, "hi": 1.0}),
    "RELU_0_TO_1": _function(clamp, lambda s: {"lo": 0.0, "hi": 1.0}),
    "LEAKY_RELU": _function(leaky_relu, lambda s: {"slope": s["alpha"]}),
    "ELU": _function(elu),
    "HARD_SWISH": _function(hard_swish),
    "GELU": _function(gelu, lambda s: {"approximate": "tanh" if s["approximate"] else "none"}),
    "EXP": _function(exp),
    "LOG": _function(log),
    "SQRT": _function(sqrt),
    "RSQRT": _function(rsqrt),
    "NEG": _function(neg),
    "ABS": _function(abs),
    "SQUARE": _function(square),
}
