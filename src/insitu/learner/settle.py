"""The settings that a `fit` was not given, found before it begins: rates, epochs, warm-up, and which samples are held
out.

Given values are used as they are. Rates that are not given are derived (rates.py) and tried (trials.py); watch.py
observes the effect on the held-out samples. If a rate is given, nothing is held out and nothing is tried.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np

from insitu.data.arguments import number, optional
from insitu.devices.device import method_of
from insitu.errors import DataError, LearningWarning
from insitu.graph import Value
from insitu.learner.choice import STEP, careful, choose
from insitu.learner.course import Course
from insitu.learner.feed import Feed
from insitu.learner.held_out import Fold, any_folds, folds, guess, known, no_better, single
from insitu.learner.history import History
from insitu.learner.rates import Probe, Rates
from insitu.learner.trials import QUICK, Trials, first_rates, only_head, trial_samples
from insitu.learner.watch import Watch
from insitu.terminal.progress import Report
from insitu.terminal.wording import option
from insitu.training.train import BODY_RATE, Recipe

WARMUP = 0.1  # of all updates, and at most one epoch
EPOCHS, AT, FEWEST, MOST = 20, 200, 4, 40  # 20 epochs of 200 samples; more of fewer, fewer of more
FEW_EPOCHS = 5  # if there are too few samples to hold any out: such fits are often repeated
LARGE = 4000  # from this many samples on, some can be spared for the whole training
DIVERGED = 1.5  # times the loss of the first samples
FAR_BELOW = 0.5  # of the loss of guessing: whatever ends there has not diverged
CAREFUL = 1 / 3  # of the derived rates: for rates that are not tested
KNOWN = 0.5  # of its task: from there on, a network has more to lose than a few samples can teach
TRIES = 3  # of a training that diverges, each at a third of the rates


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

    def course(self, epochs: int, rate: float) -> Course:
        epochs = self.epochs if self.epochs is not None else epochs
        warmup = min(1.0, WARMUP * epochs) if self.warmup is None else self.warmup
        return Course(epochs, rate, self.batch, self.schedule, warmup, self.seed, self.average)


def given_of(recipe: Recipe, epochs: int | None, rate: float | None, head_rate: float | None, warmup: float | None,
             batch: int, schedule: str | None, seed: int, average: int = 0) -> Given:  # fmt: skip
    """The arguments of `fit`; the recipe's own rate, if it has one, is constant and needs no warm-up."""
    if rate is None and recipe.rate is not None:
        rate, schedule, warmup = recipe.rate, schedule or "constant", warmup or 0.0
    return Given(epochs, rate, head_rate, warmup, batch, schedule or "cosine", seed, average)


def check_given(given: Given, start_epoch: int) -> None:
    """Errors before any work is done."""
    optional(given.epochs, "epochs", 1)
    for value, name in ((given.rate, "the learning rate"), (given.head_rate, "the head's learning rate")):
        if value is not None:
            number(value, name)
    given.course(1, 0.0)  # checks the rest
    if start_epoch and given.rate is None:  # found again, it would be a different one
        hint = f"{option(rate='R')}, as the first part printed or its history says"
        raise DataError("a training that goes on needs the rate that it began with", hint=hint)


