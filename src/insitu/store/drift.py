"""What the network sees, followed over its life: worth of a sample, means of the classes, drift. All in float32.

The operations and their order are part of the rules (rules.py): c/device does the same and gets the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from insitu.ops._mathf import expf, top_two

F = np.float32
GROUPS = 16  # value i of the latents belongs to group i % 16
REFERENCE = 64  # the first samples, which show what is usual
RECENT = F(1 / 32)  # the weight of the newest sample
EPSILON = F(1e-6)
SURER = F(1 / 128)  # by how much of the distance the usual confidence follows one that is higher
NARROW = F(0.01)  # added to the spread of the confidence: a network that is always sure is not alarmed by a little less
COLLECT = 0.5  # from this drift on, labels of what is seen now would help


def worths(logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each row: how much a label would tell, 255 - floor(255 (p1 - p2)); and p1, the confidence."""
    first, second = top_two(logits)
    return 255 - np.floor(F(255) * (first - second)).astype(np.int32), first


def sureness(logits: np.ndarray, labels: Sequence[int]) -> list[int]:
    """For each row: floor(255 p) of the label's probability; 0 if the outputs are no numbers."""
    z = np.asarray(logits, F).reshape(len(logits), -1)
    fine = np.isfinite(z).all(axis=1, keepdims=True)
    z = np.where(fine, z, F(0))
    e = expf(z - z.max(1, keepdims=True))
    own = e[np.arange(len(z)), np.asarray(labels, int)] / np.add.accumulate(e, 1)[:, -1]
    return np.where(fine.reshape(-1), np.floor(F(255) * own), 0).astype(int).tolist()


def group_means(latents: np.ndarray) -> np.ndarray:
    """Rows of latents -> rows of group means, each added up in the order of its values."""
    f = np.asarray(latents, F).reshape(len(latents), -1)
    width = min(GROUPS, f.shape[1])
    counts = np.array([len(range(i, f.shape[1], GROUPS)) for i in range(width)], F)
    padded = np.zeros((len(f), -(-f.shape[1] // GROUPS) * GROUPS), F)
    padded[:, : f.shape[1]] = f
    sums = np.add.accumulate(padded.reshape(len(f), -1, GROUPS), 1)[:, -1]
    return sums[:, :width] / counts


@dataclass
class Drift:
    """How far the samples of now are from the first ones: the larger of two measures; 0 before there are 64 samples.

    By their latents, which learning does not move. Reference: mean and variance of each group over the first 64 samples
    (Welford). Recent: m += (g - m) / 32, from the reference on. The mean over groups of
    (recent - mean)^2 / (variance + 1e-6).

    By the confidence: 2.5 (usual - recent)^2 / (usual (1 - usual) + 0.01) if it fell, else 0. Usual is the mean over
    the first 64 samples; it then rises with the recent one, as the network learns (by 1/128 of the distance a sample).
    """

    count: int = 0
    mean: np.ndarray = field(default_factory=lambda: np.zeros(0, F))  # of the groups; the last one: of the confidence
    square: np.ndarray = field(default_factory=lambda: np.zeros(0, F))  # sums of squares around the mean
    recent: np.ndarray = field(default_factory=lambda: np.zeros(0, F))

    def see(self, groups: np.ndarray, confidence: np.float32) -> None:
        """One more sample."""
        g = np.append(groups, confidence).astype(F)
        if not self.count:
            self.mean, self.square = np.zeros_like(g), np.zeros_like(g)
        if self.count >= REFERENCE:
            self.recent = self.recent + (g - self.recent) * RECENT
            self.mean[-1] += max(self.recent[-1] - self.mean[-1], F(0)) * SURER
            return
        self.count += 1
        apart = g - self.mean
        self.mean = self.mean + apart / F(self.count)
        self.square = self.square + apart * (g - self.mean)
        self.recent = self.mean.copy()

    def to_bytes(self) -> bytes:
        parts = (self.mean, self.square, self.recent)
        return self.count.to_bytes(4, "little") + b"".join(a.astype("<f4").tobytes() for a in parts)

    @classmethod
    def from_bytes(cls, data: bytes) -> Drift:
        if len(data) < 4:
            return cls()
        numbers = np.frombuffer(data[4:], "<f4").astype(F).reshape(3, -1)
        return cls(int.from_bytes(data[:4], "little"), *numbers)

    @property
    def value(self) -> float:
        if self.count < REFERENCE:
            return 0.0
        apart = (self.recent - self.mean)[:-1]
        each = apart * apart / (self.square[:-1] / F(REFERENCE) + EPSILON)
        return float(max(np.add.accumulate(each)[-1] / F(len(each)), self._doubt))

    @property
    def _doubt(self) -> np.float32:
        """How much less sure the network is than usual."""
        usual = self.mean[-1]
        fall = max(usual - self.recent[-1], F(0))
        return F(2.5) * fall * fall / (usual * (F(1) - usual) + NARROW)

    @property
    def confidence(self) -> float:
        """The recent mean of the largest probability."""
        return float(self.recent[-1]) if self.count else 0.0


@dataclass
class Means:
    """The running mean of the features of each class: m += (f - m) / n."""

    counts: dict[int, int] = field(default_factory=dict)
    means: dict[int, np.ndarray] = field(default_factory=dict)

    def see(self, label: int, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One more sample; how far it was from the mean, and is now."""
        n = self.counts[label] = self.counts.get(label, 0) + 1
        f = np.asarray(features, F).reshape(-1)
        m, self.means[label] = self.means.get(label, np.zeros_like(f)), self.after(label, f, n)
        return f - m, f - self.means[label]

    def after(self, label: int, features: np.ndarray, n: int | None = None) -> np.ndarray:
        """The mean of a class with one sample more, its n-th."""
        f = np.asarray(features, F).reshape(-1)
        m = self.means.get(label, np.zeros_like(f))
        return m + (f - m) / F(n or self.counts.get(label, 0) + 1)

    def take(self, label: int, mean: np.ndarray, count: int) -> None:
        """What was known of a class before this life."""
        self.means[label], self.counts[label] = np.asarray(mean, F).reshape(-1), count

    def forget(self, label: int) -> None:
        self.counts.pop(label, None)
        self.means.pop(label, None)
