"""The settings that a caller of `fit` gives, checked; None is what is to be found (settle.py)."""

from __future__ import annotations

from dataclasses import dataclass

from insitu.data.arguments import number, optional, whole
from insitu.errors import DataError
from insitu.learner.course import Course
from insitu.terminal.wording import option
from insitu.training.train import Recipe

WARMUP = 0.1  # of all updates, and at most one epoch


@dataclass(frozen=True)
class Given:
    """The arguments of `fit`; None means to be found."""

    epochs: int | None
    rate: float | None
    head_rate: float | None
    warmup: float | None
    batch: int
    schedule: str
    seed: int
    average: int = 0
    effort: float = 1.0
    kept: bool = False  # is the rate that of the recipe?

    @property
    def open_ended(self) -> bool:
        """Is the number of epochs to be found for a rate that is kept, with batches (kept.py)?"""
        return self.kept and self.epochs is None and self.batch > 1

    def course(self, epochs: int, rate: float) -> Course:
        epochs = self.epochs if self.epochs is not None else epochs
        warmup = min(1.0, WARMUP * epochs) if self.warmup is None else self.warmup
        return Course(epochs, rate, self.batch, self.schedule, warmup, self.seed, self.average)


def given_of(recipe: Recipe, epochs: int | None, rate: float | None, head_rate: float | None, warmup: float | None,
             batch: int, schedule: str | None, seed: int, average: int = 0, effort: float = 1.0) -> Given:  # fmt: skip
    """The arguments of `fit`, as Python's numbers; the recipe's rate, if it has one, is constant without warm-up."""
    kept = rate is None and recipe.rate is not None
    if kept:
        rate, schedule, warmup = recipe.rate, schedule or "constant", warmup or 0.0
    return Given(optional(epochs, "epochs", 1), _number(rate, "the learning rate"),
                 _number(head_rate, "the head's learning rate"), _number(warmup, "the warm-up"), batch,
                 schedule or "cosine", whole(seed, "seed"), whole(average, "average"), number(effort, "effort"),
                 kept)  # fmt: skip


def _number(value, name: str) -> float | None:
    return None if value is None else number(value, name)


def check_given(given: Given, start_epoch: int) -> None:
    """Errors before any work is done."""
    given.course(1, 0.0)  # checks the rest
    if start_epoch and given.open_ended:  # by now the network knows more: it would be another number
        hint = f"{option(epochs='N')}, as the first part said: `planned` of its history"
        raise DataError("a training that goes on needs the number of epochs that it began with", hint=hint)
    if start_epoch and given.rate is None:  # found again, it would be a different one
        hint = f"{option(rate='R')}, as the first part printed or its history says"
        raise DataError("a training that goes on needs the rate that it began with", hint=hint)
