"""How good a learner is on labelled samples: overall, by class or output, and which classes it confuses.

Works on outputs that were computed before. A matrix is only made if it is small enough to be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from insitu.graph.classes import word
from insitu.learner.measures import MEASURES
from insitu.reports.html_data import Confusion, Group, Mistake, Score, confusion

MATRIX = 16  # classes up to which a matrix can be read
MISTAKES = 10  # shown
OUTPUTS = 64  # of a regression, shown one by one


@dataclass(frozen=True, eq=False)
class Outcome:
    """The outputs for samples whose labels (or targets) are known."""

    name: str  # of the samples
    loss: str
    labels: np.ndarray
    after: np.ndarray  # outputs: [samples, ...]
    before: np.ndarray | None = None  # the same, before training
    names: tuple[str, ...] = ()  # of the classes

    @property
    def measure(self) -> str:
        return MEASURES[self.loss][0]

    def score(self) -> Score:
        measured = MEASURES[self.loss][1]
        first = None if self.before is None else measured(self.before, self.labels)
        spread = None if self.measure == "accuracy" else float(np.var(self.labels))
        return Score(self.name, first, measured(self.after, self.labels), len(self.labels), self.measure, spread)

    @property
    def exclusive(self) -> bool:
        """Is exactly one class right?"""
        return self.loss in ("cross_entropy", "soft_cross_entropy")

    @property
    def actual(self) -> np.ndarray:
        """The class of each sample."""
        return self.labels if self.labels.ndim == 1 else rows(self.labels).argmax(1)

    def groups(self) -> tuple[Group, ...]:
        """The worst first."""
        return self._classes() if self.exclusive else self._outputs()

    def _classes(self) -> tuple[Group, ...]:
        actual, after = self.actual, rows(self.after).argmax(1) == self.actual
        before = None if self.before is None else rows(self.before).argmax(1) == self.actual
        found = [
            Group(word(self.names, int(c)), int(at.sum()), None if before is None else float(before[at].mean()),
                  float(after[at].mean()))
            for c in np.unique(actual) for at in [actual == c]
        ]  # fmt: skip
        return tuple(sorted(found, key=lambda g: g.after))

    def _outputs(self) -> tuple[Group, ...]:
        y, after = rows(self.labels), rows(self.after)
        before = None if self.before is None else rows(self.before)
        measured = MEASURES[self.loss][1]
        if y.shape[1] > OUTPUTS:
            return ()
        found = [
            Group(word(self.names, k) if any(self.names) else f"output {k}", len(y),
                  None if before is None else measured(before[:, k], y[:, k]), measured(after[:, k], y[:, k]))
            for k in range(y.shape[1])
        ]  # fmt: skip
        return tuple(sorted(found, key=lambda g: g.after if self.measure == "accuracy" else -g.after))

    def mistakes(self) -> tuple[Mistake, ...]:
        if not self.exclusive:
            return ()
        wrong = Counter((int(a), int(p)) for a, p in zip(self.actual, rows(self.after).argmax(1)) if a != p)
        return tuple(Mistake(word(self.names, a), word(self.names, p), n) for (a, p), n in wrong.most_common(MISTAKES))

    def confusion(self) -> Confusion | None:
        """None if there are too many classes, or several may be right."""
        width = rows(self.after).shape[1]
        if not self.exclusive or not 1 < width <= MATRIX:
            return None
        labels = tuple(word(self.names, k) for k in range(width))
        before = None if self.before is None else rows(self.before).argmax(1)
        return confusion(labels, self.actual, before, rows(self.after).argmax(1))


def rows(a: np.ndarray) -> np.ndarray:
    return a.reshape(len(a), -1)


def weakest(groups: Sequence[Group], score: Score) -> Group | None:
    """The class that is far below the average, if there is one."""
    if score.measure != "accuracy" or score.after is None or len(groups) < 2:
        return None
    worst = groups[0]
    return worst if worst.after < min(0.8, score.after - 0.1) else None
