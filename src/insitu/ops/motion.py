"""A filter over time, for readings of a motion sensor: rows are points in time, so it works row by row."""

from __future__ import annotations

from math import isfinite

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Node, Type, Value, f32, op
from insitu.graph.call import Call, Table
from insitu.graph.loops import Rows
from insitu.graph.op import Grads
from insitu.ops._types import Array

OVERLAP = 0.5  # of windows, unless the model says otherwise

fir = op(
    "fir",
    """y[t, c] = sum over k of taps[k] x[t + k, c], for the times t that have all readings they need

    x[n, times, width, channels]; the taps are fixed and not trained. Sums are added one after the other.
    `overlap` does not change the result: it says how recordings are cut into windows x (data/recordings.py).
    """,
    kind="any",
    cases=[
        Case("three", (f32(1, 7, 1, 3),), {"taps": (0.25, 0.5, 0.25)}),
        Case("one", (f32(2, 3, 1, 2),), {"taps": (2.0,)}),
        Case("as long as x", (f32(1, 5, 2, 1),), {"taps": (0.1, -0.2, 1.0, -0.2, 0.1)}),
    ],
)


@fir.infer
def _(x: Type, *, taps: tuple[float, ...], overlap: float = OVERLAP) -> Type:
    if x.dtype not in ("f32", "f64") or x.rank != 4 or not 1 <= len(taps) <= x.shape[1]:
        raise GraphError(f"a filter of {len(taps)} taps does not fit {x}")
    if not all(map(isfinite, taps)):
        raise GraphError("the taps of a filter must be finite")
    return x.with_shape(x.shape[0], x.shape[1] - len(taps) + 1, *x.shape[2:])


@fir.eval
def _(x: Array, *, taps: tuple[float, ...], node: Node, overlap: float = OVERLAP) -> Array:
    times, y = node.output.shape[1], np.zeros((), x.dtype)
    for k, tap in enumerate(np.array(taps, np.float32).astype(x.dtype)):
        y = y + tap * x[:, k : k + times]
    return y


@fir.grad
def _(g: Value, y: Value, x: Value) -> Grads:
    return (None,)  # nothing before a sensor's filter is trained


@fir.emit
def _(y: Value, x: Value, *, taps: tuple[float, ...], overlap: float = OVERLAP) -> Call:
    n, times, width, channels = y.shape
    return Call("fir_f32", y, x, Table(np.array(taps, np.float32)), n, times, width * channels, len(taps))


@fir.macs
def _(y: Value, x: Value, *, taps: tuple[float, ...], overlap: float = OVERLAP) -> int:
    return y.type.size * len(taps)


def _later_rows(y: Value, x: Value, *, taps: tuple[float, ...], overlap: float = OVERLAP) -> tuple[Rows]:
    return (Rows(kernel=len(taps)),)


fir.may(stripes=_later_rows)
