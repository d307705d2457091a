"""A small fleet that the tests of federated learning share: four devices, each with a shifted view of one task."""

from __future__ import annotations

import copy
from functools import cache

import numpy as np

import insitu
from tests import learners

CLASSES = 4


def fresh(scheme: str = "full", precision: str = "int8") -> insitu.Learner:
    """A new learner on the small network."""
    return copy.deepcopy(_made(scheme, precision))


@cache
def _made(scheme: str, precision: str) -> insitu.Learner:
    return learners.learner(scheme, precision=precision, data=samples(64, 99)[0])


def samples(count: int, seed: int, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    x, y = learners.data(count, seed=seed)
    return (x + np.float32(shift)).astype(np.float32), y


def members(count: int = 4, each: int = 24) -> list[tuple[np.ndarray, np.ndarray]]:
    return [samples(each + 4 * k, k, shift=0.1 * k) for k in range(count)]
