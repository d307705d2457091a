"""A fleet of watches for `insitu fleet simulate --demo watch`: a network that knows two people, and eight others.

Every device belongs to one of the eight wearers and has some of their recordings: with eight devices each wearer has
one, with more they share. A device learns from the first windows of its recordings and is tested on those after them.
The network has never seen any of the eight (scripts/train_watch.py --few made it).
"""

from __future__ import annotations

import numpy as np

from insitu.demo.lesson import CALIBRATION, GRADIENTS
from insitu.demo.watch import LEARNED, NETWORKS, WEARERS, joined, recordings
from insitu.errors import DataError
from insitu.learner import Learner
from insitu.pipeline import compile
from insitu.training.train import Recipe

Samples = tuple[np.ndarray, np.ndarray]
FEW = (1, 2)  # the wearers whose recordings made the network
FEW_NETWORK = NETWORKS / "few.onnx"
FLEET = tuple(n for n in WEARERS if n not in FEW)
MOST = 14 * len(FLEET)  # one recording each


def watches(count: int, seed: int = 0, scheme: str = "full") -> tuple[Learner, list[tuple[Samples, Samples]]]:
    """The learner, and for each device its samples and its test samples."""
    if count > MOST:
        raise DataError(f"the demo has {MOST} recordings, so at most that many watches", hint=f"--clients {MOST}")
    shares = {n: (count + i) // len(FLEET) for i, n in enumerate(reversed(FLEET))}  # devices of each wearer
    found = []
    for n in FLEET:
        order = np.random.default_rng((seed, n)).permutation(len(recordings()[n]))
        found += [_device(n, chosen) for chosen in np.array_split(order, shares[n]) if len(chosen)] if shares[n] else []
    return _learner(scheme), found


def _learner(scheme: str) -> Learner:
    """The network of two wearers in int8, ready to be trained; with gradients as on a board."""
    seen = joined([r.part(0) for n in FEW for r in recordings()[n]])
    return compile(FEW_NETWORK, data=seen.x[:: CALIBRATION // 4], scheme=scheme, recipe=Recipe(grad=GRADIENTS))


def _device(wearer: int, chosen: np.ndarray) -> tuple[Samples, Samples]:
    mine = [recordings()[wearer][i] for i in chosen]
    learn, test = joined([r.part(0, LEARNED) for r in mine]), joined([r.part(LEARNED + 1) for r in mine])
    return (learn.x, learn.y), (test.x, test.y)
