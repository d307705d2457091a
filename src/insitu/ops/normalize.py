"""The first op of a network that takes pixels or features: from integers to the reals, or the int8, that it expects."""

from __future__ import annotations

from math import isfinite

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Node, Type, Value, f32, op, s8
from insitu.graph.call import Call, Table
from insitu.graph.loops import Rows
from insitu.graph.op import Grads
from insitu.graph.types import quant
from insitu.ops._rules import axis_of, want_rounding
from insitu.ops._stripes import alike
from insitu.ops._types import Array, Out
from insitu.ops.quant import in_steps

ALL_BYTES = np.arange(256, dtype=np.uint8).reshape(1, 16, 16, 1)
INTEGERS = ("u8", "s16")
RAW = {"mean": (128.0,), "std": (127.5,)}


def u8(*shape: int) -> Type:
    return Type("u8", shape)


def reals(x: np.ndarray, mean, std, axis: int) -> np.ndarray:
    """(x - mean) / std along an axis, in the precision of x."""
    shape = [-1 if d == axis else 1 for d in range(x.ndim)]
    return (x - np.array(mean, x.dtype).reshape(shape)) / np.array(std, x.dtype).reshape(shape)


def table(mean, std, y: Type, rounding: str) -> np.ndarray:
    """s8[channels, 256]: the result for each byte; float32 arithmetic, then rounded like quantize."""
    x = np.tile(np.arange(256, dtype=np.float32), (len(mean), 1))
    return in_steps(reals(x, mean, std, 0), y, rounding)


normalize = op(
    "normalize",
    "y = (x - mean) / std, one number for all or one per channel of `axis`; x u8, s16 with a scale, or f32; y f32, or "
    "s8 from a u8 table",
    kind="any",
    cases=[
        Case("u8, one", (u8(1, 3, 5, 2),), {"mean": (10.0,), "std": (50.0,)}),
        Case("u8, channels", (u8(2, 3, 3, 3),), {"mean": (1.0, 128.0, 250.0), "std": (3.0, 60.0, 127.5)}),
        Case("u8, channels first", (u8(2, 3, 3, 2),), {"mean": (1.0, 128.0, 250.0), "std": (3.0, 9.0, 7.0), "axis": 1}),
        Case("f32", (f32(1, 3, 3, 3),), {"mean": (0.5, 0.4, 0.3), "std": (0.2, 0.3, 0.4)}),
        Case("s16", (Type("s16", (1, 3, 5, 1), quant(0.01)),), {"mean": (1.0,), "std": (3.0,)}),
        Case("s16, columns", (Type("s16", (1, 2, 3, 2), quant(0.01)),),
             {"mean": (1.0, -9.0, 50.0), "std": (3.0, 2.0, 0.1), "axis": 2}),
        Case("s8, every byte", (ALL_BYTES,), {"mean": (100.0,), "std": (50.0,)}, s8(s=0.03, z=3)),
        Case("s8, saturates", (u8(1, 3, 5, 3),), {"mean": (0.0, 99.0, 9.0), "std": (1.0, 3.0, 900.0)}, s8(s=0.1, z=-8)),
        Case("s8, channels first", (u8(2, 3, 3, 2),), {"mean": (1.0, 9.0, 99.0), "std": (60.0,) * 3, "axis": 1},
             s8(s=0.05)),
        Case("s8, pixel - 128", (ALL_BYTES,), RAW, s8(s=2 / 255)),
        Case("s8, halves to even", (ALL_BYTES,), {"mean": (0.0,), "std": (2.0,), "rounding": "single"}, s8(s=1.0)),
    ],
)  # fmt: skip


def _taken(x: Type) -> bool:
    return x.dtype in ("u8", "f32", "f64") or (x.dtype == "s16" and x.quant is not None)


@normalize.infer
def _(x: Type, *, mean: tuple[float, ...], std: tuple[float, ...], axis: int = -1, rounding: str = "litert",
      out: Out = None) -> Type:  # fmt: skip
    want_rounding(rounding)
    want = x.shape[axis_of(axis, x)]
    if not _taken(x) or len(mean) != len(std) or len(mean) not in (1, want):
        raise GraphError(f"{len(mean)} means and {len(std)} deviations do not fit {x}")
    if not all(isfinite(m) and isfinite(s) and s > 0 for m, s in zip(mean, std)):
        raise GraphError("means must be finite, and deviations positive")
    if not isinstance(out, Type) or out.dtype != "s8":
        return Type("f32" if x.dtype in INTEGERS else x.dtype, x.shape)
    if x.dtype != "u8" or out.quant is None or out.quant.per_channel:
        raise GraphError(f"makes s8 with one scale from u8, not {out} from {x}")
    return Type("s8", x.shape, out.quant)


@normalize.eval
def _(x: Array, *, mean: tuple[float, ...], std: tuple[float, ...], axis: int, rounding: str,
      node: Node) -> Array:  # fmt: skip
    y, axis = node.output.type, axis % x.ndim
    if y.dtype == "s8":
        rows = table(mean, std, y, rounding)
        channel = np.arange(x.shape[axis]) if len(mean) > 1 else np.zeros(x.shape[axis], int)
        return rows[channel.reshape([-1 if d == axis else 1 for d in range(x.ndim)]), x]
    return reals(_real(x, node.inputs[0].type), mean, std, axis)


def _real(x: Array, type: Type) -> Array:
    if type.dtype == "s16":
        return x.astype(np.float32) * np.float32(type.scale)
    return x.astype(np.float32) if type.dtype == "u8" else x


@normalize.grad
def _(
    g: Value, y: Value, x: Value, *, mean: tuple[float, ...], std: tuple[float, ...], axis: int, rounding: str
) -> Grads:
    return (None,)  # neither pixels nor anything before them is trained


@normalize.emit
def _(y: Value, x: Value, *, mean: tuple[float, ...], std: tuple[float, ...], axis: int, rounding: str) -> Call:
    axis = axis % x.type.rank
    channels = len(mean)
    inner = int(np.prod(x.shape[axis + 1 :])) if channels > 1 else 1
    sizes = (x.type.size, channels, inner)
    if y.dtype == "s8":
        return Call("normalize_s8", y, x, Table(table(mean, std, y.type, rounding)), *sizes)
    numbers = Table(np.array(mean, np.float32)), Table(np.array(std, np.float32))
    if x.dtype == "s16":
        return Call("normalize_s16", y, x, *numbers, *sizes, float(np.float32(x.type.scale)))
    return Call("normalize_u8" if x.dtype == "u8" else "normalize_f32", y, x, *numbers, *sizes)


def pixel_rows(y: Value, x: Value, *, mean, axis: int) -> tuple[Rows | None, ...] | None:
    """By rows, unless channels are planes."""
    return alike(y, x) if len(mean) == 1 or axis % 4 > 1 else None


def over_same_size(y: Value, x: Value) -> int | None:
    return 0 if y.type.numpy.itemsize == x.type.numpy.itemsize else None


normalize.may(stripes=pixel_rows, in_place=over_same_size)
