"""Is a device's reply fit to be averaged? Decided before any strategy sees it.

Averaging one number that is not finite, one huge weight or one delta of another model ruins the model of everybody.
A reply that fails is dropped and reported with the reason; the round goes on with the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from insitu.errors import DataError
from insitu.federated.catalogue import Program
from insitu.federated.delta import read_delta, read_head
from insitu.federated.units import Arrays


@dataclass(frozen=True)
class Limits:
    """What is plausible: samples behind a reply, and the norm of its change beside the base's and the others'."""

    samples: int = 1_000_000
    norm: float = 10.0  # times the norm of the base (at least 1): a model that moves further has gone astray
    apart: float = 30.0  # times the median norm of the round's replies; honest fleets came to 6.4 (docs/federated.md)


@dataclass(frozen=True, eq=False)
class Reply:
    """A change that passed, of which program, and how many samples it stands for."""

    change: Arrays
    units: Program
    samples: int


def checked_reply(data: object, programs: Mapping[int, Program], base: bytes, arrays: Arrays, limits: Limits) -> Reply:
    """The change in a reply; a DataError that says why it cannot be used."""
    if not isinstance(data, bytes):
        raise DataError("is missing", where="delta")
    head = read_head(data)
    units = programs.get(head.units)
    if units is None:
        raise DataError("belongs to a model or scheme that is not part of this fleet", where="delta")
    change, samples = read_delta(data, units, base)
    if not 1 <= samples <= limits.samples:
        raise DataError(f"says that it stands for {samples:,} samples", where="delta")
    check_change(change, arrays, limits)
    return Reply(change, units, samples)


def check_change(change: Arrays, arrays: Arrays, limits: Limits) -> None:
    """A DataError if a change of these arrays is not finite, or too large."""
    moved, base = norm(change), norm({name: arrays[name] for name in change})
    if not np.isfinite(moved):
        raise DataError("has numbers that are not finite", where="delta")
    if moved > limits.norm * max(base, 1.0):
        raise DataError(f"moves the model by {moved:.3g}, more than {limits.norm:g} times its norm", where="delta")


COMPARED = 3  # replies: from there on, most of them say what is usual
SLIGHT = 0.1  # of the base's norm: a change below this is never too far


def strayed(replies: Sequence[Reply], arrays: Arrays, limits: Limits) -> list[str]:
    """For each reply, why it cannot be averaged with the others, or nothing. Training that diverged, a broken sensor or
    a liar show in a change that is far larger than those of most devices."""
    norms = [norm(r.change) for r in replies]
    if len(replies) < COMPARED:
        return [""] * len(replies)
    usual = float(np.median(norms))
    most = [max(limits.apart * usual, SLIGHT * norm({n: arrays[n] for n in r.change})) for r in replies]
    words = f"{limits.apart:g} times the median of {len(replies)} replies, {usual:.3g}"
    return [f"delta: moves the model by {n:.3g}, more than {words}" if n > m else "" for n, m in zip(norms, most)]


def norm(arrays: Mapping[str, np.ndarray]) -> float:
    with np.errstate(over="ignore"):
        return float(np.sqrt(sum(np.square(a, dtype=np.float64).sum() for a in arrays.values())))
