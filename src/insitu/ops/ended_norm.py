"""Batch norms of a training step with the activation after them, float, channels last: y = min(max(norm, lo), hi).

The planner makes them on a host (planner/fuse.py), as it makes those of ended.py: the same bits from fewer passes over
memory. The gradient takes the activation's with it, so that no gradient of the batch norm's result is ever written.
"""

from __future__ import annotations

from math import inf

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Type, Value, f32, op
from insitu.graph.call import Call, Scratch
from insitu.ops._types import Array
from insitu.ops.norm_train import batch_norm_again, batch_norm_train, batch_norm_train_dx, is_last

RELU6 = {"lo": 0.0, "hi": 6.0}
FIVE = (f32(5),) * 4


def want_last(x: Type) -> None:
    if not is_last(-1, x) or x.rank < 2:
        raise GraphError(f"{x} has no channels")


batch_norm_train_ends = op(
    "batch_norm_train_ends",
    "batch_norm_train with y = min(max(y, lo), hi), channels last",
    cases=[
        Case("relu", (f32(2, 3, 2, 5), *FIVE), {"lo": 0.0}),
        Case("relu6, wide", (f32(67, 83), *(f32(83),) * 4), {"epsilon": 1e-3, "momentum": 0.3, **RELU6}),
        Case("many rows", (f32(3, 7, 11, 19), *(f32(19),) * 4), {"lo": 0.0}),
    ],
)
batch_norm_train_ends.must(in_place=(None, None, None, 3, 4))
batch_norm_train_ends.may(made_for="one_kernel")


@batch_norm_train_ends.infer
def _(
    x: Type, scale: Type, bias: Type, running_mean: Type, running_var: Type, *, epsilon: float = 1e-05,
    momentum: float = 0.1, lo: float = -inf, hi: float = inf,
) -> tuple[Type, ...]:  # fmt: skip
    want_last(x)
    attrs = {"axis": -1, "epsilon": epsilon, "momentum": momentum}
    return batch_norm_train.apply("infer", (x, scale, bias, running_mean, running_var), attrs)


@batch_norm_train_ends.eval
def _(
    x: Array, scale: Array, bias: Array, running_mean: Array, running_var: Array, *, epsilon: float, momentum: float,
    lo: float, hi: float,
) -> tuple[Array, ...]:  # fmt: skip
    attrs = {"axis": -1, "epsilon": epsilon, "momentum": momentum}
    y, *rest = batch_norm_train.apply("eval", (x, scale, bias, running_mean, running_var), attrs)
    return np.clip(y, lo, hi), *rest


@batch_norm_train_ends.emit
def _(
    y: Value, mean: Value, rstd: Value, new_mean: Value, new_var: Value, x: Value, scale: Value, bias: Value,
    running_mean: Value, running_var: Value, *, epsilon: float, momentum: float, lo: float, hi: float,
) -> Call:  # fmt: skip
    given = (x, scale, bias, *rows_of(x), float(epsilon), float(momentum), 1, float(lo), float(hi))
    return Call("batch_norm_rows_f32", y, mean, rstd, new_mean, new_var, *given, Scratch(4 * x.shape[-1]))


def rows_of(x: Value) -> tuple[int, int]:
    """x as a matrix: its rows and channels."""
    return x.type.size // x.shape[-1], x.shape[-1]


batch_norm_again_ends = op(
    "batch_norm_again_ends",
    "batch_norm_again with y = min(max(y, lo), hi), channels last",
    cases=[
        Case("relu", (f32(2, 3, 2, 5), *FIVE), {"lo": 0.0}),
        Case("relu6, wide", (f32(7, 51), *(f32(51),) * 4), RELU6),
    ],
)
batch_norm_again_ends.may(in_place=True, made_for="one_kernel")


@batch_norm_again_ends.infer
def _(x: Type, scale: Type, bias: Type, mean: Type, rstd: Type, *, lo: float = -inf, hi: float = inf) -> Type:
    want_last(x)
    return batch_norm_again.apply("infer", (x, scale, bias, mean, rstd), {"axis": -1})


@batch_norm_again_ends.eval
def _(x: Array, scale: Array, bias: Array, mean: Array, rstd: Array, *, lo: float, hi: float) -> Array:
    return np.clip(batch_norm_again.apply("eval", (x, scale, bias, mean, rstd), {"axis": -1}), lo, hi)


@batch_norm_again_ends.emit
def _(
    y: Value, x: Value, scale: Value, bias: Value, mean: Value, rstd: Value, *, lo: float, hi: float
) -> Call:  # fmt: skip
    given = (x, scale, bias, mean, rstd, *rows_of(x), 1, float(lo), float(hi))
    return Call("batch_norm_rows_again_f32", y, *given, Scratch(4 * x.shape[-1]))


batch_norm_dx_ends = op(
    "batch_norm_dx_ends",
    "batch_norm_train_dx of g where lo < y < hi, else 0, with y = (x - mean) rstd scale + bias, channels last",
    cases=[
        Case("relu", (f32(2, 3, 2, 5), f32(2, 3, 2, 5), *FIVE), {"lo": 0.0}),
        Case("relu6, wide", (f32(67, 83), f32(67, 83), *(f32(83),) * 4), RELU6),
    ],
)
batch_norm_dx_ends.may(in_place=(0, None, None), made_for="one_kernel")


@batch_norm_dx_ends.infer
def _(
    g: Type, x: Type, scale: Type, bias: Type, mean: Type, rstd: Type, *, lo: float = -inf, hi: float = inf
) -> tuple[Type, ...]:
    want_last(x)
    return batch_norm_train_dx.apply("infer", (g, x, scale, mean, rstd), {"axis": -1})


@batch_norm_dx_ends.eval
def _(
    g: Array, x: Array, scale: Array, bias: Array, mean: Array, rstd: Array, *, lo: float, hi: float
) -> tuple[Array, ...]:
    y = (x - mean) * (rstd * scale) + bias
    counted = np.where((y > lo) & (y < hi), g, 0)
    return batch_norm_train_dx.apply("eval", (counted, x, scale, mean, rstd), {"axis": -1})


@batch_norm_dx_ends.emit
def _(
    dx: Value, dscale: Value, dbias: Value, g: Value, x: Value, scale: Value, bias: Value, mean: Value, rstd: Value, *,
    lo: float, hi: float,
) -> Call:  # fmt: skip
    given = (g, x, scale, bias, mean, rstd, *rows_of(x), float(lo), float(hi))
    return Call("batch_norm_rows_dx_f32", dx, dscale, dbias, *given, Scratch(12 * x.shape[-1]))
