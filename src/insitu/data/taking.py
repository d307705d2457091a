"""Samples from whatever the user has: a path, arrays, lists, tensors, frames, a Dataset, any iterable.

    as_samples((x, y), graph)             arrays, or anything that numpy converts to arrays
    as_samples(x, graph, labels=["wave", "rest", ...])
    as_samples(dataset, graph)            pairs (x, y), also of batches: a torch Dataset or DataLoader

    as_samples(rows, graph, labels=them)  iterables of samples and of labels, such as generators

Files and folders are read by reading.py, and iterables are walked by streams.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from insitu.data.frames import by_name, framed, is_frame, label_apart
from insitu.data.labels import label_array, numbered
from insitu.data.reading import read_samples
from insitu.data.recordings import cut_recordings
from insitu.data.samples import Samples, check_finite, check_samples, counted, fit
from insitu.data.streams import (
    MOST,
    Parts,
    Taken,
    array,
    is_dataset,
    is_stream,
    labels_of,
    pairs_of,
    peeked,
    samples_of,
)
from insitu.errors import DataError
from insitu.graph import Graph, Value
from insitu.terminal.wording import one_each


def as_samples(data, graph: Graph, *, labels=None, targets: bool | tuple[str, ...] = False,
               pixels: tuple[float, float] | None = None, part: str = "train",
               every: bool | None = None, label: str = "") -> Samples:  # fmt: skip
    """Checked samples for this graph, with labels if there are any.

    With `targets`, the labels are not classes but the outputs to learn; names are those of a table's columns. `part`
    chooses between the training samples and the test samples of a file that has both. `every`: a line that lacks a
    value is an error; by default it is, unless it is to learn from. `pixels`: those of images are scaled to this
    range, by default to the one that the graph takes. `label` is the name of a table's column of labels.
    """
    if isinstance(data, str | Path):
        found = read_samples(data, graph, pixels=pixels, part=part, targets=targets, every=every, label=label)
        return check_samples(found, graph, str(data))
    if isinstance(data, Samples):
        x, names, notes, columns = data.inputs, data.names, data.notes, data.columns
        y = None if data.labels is None else label_array(data.labels)
        if labels is not None:
            y, names = label_array(labels), ()
    else:
        data = framed(data, graph)
        if is_frame(data) and labels is None and not targets:
            data, labels = label_apart(data, graph)
        data, labels = cut_recordings(_by_input(data, graph), labels, graph)
        data, columns = _columns(data, graph)
        (x, y, notes), names = _parts(data, labels, graph), ()
    inputs = _fitted(tuple(x), graph)
    if y is not None and not targets and not names:
        y, names = numbered(y)
    return check_samples(counted(Samples(inputs, y, names, notes=notes, columns=columns), "data"), graph)


def _fitted(x: tuple[np.ndarray, ...], graph: Graph) -> tuple[np.ndarray, ...]:
    """The arrays as samples of the graph's inputs."""
    names = [v.name for v in graph.inputs]
    if len(x) != len(names):
        raise DataError(f"needs {len(names)} inputs ({', '.join(names)}), not {len(x)}", hint=one_each(names))
    try:
        return tuple(fit(v, a, f"input {v.name}") for v, a in zip(graph.inputs, x))
    except DataError as e:
        raise DataError(e.what, where=e.where, hint=e.hint or one_each(names)) from e


