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
    inputs = (drawn(graph, 0) if data is None else as_samples(data, graph, targets=True, every=False)).inputs
    count = min(len(inputs[0]), COMPARED if data is None else MOST)
    return [tuple(x[i : i + 1] for x in inputs) for i in range(count)]
