"""Samples for a device: from the data, from stored views of them, or from changed copies made on demand.

Nothing here decides what is trained (fitting.py) or in which order (course.py), or checks data (data/).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from insitu.data import as_inputs
from insitu.devices.device import Arrays, Device
from insitu.errors import DataError
from insitu.graph import Graph
from insitu.learner.pace import Pace
from insitu.terminal.progress import Report

if TYPE_CHECKING:
    from insitu.learner.units import Units

Augment = Callable[[np.ndarray, np.random.Generator], np.ndarray]
Rows = np.ndarray | range  # the numbers of samples


@dataclass(frozen=True, eq=False)
class Source:
    """Where samples come from."""

    rows: Arrays  # one array per input: [samples, views, ...]; a single view if there is an augmentation
    augment: Augment | None = None
    views: int | None = None  # how many fixed changes of each sample the augmentation makes; None: new ones every epoch
    seed: int = 0

    def __len__(self) -> int:
        return len(self.rows[0])

    @property
    def sample_bytes(self) -> int:
        """Bytes that must be made for each sample."""
        return self.rows[0][0].nbytes if self.augment else 0

    def taken(self, chosen: Rows, epoch: int) -> tuple[Arrays, Rows]:
        """Arrays with these samples as this epoch sees them, and the indices of their rows."""
        if self.augment is None:
            return tuple(r[:, epoch % r.shape[1]] for r in self.rows), chosen
        first = np.concatenate([self._changed(self.augment, n, epoch) for n in chosen])
        return (first, *(r[chosen, 0] for r in self.rows[1:])), np.arange(len(chosen))

    def _changed(self, augment: Augment, n: int, epoch: int) -> np.ndarray:
        view = epoch % self.views if self.views else epoch
        return augmented(augment, self.rows[0][n], (self.seed, view, n))


@dataclass(frozen=True, eq=False)
class Feed:
    """Samples, their labels or targets, and the device that learns from them."""

    device: Device
    source: Source
    labels: np.ndarray
    cached: bool = False  # are the samples outputs of the frozen layers?
    chosen: np.ndarray | None = None  # the samples to learn from; None: all
    units: Units | None = None  # that its targets are in, if they are not as they were given

    def __len__(self) -> int:
        return len(self.source) if self.chosen is None else len(self.chosen)

    def part(self, chosen: np.ndarray) -> Feed:
        """The same samples, of which only these are learned from."""
        return replace(self, chosen=chosen)

    def measured_in(self, units: Units) -> Feed:
        """The same with its targets in these units."""
        return replace(self, labels=units.targets(self.labels), units=units)

    def numbered(self, order: np.ndarray) -> np.ndarray:
        """The samples at these places among those to learn from."""
        return order if self.chosen is None else self.chosen[order]


def plain(inputs: Arrays) -> Source:
    """These samples as they are."""
    return Source(tuple(x[:, None] for x in inputs))


def augmented(augment: Augment, sample: np.ndarray, seed: Sequence[int]) -> np.ndarray:
    """A changed copy of one sample [1, ...]; the same seed gives the same change."""
    made = np.ascontiguousarray(augment(sample, np.random.default_rng(seed)))
    if made.shape != sample.shape or made.dtype != sample.dtype:
        raise DataError(f"the augmentation changed {sample.dtype}{sample.shape} to {made.dtype}{made.shape}")
    if made.dtype.kind == "f" and not np.isfinite(made).all():
        raise DataError("the augmentation made a number that is not finite", where=f"sample {seed[-1]}")
    return made


def predict_all(device: Device, source: Source, report: Report | None = None, words: str = "predicting") -> Arrays:
    """The outputs for every view of every sample: one array per output, [samples, views, ...]."""
    views, values = source.views if source.augment and source.views else 1, device.verbs["predict"][1]
    found = tuple(np.empty((len(source), views, *v.shape[1:]), v.type.numpy) for v in values)
    pace = Pace(source.sample_bytes, quick=device.quick)
    for view in range(views):
        for part in pace.parts(len(source)):
            arrays, rows = source.taken(part, view)
            outputs = device.run("predict", *(a[rows[0] : rows[-1] + 1] for a in arrays))
            for place, made in zip(found, outputs):
                place[part.start : part.stop, view] = made
            if report:
                report(words, view * len(source) + part.stop, views * len(source))
    return found


def predicted(device: Device, graph: Graph, given: tuple) -> Any:
    """The outputs for what a user gives: one array, or a tuple of them; of no samples, none."""
    arrays = as_inputs(given, graph)
    if len(arrays[0]):
        return device.predict(*arrays)
    outputs = tuple(np.zeros((0, *v.shape[1:]), v.type.numpy) for v in graph.outputs)
    return outputs[0] if len(outputs) == 1 else outputs
