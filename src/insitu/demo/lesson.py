"""How a watch learns its wearer: a network trained on other people is quantised, compiled, and taught window by window.

Works with a learner on any device. The settings were chosen on wearers 1 to 5 (bench/watch.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from insitu.demo.watch import Windows, joined, network, others
from insitu.learner import History, Learner
from insitu.pipeline import compile
from insitu.terminal.progress import Report
from insitu.training.train import Recipe

GRADIENTS = "s16"  # what `insitu compile --board` takes by default; on the host, they learn the same bytes
CALIBRATION = 16  # every 16th window of the other wearers chooses the scales of the int8 network


@dataclass(frozen=True)
class Lesson:
    """What is trained, how fast and how long."""

    scheme: str = "last:2"
    rate: float = 0.002
    epochs: int = 20
    replay: int = 0  # windows of other wearers mixed in, against forgetting
    warmup: float = 0.5
    seed: int = 0


LESSON = Lesson()


def base_learner(number: int, scheme: str = LESSON.scheme, names: list[str] | None = None) -> Learner:
    """The network that has not seen this wearer, in int8, ready to be trained; with gradients as on a board."""
    return compile(network(number), data=others(number).x[::CALIBRATION], scheme=scheme, classes=names,
                   head_init="own" if names else None, recipe=Recipe(grad=GRADIENTS))  # fmt: skip


def material(number: int, own: Windows, lesson: Lesson) -> Windows:
    """The windows to learn from: the wearer's own, and some of other people if the lesson says so."""
    if not lesson.replay:
        return own
    everybody = others(number)
    chosen = np.sort(np.random.default_rng((lesson.seed, number)).permutation(len(everybody))[: lesson.replay])
    return joined([own, Windows(everybody.x[chosen], everybody.y[chosen], everybody.arm[chosen])])


def teach(learner: Learner, samples, lesson: Lesson = LESSON, progress: Report | None = None) -> History:
    """Train this learner on its device, one update per sample."""
    return learner.fit(
        samples.x, samples.y, epochs=lesson.epochs, rate=lesson.rate, warmup=lesson.warmup, seed=lesson.seed,
        progress=progress,
    )  # fmt: skip
