"""A device that goes on from the fleet's model by itself, and what it keeps at last.

    found = go_on(learner, data, learn, test=test)        the learner then has the model that the device keeps

One model for all does not suit every device. A few samples can also lead away from a good model, so a device with test
samples, which it never learned from, asks them: it goes back to the fleet's model if that is better by more than one
standard error, the rule of `fit`; and it keeps what it learns from its first model without the others if that is better
in the same way. Samples that a device learned from cannot tell: the fleet's model knows them, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from insitu.data import Samples
from insitu.learner import Learner
from insitu.learner.few import Known
from insitu.learner.held_out import Score, clearly, score
from insitu.learner.settle import usual_epochs

Pass = Callable[[Samples, int], object]  # one pass over these samples, and its number
DOUBT = 1.0  # standard errors by which another model must be better


FLEET, OWN, ALONE = 0, 1, 2  # the model that a device keeps
KEEPS = ("fleet", "own", "alone")


@dataclass(frozen=True)
class Start:
    """A model to go on from: its state, and what is known about its rates."""

    state: bytes
    known: Known

    def load(self, learner: Learner) -> None:
        learner.device.load_state(self.state)
        learner.known = self.known


def start_of(learner: Learner) -> Start:
    """The model that the learner has now."""
    return Start(learner.device.save_state(), learner.known)


@dataclass(frozen=True)
class Own:
    """What a device did by itself, and what its test samples say about it, if it has any."""

    passes: int
    fleet: Score | None = None
    own: Score | None = None
    alone: Score | None = None

    @property
    def kept(self) -> int:
        """Which model does the device keep?"""
        if self.passes == 0:
            return FLEET
        if self.fleet is None or self.own is None:
            return OWN
        found, best = (FLEET, self.fleet) if clearly(self.fleet, self.own, DOUBT) else (OWN, self.own)
        return ALONE if self.alone is not None and clearly(self.alone, best, DOUBT) else found


def go_on(learner: Learner, data: Samples, learn: Pass, passes: int | None = None, more: int = 0,
          test: Samples | None = None, first: Start | None = None) -> Own:  # fmt: skip
    """Go on from the model that the learner has. Without a number of passes, it follows from the number of samples as
    in `fit`; `more` are added to it. first: the model before the fleet's, to go on from as well."""
    passes = (usual_epochs(len(data)) if passes is None else passes) + more
    models, fleet = [start_of(learner)], _asked(learner, test)
    own = _passed(learner, data, learn, passes, test, models)
    alone = None
    if first is not None and test is not None and passes:
        first.load(learner)
        alone = _passed(learner, data, learn, passes, test, models)
    found = Own(passes, fleet, own, alone)
    models[found.kept].load(learner)
    return found


def _passed(learner: Learner, data: Samples, learn: Pass, passes: int, test: Samples | None,
            models: list[Start]) -> Score | None:  # fmt: skip
    """Make the passes, and add the model after them; returns what the test samples say."""
    for number in range(passes):
        learn(data, number)
    models.append(start_of(learner))
    return _asked(learner, test)


def _asked(learner: Learner, test: Samples | None) -> Score | None:
    return None if test is None else asked(learner, test)


def asked(learner: Learner, test: Samples) -> Score:
    """What test samples say about the model that the learner has."""
    assert test.labels is not None  # checked by samples()
    return score(learner.recipe.loss, learner.predict(*test.inputs), test.labels)
