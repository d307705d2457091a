"""How features scatter around the means of their classes: one running covariance matrix, shared by all classes.

With it, the row of a class follows from its mean alone as in a linear discriminant (training/newcomer.py): directions
in which all classes scatter count less. A sample with features f whose class mean moves from m to m' adds
(f - m)(f - m')^T. With n samples more than classes and p features, the estimate is shrunk towards a multiple of the
unit matrix by p / (p + n): with few samples, it is hardly used. Only on Linux: a microcontroller has no room for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

F = np.float32
MOST = 256  # features: more would take more than 130 KB
SHARE = 16  # of a quota: the least that it must be larger


def spread_bytes(features: int, quota: int) -> int:
    """What a spread takes in a store; 0 if it has none."""
    needed = 4 * features * (features + 1) // 2
    return needed if 1 < features <= MOST and needed * SHARE <= quota else 0


@dataclass
class Spread:
    """Sums over all labelled samples."""

    features: int
    sums: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), F))

    def __post_init__(self) -> None:
        if not self.sums.size:
            self.sums = np.zeros((self.features, self.features), F)

    def see(self, before: np.ndarray, after: np.ndarray) -> None:
        """A sample: how far it is from the mean of its class, before and after it moved that mean."""
        upper = np.triu(np.outer(before, after).astype(F))
        self.sums += upper + np.triu(upper, 1).T  # symmetric to the bit: only one half is kept

    def metric(self, samples: int, classes: int) -> np.ndarray | None:
        """The inverse of the shrunk covariance, [features, features]; None if nothing is known yet."""
        n, p = samples - classes, self.features
        level = float(np.trace(self.sums)) / p
        if n < 1 or not level > 0:
            return None
        g = p / (p + n)
        return np.linalg.inv(((1 - g) * self.sums.astype(np.float64) + g * level * np.eye(p)) / n)

    def to_bytes(self) -> bytes:
        return self.sums[np.triu_indices(self.features)].astype("<f4").tobytes()

    @classmethod
    def from_bytes(cls, features: int, data: bytes | None) -> Spread:
        """As it was; empty if nothing of this size was kept."""
        upper = np.triu_indices(features)
        made = cls(features)
        if data is not None and len(data) == 4 * len(upper[0]):
            made.sums[upper] = np.frombuffer(data, "<f4")
            made.sums.T[upper] = made.sums[upper]
        return made
