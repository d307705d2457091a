"""A rate that was given to partial_fit and is far above the derived one: say what it did to the samples.

Nothing here measures gains or derives rates (few.py), and nothing changes what is computed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from insitu.learner.feed import Feed
from insitu.learner.held_out import score
from insitu.learner.rates import Rates
from insitu.terminal.warned import warn

FAR = 10.0  # times the derived rate: from four times on, a step of a head is too long for a softmax
MOST = 8  # samples that are predicted before and after
KNOWN = 0.05  # loss: samples below it move hardly anything, whatever the rate


@dataclass(frozen=True)
class Excess:
    """How far a given rate is above the derived one, where that is most."""

    given: float
    derived: float
    where: str  # of which layers, if not of all

    @property
    def times(self) -> float:
        return self.given / self.derived

    @staticmethod
    def of(given: Rates, derived: Rates) -> Excess:
        head = Excess(given.head, derived.head, "" if derived.body is None else " for the last layer")
        if not (given.body and derived.body):
            return head
        return max(head, Excess(given.body, derived.body, " for the layers before the last"), key=lambda e: e.times)


@dataclass(frozen=True, eq=False)
class Watched:
    """Some of the samples, and their loss before they are learned from."""

    excess: Excess
    samples: np.ndarray
    loss: float

    @staticmethod
    def of(excess: Excess, feed: Feed, loss: str) -> Watched:
        samples = np.linspace(0, len(feed) - 1, min(len(feed), MOST)).astype(int)
        return Watched(excess, samples, loss_of(feed, samples, loss))

    def tell(self, feed: Feed, loss: str) -> bool:
        """Warn if the samples are worse off now, or if they have moved a network that others may have taught."""
        after = loss_of(feed, self.samples, loss)
        if after <= self.loss < KNOWN:
            return False
        grew = f"the loss of {len(self.samples)} of the samples grew from {self.loss:.2g} to {after:.2g}"
        what = grew if after > self.loss else "what was learned before may be lost"
        far = f"rate {self.excess.given:g} is {self.excess.times:,.0f} times the derived one"
        warn(f"{far}{self.excess.where} ({self.excess.derived:.2g}): {what}. Without a rate, partial_fit derives it")
        return True


def loss_of(feed: Feed, samples: np.ndarray, loss: str) -> float:
    """The mean loss of these samples."""
    out = feed.device.run("predict", *(r[samples, 0] for r in feed.source.rows))[0]
    return score(loss, np.asarray(out), feed.labels[samples]).loss
