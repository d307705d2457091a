"""Another way to learn for a network that may learn more in another arithmetic: at school.

compile() hands such a learner a school (pipeline/schooling.py). Its first `fit` on this machine learns here and there,
unless a rate is given or it goes on. If the samples held out say that what was learned there is better, the learner
becomes what the school makes of it, and learns on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from insitu.data import Samples
from insitu.learner.asked import Given
from insitu.learner.held_out import clearly
from insitu.learner.history import History
from insitu.terminal.progress import Report

if TYPE_CHECKING:
    from insitu.learner.learner import Learner

FEWEST = 32  # samples: of fewer, batches tell little
SURE = 1.0  # standard errors by which the school must be better
ENOUGH = 0.05  # the cost of a sample held out, of which a mistake is 1: there is nothing to gain


class School(Protocol):
    """Where a network may learn, too."""

    def begin(self, learner: Learner, data: Samples) -> Learner:
        """A pupil: the same network, as it can learn."""
        ...

    def end(self, pupil: Learner, data: Samples) -> Learner:
        """The learner that a pupil becomes."""
        ...


def school_for(learner: Learner, data: Samples, given: Given, whole: bool) -> School | None:
    """The school that this fit may try. whole: does it neither go on nor end early?"""
    free = whole and given.rate is None and given.head_rate is None and not learner.has_learned
    return learner.school if free and len(data) >= FEWEST else None


def is_enough(history: History) -> bool:
    """Were hardly any samples held out mistaken?"""
    return history.score is not None and history.score.cost < ENOUGH


def is_better(there: History, here: History) -> bool:
    """Is it clearly better on the samples held out? They were the same ones."""
    if there.score is None or there.restored:
        return False
    return here.score is None or here.restored or clearly(there.score, here.score, SURE)


def in_float(report: Report) -> Report:
    """The same, of a training there."""
    return lambda words, done, total: report(f"in float: {words}", done, total)


def no_better(here: History) -> History:
    """What was learned here, with a word about the school."""
    found, settings = (f"{words}; in float it was no better" for words in (here.found, here.settings))
    return replace(here, found=found, settings=settings)


def in_int8(first: History, second: History, part: str = "it") -> History:
    """What a network learned in float, and what became of training it (or this part of it) once more in int8."""
    undone = f"then made int8; training {part} there once more did not help on examples held out, and was undone"
    ends = f"loss {second.loss[0]:.3f} to {second.loss[-1]:.3f}" if second.loss else ""
    kept = f"then made int8, where {part} learned on: {len(second.loss)} epochs, {ends}"
    words = undone if second.restored or not second.loss else kept
    found, settings = ("; ".join(filter(None, [before, words])) for before in (first.found, first.settings))
    return replace(first, found=found, settings=settings, in_float=True)
