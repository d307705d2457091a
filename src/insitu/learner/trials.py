"""Short trainings that find how fast to learn: on a part of the samples, compared on those held out.

The search begins at the derived rates (rates.py) and goes up and down in steps of three as long as the held-out samples
get better; of two equal rates, the smaller wins. Every trial has its own schedule, and starts from the same state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from insitu.devices.device import method_of
from insitu.graph import Value
from insitu.learner.course import Course
from insitu.learner.feed import Feed, predict_all
from insitu.learner.held_out import Fold, Score, score, together
from insitu.learner.loop import run_epochs
from insitu.learner.rates import SAMPLES, Gains, Probe, Rates, derived
from insitu.terminal.progress import Report
from insitu.training.head import HEAD
from insitu.training.train import BODY_RATE, Recipe

STEP = 3.0  # from one rate to the next
FARTHEST = 5  # steps away from the derived rate; one for a head
BETTER = 0.05  # of the gain: a larger rate must win by more, because held-out samples flatter it
QUICK = 8, 16  # probes and lead on a board, where every step takes long
HEAD_SAMPLES = 6000  # seen by one trial over all folds: updates of a head cost next to nothing
BODY_SAMPLES, MOST_SAMPLES = 1500, 4000  # the same if other layers learn, as many as WORK allows
WORK = 3e9  # multiply-adds of one trial; twice as many if nothing is known yet, where short trials tell little

State = Mapping[str, np.ndarray]


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
    probes: int = SAMPLES  # to measure gains with
    lead: int = BODY_SAMPLES // 3  # to train a head with before the gain of the body is measured
    samples: int = BODY_SAMPLES  # seen by one trial

    @property
    def both(self) -> bool:
        """Are a head and other layers trained?"""
        return BODY_RATE in self.start

    def before(self) -> Score:
        """The score of the held-out samples without training."""
        self.feed.device.load_arrays(self.start)
        return together([self._score(fold) for fold in self.folds])

    def run(self, rates: Rates) -> tuple[Score, State]:
        """Train with these rates; returns the score over all folds, and the last fold's state."""
        found = []
        for fold in self.folds:
            self.feed.device.load_arrays(with_share(self.start, rates.share))
            train(self.feed, *self._shortened(rates, fold.learn))
            found.append(self._score(fold))
        return together(found), self.feed.device.state()

    def _shortened(self, rates: Rates, learn: np.ndarray) -> tuple[Course, np.ndarray]:
        """The course of a trial, and its samples: at most as many as a trial may use."""
        most = max(self.samples // len(self.folds), self.course.batch)
        learn = np.random.default_rng(self.course.seed).permutation(learn)[:most]
        epochs = min(self.course.epochs, max(1, round(most / len(learn))))
        warmup = self.course.warmup * epochs / self.course.epochs
        return replace(self.course, rate=rates.head, epochs=epochs, warmup=warmup), learn

    def _score(self, fold: Fold) -> Score:
        feed, rows = (self.feed, fold.held) if self.validation is None else (self.validation, slice(None))
        source = replace(feed.source, rows=tuple(r[rows, :1] for r in feed.source.rows), augment=None)
        return score(self.recipe.loss, predict_all(self.feed.device, source)[0][:, 0], feed.labels[rows])


def trial_samples(parameters: tuple[Value, ...], step_macs: int, lost: bool) -> int:
    """How many samples a trial sees, from the work of one update; `lost`: does the network only guess?"""
    if only_head(parameters):
        return HEAD_SAMPLES
    return int(np.clip((2 if lost else 1) * WORK / max(step_macs, 1), BODY_SAMPLES, MOST_SAMPLES))


def only_head(parameters: tuple[Value, ...]) -> bool:
    return all(v.name.startswith(f"{HEAD}.") for v in parameters)


def train(feed: Feed, course: Course, chosen: np.ndarray) -> None:
    """Train on these samples."""
    for _ in run_epochs(feed.part(chosen), course, range(course.epochs), lambda *_: None):
        pass


def with_share(state: State, share: float) -> State:
    """The state with the body's share of the rate."""
    return {**state, BODY_RATE: np.array([share], np.float32)} if BODY_RATE in state else state


# the search -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Best:
    rates: Rates
    score: Score


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
    feed = trials.feed
    chosen = np.random.default_rng(trials.course.seed).permutation(len(feed.source))[: trials.lead]
    feed.device.load_arrays(with_share(trials.start, 0.0))
    epochs = min(trials.course.epochs, max(1, trials.lead // len(chosen)))
    train(feed, replace(trials.course, rate=rates.head, epochs=epochs, warmup=0.0), chosen)
    later = gains_at(trials, feed.device.state())
    return derived(Gains(gains.head, max(gains.body, later.body)), recipe, head)


def search(trials: Trials, rates: Rates, before: Score) -> Best:
    """The best rates near these: first of the body, or of everything that is trained, then of the head."""
    scored: dict[tuple[int, int], Score] = {}

    def cost(head: int, body: int) -> float:
        if (head, body) not in scored:
            trials.report("finding the learning rate", len(scored), 8)
            scored[head, body] = trials.run(rates.times(STEP**head, STEP**body))[0]
        return scored[head, body].cost

    if not trials.both:
        farthest = 1 if only_head(trials.probe.parameters) else FARTHEST
        head, body = climb(lambda k: cost(k, 0), before.cost, farthest), 0
    else:
        body = climb(lambda k: cost(0, k), before.cost)
        head = climb(lambda k: cost(k, body), before.cost, 1)
    return Best(rates.times(STEP**head, STEP**body), scored[head, body])


def climb(cost: Callable[[int], float], before: float, farthest: int = FARTHEST) -> int:
    """The best integer near 0, searched upwards and, if that fails, downwards until it gets worse."""
    best = 0
    while best < farthest and cost(best + 1) < cost(best) - BETTER * min(cost(best), max(before - cost(best), 0.0)):
        best += 1
    while best <= 0 and best > -farthest and cost(best - 1) <= cost(best):
        best -= 1
    return best
