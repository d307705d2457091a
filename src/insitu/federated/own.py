"""A device that goes on from the fleet's model by itself, and goes back if that did harm.

    found = go_on(learner, data, learn, test=test)        the learner then has the model that the device keeps

One model for all does not suit every device. A few samples can also lead away from a good model, so a device with test
samples, which it never learned from, asks them: it goes back to the fleet's model if that is better by more than one
standard error, the rule of `fit`. Samples that a device learned from cannot tell: the fleet's model knows them, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from insitu.data import Samples
from insitu.learner import Learner
from insitu.learner.held_out import Score, clearly, score
from insitu.learner.settle import usual_epochs

Pass = Callable[[Samples, int], object]  # one pass over these samples, and its number
DOUBT = 1.0  # standard errors by which the fleet's model must be better


@dataclass(frozen=True)
class Own:
    """What a device did by itself, and what its test samples say about it, if it has any."""

    passes: int
    fleet: Score | None = None
    own: Score | None = None

    @property
    def kept(self) -> bool:
        """Does the device keep that?"""
        if self.fleet is None or self.own is None:
            return self.passes > 0
        return self.passes > 0 and not clearly(self.fleet, self.own, DOUBT)


def go_on(learner: Learner, data: Samples, learn: Pass, passes: int | None = None, more: int = 0,
          test: Samples | None = None) -> Own:  # fmt: skip
    """Go on from the model that the learner has. Without a number of passes, it follows from the number of samples as
    in `fit`; `more` are added to it."""
    passes = (usual_epochs(len(data)) if passes is None else passes) + more
    start, known, before = learner.device.save_state(), learner.known, _asked(learner, test)
    for number in range(passes):
        learn(data, number)
    found = Own(passes, before, _asked(learner, test))
    if not found.kept:
        learner.device.load_state(start)
        learner.known = known
    return found


def _asked(learner: Learner, test: Samples | None) -> Score | None:
    if test is None:
        return None
    assert test.labels is not None  # checked by samples()
    return score(learner.recipe.loss, learner.predict(*test.inputs), test.labels)
