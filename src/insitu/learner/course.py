"""The settings of one `fit`: how often, in which order and how fast. Random choices depend only on (seed, epoch)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import cos, pi

import numpy as np

from insitu.data.arguments import number, whole
from insitu.errors import DataError


def cosine(step: int, steps: int, warmup: int) -> float:
    """A rise over `warmup` steps, then half a cosine down to zero."""
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + cos(pi * (step - warmup) / max(1, steps - warmup)))


SCHEDULES: dict[str, Callable[[int, int, int], float]] = {"constant": lambda step, steps, warmup: 1.0, "cosine": cosine}


@dataclass(frozen=True)
class Course:
    """The settings of one `fit`."""

    epochs: int
    rate: float
    batch: int
    schedule: str
    warmup: float
    seed: int
    average: int = 0  # epochs at the end whose states are averaged

    def __post_init__(self) -> None:
        for name in ("epochs", "batch"):
            whole(getattr(self, name), name, 1)
        for name in ("seed", "average"):
            whole(getattr(self, name), name)
        number(self.rate, "the learning rate")
        number(self.warmup, "the warm-up")
        if self.schedule not in SCHEDULES:
            raise DataError(f"unknown schedule {self.schedule!r}", hint=", ".join(SCHEDULES))

    def order(self, epoch: int, count: int) -> np.ndarray:
        """The order of the samples in this epoch."""
        return np.random.default_rng((self.seed, epoch)).permutation(count)

    def rates(self, epoch: int, count: int) -> list[float]:
        """The learning rate of each update in this epoch."""
        each = -(-count // self.batch)
        warmup, rate = int(self.warmup * count / self.batch), SCHEDULES[self.schedule]
        return [self.rate * rate(epoch * each + i, self.epochs * each, warmup) for i in range(each)]
