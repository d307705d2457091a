"""Short trainings on a part of the samples, measured on those held out.

Every trial has its own schedule, and starts from the same state. It is measured at its end and at some points on the
way from its start to its end (between.py). A trial that is clearly worse than another after one fold is given up. Which
rates are tried, and which win: choice.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from insitu.devices.device import method_of
from insitu.graph import Value
from insitu.learner.between import between
from insitu.learner.course import Course
from insitu.learner.feed import Feed, predict_all
from insitu.learner.held_out import Fold, Score, clearly, lost, score
from insitu.learner.loop import run_epochs
from insitu.learner.rates import BOLD, Gains, Probe, Rates, derived
from insitu.learner.solved import Solver
from insitu.learner.work import LEAD, PROBES, Work
from insitu.terminal.progress import Report
from insitu.training.head import HEAD
from insitu.training.train import BODY_RATE, Recipe

QUICK = 8, 16  # probes and lead on a board, where every step takes long
WORK = 3e9  # multiply-adds of a trial, below a second; twice as many if nothing is known yet
SHARE = 0.25, 1.0  # of the training: what a trial may cost at least, over all of its folds, and if there is the work
USUAL = 8  # trials
PARTS = (0.5, 0.75, 1.0)  # of the way from the start to the end of a trial, where it is measured
ENOUGH = 40  # samples held out in a fold: then one is enough to look for rates, where work is short
LONE = 80  # samples held out in the only fold: fewer say little
SILENT = 1e-4  # of the head's gain: below, the body is reached through a head of zeros
PATIENT = 6  # long trials that there must be work for
GIVE_UP = 2.0  # standard errors by which a trial must be worse than another to be given up

State = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Tried:
    """The results of a trial."""

    parts: Mapping[float, Score]  # part of the way -> score over all folds
    outputs: list[np.ndarray] = field(default_factory=list)  # at the end, of each fold
    learned: float = np.inf  # the loss of the samples that it learned from, in its last epoch
    epochs: int = 0

    @property
    def end(self) -> Score:
        return self.parts[1.0]


@dataclass(frozen=True, eq=False)
class Trials:
    """What trials need: samples on a device, how they are divided, and the course that they shorten."""

    feed: Feed
    folds: list[Fold]
    course: Course
    recipe: Recipe
    probe: Probe
    start: State
    report: Report
    validation: Feed | None = None  # samples given for this purpose; without them, the folds' own
    probes: int = PROBES  # to measure gains with
    lead: int = LEAD
    samples: int = 0  # seen by one trial over all folds
    starts: tuple[State, ...] = ()  # where each fold begins, if its last layer was solved from its samples
    solver: Solver | None = None  # of the last layer, at the start and again at the end
    work: Work = field(default_factory=Work)  # what trials may still take

    @property
    def both(self) -> bool:
        """Are a head and other layers trained?"""
        return BODY_RATE in self.start

    @property
    def doubtful(self) -> bool:
        """Are results those of a few samples, because there is no work for more?"""
        return self.validation is None and len(self.folds) == 1 and len(self.folds[0].held) < LONE

    def solved(self, solver: Solver, everything: np.ndarray) -> Trials:
        """The same from a last layer that was solved: in each fold from its samples, for the training from these."""
        features = solver.features(self.start)
        parts = (*(fold.learn for fold in self.folds), everything)
        made = [{**self.start, **solver.on(features, part, self.start)} for part in parts]
        return replace(self, starts=tuple(made[:-1]), start=made[-1], solver=solver)

    def before(self) -> Score:
        """The score of the held-out samples without training."""
        return self.untrained().end

    def untrained(self) -> Tried:
        """The result of no training."""
        outputs = []
        for fold, start in zip(self.folds, self._starts):
            self.feed.device.load_arrays(start)
            outputs.append(self._outputs(fold))
        return Tried({1.0: self._score(outputs)}, outputs)

    def quick(self) -> Trials:
        """The same with the first fold alone, if there is no work for trials in all of them, and if that fold holds out
        enough samples to compare rates by: squared errors, of which a few large ones make up most, never do."""
        few = len(self.folds) == 1 or len(self.folds[0].held) < ENOUGH or self.recipe.loss == "mse"
        if few or self.leaves(USUAL):
            return self
        share = self.samples // len(self.folds)
        return replace(self, folds=self.folds[:1], starts=self.starts[:1], samples=share)

    def longer(self, times: int) -> Trials:
        """The same for so many times the epochs."""
        course = replace(self.course, epochs=times * self.course.epochs)
        return replace(self, course=course, samples=times * self.samples)

    def patient(self, epochs: int) -> Trials | None:
        """The same as long as a training, which some networks need before anything shows; in the first fold alone, if
        there is work for no more, or not at all. None as well if they are that long already."""
        for folds in (self.folds, self.folds[:1]):
            samples = epochs * sum(len(fold.learn) for fold in folds)
            made = replace(self, folds=folds, starts=self.starts[: len(folds)], samples=samples,
                           course=replace(self.course, epochs=epochs))  # fmt: skip
            if samples > self.samples and made.leaves(PATIENT):
                return made
        return None

    def leaves(self, trials: int) -> bool:
        """Is there work left for so many trials and the training itself, without doing less elsewhere?"""
        training = self.course.epochs * len(self.feed.source)
        return self.work.left >= trials * sum(self._size(fold) for fold in self.folds) + training

    @property
    def parts(self) -> tuple[float, ...]:
        """The points to measure at; a layer that is solved at the end would have to be solved at each of them."""
        return PARTS if self.solver is None else PARTS[-1:]

    @property
    def _starts(self) -> Sequence[State]:
        return self.starts or [self.start] * len(self.folds)

    def run(self, rates: Rates, rival: Tried | None = None) -> Tried:
        """Train with these rates in every fold, unless the first ones show that the rival is clearly better."""
        found: dict[float, list[np.ndarray]] = {part: [] for part in self.parts}
        learned = []
        for fold, start in zip(self.folds, (with_share(s, rates.share) for s in self._starts)):
            self.feed.device.load_arrays(start)
            learned.append(self._train(rates, fold))
            end = dict(self.feed.device.state())
            for part in self.parts:
                made = between(start, end, part, self.probe.parameters) if part < 1 else end
                self.feed.device.load_arrays(self.solver.again(made, fold.learn) if self.solver else made)
                found[part].append(self._outputs(fold))
            if rival is not None and self._hopeless(found[1.0], rival):
                return Tried({1.0: lost(self._score(found[1.0]))})
        scores = {part: self._score(outputs) for part, outputs in found.items()}
        return Tried(scores, found[1.0], float(np.mean(learned)), self.epochs)

    @property
    def epochs(self) -> int:
        """Of a trial."""
        return self._shortened(Rates(0.0), self.folds[0].learn)[0].epochs

    def _train(self, rates: Rates, fold: Fold) -> float:
        course, chosen = self._shortened(rates, fold.learn)
        self.work.take(course.epochs * len(chosen))
        return train(self.feed, course, chosen)

    @property
    def affordable(self) -> bool:
        """May another trial begin?"""
        return self.work.allows(sum(self._size(fold) for fold in self.folds))

    def _size(self, fold: Fold) -> int:
        """The samples that a trial sees in this fold."""
        course, chosen = self._shortened(Rates(0.0), fold.learn)
        return course.epochs * len(chosen)

    def _hopeless(self, outputs: list[np.ndarray], rival: Tried) -> bool:
        """Is the rival clearly better in the folds so far?"""
        count = len(outputs)
        if count == len(self.folds) or len(rival.outputs) < count:
            return False
        return clearly(self._score(rival.outputs[:count]), self._score(outputs), GIVE_UP)

    def _shortened(self, rates: Rates, learn: np.ndarray) -> tuple[Course, np.ndarray]:
        """The course of a trial, and its samples: at most as many as a trial may use."""
        most = max(self.samples // len(self.folds), self.course.batch)
        learn = np.random.default_rng(self.course.seed).permutation(learn)[:most]
        epochs = min(self.course.epochs, max(1, round(most / len(learn))))
        share = epochs / self.course.epochs
        shorter = {"warmup": self.course.warmup * share, "average": round(self.course.average * share)}
        return replace(self.course, rate=rates.head, epochs=epochs, **shorter), learn

    def _outputs(self, fold: Fold) -> np.ndarray:
        feed, rows = (self.feed, fold.held) if self.validation is None else (self.validation, slice(None))
        source = replace(feed.source, rows=tuple(r[rows, :1] for r in feed.source.rows), augment=None)
        return predict_all(self.feed.device, source)[0][:, 0]

    def _score(self, outputs: list[np.ndarray]) -> Score:
        """The score of the outputs for the samples of the first folds, or of all."""
        folds = self.folds[: len(outputs)]
        held = [self.feed.labels[f.held] for f in folds] if self.validation is None else [self.validation.labels]
        return score(self.recipe.loss, np.concatenate(outputs), np.concatenate(held))


def trial_samples(training: int, step_macs: int, lost: bool, left: float) -> int:
    """How many samples a trial sees, from those of the training, the work of one update, and what all trials may see.

    `lost`: does the network only guess? Layers before the head need longer to show what they gain than the head does.
    """
    share = min(max(left / (USUAL * training), SHARE[0]), SHARE[1])
    return int(max(share * training, (2 if lost else 1) * WORK / max(step_macs, 1)))


def only_head(parameters: tuple[Value, ...]) -> bool:
    return all(v.name.startswith(f"{HEAD}.") for v in parameters)


def train(feed: Feed, course: Course, chosen: np.ndarray) -> float:
    """Train on these samples; returns their loss in the last epoch, each just before it was learned from."""
    loss = np.inf
    for epoch in run_epochs(feed.part(chosen), course, range(course.epochs), lambda *_: None):
        loss = epoch.loss
    return loss


def with_share(state: State, share: float) -> State:
    """The state with the body's share of the rate."""
    return {**state, BODY_RATE: np.array([share], np.float32)} if BODY_RATE in state else state


