"""The first row of a new class: made from the mean of its features, at the scale of the head that is there already.

The rows of the old classes are compared with their own means: W[k] - v is about s (M[k] - c), with v and c the means
over the classes. This gives the scale s. The new class gets the row of a nearest-mean classifier at that scale, and
the bias that such a row has among the old ones. So it competes at once, and hardly disturbs the others.

Everything is float32 and added up in a fixed order, so that the C of a device gives the same bits (c/device).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

F = np.float32
ALONE = F(4.0)  # the score of a mean itself, where no old class tells the scale, is half of this
LEAST = F(1e-6)
WITNESSES = 512  # kept samples of the others that a new row is tried on, about, at most

Row = tuple[np.ndarray, np.float32]  # weights and bias


def row_from_mean(mean: np.ndarray, means: Sequence[np.ndarray], rows: Sequence[Row]) -> Row:
    """Weights and bias of a class with this mean, beside old classes with these means and rows."""
    m, n = np.asarray(mean, F), F(len(means))
    if not len(means):
        half = _half(ALONE / max(_square(m), LEAST))
        return half * F(2) * m, -half * _square(m)
    old, weights = np.stack(means).astype(F), np.stack([w for w, _ in rows]).astype(F)
    c, v = _total(old) / n, _total(weights) / n
    apart, turned = old - c, weights - v
    above, below = _sum(turned * apart), _sum(apart * apart)
    s = above / below if len(means) > 1 and below > 0 and above > 0 else ALONE / max(_square(m), LEAST)
    half = _half(s)
    shared = _sum(np.array([b + half * _square(one) for (_, b), one in zip(rows, old)], F)) / n
    return v + s * (m - c), shared - half * _square(m)


def may_take(cost: float, kept: int) -> int:
    """How many of these kept samples a new row may take from the others: a share of them, rounded down."""
    return int(F(cost) * F(min(kept, WITNESSES)))


def discriminant(means: Sequence[np.ndarray], metric: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights and biases of a linear discriminant, for classes with these means: A m and -m A m / 2.

    `metric` is A, the inverse covariance of features around the means of their classes. Such rows compare with each
    other; beside trained rows they lose (measured: docs/continual.md).
    """
    m = np.stack(means).astype(np.float64)
    rows = m @ metric
    return rows.astype(F), (-(rows * m).sum(1) / 2).astype(F)


def _half(s: np.float32) -> np.float32:
    return F(s * F(0.5))


def _total(rows: np.ndarray) -> np.ndarray:
    """The sum of rows, one after the other."""
    return np.add.accumulate(rows, 0)[-1]


def _sum(values: np.ndarray) -> np.float32:
    """The sum of all values, one after the other."""
    return np.add.accumulate(values.reshape(-1), dtype=F)[-1]


def _square(x: np.ndarray) -> np.float32:
    return _sum(x * x)
