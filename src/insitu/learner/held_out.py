"""Samples held out to see whether training helps: every class in both parts, how good the outputs are, and whether one
result is better than another by more than chance.

With few samples, every sample is held out once (folds); with many, one part of at most a thousand is enough. Samples of
a class that follow each other are held out together: windows of one recording or frames of one film are alike, and a
sample whose neighbour was learned from says little about new data. If the order means nothing, such parts are as good
as any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

from insitu.learner.measures import MEASURES, RIGHT
from insitu.learner.rates import softmax

SHARE = 0.2
MOST = 1000  # samples held out
FEW = 400  # samples up to which every one is held out once
FOLDS = 5
EACH = 3  # samples per class below which none can be spared
TEMPERATURES = 1.5 ** np.arange(-6, 16)
CONSTANT = 1e-9  # of the largest variance of a target: below, it does not vary
LEARNED = 0.99  # of the loss of guessing: a network that ends above it has learned nothing
ODD, RARE = 10.0, 0.05  # usual spreads from the median: a target out there may be odd; of all targets, if they are odd
GAP = 2.0  # times the next smaller distance from the median: long tails of good targets have no such gap


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
    groups = [rng.permutation(groups[0])] if len(groups) == 1 else groups  # targets may be sorted: any order of them
    if len(labels) > FEW:
        share = min(SHARE, MOST / len(labels))
        return [_fold(labels, np.concatenate([_run(g, share, rng) for g in groups if len(g) > 1]))]
    turn, parts = 0, [[] for _ in range(FOLDS)]
    for g in groups:  # the larger parts of each class go where those of the previous one ended
        for j, run in enumerate(np.array_split(g, FOLDS)):
            parts[(turn + j) % FOLDS].append(run)
        turn += len(g) % FOLDS
    return [_fold(labels, np.concatenate(p)) for p in parts]


def any_folds(labels: np.ndarray, seed: int) -> list[Fold]:
    """Every sample held out once, whatever its class: a class may be missing among those to learn from."""
    order = np.random.default_rng((seed, len(labels))).permutation(len(labels))
    return [_fold(labels, held) for held in np.array_split(order, FOLDS)] if len(labels) >= FOLDS else []


def with_copies(divide: Callable[[np.ndarray, int], list[Fold]], labels: np.ndarray, seed: int,
                rows: Sequence[np.ndarray]) -> list[Fold]:  # fmt: skip
    """Samples divided in this way, with all copies of a sample on the same side: held out, one whose copy was learned
    from says nothing. Rare classes are often repeated until all are alike."""
    first = _first_alike(rows) if rows else np.arange(len(labels))
    own = np.flatnonzero(first == np.arange(len(first)))
    if len(own) == len(first):
        return divide(labels, seed)
    held = [np.isin(first, own[fold.held]) for fold in divide(labels[own], seed)]
    return [Fold(np.flatnonzero(~there), np.flatnonzero(there)) for there in held]


def _first_alike(rows: Sequence[np.ndarray]) -> np.ndarray:
    """For each sample, the first one that has the same numbers."""
    seen: dict[bytes, int] = {}
    return np.array([seen.setdefault(_mark([r[i] for r in rows]), i) for i in range(len(rows[0]))], int)


def _mark(arrays: Iterable[np.ndarray]) -> bytes:
    """A few bytes that only equal arrays share."""
    found = blake2b(digest_size=16)
    for array in arrays:
        found.update(array.tobytes())
    return found.digest()


def single(labels: np.ndarray) -> bool:
    """Are there fewer than two samples per class?"""
    return len(labels) < 2 * max(len(_groups(labels)), 2)


def _run(group: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """A share of these samples, one after the other."""
    count = max(1, round(len(group) * share))
    first = rng.integers(len(group) - count + 1)
    return group[first : first + count]


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
    each: np.ndarray = field(default_factory=lambda: np.zeros(0), compare=False, repr=False)  # cost of every sample

    @property
    def cost(self) -> float:
        """The number to compare, smaller is better."""
        return float(self.each.mean())

    @property
    def error(self) -> float:
        """The standard error of the cost."""
        return float(self.each.std() / np.sqrt(max(1, len(self.each)))) if np.isfinite(self.cost) else 0.0

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
    """The score of these outputs. A sample's cost is its loss at the best temperature, and 1 if it is a mistake.

    A temperature divides all outputs of a classifier. Without it, a network that is often right but too sure of itself
    looks worse than one that knows little, and one that only becomes less sure looks as if it had learned.
    """
    name, measured = MEASURES[loss]
    z, rows = out.reshape(len(out), -1).astype(np.float64), y if y.ndim == 1 else y.reshape(len(y), -1)
    found = LOSS_OF[loss](z, rows)
    if not np.isfinite(found).all() or not np.isfinite(z).all():
        return Score(np.inf, 0.0 if name == "accuracy" else np.inf, len(y), name == "accuracy", np.full(len(y), np.inf))
    if name == "error":
        return Score(float(found.mean()), measured(out, y), len(y), False, found)
    wrong = 1.0 - RIGHT[loss](z, rows)
    best = min((LOSS_OF[loss](z / t, rows) for t in TEMPERATURES), key=np.mean)
    return Score(float(found.mean()), measured(out, y), len(y), True, best + wrong)


def lost(score: Score) -> Score:
    """A score that is worse than every other, of the same kind and samples."""
    worst = 0.0 if score.better_high else np.inf
    return Score(np.inf, worst, score.samples, score.better_high, np.full(score.samples, np.inf))


def clearly(better: Score, worse: Score, errors: float) -> bool:
    """Is one result better than the other by more than chance: by so many standard errors of the mean difference?

    Both are of the same samples, and the difference is taken sample by sample: that samples differ in how hard they are
    does not blur it.
    """
    if not np.isfinite(better.cost) or not np.isfinite(worse.cost):
        return np.isfinite(better.cost)
    gain = worse.each - better.each
    spread = gain.std(ddof=1) if len(gain) > 1 else 0.0
    return bool(gain.mean() > errors * spread / np.sqrt(len(gain)))


def _surprise(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    return -np.log(np.maximum(softmax(z)[np.arange(len(y)), y], 1e-12))


def _soft_surprise(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    return -(y * np.log(np.maximum(softmax(z), 1e-12))).sum(1)


def odd(y: np.ndarray) -> np.ndarray:
    """Which targets are far from nearly all others: wrong readings, perhaps. Squared errors would see only those.

    The usual spread is that of the middle half, and a gap is between them and the others. If many are out there, or
    half of them are the same, none is odd.
    """
    low, middle, high = np.quantile(y, (0.25, 0.5, 0.75), axis=0)
    away = np.abs(y - middle)
    ordered = np.sort(away, axis=0)
    near, next_to = ordered[:-1], ordered[1:]
    spread = (high - low) / 1.349  # of a normal distribution, that is its standard deviation
    beyond = np.where((next_to > ODD * spread) & (next_to > GAP * near), next_to, np.inf).min(0, initial=np.inf)
    far = away >= beyond
    return far & (high > low) & (far.mean(0) <= RARE)


def _errors(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The squared error of every sample, each target as a share of its variance. Odd targets are not judged by."""
    y = y.reshape(z.shape)
    counts = ~odd(y)
    return (counts * np.square(z - y) / _spread(y, counts)).mean(1)