def as_inputs(given: tuple, graph: Graph) -> tuple[np.ndarray, ...]:
    """One array per input of the graph, from one value per input, or from a file, folder, or Samples."""
    only = given[0] if len(given) == 1 else None
    if isinstance(only, str | Path):
        only = read_samples(only, graph, part="test", targets=True)
    if isinstance(only, Samples):
        return tuple(check_finite(x, only.source) for x in only.inputs)
    if not given or any(x is None for x in given):
        what = "there is nothing to predict" + (": it is None" if given else "")
        raise DataError(what, hint="an array, a list, or a path")
    only = _by_input(framed(only, graph), graph)
    given = (only,) if len(given) == 1 else given
    given = tuple(only) if only is not None and _is_inputs(only, len(graph.inputs)) else given
    first = label_apart(given[0], graph)[0] if is_frame(given[0]) else given[0]
    first = by_name(first, graph.columns, learned=False)[0] if is_frame(first) else first
    given = (cut_recordings(first, None, graph)[0], *given[1:])
    if len(given) != len(graph.inputs):
        names = ", ".join(v.name for v in graph.inputs)
        hint = one_each([v.name for v in graph.inputs])
        raise DataError(f"{len(given)} inputs were given, but the model has {len(graph.inputs)}: {names}", hint=hint)
    return tuple(_input(v, _whole_stream(x, v) if is_stream(x) else array(x)) for v, x in zip(graph.inputs, given))


def to_classify(data, graph: Graph) -> tuple[np.ndarray, ...]:
    """The same from what may also come in pairs (x, y), such as a Dataset: labels are left out."""
    first: Any = None
    if is_stream(data):
        first, data = peeked(data)
    pair: Any = data if isinstance(data, tuple) else data[0] if isinstance(data, list) and data else first
    listed = isinstance(pair, list) and pair is first  # as a DataLoader gives batches; in a list it is a sample
    paired = (listed or isinstance(pair, tuple)) and len(pair) == 2 and np.ndim(pair[0]) > 0
    if len(graph.inputs) == 1 and (paired or is_dataset(data)):
        return as_samples(data, graph).inputs
    return as_inputs((data,), graph)


def _whole_stream(x: Iterable[Any], value: Value) -> np.ndarray:
    """All samples of an iterable: a prediction that is missing would not be noticed."""
    taken = samples_of(x, (value,))
    if taken.cut:
        hint = "if it does, np.stack(list(x)); or some of its samples at a time"
        raise DataError(f"an iterable of more than {MOST:,} samples may never end", hint=hint)
    return taken.inputs[0]


def _by_input(data, graph: Graph):
    """A dict of arrays, one per input of the model, as a tuple in its order, also beside labels; else as it is."""
    if isinstance(data, tuple) and len(data) == 2 and isinstance(data[0], Mapping):
        return _by_input(data[0], graph), data[1]
    if not isinstance(data, Mapping):
        return data
    names = [v.name for v in graph.inputs]
    if set(data) != set(names):
        given = ", ".join(map(str, list(data)[:12]))
        raise DataError(f"a dict has one array per input of the model: {', '.join(names)}; not {given}")
    return tuple(data[name] for name in names) if len(names) > 1 else data[names[0]]


def _columns(data, graph: Graph) -> tuple[Any, tuple[str, ...]]:
    """The same data with the columns of a frame by name, and these names; also of a pair (x, y)."""
    if isinstance(data, tuple) and len(data) == 2 and is_frame(data[0]):
        frame, columns = by_name(data[0], graph.columns)
        return (frame, data[1]), columns
    return by_name(data, graph.columns) if is_frame(data) else (data, ())


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
        return _inputs(data, count), label_array(labels), ()
    if _is_inputs(data, count) and all(map(_is_array, data)):  # not (x, y): one array cannot be all inputs
        return _inputs(data, count), None, ()
    if isinstance(data, tuple) and len(data) == 2 and (_is_array(data[0]) or _is_inputs(data[0], count)):
        return _inputs(data[0], count), None if data[1] is None else label_array(data[1]), ()
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
    labels = None if y is None else labels_of(y, taken) if is_stream(y) else label_array(y)
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
    """Pairs (x, y). A list of two equally long lists is a sample of two channels."""
    if not data or not isinstance(data[0], tuple | list) or len(data[0]) != 2:
        return False
    return not np.isscalar(data[0][0]) and (
        isinstance(data[0], tuple) or array(data[0][0]).shape != array(data[0][1]).shape
    )


def _inputs(data, count: int) -> tuple[np.ndarray, ...]:
    found = tuple(map(array, data)) if _is_inputs(data, count) else (array(data),)
    if any(x.size == 0 for x in found):
        raise DataError("there are no samples")
    return found
