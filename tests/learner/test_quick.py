"""Rates are compared in all folds, as long as the work allows it: a fifth of 200 samples tells little."""

from __future__ import annotations

import pytest

from insitu.learner import settle, trials, work

from ..learners import data, learner


@pytest.fixture
def folds(monkeypatch) -> list[int]:
    """How many folds each trial of a fit had."""
    seen, run = [], trials.Trials.run

    def watched(self, rates, rival=None):
        seen.append(len(self.folds))
        return run(self, rates, rival)

    monkeypatch.setattr(trials.Trials, "run", watched)
    return seen


def test_every_sample_is_asked_about_every_rate(folds):
    learner().fit(*data(220), seed=1)
    assert set(folds) == {5}


def test_without_the_work_for_that_the_first_fold_decides(folds, monkeypatch):
    training = 220 * settle.usual_epochs(220)
    monkeypatch.setattr(settle, "allowed", lambda *_: work.Work(6 * training))
    learner().fit(*data(220), seed=1)
    assert folds.count(1) > 2 and folds.count(5) <= 3  # the head alone, its search, and what was chosen: tried in all


def test_a_fold_that_holds_out_few_samples_never_decides_alone(folds, monkeypatch):
    monkeypatch.setattr(settle, "allowed", lambda *_: work.Work(1e4))
    learner().fit(*data(100), seed=1)
    assert set(folds) == {5}


def test_a_lone_fold_of_few_samples_is_doubtful(monkeypatch):
    found, choose = [], settle.choose

    def watched(trials, *rest):
        found.append((trials.doubtful, trials.quick().doubtful))
        return choose(trials, *rest)

    monkeypatch.setattr(settle, "choose", watched)
    learner().fit(*data(220), seed=1)
    monkeypatch.setattr(settle, "allowed", lambda *_: work.Work(6 * 220 * settle.usual_epochs(220)))
    learner().fit(*data(220), seed=1)  # the first fold alone, of 44 samples
    learner().fit(*data(450), seed=1)  # one part of 90
    learner().fit(*data(220), validation=data(60, seed=5), seed=1)
    assert found == [(False, False), (False, True), (False, False), (False, False)]
