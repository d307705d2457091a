"""Samples held out to see whether training helps: every class in both parts, and how good the outputs are.

With few samples, every sample is held out once (folds); with many, one part of at most a thousand is enough.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from insitu.learner.measures import MEASURES
from insitu.learner.rates import softmax

SHARE = 0.2
MOST = 1000  # samples held out
FEW = 400  # samples up to which every one is held out once
FOLDS = 3
EACH = 3  # samples per class below which none can be spared
LEARNED = 0.99  # of the loss of guessing: a network that ends above it has learned nothing


@dataclass(frozen=True, eq=False)
class Fold:
    """Which samples are learned, and which are held out."""

    learn: np.ndarray
    held: np.ndarray


def folds(labels: np.ndarray, seed: int) -> list[Fold]:
    """How these samples are divided; not at all if every sample is needed."""
    groups = _groups(labels)
    if not groups or len(labels) < EACH * max(len(groups), 4):
        return []
    rng = np.random.default_rng((seed, len(labels)))
    mixed = [rng.permutation(g) for g in groups]
    if len(labels) > FEW:
        share = min(SHARE, MOST / len(labels))
        held = np.concatenate([g[: max(1, round(len(g) * share))] for g in mixed if len(g) > 1])
        return [_fold(labels, held)]
    turn, parts = 0, [[] for _ in range(FOLDS)]
    for g in mixed:  # each class continues where the previous one ended
        for i in g.tolist():
            parts[turn % FOLDS].append(i)
            turn += 1
    return [_fold(labels, np.array(p)) for p in parts]


def _fold(labels: np.ndarray, held: np.ndarray) -> Fold:
    held = np.sort(held)
    return Fold(np.setdiff1d(np.arange(len(labels)), held), held)


def _groups(labels: np.ndarray) -> list[np.ndarray]:
    """The samples of each class; all of them together for targets."""
    if labels.ndim > 1 or labels.dtype.kind == "f":
        return [np.arange(len(labels))]
    return [np.flatnonzero(labels == c) for c in np.unique(labels)]


# scores -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Score:
    """How good outputs are on held-out samples."""

    loss: float
    measure: float  # accuracy, or the error if the loss is mse
    samples: int
    better_high: bool = True  # is more better for this measure?

    @property
    def cost(self) -> float:
        """The number to compare, smaller is better: the loss, and the share of mistakes."""
        return self.loss + (1 - self.measure if self.better_high else 0.0)

    def words(self) -> str:
        return f"{self.measure:.1%}" if self.better_high else f"error {self.measure:.3g}"


def change(before: Score, after: Score) -> str:
    """The two scores of a training that did not help. If more answers are right, the words say why it still did not."""
    words = f"{before.words()} before, {after.words()} after"
    if after.measure == before.measure or (after.measure < before.measure) == after.better_high:
        return words
    if not after.loss < before.loss:
        return f"{words}, but the loss grew from {before.loss:.3g} to {after.loss:.3g}"
    return f"{words} in a trial, which {after.samples} samples cannot prove or the training did not reach again"


def score(loss: str, out: np.ndarray, y: np.ndarray) -> Score:
    name, measured = MEASURES[loss]
    z = out.reshape(len(out), -1).astype(np.float64)
    found = float(LOSS_OF[loss](z, y if y.ndim == 1 else y.reshape(len(y), -1)))
    if not np.isfinite(found) or not np.isfinite(z).all():
        return Score(np.inf, 0.0 if name == "accuracy" else np.inf, len(y), name == "accuracy")
    return Score(found, measured(out, y), len(y), name == "accuracy")


def _surprise(z: np.ndarray, y: np.ndarray) -> float:
    return -np.log(np.maximum(softmax(z)[np.arange(len(y)), y], 1e-12)).mean()


def _soft_surprise(z: np.ndarray, y: np.ndarray) -> float:
    return -(y * np.log(np.maximum(softmax(z), 1e-12))).sum(1).mean()


def _binary_surprise(z: np.ndarray, y: np.ndarray) -> float:
    return (np.logaddexp(0, -np.abs(z)) + np.maximum(z, 0) - z * y).mean()


LOSS_OF = {
    "cross_entropy": _surprise,
    "soft_cross_entropy": _soft_surprise,
    "binary_cross_entropy": _binary_surprise,
    "mse": lambda z, y: np.square(z - y).mean(),
}


# class shares in place of outputs: the logits of the best answer that does not look at the input
def _shares(y: np.ndarray) -> np.ndarray:
    return np.log(np.bincount(y) / len(y) + 1e-12)


GUESS_OF = {
    "cross_entropy": _shares,
    "soft_cross_entropy": lambda y: np.log(y.mean(0) + 1e-12),
    "binary_cross_entropy": lambda y: np.log((y.mean(0) + 1e-12) / (1 - y.mean(0) + 1e-12)),
    "mse": lambda y: y.mean(0),
}


def guess(loss: str, y: np.ndarray) -> Score:
    """The score of the best answer that is the same for every sample."""
    rows = y if y.dtype.kind == "i" else y.reshape(len(y), -1).astype(np.float64)
    same = np.asarray(GUESS_OF[loss](rows)).reshape(1, -1)
    return score(loss, np.repeat(same, len(y), 0), rows)


def no_better(after: Score, guessed: Score) -> bool:
    """Is this the result of guessing, as far as so many samples can tell?"""
    if not after.better_high:
        return after.loss > LEARNED * guessed.loss
    chance = 2 * np.sqrt(guessed.measure * (1 - guessed.measure) / after.samples)
    return after.loss > LEARNED * guessed.loss and after.measure <= guessed.measure + chance


def together(scores: list[Score]) -> Score:
    """The score over several parts."""
    weights = np.array([s.samples for s in scores], float)
    loss, measure = (float(np.average([getattr(s, k) for s in scores], weights=weights)) for k in ("loss", "measure"))
    return Score(loss, measure, int(weights.sum()), scores[0].better_high)