@dataclass(frozen=True, eq=False)
class Settled:
    """How a training runs: its course, its samples, and its watch."""

    course: Course
    feed: Feed
    rates: Rates
    watch: Watch | None = None
    held: int | None = None  # samples held out; None: nothing had to be found
    tries: int = 1

    @property
    def words(self) -> str:
        """One line about the settings that were found."""
        if self.held is None:
            return ""
        count = len(self.feed.source)
        apart = f"{self.held:,} of {count:,} samples held out" if self.held else f"{count:,} samples"
        part = f" ({self.watch.part:.0%} of the way)" if self.watch and self.watch.part < 1 else ""
        return f"{self.rates}, {self.course.epochs} epochs{part}, {apart}"

    def history(self, feed: Feed) -> History:
        """An empty history with the settings."""
        body = self.rates.head if self.rates.body is None else self.rates.body
        return History(cached=feed.cached, batch=self.course.batch, rate=body, head_rate=self.rates.head,
                       found=self.words)  # fmt: skip

    def moved_to(self, feed: Feed) -> Settled:
        """The same on another device, where samples are predicted only to learn."""
        watch = self.watch
        if watch is not None:
            start = dict(feed.device.state())
            watch = replace(watch, feed=feed, start=start, held=None, validation=None, near=False)
        return replace(self, feed=feed, watch=watch)

    def begin(self) -> Feed:
        """The samples to learn from. The share of the rate for layers before the head is part of the state."""
        if BODY_RATE in self.feed.device.state():
            self.feed.device.load_arrays({BODY_RATE: np.array([self.rates.share], np.float32)})
        return self.feed

    def last(self, stop_epoch: int | None) -> int:
        """The epoch to stop before."""
        return self.course.epochs if stop_epoch is None else min(stop_epoch, self.course.epochs)

    def goes_on(self) -> bool:
        """After an epoch: is another one worthwhile?"""
        return self.watch is None or self.watch.epoch(self.course.epochs)

    def slower(self) -> Settled | None:
        """Did it diverge although the trials did not? Then it begins again, at a third of the rates."""
        if self.watch is None or self.tries >= TRIES or not self.watch.astray():
            return None
        self.feed.device.load_arrays(self.watch.start)
        rates, watch = self.rates.times(1 / STEP, 1 / STEP), replace(self.watch, scores=[], best=None)
        course = replace(self.course, rate=rates.head)
        return replace(self, rates=rates, course=course, watch=watch, tries=self.tries + 1)

    def finish(self, history: History, loss: str) -> None:
        """Keep the best state; if that is the initial one, say so."""
        said, history.restored = self.watch.finish() if self.watch else ("", False)
        history.notes += filter(
            None, [same_answer(self.feed.labels), said, diverged(history, guess(loss, self.feed.labels).loss)]
        )
        for words in history.notes:
            warnings.warn(words, LearningWarning, stacklevel=6)


def advice(parameters: tuple[Value, ...], recipe: Recipe) -> str:
    """What to try if these parameters did not learn with this recipe."""
    if only_head(parameters):
        return f"more samples, a scheme that trains more layers ({option(scheme='last:4')}) or a rate of your own"
    if any(v.dtype == "s8" for v in parameters):
        way = option(precision="float", batch=8, optimizer="adam")
        return f"more samples, another arithmetic ({way}) or a rate of your own"
    adam = "" if recipe.optimizer == "adam" else f"Adam ({option(batch=8, optimizer='adam')}), "
    return f"more samples, {adam}another scheme or a rate of your own"


def same_answer(labels: np.ndarray) -> str:
    """The message if every sample has the same class or target."""
    if len(labels) < 2 or (labels != labels[:1]).any():
        return ""
    what = "all samples belong to one class" if labels.dtype.kind == "i" else "all targets are the same"
    return f"{what}: there is nothing to tell apart. Add samples of the others"


