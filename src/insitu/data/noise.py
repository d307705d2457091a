"""Random samples for a model: they are meaningless, but the cost of a step hardly depends on them."""

from __future__ import annotations

import numpy as np

from insitu.data.samples import Samples
from insitu.graph import Graph, Value


def random_samples(graph: Graph, count: int, seed: int = 0, *, targets: bool = False) -> Samples:
    """`count` samples of the right types, with labels, or with targets in the shape of the output."""
    rng, out = np.random.default_rng(seed), graph.outputs[0]
    inputs = tuple(_noise(rng, v, count) for v in graph.inputs)
    if targets:
        return Samples(inputs, rng.normal(size=(count, *out.shape[1:])).astype(np.float32), source="random")
    return Samples(inputs, rng.integers(0, out.shape[-1], count).astype(np.int32), source="random")


def _noise(rng: np.random.Generator, value: Value, count: int) -> np.ndarray:
    shape = (count, *value.shape[1:])
    if value.type.numpy.kind == "f":
        return rng.normal(size=shape).astype(value.type.numpy)
    info = np.iinfo(value.type.numpy)
    return rng.integers(info.min, info.max + 1, shape).astype(value.type.numpy)
