"""Weights of samples, by repetition: a training program counts every sample alike.

A sample of weight 3 is there three times, one of weight 0 not at all. Weights that are no integers are scaled first, so
that the smallest one counts once, and rounded so that sums of them stay right. Nothing is drawn at random.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import _check_sample_weight

MOST = 16  # times as many rows as samples that count: with larger ratios, samples of the smallest weights are left out


def weights_of(X: np.ndarray, y: np.ndarray, sample_weight: Any, class_weight: Any) -> np.ndarray:
    """The weight of each sample: its own times that of its class."""
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True, copy=True)
    if class_weight is not None:
        counts = weights > 0
        weights[counts] *= compute_sample_weight(class_weight, y[counts])
    if not weights.any() or (weights < 0).any():
        raise ValueError("all sample weights are zero" if not weights.any() else "a class has a negative weight")
    return weights


def repetitions(weights: np.ndarray) -> np.ndarray:
    """How often samples of these weights are there."""
    most, total = MOST * np.count_nonzero(weights), weights.sum()
    if total > most or (weights != np.rint(weights)).any():
        weights = weights * min(1 / weights[weights > 0].min(), most / total)
    return np.diff(np.floor(np.cumsum(weights) + 0.5), prepend=0).astype(np.int64)


def in_order(X: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """An order of these samples that does not depend on the one they came in."""
    rows = [(row.tobytes(), label) for row, label in zip(np.ascontiguousarray(X), labels.tolist())]
    return np.array(sorted(range(len(rows)), key=rows.__getitem__))
