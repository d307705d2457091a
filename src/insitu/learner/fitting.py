"""One `fit`: its arguments checked, its settings found (settling.py), its epochs run (loop.py), its history kept."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from insitu.data import Samples
from insitu.data.arguments import optional, whole
from insitu.errors import DataError, LearningWarning
from insitu.learner.asked import Given
from insitu.learner.history import History
from insitu.learner.kept import learned, with_epochs
from insitu.learner.loop import run_epochs
from insitu.learner.measures import measured
from insitu.learner.pupils import Views, feed_of, take_over
from insitu.learner.rows import few_of_each, ready, unseen, warn_of_forgotten
from insitu.learner.school import School, in_float, in_int8, is_better, is_enough, no_better, school_for
from insitu.learner.settle import Settled
from insitu.learner.settling import settled
from insitu.terminal.progress import Report
from insitu.terminal.wording import option

if TYPE_CHECKING:
    from insitu.learner.learner import Learner


SHOWN = 0.1  # seconds after which predictions of other threads see a newer epoch: copies slow small networks down


@dataclass(frozen=True, eq=False)
class Run:
    """What a fit was asked for, beside its settings."""

    views: Views
    start: int = 0  # epoch
    stop: int | None = None
    threads: int | None = None
    held_out: Samples | None = None  # to choose by
    tests: Samples | None = None  # only measured
    followed: bool = False  # by the caller's own function, which may predict
    early: bool = False  # does it end when nothing is left to learn? What is found has a rule of its own (watch.py)

    @property
    def whole(self) -> bool:
        """Is it all of a training?"""
        return self.start == 0 and self.stop is None

    @property
    def asked(self) -> bool:
        """May this thread predict after each epoch?"""
        return self.followed or self.held_out is not None or self.tests is not None


def check_run(start: int, stop: int | None, threads: int | None, views: int | None, **functions: Any) -> None:
    whole(start, "start_epoch")
    for name, value, least in (("threads", threads, 1), ("views", views, 1), ("stop_epoch", stop, 0)):
        optional(value, name, least)
    for name, function in functions.items():
        if function is not None and not callable(function):
            raise DataError(f"{name} must be a function, not {function!r:.60}")


def batch_of(learner: Learner, batch: int | None) -> int:
    """The samples per update; a DataError if the program was made for another number."""
    made_for = learner.batch
    if batch is None:
        return made_for
    batch = whole(batch, "batch", 1)
    if batch != made_for and "accumulate" not in learner.graphs:
        each = "every sample" if made_for == 1 else f"every {made_for} samples"
        what = "firmware" if learner.site.manifest else "program"
        raise DataError(f"this {what} updates after {each}", hint=f"compile with {option(batch=batch)}")
    return batch


def fit(learner: Learner, data: Samples, given: Given, run: Run, report: Report) -> History:
    """Train on these samples. An interrupt leaves the learner with the updates so far."""
    ready(learner, data)
    school = school_for(learner, data, given, run.whole)
    if school is None:
        return _fit(learner, data, given, run, report)
    learner.school = None
    with warnings.catch_warnings(record=True) as said:
        here = _fit(learner, data, given, run, report)
    found = here if is_enough(here) else _at_school(learner, school, here, data, given, run, report)
    for warning in () if found.in_float else said:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    learner.history = found
    return found


def _at_school(learner: Learner, school: School, here: History, data: Samples, given: Given, run: Run,
               report: Report) -> History:  # fmt: skip
    """The learner becomes what it learns there, if that is better; an interrupt leaves what it has learned here."""
    pupil = school.begin(learner, data)
    there = _fit(pupil, data, replace(given, batch=pupil.batch), run, in_float(report))
    if not is_better(there, here):
        return no_better(here)
    learner.become(school.end(pupil, data))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LearningWarning)  # it has learned already: there may be nothing to gain
        return in_int8(there, _fit(learner, data, given, run, report))


def _fit(learner: Learner, data: Samples, given: Given, run: Run, report: Report) -> History:
    absent = unseen(learner, data) if given.rate is None else []
    feed = feed_of(learner, data, run.views, given.batch, report)
    run = replace(run, early=(run.early or given.open_ended) and given.average <= 1)  # else, the last ones are wanted
    given = with_epochs(learner, feed, given, report)
    found = settled(learner, data, feed, given, run.held_out, report, scaled=run.stop is None)
    try:
        learner.history = _trained(learner, found, run, report)
    except KeyboardInterrupt:
        take_over(learner, found.feed)
        raise
    learner.tests, learner.lately = run.tests, few_of_each(data)
    warn_of_forgotten(learner, absent, learner.history)
    return learner.history


def _trained(learner: Learner, settings: Settled, run: Run, report: Report) -> History:
    """Train as settled; if it diverges, again and slower. Of those that were measured, the best one counts."""
    epochs, found, tries, shown = range(run.start, settings.last(run.stop)), settings, [], perf_counter()
    while True:
        history = found.history(found.feed)
        shows = slower_words(report) if tries else report
        for epoch in run_epochs(found.begin(), found.course, epochs, shows, run.threads):
            history.add(epoch, learner.recipe.loss)
            if run.asked or perf_counter() - shown >= SHOWN:
                take_over(learner, found.feed)
                shown = perf_counter()
            _measure(learner, run, history)
            if not found.goes_on(epoch.losses) or (run.early and learned(history, learner.recipe.loss)):
                break
        tries.append((found, history))
        slower = found.slower()
        if slower is None:
            return _finished(learner, *_best(tries))
        found = slower


def slower_words(report: Report) -> Report:
    """What a training shows that begins again because it diverged: its epochs are not those of before."""
    return lambda words, done, total: report(f"{words}, again at lower rates", done, total)


def _best(tries: list[tuple[Settled, History]]) -> tuple[Settled, History]:
    reached = [found.reached for found, _ in tries]
    costs = [cost for cost in reached if cost is not None]
    return tries[reached.index(min(costs))] if costs else tries[-1]


def _measure(learner: Learner, run: Run, history: History) -> None:
    for samples, scores in ((run.held_out, history.validation), (run.tests, history.tested)):
        if samples is not None:
            scores.append(measured(learner.device, learner.recipe.loss, samples)[learner.measure])


def _finished(learner: Learner, found: Settled, history: History) -> History:
    found.finish(history, learner.recipe.loss)
    history.score = found.score
    take_over(learner, found.feed)
    history.counters = learner.counters()
    return history
