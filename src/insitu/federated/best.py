"""Which model a fleet ends with: that of its last round, or an earlier one that the devices' tests speak for.

Devices that are too unlike pull one model in many directions, and rounds then do harm. As `fit` goes back to what its
held-out samples speak for, a fleet goes back to an earlier model, or to the one that it began with, if that is better
by more than one standard error. A device with test samples compares each model that it gets with the best one so far,
sample by sample, and says only the mean of these differences and its standard error. Samples that a device learned
from cannot tell, and with personal layers nobody can: an earlier model would meet layers of a later round.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from insitu.errors import DataError
from insitu.federated.checks import COMPARED, Limits, weights
from insitu.federated.handout import Base
from insitu.federated.noted import said

BEST = "best"  # in messages to devices: the hash of the best model so far; empty: there is none yet
GAIN, ERROR, TESTS = "gain", "gain-error", "gain-tests"  # what a device says about the model that it got
BACK = "back"  # in messages to devices: the round whose model the fleet goes back to
DOUBT = 1.0  # standard errors by which an earlier model must be better
USUAL = 3.0  # times the median of all devices: nothing that a device says counts for more
MOST = 1e6  # of a gain or an error that makes sense


@dataclass(frozen=True)
class Verdict:
    """How much less a model costs than another on a device's tests: the mean, its standard error, and of how many."""

    gain: float
    error: float
    samples: int

    @property
    def told(self) -> dict[str, float | int]:
        """As it is sent."""
        return {GAIN: self.gain, ERROR: self.error, TESTS: self.samples}


def compared(costs: np.ndarray, best: np.ndarray) -> Verdict:
    """The same tests under two models. A single test has a standard error as large as its difference: it decides
    nothing."""
    with np.errstate(invalid="ignore"):
        gain = np.clip(np.nan_to_num(best - costs), -MOST, MOST)  # outputs that are not finite cost more than any other
    spread = gain.std(ddof=1) if len(gain) > 1 else abs(gain[0])
    return Verdict(float(gain.mean()), float(spread / np.sqrt(len(gain))), len(gain))


def verdict_in(record: Mapping[str, object], most_samples: int) -> Verdict | None:
    """What a device says, if it says it; a DataError if it cannot be true."""
    if GAIN not in record:
        return None
    gain, error = (_number(record, name, least, MOST) for name, least in ((GAIN, -MOST), (ERROR, 0.0)))
    return Verdict(gain, error, int(_number(record, TESTS, 1, most_samples)))


def _number(record: Mapping[str, object], name: str, least: float, most: float) -> float:
    value = record.get(name)
    if not isinstance(value, int | float) or not math.isfinite(value) or not least <= value <= most:
        raise DataError(f"{name} is {said(value)}, not a number from {least:g} to {most:g}", where="evaluation")
    return float(value)


def together(verdicts: Sequence[Verdict], limits: Limits, robust: bool = False) -> tuple[float, float]:
    """The gain of all devices' tests, and its standard error. Nobody can check what a device says, so none counts for
    more than three usual ones: its tests times its gain. robust: the median device decides."""
    if not verdicts:
        return 0.0, 0.0
    gains, errors = (np.array([getattr(v, name) for v in verdicts]) for name in ("gain", "error"))
    if robust:
        return float(np.median(gains)), float(np.median(errors) / np.sqrt(len(verdicts)))
    counts = np.array([v.samples for v in verdicts], np.float64)
    total = sum(weights([v.samples for v in verdicts], limits))
    return float(_usual(counts * gains).sum() / total), float(np.sqrt(np.square(_usual(counts * errors)).sum()) / total)


def _usual(values: np.ndarray) -> np.ndarray:
    """Each at most so many times the median, from three devices on."""
    most = USUAL * np.median(np.abs(values)) if len(values) >= COMPARED else np.inf
    return np.clip(values, -most, most)


@dataclass(frozen=True, eq=False)
class Best:
    """A model of the fleet, and the round that it came from; 0: the one that the fleet began with."""

    round: int
    base: Base


def does_harm(verdicts: Sequence[Verdict], limits: Limits, robust: bool = False) -> bool:
    """Is the last model clearly worse than the best one?"""
    gain, error = together(verdicts, limits, robust)
    return -gain > DOUBT * error
