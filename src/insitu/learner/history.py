"""The results of a `fit`, epoch by epoch."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from insitu.learner.held_out import Score
from insitu.learner.loop import Epoch
from insitu.learner.measures import MEASURES
from insitu.learner.shown import Picture, curves, history_html, history_text


@dataclass(repr=False)
class History:
    """The results of a `fit`: one entry per epoch."""

    loss: list[float] = field(default_factory=list)
    accuracy: list[float] = field(default_factory=list)  # of each sample just before it was learned from
    error: list[float] = field(default_factory=list)  # the same for the loss mse, which has no accuracy
    validation: list[float] = field(default_factory=list)  # the same of the validation samples
    tested: list[float] = field(default_factory=list)  # the same of test samples, by which nothing is chosen
    losses: list[np.ndarray] = field(default_factory=list, repr=False, compare=False)  # of every sample, in order
    counters: dict[str, int] = field(default_factory=dict)
    cached: bool = False  # did training start from the cached outputs of the frozen layers?
    threads: int = 1
    batch: int = 1  # samples per update
    updates: int = 0
    planned: int = 0  # epochs; `loss` has one number for each that was run
    rate: float = 0.0  # the largest, of the layers before the head where both are trained
    head_rate: float = 0.0
    found: str = ""  # what was not given and had to be found, in words
    settings: str = ""  # the same without the number of epochs
    notes: list[str] = field(default_factory=list)  # warnings: what went wrong, and what to do
    restored: bool = False  # training did not help: the learner is as it was before
    score: Score | None = field(default=None, repr=False)  # of samples that were not learned from
    in_float: bool = False  # of a float network, which became this learner afterwards

    def add(self, epoch: Epoch, loss: str) -> None:
        """Record an epoch of training with this loss."""
        name, measured = MEASURES[loss]
        self.loss.append(epoch.loss)
        self.losses.append(epoch.losses)
        getattr(self, name).append(measured(epoch.outputs[0], epoch.labels) if epoch.outputs else float("nan"))
        self.updates, self.threads = self.updates + epoch.updates, epoch.threads

    def plot(self) -> Picture:
        """Loss and measures over the epochs: a notebook shows it, `.save("curves.svg")` writes it."""
        return Picture(curves(self))

    def __repr__(self) -> str:
        return history_text(self)

    def _repr_html_(self) -> str:
        return history_html(self)

    def __str__(self) -> str:
        way = " from cached outputs of the frozen layers" if self.cached else ""
        ends = f"loss {self.loss[0]:.3f} to {self.loss[-1]:.3f}" if self.loss else "nothing done"
        words = "; ".join(filter(None, [self.settings, *self.notes]))
        return f"{self.epochs}{way}: {ends}{f' ({words})' if words else ''}"

    @property
    def epochs(self) -> str:
        """How many epochs were run, and of how many: "31 epochs", "9 of 31 epochs"."""
        count, planned = len(self.loss), max(self.planned, len(self.loss))
        return f"{count} of {planned} epochs" if count < planned else f"{count} epoch{'' if count == 1 else 's'}"
