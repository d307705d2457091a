"""A fleet of watches for `insitu fleet simulate --demo watch`: the demo's network and the recordings of its wearers.

Every device belongs to one wearer and has some of their recordings: with ten devices each wearer has one, with more
they share. A device learns from the first windows of its recordings and is tested on those after them.
"""

from __future__ import annotations

import numpy as np

from insitu.demo.lesson import base_learner
from insitu.demo.watch import LEARNED, WEARER, WEARERS, joined, recordings
from insitu.errors import DataError
from insitu.learner import Learner

Samples = tuple[np.ndarray, np.ndarray]
MOST = sum(14 for _ in WEARERS)  # one recording each


def watches(count: int, seed: int = 0, scheme: str = "full") -> tuple[Learner, list[tuple[Samples, Samples]]]:
    """The learner, and for each device its samples and its test samples."""
    if count > MOST:
        raise DataError(f"the demo has {MOST} recordings, so at most that many watches", hint=f"--clients {MOST}")
    shares = {n: (count + i) // len(WEARERS) for i, n in enumerate(reversed(WEARERS))}  # devices of each wearer
    found = []
    for n in WEARERS:
        order = np.random.default_rng((seed, n)).permutation(len(recordings()[n]))
        found += [_device(n, chosen) for chosen in np.array_split(order, shares[n]) if len(chosen)] if shares[n] else []
    return base_learner(WEARER, scheme), found


def _device(wearer: int, chosen: np.ndarray) -> tuple[Samples, Samples]:
    mine = [recordings()[wearer][i] for i in chosen]
    learn, test = joined([r.part(0, LEARNED) for r in mine]), joined([r.part(LEARNED + 1) for r in mine])
    return (learn.x, learn.y), (test.x, test.y)
