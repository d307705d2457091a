"""Which trainee a class can spare: without it, the mean of those kept is nearest to the mean of all its samples.

So what is kept of a class stays typical of it (herding), and replay unlearns less than if chance chose. It is asked
where only the head is trained: there the features of a kept sample cost little more than reading it. Float32, added up
in a fixed order: c/device/typical.c gets the same bits. rules.py says when it is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from insitu.training.head import HEAD

if TYPE_CHECKING:
    from insitu.store.life import Life

F = np.float32


class Newcomer(NamedTuple):
    """A sample that arrives: its class, its features, and the mean of the class with it."""

    label: int
    features: np.ndarray
    mean: np.ndarray


def head_alone(life: Life) -> bool:
    """Is nothing but a float head trained?"""
    return set(life.learner.graphs["predict"].state) == {f"{HEAD}.weight", f"{HEAD}.bias"} and life.mind.features > 0


def spared(life: Life, label: int, among: list[int]) -> int:
    """The id of one of these records of a class; the newcomer, if it is one of them, is the last."""
    new = life.newcomer
    kept = [i for i in among if i in life.store.ledger.records]
    latents = life.store.fetch(kept)
    if new is None or None in latents:
        return next((i for i, latent in zip(kept, latents) if latent is None), among[0])
    features = life.mind.recall([one for one in latents if one is not None])[1]
    mean = new.mean if label == new.label else life.store.means.means.get(label)
    if len(kept) < len(among):
        features = np.concatenate([features, new.features[None]])
    return among[least_missed(features.astype(F), np.zeros(features.shape[1], F) if mean is None else mean)]


def least_missed(features: np.ndarray, mean: np.ndarray) -> int:
    """The row without which the mean of the others is nearest to this one; of equals, the first."""
    total = np.add.accumulate(features, 0)[-1]
    apart = (total - features) / F(len(features) - 1) - mean
    return int(np.add.accumulate(apart * apart, 1)[:, -1].argmin())