def diverged(history: History, guessed: float) -> str:
    """The message if training diverged: the last epoch's loss is far above that of the first samples, and no longer
    far below that of guessing.
    """
    if not history.loss or history.restored:
        return ""
    first, last = float(np.mean(history.losses[0][: max(8, len(history.losses[0]) // 20)])), history.loss[-1]
    if np.isfinite(last) and np.isfinite(first) and last <= max(DIVERGED * first + 1e-6, FAR_BELOW * guessed):
        return ""
    return f"training diverged (loss {first:.3g} to {last:.3g}): a smaller rate, or none to have one found"


# finding ----------------------------------------------------------------------------------------


def usual_epochs(count: int) -> int:
    """More epochs of fewer samples."""
    return int(np.clip(round(EPOCHS * (AT / max(count, 1)) ** (1 / 3)), FEWEST, MOST))


def as_given(feed: Feed, given: Given, share: float = 1.0) -> Settled:
    """If a rate is given, nothing has to be found. `share`: of it, for the layers before the head."""
    assert given.rate is not None
    head = given.rate if given.head_rate is None else given.head_rate
    course = given.course(usual_epochs(len(feed.source)), head)
    both = BODY_RATE in feed.device.state()
    return Settled(course, feed, Rates(head, share * given.rate if both else None))


def settle(feed: Feed, given: Given, recipe: Recipe, probe: Probe, report: Report,
           validation: Feed | None = None, tries: bool = True, step_macs: int = 0) -> Settled:  # fmt: skip
    """The settings that were not given, found; the device is unchanged. Without `tries`, rates are only derived.

    step_macs is the work of one update, which says how long a trial may be.
    """
    start, count = dict(feed.device.state()), len(feed.source)
    parts = _divided(feed, given.seed, validation) if tries else []
    course = given.course(usual_epochs(count) if parts else FEW_EPOCHS, 0.0)
    trials = Trials(feed, parts, course, recipe, probe, start, report, validation, *(() if tries else QUICK))
    try:
        return (
            _tested(trials, given, step_macs) if parts else _safe(trials, given) if tries else _untested(trials, given)
        )
    finally:
        feed.device.load_arrays(start)


def _divided(feed: Feed, seed: int, validation: Feed | None) -> list[Fold]:
    """How the samples are divided for trials; not at all if a part would not fill a batch."""
    whole = Fold(np.arange(len(feed.source)), np.arange(0))
    return _filling(feed, folds(feed.labels, seed) if validation is None else [whole])


def _filling(feed: Feed, parts: list[Fold]) -> list[Fold]:
    """These parts, if each of them fills a batch."""
    least = method_of(feed.device.verbs).samples
    return parts if all(len(fold.learn) >= least for fold in parts) else []


def _with_head(rates: Rates, given: Given) -> Rates:
    return rates if given.head_rate is None else replace(rates, head=given.head_rate)


def _untested(trials: Trials, given: Given) -> Settled:
    """A board on which trials take too long: reduced derived rates."""
    rates = _with_head(first_rates(trials).times(CAREFUL, CAREFUL), given)
    return Settled(replace(trials.course, rate=rates.head), trials.feed, rates, None, 0)


def _safe(trials: Trials, given: Given) -> Settled:
    """Too few samples to choose rates by: reduced ones, of the head alone if most classes have a single sample.

    If the network knows most of them already, each is held out once, and what is learned from the others must help.
    Classes may be missing among those, so this errs on the safe side.
    """
    rates, feed, loss = _with_head(first_rates(trials).times(CAREFUL, CAREFUL), given), trials.feed, trials.recipe.loss
    parts = _filling(feed, any_folds(feed.labels, given.seed))
    trials = replace(trials, folds=parts, samples=trials.course.epochs * len(feed.source) * len(parts))
    before, watch = trials.before() if parts else None, Watch(feed, loss, trials.start)
    if before is not None and known(before, guess(loss, feed.labels)) >= KNOWN:
        found = careful(trials, rates, before)
        watch = Watch(feed, loss, trials.start, before, None, None, found.score, found.helps, part=found.part)
        rates, watch = found.rates, replace(watch, parameters=trials.probe.parameters)
    elif trials.both and single(feed.labels):
        rates = rates.alone
    return Settled(replace(trials.course, rate=rates.head), feed, rates, watch, 0)


def _tested(trials: Trials, given: Given, step_macs: int) -> Settled:
    before, feed, loss = trials.before(), trials.feed, trials.recipe.loss
    guessed = guess(loss, (trials.validation or feed).labels)
    samples = trial_samples(len(feed.source), trials.course.epochs, step_macs, no_better(before, guessed))
    trials, words = replace(trials, samples=samples), advice(trials.probe.parameters, trials.recipe)
    whole = trials.validation is not None or len(feed.source) >= LARGE
    best = choose(trials, _with_head(first_rates(trials), given), before, guessed, given.head_rate is not None, whole)
    course, fold = replace(trials.course, rate=best.rates.head), trials.folds[0]
    watch = Watch(feed, loss, trials.start, before, fold.held if whole else None, trials.validation, best.score,
                  best.helps, words, best.part, trials.probe.parameters)  # fmt: skip
    if not whole:  # all are learned from: the trials say whether it helps
        return Settled(course, feed, best.rates, watch, 0)
    return Settled(course, feed.part(fold.learn), best.rates, watch, len(fold.held))
