"""Samples divided among simulated devices: evenly, so that each device has its own mix of classes, or as given."""

from __future__ import annotations

import numpy as np

from insitu.data import Samples
from insitu.errors import DataError
from insitu.terminal.wording import option

Part = tuple[np.ndarray, np.ndarray]  # the indices to learn from, and to test on
TESTED = 5  # every fifth sample of a device is for its test


def divided(data: Samples, clients: int, seed: int = 0, unlike: float | None = None) -> list[Part]:
    """One part per device; `unlike` is the concentration of a Dirichlet distribution: 0.1 very unlike, 100 alike."""
    labels = data.labels
    assert labels is not None  # checked by Learner.samples
    if len(labels) < 2 * clients:
        raise DataError(
            f"{len(labels)} samples are too few for {clients} devices", hint=option(clients=len(labels) // 8)
        )
    rng = np.random.default_rng(seed)
    if unlike is None or labels.ndim > 1:
        parts = np.array_split(rng.permutation(len(labels)), clients)
    else:
        parts = _unlike(labels, clients, unlike, rng)
    return [_tested(rng.permutation(p)) for p in parts]


def kept_apart(data: Samples, seed: int = 0, where: str = "") -> Part:
    """The samples of one device, of which every fifth is for its test; a single one is to learn from."""
    if len(data) == 0:
        raise DataError("a device needs a sample to learn from", where=where)
    return _tested(np.random.default_rng(seed).permutation(len(data)))


def _unlike(labels: np.ndarray, clients: int, unlike: float, rng: np.random.Generator) -> list[np.ndarray]:
    shares = rng.dirichlet(np.full(clients, unlike), len(np.unique(labels)))
    found: list[list[np.ndarray]] = [[] for _ in range(clients)]
    for share, label in zip(shares, np.unique(labels)):
        where = rng.permutation(np.flatnonzero(labels == label))
        for mine, part in zip(found, np.split(where, (np.cumsum(share)[:-1] * len(where)).astype(int))):
            mine.append(part)
    return _filled([np.concatenate(mine) for mine in found])


def _filled(parts: list[np.ndarray]) -> list[np.ndarray]:
    """A device with fewer than two samples takes some from the one with the most."""
    for i in range(len(parts)):
        while len(parts[i]) < 2:
            most = max(range(len(parts)), key=lambda k: len(parts[k]))
            parts[i], parts[most] = np.append(parts[i], parts[most][-1:]), parts[most][:-1]
    return parts


def _tested(part: np.ndarray) -> Part:
    count = max(1, len(part) // TESTED) if len(part) > 1 else 0
    return part[count:], part[:count]
