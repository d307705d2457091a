"""Rules that many ops share: types of elementwise ops and the call of a unary kernel. No op is declared here."""

from __future__ import annotations

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Type, f32
from insitu.graph.call import Call

FLOATS = ("f32", "f64")
ROUNDINGS = ("single", "litert")
SMALL = [Case("odd", (f32(1, 3, 5),)), Case("one", (f32(1),)), Case("long", (f32(67),))]
# where exp overflows, vanishes or cancels
EXTREME = [
    Case("huge", (np.array([1e30, 90.0, 88.0, -1e30, -90.0, -104.0], np.float32),)),
    Case("tiny", (np.array([1e-30, -1e-6, 1e-3, -1e-3, 0.0, -0.0], np.float32),)),
]


def small(**attrs) -> list[Case]:
    """The cases of a unary op with these attributes."""
    return [Case(c.name, c.inputs, attrs) for c in SMALL]


def want_float(*types: Type) -> None:
    for t in types:
        if t.dtype not in FLOATS:
            raise GraphError(f"needs floats, not {t}", hint="dequantize it first, or use the int8 twin")


def want_s8(*types: Type) -> None:
    """Check that every type is s8 with one scale per tensor."""
    for t in types:
        if t.dtype != "s8" or t.quant is None or t.quant.per_channel:
            raise GraphError(f"needs s8 with one scale, not {t}")


def want_rounding(rounding: str) -> None:
    if rounding not in ROUNDINGS:
        raise GraphError(f"rounding must be one of {', '.join(ROUNDINGS)}, not {rounding!r}")


def want_clamp(lo: int, hi: int) -> None:
    if not -128 <= lo <= hi <= 127:
        raise GraphError(f"a clamp to [{lo}, {hi}] does not fit s8")


def quantised(shape, out: Type | tuple[Type, ...] | None) -> Type:
    """The s8 type of this shape with the numerics that the caller wants."""
    out = out[0] if isinstance(out, tuple) else out  # a mask's type follows
    if out is None or out.dtype != "s8" or out.quant is None or out.quant.per_channel:
        raise GraphError(f"needs an output type of s8 with one scale, not {out}", hint="out=s8(s=0.1, z=0)")
    return Type("s8", tuple(shape), out.quant)


def broadcast(*types: Type) -> tuple[int, ...]:
    """The numpy broadcast of these shapes."""
    try:
        return np.broadcast_shapes(*(t.shape for t in types))
    except ValueError:
        raise GraphError("the shapes of " + " and ".join(map(str, types)) + " do not broadcast") from None


def same(x: Type) -> Type:
    """infer: the output is like the only input."""
    want_float(x)
    return x


def unary(function: str):
    """emit: function(y, x, n)."""

    def emit(y, x):
        return Call(function, y, x, y.type.size)

    return emit


def axis_of(axis: int, x: Type) -> int:
    """The axis counted from the front, or an error."""
    if not -x.rank <= axis < x.rank:
        raise GraphError(f"axis {axis} does not fit {x}")
    return axis % x.rank


def walk_along(x, axis: int) -> tuple[int, int, int]:
    """(outer, length, inner): x seen as [outer, length, inner] around one axis."""
    axis = axis_of(axis, x.type)
    return int(np.prod(x.shape[:axis])), x.shape[axis], int(np.prod(x.shape[axis + 1 :]))