# the first rates ----------------------------------------------------------------------------------


def gains_at(trials: Trials, state: State) -> Gains:
    """The gains over a few samples, from this state."""
    feed, count = trials.feed, method_of(trials.feed.device.verbs).samples
    chosen = np.random.default_rng(trials.course.seed).permutation(len(feed.source))[: trials.probes * count]
    groups = [chosen[i : i + count] for i in range(0, len(chosen) - count + 1, count)]
    samples = [(*(r[g, 0] for r in feed.source.rows), feed.labels[g]) for g in groups]
    return trials.probe.gains(state, samples)


def first_rates(trials: Trials) -> Rates:
    """The derived rates. Through a head of zeros nothing reaches the body: it is measured after the head learned."""
    gains, recipe = gains_at(trials, trials.start), trials.recipe
    head = any(v.name.startswith(f"{HEAD}.") for v in trials.probe.parameters)
    rates = derived(gains, recipe, head)
    if not trials.both:
        return rates
    if trials.starts and gains.body > SILENT * gains.head:  # a solved head is where it will be
        return rates.times(1.0, BOLD)
    feed = trials.feed
    chosen = np.random.default_rng(trials.course.seed).permutation(len(feed.source))[: trials.lead]
    feed.device.load_arrays(with_share(trials.start, 0.0))
    epochs = min(trials.course.epochs, max(1, trials.lead // len(chosen)))
    train(feed, replace(trials.course, rate=rates.head, epochs=epochs, warmup=0.0, average=0), chosen)
    later = gains_at(trials, feed.device.state())
    return derived(Gains(gains.head, max(gains.body, later.body)), recipe, head)
