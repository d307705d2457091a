"""Dropout for training, with random numbers from a counter: no mask is kept, because the gradient draws it again.

`count_up` increments the counter once per step; the seed sets its start (first_count).
"""

from __future__ import annotations

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Case, Type, Value, f32, op
from insitu.graph.call import Call
from insitu.graph.op import Grads
from insitu.ops._random import random_u32
from insitu.ops._rules import want_float
from insitu.ops._types import Array


def _count(value: int) -> np.ndarray:
    return np.array([value], np.int32)


def _want_counter(t: Type) -> None:
    if t.dtype != "s32" or t.shape != (1,):
        raise GraphError(f"the counter must be s32[1], not {t}")


def threshold(p: float) -> int:
    """An element is dropped if the upper 31 bits of its random number are below this."""
    return int(p * 2**31)


dropout_train = op(
    "dropout_train",
    "y = x / (1 - p) or, with probability p, 0; drawn again for each value of `counter` and each `layer`",
    cases=[
        Case("odd", (f32(1, 3, 5), _count(0))),
        Case("long", (f32(67), _count(-5)), {"p": 0.2, "layer": 3}),
        Case("keeps all", (f32(7), _count(9)), {"p": 0.0}),
    ],
)
dropout_train.may(in_place=True)


@dropout_train.infer
def _(x: Type, counter: Type, *, p: float = 0.5, layer: int = 0) -> Type:
    want_float(x)
    _want_counter(counter)
    if not 0 <= p < 1:
        raise GraphError(f"dropout needs 0 <= p < 1, not {p}")
    return x


@dropout_train.eval
def _(x: Array, counter: Array, *, p: float, layer: int) -> Array:
    keep = random_u32(int(counter[0]), layer, x.size) >> np.uint32(1) >= threshold(p)
    return np.where(keep.reshape(x.shape), x * (1 / (1 - p)), 0)


@dropout_train.grad
def _(g: Value, y: Value, x: Value, counter: Value, *, p: float, layer: int) -> Grads:
    return dropout_train(g, counter, p=p, layer=layer, name=f"{x.name}.grad"), None


@dropout_train.emit
def _(y: Value, x: Value, counter: Value, *, p: float, layer: int) -> Call:
    return Call("dropout_train_f32", y, x, counter, y.type.size, threshold(p), 1 / (1 - p), layer)


count_up = op(
    "count_up",
    "counter + 1, in place: once per step, so that the next step draws other numbers",
    kind="any",
    cases=[Case("one", (_count(41),)), Case("wraps", (_count(2**31 - 1),))],
)
count_up.must(in_place=True)


@count_up.infer
def _(counter: Type) -> Type:
    _want_counter(counter)
    return counter


@count_up.eval
def _(counter: Array) -> Array:
    return (counter.view(np.uint32) + np.uint32(1)).view(np.int32)


@count_up.emit
def _(new: Value, counter: Value) -> Call:
    return Call("count_up_s32", new)
