"""A small network for tables of numbers: columns standardised as part of it, then a few linear layers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from insitu.graph import Graph, build, f32
from insitu.ops.activation import relu
from insitu.ops.arith import mul, sub
from insitu.ops.linear import linear

BATCH, RATE, UPDATES = 16, 0.01, 600  # usual for Adam on a network of this size


def table_network(X: np.ndarray, hidden: Sequence[int], classes: int, seed: int) -> Graph:
    """The network for rows like these."""
    rng, (mean, scale) = np.random.default_rng(seed), spread(X)
    with build("table") as b:
        x = b.input("x", f32(1, X.shape[1]))
        x = mul(sub(x, b.constant("mean", mean)), b.constant("scale", scale))
        for i, width in enumerate(hidden):
            x = relu(_layer(b, x, width, f"hidden{i}", np.sqrt(6 / x.shape[1]), rng))
        return b.graph(_layer(b, x, classes, "out", np.sqrt(1 / x.shape[1]), rng))


def spread(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean of each column, and one over its deviation; a constant column has no effect."""
    mean, deviation = X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64)
    known = deviation > 1e-7 * np.maximum(np.abs(mean), 1e-30)
    scale = np.where(known, 1 / np.where(known, deviation, 1), 0)
    return mean[None].astype(np.float32), scale[None].astype(np.float32)


def _layer(b, x, width: int, name: str, limit: float, rng):
    w = b.constant(f"{name}.weight", rng.uniform(-limit, limit, (width, x.shape[1])).astype(np.float32))
    return linear(x, w, b.constant(f"{name}.bias", np.zeros(width, np.float32)), name=name)
