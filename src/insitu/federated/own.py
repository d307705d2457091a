"""A device that goes on from the fleet's model by itself, and keeps that only if its own samples speak for it.

    found = go_on(learner, data, learn)           the learner then has the better of the two models

One model for all does not suit every device. But a few samples can also lead away from a good model, so each sample is
held out once (or a fifth of them, if there are many): the device learns from the others, starting from the fleet's
model, and both are asked about those that were held out. If nothing can be held out, the fleet's model stays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from insitu.data import Samples
from insitu.devices.device import method_of
from insitu.learner import Learner
from insitu.learner.held_out import Fold, Score, any_folds, folds, score
from insitu.learner.settle import usual_epochs

Pass = Callable[[Samples, int], object]  # one pass over these samples, and its number


@dataclass(frozen=True)
class Own:
    """What held-out samples say about the fleet's model, and about going on from it."""

    passes: int
    fleet: Score | None = None  # None: too few samples to hold any out
    own: Score | None = None

    @property
    def kept(self) -> bool:
        """Is going on better?"""
        return self.fleet is not None and self.own is not None and self.own.cost < self.fleet.cost

    @property
    def score(self) -> Score | None:
        """Of the model that is kept."""
        return self.own if self.kept else self.fleet


def go_on(learner: Learner, data: Samples, learn: Pass, passes: int | None = None, more: int = 0) -> Own:
    """Go on from the model that the learner has; afterwards it has the better one. Without a number of passes, it
    follows from the number of samples as in `fit`; `more` are added to it."""
    passes = (usual_epochs(len(data)) if passes is None else passes) + more
    start, known = learner.device.save_state(), learner.known

    def begin() -> None:
        learner.device.load_state(start)
        learner.known = known

    found = _tested(learner, data, learn, passes, begin)
    begin()
    if found.kept:
        _repeat(learn, data, passes)
    return found


def _tested(learner: Learner, data: Samples, learn: Pass, passes: int, begin: Callable[[], None]) -> Own:
    parts = _parts(learner, data)
    if not parts or not passes:
        return Own(passes)
    held, loss = np.concatenate([p.held for p in parts]), learner.recipe.loss
    asked = data.take(held)
    assert asked.labels is not None  # checked by samples()
    fleet, answers = learner.predict(*asked.inputs), []
    for part in parts:
        begin()
        _repeat(learn, data.take(part.learn), passes)
        answers.append(learner.predict(*data.take(part.held).inputs))
    return Own(passes, score(loss, fleet, asked.labels), score(loss, np.concatenate(answers), asked.labels))


def _repeat(learn: Pass, data: Samples, passes: int) -> None:
    for number in range(passes):
        learn(data, number)


def _parts(learner: Learner, data: Samples) -> list[Fold]:
    """Which samples are held out together; none if the others would not fill a batch."""
    labels = data.labels
    assert labels is not None  # checked by samples()
    parts = folds(labels, 0) or any_folds(labels, 0)
    least = method_of(learner.device.verbs).samples
    return parts if all(len(p.learn) >= least for p in parts) else []
