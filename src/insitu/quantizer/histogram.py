"""A histogram that grows with its data in bounded memory, and the ranges it suggests.

It covers [-width, width]; when a value falls outside, the width doubles and pairs of bins merge, which loses no count.
"""

from __future__ import annotations

import numpy as np

BINS = 4096
SHRINKS = np.linspace(1.0, 0.2, 81)  # shares of a range that the least-squares search tries


class Histogram:
    def __init__(self):
        self.width = 0.0  # a power of two, so that merging is exact and the order of the data does not matter
        self.counts = np.zeros(BINS, np.int64)
        self.zeros = 0  # counted separately until another value gives a width

    def add(self, array: np.ndarray) -> None:
        largest = float(np.abs(array).max())
        if largest == 0.0 and self.width == 0.0:
            self.zeros += array.size
            return
        if self.width == 0.0:
            self.width = 2.0 ** np.ceil(np.log2(largest))
            self.counts[BINS // 2] = self.zeros
        while largest > self.width:
            self._double()
        self.counts += np.bincount(self._bins(array), minlength=BINS)

    def add_each(self, rows: np.ndarray) -> None:
        """`add` each row: one that widens the range alone, those in between at once."""
        largest, i = np.abs(rows).max(axis=1), 0
        while i < len(rows):
            self.add(rows[i])
            wider = np.flatnonzero(largest[i + 1 :] > self.width)
            end = i + 1 + int(wider[0]) if len(wider) else len(rows)
            if end > i + 1:
                self.add(rows[i + 1 : end])
            i = end

    def _bins(self, array: np.ndarray) -> np.ndarray:
        """The bin of every element. Edges are multiples of a power of two, so that nothing is rounded here."""
        found = (
            np.floor(np.multiply(array.ravel(), BINS / 2 / self.width, dtype=np.float64)).astype(np.int64) + BINS // 2
        )
        return np.minimum(found, BINS - 1)  # the last bin has its upper edge too

    def _double(self) -> None:
        merged = self.counts.reshape(-1, 2).sum(axis=1)
        self.counts = np.zeros_like(self.counts)
        self.counts[BINS // 4 : -BINS // 4] = merged
        self.width *= 2

    @property
    def centres(self) -> np.ndarray:
        return (np.arange(BINS) + 0.5) * (2 * self.width / BINS) - self.width

    def percentile(self, p: float, low: float, high: float) -> tuple[float, float]:
        """The range without the (100 - p) % at either end, limited to low..high."""
        if self.width == 0.0:
            return low, high
        edges = np.linspace(-self.width, self.width, BINS + 1)
        share = np.concatenate([[0], np.cumsum(self.counts)]) / self.counts.sum()
        tail = 1 - p / 100
        below = edges[max(np.searchsorted(share, tail, side="right") - 1, 0)]
        above = edges[min(np.searchsorted(share, 1 - tail, side="left"), BINS)]
        return max(low, float(below)), min(high, float(above))

    def least_squares(self, low: float, high: float) -> tuple[float, float]:
        """The range that 8 bits represent with the least mean squared error: first shrinks both ends, then each."""
        if self.width == 0.0:
            return low, high
        low, high = min(low, 0.0), max(high, 0.0)
        low, high = self._best((low * s, high * s) for s in SHRINKS)
        low, high = self._best((low * s, high) for s in SHRINKS)
        return self._best((low, high * s) for s in SHRINKS)

    def _best(self, candidates) -> tuple[float, float]:
        used = self.counts > 0
        x, n = self.centres[used], self.counts[used]
        return min(candidates, key=lambda bounds: _error(x, n, *bounds))


def _error(x: np.ndarray, n: np.ndarray, low: float, high: float) -> float:
    """The squared error of these values, each as often as n says, in 8 bits from low to high."""
    scale = max((high - low) / 255, 1e-30)
    zero = np.round(low / scale)
    q = np.minimum(np.maximum(np.round(x / scale), zero), zero + 255)
    return float(((q * scale - x) ** 2 * n).sum())
