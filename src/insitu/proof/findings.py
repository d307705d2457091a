"""The findings of a check (error, tolerance, place), and the row of a certificate that sums them up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Finding:
    """One comparison. An error of NaN is never allowed."""

    where: str
    error: float
    allowed: float

    @property
    def ok(self) -> bool:
        return bool(self.error <= self.allowed)

    @property
    def badness(self) -> float:
        if not np.isfinite(self.error) or (not self.ok and self.allowed == 0):
            return np.inf
        return self.error / self.allowed if self.allowed else 0.0


@dataclass(frozen=True)
class Row:
    """One check of a certificate."""

    check: str
    compared: str  # what is compared with what
    ok: bool
    count: int  # comparisons made
    worst: float | None = None
    allowed: float | None = None
    where: str = ""  # the place of the worst error
    note: str = ""


def row(check: str, compared: str, findings: Iterable[Finding], note: str = "") -> Row:
    """The worst of these findings."""
    found = list(findings)
    if not found:
        return Row(check, compared, True, 0, note=note or "the model has nothing of this kind")
    worst = max(found, key=lambda f: f.badness)
    return Row(check, compared, all(f.ok for f in found), len(found), worst.error, worst.allowed, worst.where, note)


def failed(check: str, compared: str, problem: str) -> Row:
    """The row of a check that could not be run."""
    return Row(check, compared, False, 0, note=problem)


def distance(a, b) -> float:
    """max|a - b|; infinite if exactly one of two elements is NaN."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    with np.errstate(invalid="ignore"):
        gap = np.abs(a - b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return float(np.max(np.where(same, 0.0, np.where(np.isnan(gap), np.inf, gap)), initial=0.0))


def largest(b) -> float:
    finite = np.abs(np.asarray(b, np.float64))
    return float(np.max(finite, initial=0.0, where=np.isfinite(finite)))


def close(where: str, a, b, tolerance: float, floor: float) -> Finding:
    """max|a - b| <= tolerance * max(max|b|, floor), b computed in float64."""
    return Finding(where, distance(a, b), tolerance * max(largest(b), floor))
