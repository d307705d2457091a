"""Which rates a training gets, and how much of it counts: derived rates (rates.py), and others near them, are tried.

The head alone is tried first, then the layers before it, too: with the head at its derived rate, and these at theirs
or at other ones, in steps of three. The lowest cost wins. A network that knows most of its task has more to lose than
to gain: it is taught faster than derived only as long as its samples would not be learned otherwise; and its head
learns alone unless more layers are clearly better. Rates at which a network breaks are left out, whatever they reach.
Last, the training may count only in part: the smallest part of the way from start to end wins that is not clearly
worse than the best one.

If only a head is trained, other rates than the derived one must be better by more, the more the network knows; and if
that is little, the head learns for longer where that is clearly better. Nothing here trains (trials.py), measures
(held_out.py) or counts the work that trials may take (work.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from insitu.learner.held_out import Score, clearly, helps, known, lost, no_better
from insitu.learner.rates import Rates
from insitu.learner.trials import Trials, Tried, only_head
from insitu.learner.watch import unsteady

STEP = 3.0  # from one rate to the next
FARTHEST, OF_A_HEAD = 5, 3  # steps away from the derived rates, and from those of a head
SURE = 3.0  # standard errors by which other rates of a head must be better, if the network knows everything
DEEPER = 0.5  # standard errors by which more layers must be better than the head alone, if it knows everything
ANY = 1.0  # the same with very few samples
BEYOND = 1.5  # the same where the head was solved
FARTHER = 1.5  # standard errors by which more of the way must be better, if it knows everything
DOUBT = 1.0  # standard errors by which other rates must be better than nearer ones, if few samples tell
PATIENCE, SETBACK = 2, 1.0  # steps that are not better, and standard errors of one that is worse, to stop climbing
MUCH = 0.6  # of its task: a network that knows as much is changed with care
LASTING, LASTING_ERRORS = 4, 1.0  # times the epochs of a head alone, and standard errors by which that must be better
LEARNED = 0.05  # loss of the samples learned from: below, higher rates have nothing to add
SEVERAL = 8  # epochs of a trial: in the last one, its rate is so low that losses show how steady it was

Place = tuple[int, int]  # steps away from the derived rates: of the head, of the body
HERE: Place = (0, 0)


class Way(NamedTuple):
    """A direction to look in."""

    step: Place
    farthest: int = FARTHEST
    both: bool = False  # upwards and downwards, whatever is found above: if only a head is trained, trials are cheap


@dataclass(frozen=True, eq=False)
class Choice:
    """The rates to train with, what they reached in a trial, and whether that is better than no training."""

    rates: Rates
    score: Score
    helps: bool
    part: float = 1.0  # of the way from start to end that counts
    learned: float = np.inf  # the loss of the trial's own samples at its end
    times: int = 1  # the usual epochs


def choose(trials: Trials, rates: Rates, before: Score, guessed: Score, head_given: bool, whole: bool = False,
           solved: Score | None = None) -> Choice:  # fmt: skip
    """The rates near these that the trials speak for.

    before, guessed: the scores of the network, and of the same answer for all. head_given: its rate stays as it is.
    whole: all of the way counts. solved: the score of a last layer that was solved, from where the trials begin.
    """
    alone, sure = _alone(trials, rates, before, guessed, head_given, solved), known(before, guessed)
    search = Search(trials.quick(), rates, guessed)
    if sure < MUCH:
        fixed = head_given or solved is not None  # a solved head does not depend on its rate
        search.climb(directions(trials.both, only_head(trials.probe.parameters), fixed))
    else:
        search.near(head_given)
    found = search.found(0.0 if trials.both and solved is None else SURE * sure, trials)
    if alone and not clearly(found[1].end, alone[1].end, _least(sure, alone[1].end, guessed, solved)):
        found = alone
    return _made(*found, before if solved is None else solved, 0.0 if whole else FARTHER * sure, whole)


def _least(sure: float, alone: Score, guessed: Score, solved: Score | None) -> float:
    """The standard errors by which more layers must be better than the head alone."""
    if solved is not None:  # a solved layer is as good as it gets without the others
        return BEYOND
    return DEEPER * max(sure, known(alone, guessed)) if sure >= MUCH else 0.0


@dataclass(frozen=True, eq=False)
class Search:
    """The rates that were tried, by their place."""

    trials: Trials  # of one fold, if that holds out enough samples to compare rates by
    rates: Rates
    guessed: Score
    only_head: bool = False  # the other layers stay as they are
    scored: dict[Place, Tried] = field(default_factory=dict)

    def score(self, place: Place) -> Score:
        """The result of these rates; as if they were the worst if there were enough trials already."""
        if place not in self.scored and place != HERE and not self.trials.affordable:
            return lost(self.scored[HERE].end)
        if place not in self.scored:
            self.trials.report("finding the learning rate", len(self.scored), 8)
            rival = None if self.only_head else rival_among(self.scored.values(), self.guessed)
            self.scored[place] = self._steady(place, self.trials.run(self.at(place), rival))
        return self.scored[place].end

    def _steady(self, place: Place, tried: Tried) -> Tried:
        """The same; as if it were the worst, if lower rates learned the samples of the trial far better. Its steps are
        too long then, and what is right on samples held out is right by chance. In the few epochs of a short trial, the
        losses on the way say nothing of its end."""
        lower = [t.learned for at, t in self.scored.items() if at[0] <= place[0] and at[1] <= place[1]]
        if tried.epochs < SEVERAL or not lower or not unsteady(tried.learned, min(lower)):
            return tried
        return replace(tried, parts={1.0: lost(tried.end)})

    def at(self, place: Place) -> Rates:
        found = _at(self.rates, place)
        return found.alone if self.only_head else found

    def climb(self, ways: Iterable[Way]) -> None:
        """Look in each of these directions, from the best place so far."""
        best = HERE
        self.score(HERE)
        for way in ways:
            best = climb(self.score, best, way, self.guessed)

    def near(self, head_given: bool) -> None:
        """The derived rates; if they do not help, a third; if they do not suffice to learn, higher ones of the body."""
        first = self.score(HERE)
        if not helps(first, self.trials.before()):
            self.score((0 if head_given else -1, -1))
        elif self.trials.both and first.better_high:
            self.faster()

    def faster(self) -> None:
        """Higher rates of the body, until the samples are learned or the cost gets no smaller."""
        best, place, misses = HERE, HERE, 0
        while place[1] < FARTHEST and place in self.scored and self.scored[place].learned > LEARNED:
            place = (0, place[1] + 1)
            after = self.score(place)
            best, misses = (place, 0) if after.cost < self.score(best).cost else (best, misses + 1)
            if over(after, self.score(best), misses):
                break

    def found(self, errors: float, trials: Trials) -> tuple[Rates, Tried]:
        """The rates nearest to the derived ones that are good enough, and their trial in all folds."""
        errors = max(errors, DOUBT) if self.trials.doubtful else errors
        best = nearest({place: tried.end for place, tried in self.scored.items()}, errors)
        rates = self.at(best)
        return rates, self.scored[best] if self.trials is trials else trials.run(rates)


def _alone(trials: Trials, rates: Rates, before: Score, guessed: Score, head_given: bool,
           solved: Score | None) -> tuple[Rates, Tried] | None:  # fmt: skip
    """The head alone. A solved one needs no trial, and no rate."""
    if solved is not None:
        return Rates(0.0, 0.0 if trials.both else None), trials.untrained()
    return of_the_head(trials, rates, before, guessed, head_given) if trials.both else None


def of_the_head(trials: Trials, rates: Rates, before: Score, guessed: Score, head_given: bool) -> tuple[Rates, Tried]:
    """The head alone, near the rate that a program of its own would find. Tried to the end: a fold must not decide."""
    search, sure = Search(trials.quick(), rates, guessed, only_head=True), known(before, guessed)
    first = search.score(HERE)
    if sure < MUCH:
        search.climb([] if head_given else [Way((1, 0), 1)])
    elif not head_given and not helps(first, search.trials.before()):
        search.score((-1, 0))
    return search.found(SURE * sure, trials)


def lasting(trials: Trials, rates: Rates, found: Choice, before: Score, guessed: Score) -> Choice:
    """A head that learns alone and knows little, for several times the epochs, if that is clearly better.

    Where all features have much in common, that part of them limits the rate, and what tells classes apart is learned
    slowly. Such a training is cheap.
    """
    longer, sure = trials.longer(LASTING), known(before, guessed)
    if sure >= MUCH or not only_head(trials.probe.parameters) or not longer.leaves(4):
        return found
    search = Search(longer.quick(), rates, guessed)
    search.climb([Way((1, 0), 1, both=True)])
    best = _made(*search.found(SURE * sure, longer), before, FARTHER * sure, False)
    return replace(best, times=LASTING) if clearly(best.score, found.score, LASTING_ERRORS) else found


def rival_among(tried: Iterable[Tried], guessed: Score) -> Tried | None:
    """The best of these, which others are compared with as they go; none if it has learned nothing."""
    best = min(tried, key=lambda t: t.end.cost, default=None)
    return None if best is None or no_better(best.end, guessed) else best


def careful(trials: Trials, rates: Rates, before: Score) -> Choice:
    """These rates for all layers, or for the head alone: one trial of each, with too few samples for more."""
    found = rates, trials.run(rates)
    if trials.both:
        alone = rates.alone, trials.run(rates.alone)
        found = found if clearly(found[1].end, alone[1].end, ANY) else alone
    return _made(*found, before, FARTHER, False)


def _made(rates: Rates, tried: Tried, before: Score, errors: float, whole: bool) -> Choice:
    part = 1.0 if whole else enough(tried.parts, errors)
    return Choice(rates, tried.parts[part], helps(tried.parts[part], before), part, tried.learned)


def enough(parts: Mapping[float, Score], errors: float) -> float:
    """The smallest part of the way that is not worse than the best one by so many standard errors."""
    best = min(parts.values(), key=lambda s: s.cost)
    return min(part for part, s in parts.items() if s is best or not clearly(best, s, errors))


def directions(both: bool, only_head: bool, head_given: bool) -> list[Way]:
    """The directions to look in, and how far: which of the rates is multiplied in each step."""
    if both:  # a head learns as much as it needs at its derived rate, if other layers learn with it
        return [Way((0, 1))]
    return [] if head_given else [Way((1, 0), OF_A_HEAD, both=True) if only_head else Way((1, 0))]


def climb(score: Callable[[Place], Score], start: Place, way: Way, guessed: Score) -> Place:
    """The best place in this direction: upwards as long as it may get better or nothing was learned, else downwards."""
    best, (step, farthest, both) = start, way
    for sign in (1, -1):
        after, misses = start, 0
        for _ in range(farthest):
            after, last = (after[0] + sign * step[0], after[1] + sign * step[1]), after
            best, misses = (after, 0) if score(after).cost < score(best).cost else (best, misses + 1)
            if over(score(after), score(best), misses) and not _lost(score(after), score(last), guessed):
                break
        if best != start and not both and not no_better(score(best), guessed):
            break
    return best


def over(after: Score, best: Score, misses: int) -> bool:
    """Has it got clearly worse, or not better twice? One small step back may be chance."""
    return misses >= PATIENCE or (misses > 0 and clearly(best, after, SETBACK))


def _lost(after: Score, last: Score, guessed: Score) -> bool:
    """Has nothing been learned so far, but nothing broken either?"""
    return bool(np.isfinite(after.cost)) and no_better(last, guessed)


def nearest(scored: dict[Place, Score], errors: float) -> Place:
    """The place nearest to the start, of those that are not clearly worse than the best."""
    best = min(scored.values(), key=lambda s: s.cost)
    good = [place for place, s in scored.items() if s is best or not clearly(best, s, errors)]
    return min(good, key=lambda place: (abs(place[0]) + abs(place[1]), place))


def _at(rates: Rates, place: Place) -> Rates:
    return rates.times(STEP ** place[0], STEP ** place[1])
