"""The updates of one epoch on a device of this machine, and nothing else: learner.py says what is fed to them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from insitu.data import Samples
from insitu.devices.host import HostDevice
from insitu.errors import DataError
from insitu.learner.feed import Crew, Feed
from insitu.progress import Report

STEPS_A_REPORT = 256


class Results:
    """Runs the updates of one epoch; losses and outputs are written where they can be summed up afterwards."""

    def __init__(self, device: HostDevice, data: Samples, order: list[int]):
        assert data.labels is not None
        self.device, self.order, self.y = device, order, data.labels
        verb = "accumulate" if "accumulate" in device.routines else "train_step"
        loss, *others = device.routines[verb].outputs
        self.losses = np.zeros(len(order), np.float32)
        self.outputs = [np.zeros((len(order), *v.shape[1:]), v.type.numpy) for v in others]
        self._ends = [(o.ctypes.data, v.type.bytes) for o, v in zip((self.losses, *self.outputs), (loss, *others))]
        self._label = self.y.ctypes.data, self.y[0].nbytes

    def steps(self, feed: Feed, rates: list[float], epoch: int, report: Report) -> None:
        """An update a sample. The loop is kept bare: on small models Python would take longer than the C."""
        call, locate, (label, label_bytes) = feed.device.bound("train_step"), feed.locate(), self._label
        (loss, _), *others = self._ends
        for first in range(0, len(self.order), STEPS_A_REPORT):
            for i, n in enumerate(self.order[first : first + STEPS_A_REPORT], first):
                where, _keep = locate(n, epoch)
                ends = [start + i * size for start, size in others]
                call(*where, label + n * label_bytes, rates[i], loss + 4 * i, *ends)
            report(self._words(epoch, first), first, len(self.order))

    def batches(self, crew: Crew, batch: int, rates: list[float], epoch: int, report: Report) -> None:
        apply, (label, label_bytes) = crew.feed.device.bound("apply"), self._label
        for i, first in enumerate(range(0, len(self.order), batch)):
            chosen = self.order[first : first + batch]
            crew.accumulate(
                chosen, epoch, lambda k, f=first: [s + (f + k) * size for s, size in self._ends],
                lambda n: label + n * label_bytes,
            )  # fmt: skip
            apply(rates[i], float(np.float32(1 / len(chosen))))
            report(self._words(epoch, first), first, len(self.order))

    def together(self, feed: Feed, batch: int, rates: list[float], epoch: int, report: Report) -> None:
        """All samples of a batch at once. What is left over at the end of an epoch waits for another one."""
        if len(self.order) < batch:
            raise DataError(f"{len(self.order)} samples do not make a batch of {batch}")
        call, (loss, *others) = feed.device.bound("train_step"), self._ends
        for i, first in enumerate(range(0, len(self.order) - batch + 1, batch)):
            chosen = self.order[first : first + batch]
            inputs, labels = feed.gathered(chosen, epoch), np.ascontiguousarray(self.y[chosen])
            ends = [start + i * size for start, size in others]
            call(*(x.ctypes.data for x in inputs), labels.ctypes.data, rates[i], loss[0] + 4 * first, *ends)
            self.losses[first : first + batch] = self.losses[first]
            report(self._words(epoch, first), first, len(self.order))
        done = len(self.order) // batch * batch
        self.order, self.losses = self.order[:done], self.losses[:done]
        self.outputs = [o[:done] for o in self.outputs]

    def _words(self, epoch: int, first: int) -> str:
        recent = self.losses[max(0, first - 256) : first + 1]
        return f"epoch {epoch + 1}, loss {float(recent.mean()):.3f}"

    @property
    def loss(self) -> float:
        return float(self.losses.mean(dtype=np.float64))

    def measured(self, measure: Callable[[np.ndarray, np.ndarray], float]) -> float:
        """How good the outputs were, just before each sample was learned from."""
        return measure(self.outputs[0], self.y[self.order]) if self.outputs else float("nan")
