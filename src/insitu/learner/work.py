"""How much work a fit may do on this machine: counted in multiply-adds, and asked for before each trial.

Trials and training together may take MOST multiply-adds, less than a minute of one core; trials may always take as
much as the training itself. Small networks never get there. With a large one fewer rates are tried, gains are measured
with fewer samples, and the training has the usual number of epochs (settle.py). Counts do not depend on the machine's
speed, so neither do results. Nothing here trains (trials.py) or chooses (choice.py).
"""

from __future__ import annotations

from dataclasses import dataclass

MOST = 2.4e12  # multiply-adds of a fit: less than a minute on one fast core
PROBES, FEWEST = 32, 8  # samples to measure gains with, and at least
LEAD = 500  # samples to train a head with before the gain of the body is measured
LEAD_WORK = 2e10  # multiply-adds of that: a second


@dataclass(eq=False)
class Work:
    """The samples that trials may still learn from; more is refused, and noted."""

    left: float = float("inf")
    refused: bool = False

    def allows(self, samples: int) -> bool:
        """May a trial of this size begin?"""
        self.refused |= samples > self.left
        return samples <= self.left

    def take(self, samples: int) -> None:
        self.left -= samples


def allowed(training: int, step_macs: int, effort: float) -> Work:
    """The work for trials, if the training sees so many samples and an update takes so many multiply-adds."""
    return Work(max(effort * MOST / max(step_macs, 1) - training, effort * training))


def measuring(step_macs: int, effort: float) -> tuple[int, int]:
    """With how many samples gains are measured, and how many a head learns from before that."""
    share = min(1.0, effort * LEAD_WORK / max(LEAD * step_macs, 1))
    return max(FEWEST, int(share * PROBES)), max(2 * FEWEST, int(share * LEAD))
