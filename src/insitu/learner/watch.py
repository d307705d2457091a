"""Watches a training that chose its own rates: keeps the best state, or the initial one if nothing was better.

With a held-out part (or validation samples) it measures after every epoch. If all samples are learned from, the earlier
trials say whether training helps (`tried`), and the samples themselves whether it diverged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from insitu.graph import Value
from insitu.learner.advice import one_for_all
from insitu.learner.between import between
from insitu.learner.feed import Feed, predict_all
from insitu.learner.held_out import MOST, Score, any_folds, change, clearly, guess, helps, no_better, score
from insitu.learner.solved import Solver

FAR, NEAR = 1.1, 0.02  # how far above a trial's result a training may end, as a share and in addition
STEADY = 1.5, 0.05  # the same for the loss of the samples learned from
ERRORS = 2.0  # standard errors by which it must also be above
TINY = 1e-6  # loss of guessing, if there is only one answer
PATIENCE = 3  # epochs without progress, at least; a third of all
NOTHING, AGAIN = 0.05, 3  # loss of every sample in so many epochs one after the other: nothing is left to learn


@dataclass(eq=False)
class Watch:
    """One training, watched."""

    feed: Feed
    loss: str
    start: Mapping[str, np.ndarray]
    before: Score | None = None  # of the samples it is measured by
    held: np.ndarray | None = None  # held-out samples
    validation: Feed | None = None
    tried: Score | None = None  # the result of a trial that started from `before`
    helps: bool = True  # was that better than no training?
    advice: str = "more samples, another scheme or a rate of your own"  # what may help
    part: float = 1.0  # of the way from the start to the end that counts
    parameters: tuple[Value, ...] = ()  # that are trained
    near: bool = True  # is predicting cheap there? On a board, the trials are trusted
    solver: Solver | None = None  # of the last layer, whose start was solved and is better than what was there
    scores: list[Score] = field(default_factory=list)  # after each epoch
    best: tuple[Score, Mapping[str, np.ndarray]] | None = None
    learned: float = np.inf  # the loss of the trial's own samples in its last epoch
    losses: list[float] = field(default_factory=list)  # of the training's samples, in each epoch
    ended: bool = False  # or did somebody stop it?
    fixed: bool = False  # all epochs are wanted: somebody gave their number, or the last ones are averaged
    silent: int = 0  # epochs so far, one after the other, in which no sample had anything to teach

    def __post_init__(self) -> None:
        if self.before is None:
            self.before = self._score(self.start)

    @property
    def measures(self) -> bool:
        """Are there samples that are not learned from?"""
        return self.held is not None

    def epoch(self, epochs: int, losses: np.ndarray) -> bool:
        """After an epoch with these losses of its samples: is it worth continuing?"""
        self.losses.append(float(losses.mean(dtype=np.float64)))
        self.silent = self.silent + 1 if losses.max() < NOTHING else 0
        worth = (not self.measures or self._patient(epochs)) and not self._by_heart
        self.ended = not worth or len(self.losses) == epochs
        return worth

    @property
    def _by_heart(self) -> bool:
        """Has a classifier been sure of every right answer for some epochs? Then no update moves anything any more."""
        return not self.fixed and self.loss == "cross_entropy" and self.silent >= AGAIN

    def _patient(self, epochs: int) -> bool:
        """Measure, and keep what is best: was that lately, or is it not yet what the trial reached? Where the rate is
        high, much of that comes with its fall at the end."""
        self.scores.append(self._score())
        if self.best is None or self.scores[-1].cost < self.best[0].cost:
            self.best = self.scores[-1], self.feed.device.state()
        since = len(self.scores) - 1 - [s.cost for s in self.scores].index(self.best[0].cost)
        return since < max(PATIENCE, epochs // 3) or self._behind(self.best[0])

    def _behind(self, score: Score) -> bool:
        """Is this far above the trial's result, by more than chance? Both are of the same samples."""
        if self.tried is None or score.cost <= self.tried.cost * FAR + NEAR:
            return False
        return clearly(self.tried, score, ERRORS)

    def finish(self) -> tuple[str, bool]:
        """Leave the device with the best state; returns a message if little was learned, and whether it was undone."""
        assert self.before is not None
        if self.best is not None:
            after, state = self.best
        else:
            after, state = self.tried or self._score(), None
        if not self.helped(after) or (self.best is None and self.astray()):  # what was measured need not be guessed
            return self._undone(after)
        if self.part < 1:
            state = between(self.start, self.feed.device.state(), self.part, self.parameters)
        if self.solver:
            state = self._solved(state or self.feed.device.state())
        if state is not None:
            self.feed.device.load_arrays(state)
        return self._nothing(after)

    def _undone(self, after: Score) -> tuple[str, bool]:
        """The state from before training, and why: nothing was learned at all, or nothing that helps."""
        assert self.before is not None
        end = after if self.measures or not self.near else self._score()
        self.feed.device.load_arrays(self.start)
        if self.solver:
            return "", False
        nothing, _ = self._nothing(end)
        was = f"{change(self.before, after)}, on samples held out"
        if self.before.better_high and self.before.measure == 1:
            return f"there was nothing left to learn ({was}): the learner is as it was", True
        return nothing or f"training did not help ({was}): the learner is as it was. What may help: {self.advice}", True

    def helped(self, after: Score) -> bool:
        """Is the result better than none: by the trial, by samples held out, or by all of them if they are few?"""
        assert self.before is not None
        return self.helps if after is self.tried else helps(after, self.before)

    def _nothing(self, after: Score) -> tuple[str, bool]:
        """Do the answers still not depend on the input? A classifier is then left as it was."""
        guessed = guess(self.loss, (self.validation or self.feed).labels)
        if (self.tried is None and self.best is None) or guessed.loss < TINY or not no_better(after, guessed):
            return "", False
        if after.better_high and after.cost + after.error < guessed.cost:  # too sure of itself, but not blind
            return "", False
        on = " on samples held out" if after is self.tried or self.measures else ""
        what = f"nothing was learned ({after.words()}{on}; the same answer for all: {guessed.words()})"
        if after.better_high:
            self.feed.device.load_arrays(self.start)
        left = ": the learner is as it was" if after.better_high else ""
        common = one_for_all((self.validation or self.feed).labels)
        common = f" {common[0].upper()}{common[1:]}." if common else ""
        return f"{what}{left}.{common} What may help: {self.advice}", after.better_high

    def astray(self) -> bool:
        """Did training end far above its trial's result, or does it know less about its own samples than before?"""
        if not self.ended:  # it need not be where its trial was
            return False
        if self.best is not None:
            return self._behind(self.best[0])
        if unsteady(self.losses[-1], self.learned):
            return True
        if self.tried is None or not self.near:
            return False
        now, guessed = self._left_out() if self.solver else self._score(), guess(self.loss, self.feed.labels)
        forgot = no_better(now, guessed) and not no_better(self.tried, guessed)
        chance = ERRORS * float(np.hypot(now.error, self.tried.error))  # these are other samples than the trial's
        far = now.cost > self.tried.cost * FAR + NEAR + chance
        return forgot or far or not helps(now, self._score(self.start))

    def _solved(self, state: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """The state with its last layer solved again, from the samples that were learned from."""
        assert self.solver is not None
        chosen = np.arange(len(self.feed.source)) if self.feed.chosen is None else self.feed.chosen
        return self.solver.again(state, chosen)

    def _left_out(self) -> Score:
        """Of the state as it is, with its last layer solved from other samples each time. Solved from the same ones, it
        would hide that the layers before it broke."""
        assert self.solver is not None
        chosen = np.arange(len(self.feed.source)) if self.feed.chosen is None else self.feed.chosen
        parts = [(chosen[fold.learn], chosen[fold.held]) for fold in any_folds(self.feed.labels[chosen][:MOST], 0)]
        if not parts:
            return self._score(self._solved(self.feed.device.state()))
        held = np.concatenate([held for _, held in parts])
        found = self.solver.left_out(self.feed.device.state(), parts)
        return score(self.loss, found.reshape(self.feed.labels[held].shape), self.feed.labels[held])

    def answers(self) -> np.ndarray:
        """The classes that the network names for the first samples that it learned from."""
        rows = tuple(r[:MOST, :1] for r in self.feed.source.rows)
        out = predict_all(self.feed.device, replace(self.feed.source, rows=rows, augment=None))[0]
        return out.reshape(len(out), -1).argmax(1)

    def _score(self, state: Mapping[str, np.ndarray] | None = None) -> Score:
        device, feed = self.feed.device, self.validation or self.feed
        rows = slice(None) if self.validation else self.held if self.held is not None else slice(MOST)
        source = replace(feed.source, rows=tuple(r[rows, :1] for r in feed.source.rows), augment=None)
        now = device.state()
        if state is not None:
            device.load_arrays(state)
        found = score(self.loss, predict_all(device, source)[0][:, 0], feed.labels[rows])
        device.load_arrays(now)
        return found


def unsteady(loss: float, trial: float) -> bool:
    """Is the loss of the samples learned from above what a trial reached on its own, by more than chance?

    Steps that are just too long break a network at some moment, which may come after the end of a shorter trial.
    """
    return loss > STEADY[0] * trial + STEADY[1]
