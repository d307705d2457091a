"""Samples to compare a written file with the learner: given ones, or some drawn over the range of each input."""

from __future__ import annotations

import numpy as np

from insitu.data import as_samples
from insitu.graph import Graph
from insitu.proof import drawn

COMPARED = 4  # samples, unless some are given
MOST = 200


def compared(graph: Graph, data=None) -> list[tuple[np.ndarray, ...]]:
    """One tuple of inputs per sample, each with a first axis of one."""
    # only the inputs matter: whatever the labels are, they are no classes here
    inputs = _drawn(graph) if data is None else as_samples(data, graph, targets=True, every=False).inputs
    count = min(len(inputs[0]), COMPARED if data is None else MOST)
    return [tuple(x[i : i + 1] for x in inputs) for i in range(count)]


def _drawn(graph: Graph) -> tuple[np.ndarray, ...]:
    """Drawn samples; of sound, each is louder than the one before."""
    return tuple(_louder(x) if x.dtype == np.int16 else x for x in drawn(graph, 0).inputs)


def _louder(x: np.ndarray) -> np.ndarray:
    times = 4 ** (np.arange(len(x), dtype=np.int16) % COMPARED)
    return x * times.reshape(-1, *(1,) * (x.ndim - 1))
