"""The settings that a `fit` was not given, found before it begins: rates, epochs, warm-up, and which samples are held
out.

Given values are used as they are. Rates that are not given are derived (rates.py) and tried (trials.py); watch.py
observes the effect on the held-out samples. If a rate is given, nothing is held out and nothing is tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from insitu.devices.device import method_of
from insitu.learner.advice import (
    advice,
    diverged,
    most_common,
    nothing_to_tell,
    odd_targets,
    one_for_all,
    others,
    same_answer,
)
from insitu.learner.asked import Given
from insitu.learner.choice import MUCH, STEP, Choice, careful, choose, lasting
from insitu.learner.course import Course
from insitu.learner.feed import Feed
from insitu.learner.held_out import (
    Fold,
    Score,
    any_folds,
    clearly,
    folds,
    guess,
    guessed_loss,
    helps,
    known,
    no_better,
    single,
    with_copies,
)
from insitu.learner.here import lasting_names
from insitu.learner.history import History
from insitu.learner.rates import Probe, Rates
from insitu.learner.solved import Solver
from insitu.learner.trials import QUICK, Trials, first_rates, trial_samples
from insitu.learner.watch import Watch
from insitu.learner.work import allowed, measuring
from insitu.terminal.progress import Report
from insitu.terminal.warned import warn
from insitu.terminal.wording import option
from insitu.training.train import BODY_RATE, Recipe

EPOCHS, AT, FEWEST, MOST = 20, 200, 4, 40  # 20 epochs of 200 samples; more of fewer, fewer of more
LONGER = 2  # times as many for a classifier's body, if it knows little: after trials, that costs little
FEW_EPOCHS = 5  # if there are too few samples to hold any out: such fits are often repeated
LARGE = 4000  # from this many samples on, some can be spared for the whole training
CAREFUL = 1 / 3  # of the derived rates: for rates that are not tested
LITTLE = 0.25  # of its task: if trials bring a network no further, they may have been too short to show anything
KNOWN = 0.5  # of its task: from there on, a network has more to lose than a few samples can teach
SOLVED = 1.0  # standard errors by which a solved last layer must be better, if the network knows much
TRIES, SHORT_OF_TIME = 3, 2  # of a training that diverges, each at a third of the rates; if it takes long

RESTING = (
    "of the head alone; without a rate, fit finds out whether more layers should learn; head_rate makes them learn"
)


@dataclass(frozen=True, eq=False)
class Settled:
    """How a training runs: its course, its samples, and its watch."""

    course: Course
    feed: Feed
    rates: Rates
    watch: Watch | None = None
    held: int | None = None  # samples held out; None: nothing had to be found
    solved: Mapping[str, np.ndarray] = field(default_factory=dict)  # a last layer to begin with
    tries: int = 1
    fewer: bool = False  # rates were tried than usual: more would have taken too long
    idle: Mapping[str, np.ndarray] | None = None  # the state that it ends with, if there is nothing to learn

    @property
    def words(self) -> str:
        """One line about the settings that were found."""
        epochs = f"{self.course.epochs} epoch{'s' * (self.course.epochs != 1)}"
        return self._found(f"{epochs} ({self._part})" if self._part else epochs)

    @property
    def beside(self) -> str:
        """The same beside the number of epochs that were run."""
        return self._found(self._part)

    @property
    def _part(self) -> str:
        return f"{self.watch.part:.0%} of the way" if self.watch and self.watch.part < 1 else ""

    def _found(self, training: str) -> str:
        if self.held is None:
            return RESTING if self.rates.body == 0 else ""
        count = len(self.feed.source)
        apart = f"{self.held:,} of {count:,} samples held out" if self.held else f"{count:,} sample{'s' * (count != 1)}"
        trained = [f"{self.rates}", training] if self.rates.head else []
        fewer = [f"fewer rates tried to save time ({option(effort=4)} tries more)"] if self.fewer else []
        units = ["targets in units of their spread"] if self.feed.units else []
        solved = ["last layer solved"] if self.solved else []
        return ", ".join(filter(None, [*units, *solved, *trained, apart, *fewer]))

    def history(self, feed: Feed) -> History:
        """An empty history with the settings."""
        body = self.rates.head if self.rates.body is None else self.rates.body
        return History(cached=feed.cached, batch=self.course.batch, rate=body, head_rate=self.rates.head,
                       planned=self.course.epochs, found=self.words, settings=self.beside)  # fmt: skip

    def moved_to(self, feed: Feed) -> Settled:
        """The same on another device, where samples are predicted only to learn."""
        watch = self.watch
        if watch is not None:
            start = {**feed.device.state(), **self.solved}
            watch = replace(watch, feed=feed, start=start, held=None, validation=None, near=False)
        return replace(self, feed=feed, watch=watch)

    def begin(self) -> Feed:
        """The samples to learn from. The share of the rate for layers before the head is part of the state."""
        moving = self.rates.head and BODY_RATE in lasting_names(self.feed.device)
        share = {BODY_RATE: np.array([self.rates.share], np.float32)} if moving else {}
        if share or self.solved:
            self.feed.device.load_arrays({**self.solved, **share})
        return self.feed

    def last(self, stop_epoch: int | None) -> int:
        """The epoch to stop before."""
        return self.course.epochs if stop_epoch is None else min(stop_epoch, self.course.epochs)

    def goes_on(self, losses: np.ndarray) -> bool:
        """After an epoch with these losses of its samples: is another one worthwhile?"""
        return self.watch is None or self.watch.epoch(self.course.epochs, losses)

    @property
    def reached(self) -> float | None:
        """The best cost of samples that are not learned from, if there are such."""
        return self.watch.best[0].cost if self.watch and self.watch.best else None

    @property
    def score(self) -> Score | None:
        """Of samples that were not learned from: those held out of the training, or of its trial."""
        return self.watch and (self.watch.best[0] if self.watch.best else self.watch.tried)

    def slower(self) -> Settled | None:
        """Did it diverge although the trials did not? Then it begins again, at a third of the rates."""
        if self.watch is None or self.tries >= (SHORT_OF_TIME if self.fewer else TRIES) or not self.watch.astray():
            return None
        self.feed.device.load_arrays(self.watch.start)
        rates, watch = (
            self.rates.times(1 / STEP, 1 / STEP),
            replace(self.watch, scores=[], best=None, losses=[], silent=0),
        )
        course = replace(self.course, rate=rates.head)
        return replace(self, rates=rates, course=course, watch=watch, tries=self.tries + 1)

    def _diverged(self, history: History, loss: str) -> list[str]:
        """A training that was tried is compared with its trial instead (watch.py): losses at a high rate say little."""
        tried = self.watch is not None and self.watch.tried is not None and np.isfinite(history.loss[-1:]).all()
        if tried or not self.rates.head:
            return []
        return [diverged(history, guessed_loss(loss, self.feed.labels), self.held is not None)]

    def _rested(self) -> tuple[str, bool]:
        """A learner that had nothing to learn gets its state back."""
        if self.idle is None:
            return "", False
        self.feed.device.load_arrays(self.idle)
        return "", True

    def _alike(self) -> str:
        """What to say if the samples cannot be told apart, or have one answer."""
        one, left = (
            only_one(self.feed),
            "there is nothing to tell apart" if self.idle is None else "the learner is as it was",
        )
        return f"{one}: {left}. {others()}" if one else same_answer(self.feed.labels)

    def _most_common(self, history: History) -> str:
        """What to say if nearly all samples are of one class, and its name is the answer to all."""
        words = one_for_all(self.feed.labels) if self.watch and self.watch.near and not history.restored else ""
        return words if words and self.watch and (self.watch.answers() == most_common(self.feed.labels)).all() else ""

    def finish(self, history: History, loss: str) -> None:
        """Keep the best state; if that is the initial one, say so."""
        said, history.restored = self.watch.finish() if self.watch else self._rested()
        strange = odd_targets(self.feed.labels) if self.held is not None and loss == "mse" else ""
        common = self._most_common(history)
        history.notes += filter(None, [self._alike(), strange, said, common, *self._diverged(history, loss)])
        for words in history.notes:
            warn(words)


# finding ----------------------------------------------------------------------------------------


def only_one(feed: Feed) -> str:
    """Why the samples of a training cannot be told apart, if they cannot."""
    return nothing_to_tell(feed.labels, () if feed.source.augment else feed.source.rows)


def as_it_was(feed: Feed, given: Given) -> Settled:
    """Nothing can be told apart: one pass at a rate of 0 shows the loss of every sample, and nothing changes."""
    course = replace(given.course(1, 0.0), epochs=1, warmup=0.0)
    return Settled(course, feed, Rates(0.0), None, 0, idle=dict(feed.device.state()))


def usual_epochs(count: int) -> int:
    """More epochs of fewer samples."""
    return int(np.clip(round(EPOCHS * (AT / max(count, 1)) ** (1 / 3)), FEWEST, MOST))


def as_given(feed: Feed, given: Given, share: float = 1.0) -> Settled:
    """If a rate is given, nothing has to be found. `share`: of it, for the layers before the head."""
    assert given.rate is not None
    head = given.rate if given.head_rate is None else given.head_rate
    course = given.course(usual_epochs(len(feed.source)), head)
    both = BODY_RATE in lasting_names(feed.device)
    return Settled(course, feed, Rates(head, share * given.rate if both else None))


def settle(feed: Feed, given: Given, recipe: Recipe, probe: Probe, report: Report,
           validation: Feed | None = None, tries: bool = True, step_macs: int = 0,
           solver: Solver | None = None, inputs: Sequence[np.ndarray] = ()) -> Settled:  # fmt: skip
    """The settings that were not given, found; the device is unchanged. Without `tries`, rates are only derived.

    step_macs is the work of one update, which says how long a trial may be. solver: of a last layer without steps.
    inputs: the samples as they were given, to know copies; outputs of frozen layers may be the same by chance.
    """
    start, count = dict(feed.device.state()), len(feed.source)
    parts = _divided(feed, given.seed, validation, inputs) if tries else []
    course = given.course(usual_epochs(count) if parts else FEW_EPOCHS, 0.0)
    trials = Trials(feed, parts, course, recipe, probe, start, report, validation,
                    *measuring(step_macs, given.effort),
                    work=allowed(course.epochs * count, step_macs, given.effort))  # fmt: skip
    try:
        if not tries:
            report("measuring the learning rate", 0, 0)  # on a board, that takes as long as some fifty updates
            return _untested(replace(trials, probes=QUICK[0], lead=QUICK[1]), given)
        found = _tested(trials, given, step_macs, solver) if parts else _safe(trials, given, solver, inputs)
        if found.watch is not None:
            found.watch.fixed = given.epochs is not None or given.average > 1
        return replace(found, fewer=trials.work.refused)
    finally:
        feed.device.load_arrays(start)


def _divided(feed: Feed, seed: int, validation: Feed | None, inputs: Sequence[np.ndarray]) -> list[Fold]:
    """How the samples are divided for trials; not at all if a part would not fill a batch."""
    whole = Fold(np.arange(len(feed.source)), np.arange(0))
    return _filling(feed, with_copies(folds, feed.labels, seed, inputs) if validation is None else [whole])


def _filling(feed: Feed, parts: list[Fold]) -> list[Fold]:
    """These parts, if each of them fills a batch."""
    least = method_of(feed.device.verbs).samples
    return parts if all(len(fold.learn) >= least for fold in parts) else []


def _with_head(rates: Rates, given: Given) -> Rates:
    return rates if given.head_rate is None else replace(rates, head=given.head_rate)


def _untested(trials: Trials, given: Given) -> Settled:
    """A board on which trials take too long: reduced derived rates. Layers before the head that rest go on resting:
    nobody asked to train them, or a fit found that the head alone is better."""
    rates = _with_head(first_rates(trials).times(CAREFUL, CAREFUL), given)
    rates = rates.alone if trials.both and not trials.start[BODY_RATE][0] else rates
    return Settled(replace(trials.course, rate=rates.head), trials.feed, rates, None, 0)


def _begun(trials: Trials, solver: Solver | None, before: Score, whole: bool) -> tuple[Trials, Score | None]:
    """The trials from a solved last layer, and its score; those from where it was, if that is not worse, or if it is
    not clearly worse and the network knows much: such a layer may lose more than it can gain."""
    if solver is None:
        return trials, None
    made = trials.solved(solver, trials.folds[0].learn if whole else np.arange(len(trials.feed.source)))
    score = made.before()
    much = known(before, guess(trials.recipe.loss, (trials.validation or trials.feed).labels)) >= MUCH
    good = clearly(score, before, SOLVED) if much else helps(score, before)
    return (made, score) if good else (trials, None)


def _only_solved(trials: Trials, solver: Solver, before: Score, solved: Score) -> Settled:
    """Nothing but the last layer is learned: one pass at a rate of 0 shows the loss of every sample."""
    course = replace(trials.course, epochs=1, rate=0.0, warmup=0.0)
    watch = Watch(trials.feed, trials.recipe.loss, trials.start, before, tried=solved, near=False)
    return Settled(course, trials.feed, Rates(0.0), watch, 0, _arrays(trials, solver))


def _arrays(trials: Trials, solver: Solver) -> dict[str, np.ndarray]:
    return {v.name: trials.start[v.name] for v in solver.layer.values}


def _safe(trials: Trials, given: Given, solver: Solver | None, inputs: Sequence[np.ndarray]) -> Settled:
    """Too few samples to choose rates by: reduced ones, of the head alone if most classes have a single sample.

    If the network knows most of them already, each is held out once, and what is learned from the others must help.
    Classes may be missing among those, so this errs on the safe side.
    """
    feed, loss = trials.feed, trials.recipe.loss
    parts = _filling(feed, with_copies(any_folds, feed.labels, given.seed, inputs))
    trials = replace(trials, folds=parts, samples=trials.course.epochs * len(feed.source) * len(parts))
    before = trials.before() if parts else None
    begun, solved = _begun(trials, solver, before, False) if before is not None else (trials, None)
    if before is not None and solver is not None and solved is not None:
        return _only_solved(begun, solver, before, solved)
    rates, watch = _with_head(first_rates(trials).times(CAREFUL, CAREFUL), given), Watch(feed, loss, trials.start)
    if before is not None and known(before, guess(loss, feed.labels)) >= KNOWN:
        found = careful(trials, rates, before)
        watch = Watch(feed, loss, trials.start, before, None, None, found.score, found.helps, part=found.part)
        rates, watch = found.rates, replace(watch, parameters=trials.probe.parameters)
    elif trials.both and single(feed.labels):
        rates = rates.alone
    return Settled(replace(trials.course, rate=rates.head), feed, rates, watch, 0)


def _epochs(trials: Trials, best: Choice, sure: float) -> int:
    """More than usual if layers before the head learn, the network knows little, and the work left allows it."""
    usual, deep = best.times * trials.course.epochs, trials.both and best.rates.body
    more = (LONGER - 1) * usual * len(trials.feed.source)
    return LONGER * usual if deep and sure < MUCH and trials.work.left >= more else usual


def _tested(trials: Trials, given: Given, step_macs: int, solver: Solver | None) -> Settled:
    before, feed, loss = trials.before(), trials.feed, trials.recipe.loss
    guessed = guess(loss, (trials.validation or feed).labels)
    training, lost = trials.course.epochs * len(feed.source), no_better(before, guessed)
    samples = trial_samples(training, step_macs, lost, trials.work.left)
    trials, probe = replace(trials, samples=samples), trials.probe
    words = advice(probe.parameters, trials.recipe, probe.deeper)
    whole = trials.validation is not None or len(feed.source) >= LARGE
    trials, solved = _begun(trials, solver, before, whole)
    if solver and solved and len(solver.layer.values) == len(trials.probe.parameters):
        return _only_solved(trials, solver, before, solved)
    rates, fold = _with_head(first_rates(trials), given), trials.folds[0]
    best = choose(trials, rates, before, guessed, given.head_rate is not None, whole, solved)
    patient = trials.patient(given.epochs or LONGER * trials.course.epochs)
    if patient and max(known(before, guessed), known(best.score, guessed)) < LITTLE:
        start = patient.before()  # of the folds that it has
        best = choose(patient, rates, start, guessed, given.head_rate is not None, whole, solved and start)
    if solver and solved and not best.rates.head:
        return _only_solved(trials, solver, before, solved)
    fixed = given.epochs or whole or not before.better_high
    best = best if fixed or given.head_rate is not None else lasting(trials, rates, best, before, guessed)
    epochs = trials.course.epochs if fixed else _epochs(trials, best, known(before, guessed))
    course = replace(trials.course, rate=best.rates.head, epochs=epochs)
    arrays = _arrays(trials, solver) if solver and solved else {}
    watch = Watch(feed, loss, trials.start, solved or before, fold.held if whole else None, trials.validation,
                  best.score, best.helps, words, best.part, trials.probe.parameters, solver=trials.solver,
                  learned=best.learned)  # fmt: skip
    if not whole:  # all are learned from: the trials say whether it helps
        return Settled(course, feed, best.rates, watch, 0, arrays)
    return Settled(course, feed.part(fold.learn), best.rates, watch, len(fold.held), arrays)
