"""Networks that learn nothing for a while: short trials cannot tell rates apart, longer ones are made then."""

from __future__ import annotations

import pytest

from insitu.learner import settle, trials, work

from ..learners import data, learner


@pytest.fixture
def short(monkeypatch):
    """Trials that see too few samples to show anything."""
    monkeypatch.setattr(trials, "SHARE", (0.002, 0.002))
    monkeypatch.setattr(trials, "WORK", 1.0)


def tried(monkeypatch) -> list[int]:
    """The samples that each trial may see, as they are made."""
    seen, run = [], trials.Trials.run

    def watched(self, rates, rival=None):
        seen.append(self.samples // len(self.folds))
        return run(self, rates, rival)

    monkeypatch.setattr(trials.Trials, "run", watched)
    return seen


def test_a_network_that_short_trials_say_nothing_about_learns_all_the_same(short, monkeypatch):
    seen = tried(monkeypatch)
    made = learner(head_init="zero")
    history = made.fit(*data(150), seed=1)
    assert not history.restored and made.evaluate(*data(400, seed=9))["accuracy"] > 0.75
    assert min(seen) < 10 and max(seen) >= settle.usual_epochs(150) * 120  # a training of four fifths of the samples


def test_without_the_work_for_longer_trials_the_short_ones_decide(short, monkeypatch):
    seen = tried(monkeypatch)
    monkeypatch.setattr(work, "MOST", 1.0)
    learner(head_init="zero").fit(*data(150), seed=1, effort=0.5)
    assert max(seen) < 10


def test_with_work_for_one_fold_long_trials_are_made_in_that(short, monkeypatch):
    folds, run = [], trials.Trials.run

    def watched(self, rates, rival=None):
        folds.append((len(self.folds), self.samples))
        return run(self, rates, rival)

    monkeypatch.setattr(trials.Trials, "run", watched)
    made = learner(head_init="zero")
    (x, y), one = data(40), 2 * settle.usual_epochs(40) * 32  # samples of a long trial in one fold
    monkeypatch.setattr(settle, "allowed", lambda *_: work.Work(14 * one))
    made.fit(x, y, seed=1)
    assert (1, one) in folds and (5, 5 * one) not in folds


def test_a_network_that_knows_something_is_not_asked_for_longer(short, monkeypatch):
    made = learner(head_init="zero")
    made.fit(*data(150), rate=0.1)
    seen = tried(monkeypatch)
    made.fit(*data(60, seed=3))
    assert max(seen) < 10
