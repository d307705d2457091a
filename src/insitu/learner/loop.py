"""The one training loop: the epochs of every `fit`, on every device.

course.py sets the order and the rates, feed.py has the samples, the device makes the updates (devices/device.py), and
history.py records the results.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from insitu.devices.device import Arrays, Method, Trained, Updates, method_of
from insitu.errors import DataError
from insitu.learner.average import Mean
from insitu.learner.course import Course
from insitu.learner.feed import Feed
from insitu.learner.pace import Pace
from insitu.terminal.progress import Report

RECENT = 256  # samples whose mean loss is shown


@dataclass(frozen=True, eq=False)
class Epoch:
    """The results of an epoch for each of its samples, just before it was learned from."""

    losses: np.ndarray
    outputs: Arrays
    labels: np.ndarray
    updates: int
    threads: int

    @property
    def loss(self) -> float:
        return float(self.losses.mean(dtype=np.float64))


def run_epochs(feed: Feed, course: Course, epochs: range, report: Report,
               threads: int | None = None) -> Iterator[Epoch]:  # fmt: skip
    """One epoch after the other."""
    method = method_of(feed.device.verbs)
    made = feed.source.sample_bytes if method.samples == 1 else feed.source.rows[0][0].nbytes
    pace = Pace(made, course.batch, feed.device.quick)
    mean = Mean(averaged(course, epochs))
    if epochs and not feed.device.quick:  # its first update may take minutes: say what it is doing
        report(f"epoch {epochs.start + 1} of {course.epochs}", epochs.start * len(feed), course.epochs * len(feed))
    for epoch in epochs:
        made = run_epoch(feed, course, epoch, used(method, course, feed, epoch), pace, report, threads)
        mean.add(feed.device, course.epochs - 1 - epoch)
        yield made


def averaged(course: Course, epochs: range) -> int:
    """How many of the last epochs are averaged; those of an earlier call are gone."""
    count = min(course.average, course.epochs)
    if count > 1 and epochs and epochs.start > course.epochs - count:
        hint = f"start_epoch={course.epochs - count} at most, or average=0"
        raise DataError(f"the last {count} epochs cannot be averaged: the first of them is over", hint=hint)
    return count


def used(method: Method, course: Course, feed: Feed, epoch: int) -> np.ndarray:
    """The order of an epoch. If a batch is taken at once, the epoch's first samples also fill up its last batch."""
    count = len(feed)
    if count < method.samples:
        raise DataError(f"{count} samples do not make a batch of {method.samples}")
    order = feed.numbered(course.order(epoch, count))
    return order if method.adds_up else np.concatenate([order, order[: -count % method.samples]])


def run_epoch(feed: Feed, course: Course, epoch: int, order: np.ndarray, pace: Pace, report: Report,
              threads: int | None) -> Epoch:  # fmt: skip
    rates, parts, recent = iter(course.rates(epoch, len(feed))), [], np.zeros(0, np.float32)
    for part in pace.parts(len(order)):
        chosen = order[part.start : part.stop]
        parts.append(feed.device.train(updates_of(feed, chosen, epoch, rates, course.batch, threads)))
        recent = np.concatenate([recent, parts[-1].losses])[-RECENT:]
        words = f"epoch {epoch + 1} of {course.epochs}, loss {float(recent.mean(dtype=np.float64)):.3f}"
        report(words, epoch * len(order) + part.stop, course.epochs * len(order))
    return joined(parts, feed.labels[order], -(-len(order) // course.batch))


def updates_of(feed: Feed, chosen: np.ndarray, epoch: int, rates: Iterator[float], batch: int,
               threads: int | None) -> Updates:  # fmt: skip
    """The updates of some samples, in batches; each uses the next rate."""
    arrays, rows = feed.source.taken(chosen, epoch)
    labels = feed.labels if rows is chosen else feed.labels[chosen]
    own = list(islice(rates, -(-len(chosen) // batch)))
    return Updates((*arrays, labels), rows, own, batch, threads)


def joined(parts: list[Trained], labels: np.ndarray, updates: int) -> Epoch:
    first = parts[0]
    if len(parts) == 1:
        return Epoch(first.losses, first.outputs, labels, updates, first.threads)
    outputs = tuple(np.concatenate(each) for each in zip(*(part.outputs for part in parts)))
    return Epoch(np.concatenate([part.losses for part in parts]), outputs, labels, updates, first.threads)
