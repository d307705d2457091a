"""Is a device's reply fit to be averaged? Decided before any strategy sees it.

Averaging one number that is not finite, one huge weight or one delta of another model ruins the model of everybody.
A reply that fails is dropped and reported with the reason; the round goes on with the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

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
    weight: float = 3.0  # times the median number of samples: a reply counts for no more, whatever it claims


@dataclass(frozen=True, eq=False)
class Reply:
    """A change that passed, of which program, for how many samples it counts, and how many it claims."""

    change: Arrays
    units: Program
    samples: int
    claimed: int = 0


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
    return Reply(change, units, samples, samples)


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


def evened(replies: Sequence[Reply], limits: Limits) -> list[Reply]:
    """The replies with weights of which none is far above the others: nobody can look at a device's samples, so a liar
    who claims a million must not outweigh everybody."""
    return [replace(r, samples=w) for r, w in zip(replies, weights([r.samples for r in replies], limits))]


def weights(samples: Sequence[int], limits: Limits) -> list[int]:
    """These numbers, each at most `limits.weight` times their median; of two in the middle, the smaller counts."""
    usual = sorted(samples)[(len(samples) - 1) // 2] if samples else 0
    return [int(min(each, max(1, limits.weight * usual))) for each in samples]


def norm(arrays: Mapping[str, np.ndarray]) -> float:
    with np.errstate(over="ignore"):
        return float(np.sqrt(sum(np.square(a, dtype=np.float64).sum() for a in arrays.values())))
