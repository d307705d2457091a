"""Recordings of any length as the windows that a network takes: arrays, in fit and predict. Files: table_samples.py.

Only for a network with insitu.Motion in front, whose input is readings: one row per point in time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from insitu.data.source import source_of
from insitu.data.windows import windows
from insitu.errors import DataError
from insitu.graph import Graph, Value

READINGS = "readings"  # the input of such a network: f32[1, times, 1, channels]


def cut_recordings(data: Any, labels: Any, graph: Graph) -> tuple[Any, Any]:
    """Windows, and a label for each, if `data` are recordings; else both as they are.

    A recording is [times, channels]; several are a list of those, or one array. Labels are one per recording; for a
    single one also one per reading: then windows in which it changes are left out.
    """
    if isinstance(data, tuple) and len(data) == 2 and labels is None:
        return (cut_recordings(*data, graph), None) if data[1] is not None else (data, None)
    value = graph.inputs[0]
    found = _recordings(data, value) if len(graph.inputs) == 1 and value.name == READINGS else None
    if found is None:
        return data, labels
    length, overlap = value.shape[1], source_of(graph).overlap
    cut = [windows(one, length, overlap) for one in found]
    counts = [len(one) for one in cut]
    if not sum(counts):
        longest = max(map(len, found), default=0)
        raise DataError(f"the longest recording has {longest} readings, a window takes {length}", where=READINGS)
    x = np.concatenate(cut).reshape(-1, *value.shape[1:])
    return _told(x, labels, counts, found, length, overlap)


def _recordings(data: Any, value: Value) -> list[np.ndarray] | None:
    """None if these are windows already, or nothing that could be cut."""
    if not isinstance(data, list | np.ndarray):
        return None
    many = data if isinstance(data, list) or np.ndim(data) == 3 else [data]
    parts = [np.asarray(one) for one in many if np.ndim(one) == 2]
    whole = len(parts) == len(many) > 0 and all(p.shape[1] == value.shape[3] for p in parts)
    return parts if whole and (many is not data or any(len(p) != value.shape[1] for p in parts)) else None


def _told(x: np.ndarray, labels: Any, counts: list[int], found: list[np.ndarray], length: int,
          overlap: float) -> tuple[np.ndarray, Any]:  # fmt: skip
    if labels is None:
        return x, None
    given = np.atleast_1d(np.asarray(labels))
    if len(given) == len(counts):
        return x, np.repeat(given, counts)
    if len(counts) > 1 or len(given) != len(found[0]):
        raise DataError(f"{len(counts)} recordings, but {len(given)} labels", where=READINGS)
    _, numbers = np.unique(given, return_inverse=True)
    each = windows(numbers.reshape(-1, 1), length, overlap)[:, :, 0]
    pure = (each == each[:, :1]).all(1)
    starts = windows(np.arange(len(given)).reshape(-1, 1), length, overlap)[:, 0, 0]
    return x[pure], given[starts[pure]]
