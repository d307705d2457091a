"""Samples from whatever the user has: a path, arrays, lists, tensors, frames, a Dataset, any iterable.

    as_samples((x, y), graph)             arrays, or anything that numpy converts to arrays
    as_samples(x, graph, labels=["wave", "rest", ...])
    as_samples(dataset, graph)            pairs (x, y), also of batches: a torch Dataset or DataLoader

    as_samples(rows, graph, labels=them)  iterables of samples and of labels, such as generators

Files and folders are read by reading.py, and iterables are walked by streams.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from insitu.data.labels import numbered
from insitu.data.reading import read_samples
from insitu.data.recordings import cut_recordings
from insitu.data.samples import Samples, check_finite, check_samples, counted, fit
from insitu.data.streams import MOST, Parts, Taken, array, is_stream, labels_of, pairs_of, peeked, samples_of
from insitu.data.words import words_of_frame
from insitu.errors import DataError
from insitu.graph import Graph, Value
from insitu.graph.classes import of_columns


def as_samples(data, graph: Graph, *, labels=None, targets: bool | tuple[str, ...] = False,
               pixels: tuple[float, float] = (0.0, 1.0), part: str = "train",
               every: bool | None = None, label: str = "") -> Samples:  # fmt: skip
    """Checked samples for this graph, with labels if there are any.

    With `targets`, the labels are not classes but the outputs to learn; names are those of a table's columns. `part`
    chooses between the training samples and the test samples of a file that has both. `every`: a line that lacks a
    value is an error; by default it is, unless it is to learn from. `label` is the name of a table's column of labels.
    """
    if isinstance(data, str | Path):
        found = read_samples(data, graph, pixels=pixels, part=part, targets=targets, every=every, label=label)
        return check_samples(found, graph, str(data))
    if isinstance(data, Samples):
        x, y, names, notes, columns = data.inputs, data.labels, data.names, data.notes, data.columns
        if labels is not None:
            y, names = array(labels), ()
    else:
        data, labels = cut_recordings(data, labels, graph)
        data, columns = _by_name(data, graph.columns)
        (x, y, notes), names = _parts(data, labels, graph), ()
    inputs = tuple(fit(v, a, f"input {v.name}") for v, a in zip(graph.inputs, x))
    if y is not None and not targets and not names:
        y, names = numbered(y)
    return check_samples(counted(Samples(inputs, y, names, notes=notes, columns=columns), "data"), graph)


def as_inputs(given: tuple, graph: Graph) -> tuple[np.ndarray, ...]:
    """One array per input of the graph, from one value per input, or from a file, folder, or Samples."""
    only = given[0] if len(given) == 1 else None
    if isinstance(only, str | Path):
        only = read_samples(only, graph, part="test", targets=True)
    if isinstance(only, Samples):
        return tuple(check_finite(x, only.source) for x in only.inputs)
    if any(x is None for x in given):
        raise DataError("there is nothing to predict: it is None", hint="an array, a list, or a path")
    given = tuple(only) if only is not None and _is_inputs(only, len(graph.inputs)) else given
    given = (_by_name(cut_recordings(given[0], None, graph)[0], graph.columns)[0], *given[1:])
    if len(given) != len(graph.inputs):
        names = ", ".join(v.name for v in graph.inputs)
        raise DataError(f"{len(given)} inputs were given, but the model has {len(graph.inputs)}: {names}")
    return tuple(_input(v, _whole_stream(x, v) if is_stream(x) else array(x)) for v, x in zip(graph.inputs, given))


def _whole_stream(x: Iterable[Any], value: Value) -> np.ndarray:
    """All samples of an iterable: a prediction that is missing would not be noticed."""
    taken = samples_of(x, (value,))
    if taken.cut:
        hint = "if it does, np.stack(list(x)); or some of its samples at a time"
        raise DataError(f"an iterable of more than {MOST:,} samples may never end", hint=hint)
    return taken.inputs[0]


def _by_name(data, known: tuple[str, ...]) -> tuple[Any, tuple[str, ...]]:
    """A frame with the columns that the model knows, in its order, and their names; anything else as it is."""
    pair = isinstance(data, tuple) and len(data) == 2
    frame: Any = data[0] if pair else data
    names = of_columns(getattr(frame, "columns", ())) if hasattr(frame, "loc") else ()
    if not names:
        return data, ()
    worded = words_of_frame(frame, known)
    if worded is not None:
        return ((worded[0], data[1]) if pair else worded[0]), worded[1]
    missing = next((name for name in known if name not in names), None)
    if missing is not None:
        hint = f"its columns are {', '.join(names[:12])}; the model learned from {', '.join(known[:12])}"
        raise DataError(f"the frame has no column {missing!r}", hint=hint)
    frame = frame.loc[:, list(known)] if known else frame
    return ((frame, data[1]) if pair else frame), known or names


def _input(value: Value, x: np.ndarray) -> np.ndarray:
    if not x.size:
        return np.zeros((0, *value.shape[1:]), value.type.numpy)
    where = f"input {value.name}"
    return check_finite(fit(value, x, where), where)


def _parts(data, labels, graph: Graph) -> Parts:
    count = len(graph.inputs)
    x, y = data if labels is None and isinstance(data, tuple) and len(data) == 2 else (data, labels)
    if is_stream(x) or is_stream(y):
        return _streamed(x, y, graph)
    if labels is not None:
        return _inputs(data, count), array(labels), ()
    if _is_inputs(data, count) and all(map(_is_array, data)):  # not (x, y): one array cannot be all inputs
        return _inputs(data, count), None, ()
    if isinstance(data, tuple) and len(data) == 2 and (_is_array(data[0]) or _is_inputs(data[0], count)):
        return _inputs(data[0], count), None if data[1] is None else array(data[1]), ()
    if _is_array(data):
        return (array(data),), None, ()
    if isinstance(data, list) and not _holds_pairs(data):
        return _inputs(data, count), None, ()
    return pairs_of(data, graph)


def _streamed(x, y, graph: Graph) -> Parts:
    """The same of samples, labels or both that come one after the other; of an iterable alone, pairs or samples."""
    if y is None:
        first, x = peeked(x)
        if isinstance(first, tuple | list) and len(first) == 2:
            return pairs_of(x, graph)
    taken = samples_of(x, graph.inputs) if is_stream(x) else _whole(_inputs(x, len(graph.inputs)))
    labels = None if y is None else labels_of(y, taken) if is_stream(y) else array(y)
    return taken.inputs, labels, taken.notes


def _whole(inputs: tuple[np.ndarray, ...]) -> Taken:
    return Taken(inputs, len(inputs[0]))


def _is_array(data) -> bool:
    return hasattr(data, "shape")


def _is_inputs(data, count: int) -> bool:
    """Is this one value per input, of a model with several? Also a list of arrays, as Keras takes them."""
    several = isinstance(data, tuple) or (isinstance(data, list) and all(map(_is_array, data)))
    return several and len(data) == count > 1


def _holds_pairs(data: list) -> bool:
    return bool(data) and isinstance(data[0], tuple | list) and len(data[0]) == 2 and not np.isscalar(data[0][0])


def _inputs(data, count: int) -> tuple[np.ndarray, ...]:
    found = tuple(map(array, data)) if _is_inputs(data, count) else (array(data),)
    if any(x.size == 0 for x in found):
        raise DataError("there are no samples")
    return found
