"""Targets in units of their own spread, while a network learns them.

A loss of squared errors sees only the target with the largest numbers, and numbers far from 1 take rates far from those
that suit the layers before the last. If the last layer is linear and in float, it can learn targets in other units: its
weights are divided by them before, and multiplied after, and nothing else changes. Targets whose spreads are alike
share one unit, so they count as before; a few targets of unlike spreads count alike. Nothing here trains.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from insitu.learner.solved import Layer

FAR = 10.0  # times: a spread that is farther from 1, or spreads that are farther apart, are changed
FEW = 32  # targets: more are of one kind (a picture, a spectrum), and share one unit
CONSTANT = 1e-9  # of the largest spread: below, a target does not vary

State = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Units:
    """The unit and the zero of each target, and the last layer as it was."""

    layer: Layer
    spread: np.ndarray
    zero: np.ndarray
    was: State

    def targets(self, y: np.ndarray) -> np.ndarray:
        """Targets in these units."""
        rows = y.reshape(-1, len(self.spread)).astype(np.float64)
        return ((rows - self.zero) / self.spread).astype(np.float32).reshape(y.shape)

    def into(self) -> dict[str, np.ndarray]:
        """The last layer as it was, for targets in these units."""
        weight, *bias = (self.was[v.name].astype(np.float64) for v in self.layer.values)
        rows = weight.reshape(len(self.spread), -1) / self.spread[:, None]
        return self._named(rows, *((b - self.zero) / self.spread for b in bias))

    def out_of(self, state: State) -> dict[str, np.ndarray]:
        """The state with its last layer for the targets as they are; to the byte as it was, if nothing was learned."""
        if all(np.array_equal(state[name], array) for name, array in self.into().items()):
            return {**state, **self.was}
        weight, *bias = (state[v.name].astype(np.float64) for v in self.layer.values)
        rows = weight.reshape(len(self.spread), -1) * self.spread[:, None]
        return {**state, **self._named(rows, *(b * self.spread + self.zero for b in bias))}

    def _named(self, *arrays: np.ndarray) -> dict[str, np.ndarray]:
        return {v.name: a.astype(np.float32).reshape(v.shape) for v, a in zip(self.layer.values, arrays)}


def units_of(layer: Layer, targets: np.ndarray, state: State) -> Units | None:
    """The units of these targets; None if they are well as they are."""
    y = targets.reshape(-1, layer.weight.shape[0]).astype(np.float64)
    zero = y.mean(0) if layer.bias is not None else np.zeros(y.shape[1])
    found = _spread(np.sqrt(np.square(y - zero).mean(0)))
    return None if found is None else Units(layer, found, zero, {v.name: state[v.name] for v in layer.values})


def _spread(own: np.ndarray) -> np.ndarray | None:
    """The unit of each target, from its own spread."""
    varies = own > CONSTANT * own.max(initial=0.0)
    if not varies.any() or not np.isfinite(own).all():
        return None
    if len(own) <= FEW and own[varies].max() > FAR * own[varies].min():
        return np.where(varies, own, own.max())
    level = float(np.sqrt(np.square(own[varies]).mean()))
    return None if 1 / FAR <= level <= FAR else np.full(len(own), level)