def _spread(y: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The variance of each target: errors count by their share of it, whatever the units; 1 if nothing varies."""
    found = y.var(0, dtype=np.float64, where=counts)
    return np.where(found > CONSTANT * found.max(), found, found.max() or 1.0)


def _binary_surprise(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (np.logaddexp(0, -np.abs(z)) + np.maximum(z, 0) - z * y.reshape(z.shape)).mean(1)


# the loss of every sample
LOSS_OF = {
    "cross_entropy": _surprise,
    "soft_cross_entropy": _soft_surprise,
    "binary_cross_entropy": _binary_surprise,
    "mse": _errors,
}


# class shares in place of outputs: the logits of the best answer that does not look at the input
def _shares(y: np.ndarray) -> np.ndarray:
    return np.log(np.bincount(y) / len(y) + 1e-12)


GUESS_OF = {
    "cross_entropy": _shares,
    "soft_cross_entropy": lambda y: np.log(y.mean(0) + 1e-12),
    "binary_cross_entropy": lambda y: np.log((y.mean(0) + 1e-12) / (1 - y.mean(0) + 1e-12)),
    "mse": lambda y: y.mean(0, where=~odd(y)),
}


def guess(loss: str, y: np.ndarray) -> Score:
    """The score of the best answer that is the same for every sample."""
    return score(loss, *_guessed(loss, y))


def guessed_loss(loss: str, y: np.ndarray) -> float:
    """The loss of that answer: a score takes twenty times as long. It is the same for all samples of a class."""
    same, rows = _guessed(loss, y)
    if rows.ndim > 1:
        return float(LOSS_OF[loss](same, rows).mean())
    counts = np.bincount(rows)
    each = LOSS_OF[loss](np.repeat(same[:1], len(counts), 0), np.arange(len(counts)))
    return float(each @ counts / len(rows))


def _guessed(loss: str, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """That answer for every sample, and the labels or targets."""
    rows = y if y.dtype.kind == "i" else y.reshape(len(y), -1).astype(np.float64)
    same = np.asarray(GUESS_OF[loss](rows)).reshape(1, -1)
    return np.repeat(same, len(y), 0), rows


def no_better(after: Score, guessed: Score) -> bool:
    """Is this the result of guessing, as far as so many samples can tell?"""
    if not after.better_high:
        return after.loss > LEARNED * guessed.loss
    chance = 2 * np.sqrt(guessed.measure * (1 - guessed.measure) / after.samples)
    return after.loss > LEARNED * guessed.loss and after.measure <= guessed.measure + chance


def known(before: Score, guessed: Score) -> float:
    """How much of its task a network knows: 0 if it only guesses, 1 if it makes no mistakes.

    Of squared errors the roots count: half the error is half known, with a quarter of the squares left.
    """
    was, best = (guessed.measure, 1.0) if before.better_high else (guessed.loss**0.5, 0.0)
    now = before.measure if before.better_high else before.loss**0.5
    return float(np.clip((now - was) / (best - was), 0, 1)) if was != best else 1.0


def helps(after: Score, before: Score) -> bool:
    """Is this better than before: clearly, whatever the network's confidence, or at least in loss and mistakes?

    A network that only became less sure of its mistakes must not know less by that.
    """
    if not np.isfinite(after.loss) or clearly(before, after, 1.0):
        return False
    mistakes = before.measure - after.measure if before.better_high else 0.0
    return clearly(after, before, 1.0) or after.loss + mistakes < before.loss
