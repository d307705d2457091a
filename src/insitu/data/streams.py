"""Samples that come one after the other: generators, iterators, loaders and Datasets, which are no arrays.

An iterable without a length may never end: at most MOST samples are taken from it. Nothing here knows which of its
arguments a user meant as samples (taking.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from insitu.errors import DataError
from insitu.graph import Graph, Value

MOST = 10_000
NO_STREAMS = (str, bytes, Path, list, tuple, range, Mapping, Set)
Parts = tuple[tuple[np.ndarray, ...], np.ndarray | None, tuple[str, ...]]  # inputs, labels, notes


def is_stream(x: Any) -> bool:
    """Must it be walked to know its samples? numpy would take it for one object."""
    array_like = hasattr(x, "shape") or hasattr(x, "__array__")
    return hasattr(x, "__iter__") and not array_like and not isinstance(x, NO_STREAMS)


def is_dataset(x: Any) -> bool:
    """Are its samples taken by index, as those of a torch Dataset?"""
    return hasattr(x, "__getitem__") and not hasattr(x, "__iter__") and not hasattr(x, "shape")


def peeked(stream: Iterable[Any]) -> tuple[Any, Iterable[Any]]:
    """The first item of an iterable (None if it is empty), and all of them; one with a length is left as it is."""
    items = iter(stream)
    first = next(items, None)
    if hasattr(stream, "__len__"):
        return first, stream
    return first, () if first is None else chain([first], items)


@dataclass(frozen=True, eq=False)
class Taken:
    """The samples of a stream: one array per input."""

    inputs: tuple[np.ndarray, ...]
    items: int  # that they came in: samples, or batches of them
    cut: bool = False  # was there more?

    @property
    def notes(self) -> tuple[str, ...]:
        return (cut_note(len(self.inputs[0])),) if self.cut else ()


def samples_of(stream: Iterable[Any], values: Sequence[Value]) -> Taken:
    """The samples of an iterable of samples or of batches."""
    endless, count, cut, rows = not hasattr(stream, "__len__"), 0, False, []
    for i, item in enumerate(stream):
        cut = endless and count >= MOST
        if cut:
            break
        rows.append(_row(item, values, i))
        count += len(rows[-1][0])
    if not rows:
        raise DataError("there are no samples")
    return Taken(tuple(map(joined, zip(*rows))), len(rows), cut)


def _row(item: Any, values: Sequence[Value], i: int) -> tuple[np.ndarray, ...]:
    """One sample, or a batch of them, with an axis of samples."""
    several = isinstance(item, tuple) and len(values) > 1
    if isinstance(item, tuple) and len(item) != len(values) and (several or np.ndim(array(item[0])) > 0):
        wanted = "x alone" if len(values) == 1 else f"{len(values)} inputs"
        raise DataError(f"has {len(item)} parts, and {wanted} must be given here", where=f"sample {i}",
                        hint="of pairs (x, y): (x for x, y in data)")  # fmt: skip
    arrays = tuple(map(array, item if several else (item,)))
    if any(a.dtype.kind == "O" for a in arrays):
        what = f"must be a sample or a pair (x, y), not a {type(item).__name__}"
        raise DataError(what, where=f"sample {i}", hint=_pair(item))
    whole = all(a.ndim == v.type.rank for a, v in zip(arrays, values))
    return arrays if whole else tuple(a[None] for a in arrays)


def labels_of(stream: Iterable[Any], x: Taken) -> np.ndarray:
    """The labels of these samples, in items as theirs. One too many is taken, so that it is noticed."""
    found = [array(item) for item in islice(stream, x.items + (not x.cut))]
    if not found:
        raise DataError("there are no labels")
    return joined(found) if len(x.inputs[0]) != x.items else stacked(found)


def cut_note(count: int) -> str:
    return f"took the first {count:,} samples of an iterable without a length"


def pairs_of(data, graph: Graph) -> Parts:
    """All (x, y) of an iterable, single samples or batches, in one array each. A Dataset with only a length and indices
    is walked by index."""
    if not hasattr(data, "__iter__") and not hasattr(data, "__getitem__"):
        raise DataError(f"cannot take samples from a {type(data).__name__}", hint="(x, y), a path, or an iterable")
    items = (data[i] for i in range(len(data))) if not hasattr(data, "__iter__") else iter(data)
    endless, count = not hasattr(data, "__len__"), 0
    xs, ys = [], []
    for i, item in enumerate(items):
        if not isinstance(item, tuple | list) or len(item) != 2:
            what = f"must be a pair (x, y), not a {type(item).__name__}"
            raise DataError(what, where=f"sample {i}", hint=_pair(item))
        x, y = batch_of(item, graph)
        xs.append(x)
        ys.append(y)
        count += len(y)
        if endless and count >= MOST:
            break
    if not xs:
        raise DataError("there are no samples")
    note = (cut_note(count),) if endless and count >= MOST else ()
    return tuple(map(joined, zip(*xs))), joined(ys), note


def _pair(item: Any) -> str:
    """How pairs are made of items that have names instead."""
    if not isinstance(item, Mapping) or len(item) < 2:
        return ""
    x, *_, y = map(repr, item)
    return f"((s[{x}], s[{y}]) for s in data), if {x} is the sample and {y} its label"


def batch_of(item, graph: Graph) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """The inputs and labels of one sample or of a batch, as a DataLoader gives it, with an axis of samples."""
    x = tuple(map(array, item[0] if isinstance(item[0], tuple) else (item[0],)))
    y = array(item[1])
    if all(a.ndim == v.type.rank for a, v in zip(x, graph.inputs)):  # they have this axis
        return x, y if y.ndim and len(y) == len(x[0]) else y[None]
    return tuple(a[None] for a in x), y[None]


def shape_of(x: Any) -> tuple[int, ...]:
    """The shape that numpy would give it; () of a stream."""
    try:
        return np.shape(x)
    except ValueError as e:
        raise DataError(f"the samples differ in shape: {e}") from e


def joined(arrays: Iterable[np.ndarray]) -> np.ndarray:
    try:
        return np.concatenate(list(arrays))
    except ValueError as e:
        raise DataError(f"the samples differ in shape: {e}") from e


def stacked(arrays: list[np.ndarray]) -> np.ndarray:
    try:
        return np.stack(arrays)
    except ValueError as e:
        raise DataError(f"the samples differ in shape: {e}") from e


def array(x: Any) -> np.ndarray:
    """An array from a list, a tensor (on any device), a frame or a column of one. Nothing behind a mask is taken."""
    if np.ma.is_masked(x):
        what = f"{np.ma.count_masked(x):,} of {np.ma.size(x):,} numbers are masked"
        raise DataError(what, hint="leave these samples out, or x.filled(...) to give them values")
    if isinstance(x, list | tuple) and any(hasattr(item, "detach") for item in x[:1]):
        return stacked([array(item) for item in x])
    tensor: Any = getattr(x, "detach", lambda: x)()
    tensor = getattr(tensor, "cpu", lambda: tensor)()
    if str(getattr(tensor, "dtype", "")) == "torch.bfloat16":
        tensor = tensor.float()  # numpy has no such type
    try:
        return np.asarray(tensor)
    except ValueError as e:
        raise DataError(f"the samples differ in shape: {e}") from e
