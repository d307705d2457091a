"""How a watch learns its wearer: a network for everybody, quantised, compiled, and taught window by window.

Any device will do: `teach` only calls `train_step`. The settings were chosen on wearers 1 to 5 (bench/watch.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from insitu.demo.watch import Windows, joined, network, others
from insitu.learner import Learner
from insitu.learner.course import Course
from insitu.pipeline import compile

CALIBRATION = 16  # every 16th window of the other wearers chooses the scales of the int8 network
Report = Callable[[int, int, float], None]  # steps done, steps in all, the mean loss of late


@dataclass(frozen=True)
class Lesson:
    """What is trained, how fast and how long."""

    scheme: str = "last:2"
    rate: float = 0.002
    epochs: int = 20
    replay: int = 0  # windows of other wearers mixed in, against forgetting
    warmup: float = 0.5
    seed: int = 0

    def course(self) -> Course:
        return Course(self.epochs, self.rate, 1, "cosine", self.warmup, self.seed)


LESSON = Lesson()


def base_learner(number: int, scheme: str = LESSON.scheme) -> Learner:
    """The network that has not seen this wearer, in int8, ready to be trained."""
    return compile(network(number), data=others(number).x[::CALIBRATION], scheme=scheme)


def material(number: int, own: Windows, lesson: Lesson) -> Windows:
    """What is learned from: the wearer's own windows, and some of other people's if the lesson says so."""
    if not lesson.replay:
        return own
    everybody = others(number)
    chosen = np.sort(np.random.default_rng((lesson.seed, number)).permutation(len(everybody))[: lesson.replay])
    return joined([own, Windows(everybody.x[chosen], everybody.y[chosen], everybody.arm[chosen])])


def teach(device, samples, lesson: Lesson = LESSON, report: Report | None = None) -> list[float]:
    """Train on a device, an update a sample; the loss of every step. The same bytes as Learner.fit gives."""
    labels, losses, count = samples.y.astype(np.int32), [], len(samples.y)
    for i, rate in steps(lesson.course(), count):
        loss, *_ = device.run("train_step", samples.x[i : i + 1], labels[i : i + 1], np.float32(rate))
        losses.append(float(loss))
        if report:
            report(len(losses), lesson.epochs * count, float(np.mean(losses[-count:])))
    return losses


def steps(course: Course, count: int) -> Iterator[tuple[int, float]]:
    """Which window comes next, and at what rate."""
    for epoch in range(course.epochs):
        yield from zip(course.order(epoch, count), course.rates(epoch, count))
