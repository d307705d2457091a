"""The inputs that a program is proved on: samples, labels and rates for its functions, step by step.

Without samples from the user they are drawn at random: the certificate is about gradients, not about accuracy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from insitu.data import Samples
from insitu.errors import DataError
from insitu.graph import Graph, Value
from insitu.ops.quant import quantize
from insitu.training.train import Recipe

DRAWN = 32  # random samples, if the user gives none
RATE = 0.05


@dataclass(frozen=True, eq=False)
class Source:
    """The inputs of a program's functions, step by step."""

    forward: Graph
    samples: Samples
    recipe: Recipe
    steps: int
    seed: int

    def __post_init__(self):
        if not len(self.samples):
            raise DataError("there are no samples")

    def feed(self, graph: Graph, step: int) -> tuple[np.ndarray, ...]:
        return tuple(self._one(v, step) for v in graph.inputs)

    def _one(self, value: Value, step: int) -> np.ndarray:
        names = [v.name for v in self.forward.inputs]
        if value.name in names:
            return self.samples.inputs[names.index(value.name)][self._chosen(value.shape[0], step)]
        if not value.shape:
            return np.float32({"rate": RATE, "share": 1 / self.steps}[value.name])  # type: ignore[return-value]
        return self._labels(value, step) if value.dtype == "s32" else self._targets(value, step)

    def _chosen(self, count: int, step: int) -> np.ndarray:
        """The indices of the next `count` samples; each step takes the following ones."""
        return np.arange(step * count, (step + 1) * count) % len(self.samples)

    def _labels(self, value: Value, step: int) -> np.ndarray:
        """The samples' own labels if they fit, else random ones."""
        classes, chosen = self.forward.outputs[0].shape[-1], self._chosen(value.shape[0], step)
        drawn = np.random.default_rng((self.seed, step)).integers(classes, size=len(chosen))
        known = drawn if self.samples.labels is None else self.samples.labels[chosen]
        return np.where((known >= 0) & (known < classes), known, drawn).astype(np.int32)

    def _targets(self, value: Value, step: int) -> np.ndarray:
        target = np.random.default_rng((self.seed, step)).uniform(0.1, 1, value.shape)
        share = target.sum(-1, keepdims=True) if self.recipe.loss == "soft_cross_entropy" else 1.0
        return (target / share).astype(np.float32)


def drawn(graph: Graph, seed: int) -> Samples:
    """Random samples over the whole range of every input."""
    rng = np.random.default_rng(seed)
    return Samples(tuple(_draw(graph, v, rng) for v in graph.inputs))


def _draw(graph: Graph, value: Value, rng) -> np.ndarray:
    shape = (DRAWN, *value.shape[1:])
    if value.dtype not in ("f32", "f64"):
        ends = np.iinfo(value.type.numpy)
        return rng.integers(max(ends.min, -128), min(ends.max, 255) + 1, shape).astype(value.type.numpy)
    x = rng.normal(size=shape)
    reader = next((n for n in graph.users.get(value.name, ()) if n.op is quantize), None)
    if reader is not None:
        t = reader.output.type
        x = t.scale * (127.5 / 2 * x - 0.5 - t.zero)
    return x.astype(value.type.numpy)
