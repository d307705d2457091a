"""Dropout for training, with random numbers from a counter: no mask is kept, because the gradient draws it again.

`count_up` counts the samples of each step; the seed sets its start (first_count). A sample draws the same numbers
alone and in a batch.
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
    """y = x / (1 - p) or, with probability p, 0; drawn again for each value of `counter` and each `layer`

    The first of `samples` equal parts of x draws the numbers of `counter`, the next one those of `counter + 1`, ...
    """,
    cases=[
        Case("odd", (f32(1, 3, 5), _count(0))),
        Case("long", (f32(67), _count(-5)), {"p": 0.2, "layer": 3}),
        Case("keeps all", (f32(7), _count(9)), {"p": 0.0}),
        Case("samples", (f32(3, 19), _count(2**31 - 2)), {"samples": 3}),
    ],
)
dropout_train.may(in_place=True)


@dropout_train.infer
def _(x: Type, counter: Type, *, p: float = 0.5, layer: int = 0, samples: int = 1) -> Type:
    want_float(x)
    if samples < 1 or x.size % samples:
        raise GraphError(f"{x} does not have {samples} equal parts")
    _want_counter(counter)
    if not 0 <= p < 1:
        raise GraphError(f"dropout needs 0 <= p < 1, not {p}")
    return x


@dropout_train.eval
def _(x: Array, counter: Array, *, p: float, layer: int, samples: int) -> Array:
    counts = counter.view(np.uint32) + np.arange(samples, dtype=np.uint32)
    drawn = np.stack([random_u32(int(c), layer, x.size // samples) for c in counts.view(np.int32)])
    keep = drawn >> np.uint32(1) >= threshold(p)
    return np.where(keep.reshape(x.shape), x * (1 / (1 - p)), 0)


@dropout_train.grad
def _(g: Value, y: Value, x: Value, counter: Value, *, p: float, layer: int, samples: int) -> Grads:
    return dropout_train(g, counter, p=p, layer=layer, samples=samples, name=f"{x.name}.grad"), None


@dropout_train.emit
def _(y: Value, x: Value, counter: Value, *, p: float, layer: int, samples: int) -> Call:
    sizes = samples, y.type.size // samples
    return Call("dropout_train_f32", y, x, counter, *sizes, threshold(p), 1 / (1 - p), layer)


count_up = op(
    "count_up",
    "counter + samples, in place: the samples of the next step draw other numbers",
    kind="any",
    cases=[
        Case("one", (_count(41),)),
        Case("wraps", (_count(2**31 - 1),)),
        Case("more", (_count(7),), {"samples": 32}),
    ],
)
count_up.must(in_place=True)


@count_up.infer
def _(counter: Type, *, samples: int = 1) -> Type:
    _want_counter(counter)
    return counter


@count_up.eval
def _(counter: Array, *, samples: int) -> Array:
    return (counter.view(np.uint32) + np.uint32(samples)).view(np.int32)


@count_up.emit
def _(new: Value, counter: Value, *, samples: int) -> Call:
    return Call("count_up_s32", new, samples)
