"""Is a device's reply fit to be averaged? Decided before any strategy sees it.

Averaging one number that is not finite, one huge weight or one delta of another model ruins the model of everybody.
A reply that fails is dropped and reported with the reason; the round goes on with the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from insitu.errors import DataError
from insitu.federated.catalogue import Program
from insitu.federated.delta import read_delta, read_head
from insitu.federated.units import Arrays


@dataclass(frozen=True)
class Limits:
    """What is plausible: samples behind a reply, and the norm of its change relative to the base's."""

    samples: int = 1_000_000
    norm: float = 10.0  # times the norm of the base (at least 1): a model that moves further has gone astray


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
    _check_norm(change, arrays, limits)
    return Reply(change, units, samples)


def _check_norm(change: Arrays, arrays: Arrays, limits: Limits) -> None:
    moved, base = norm(change), norm({name: arrays[name] for name in change})
    if not np.isfinite(moved):
        raise DataError("has numbers that are not finite", where="delta")
    if moved > limits.norm * max(base, 1.0):
        raise DataError(f"moves the model by {moved:.3g}, more than {limits.norm:g} times its norm", where="delta")


def norm(arrays: Mapping[str, np.ndarray]) -> float:
    with np.errstate(over="ignore"):
        return float(np.sqrt(sum(np.square(a, dtype=np.float64).sum() for a in arrays.values())))
