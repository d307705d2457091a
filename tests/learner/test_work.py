"""A fit on this machine does a limited amount of work: with a large network fewer rates are tried, and it says so."""

from __future__ import annotations

import numpy as np
import pytest
from torch import nn

import insitu
from insitu.errors import DataError
from insitu.learner import settling, trials, work
from insitu.learner.settle import LONGER
from insitu.learner.trials import Trials
from insitu.learner.work import LEAD, PROBES, allowed, measuring

from ..learners import data, learner, state_of


@pytest.fixture(scope="module")
def made():
    return learner("full", head_init="zero")


@pytest.fixture
def fitted(made, monkeypatch):
    """A fit from the same start, and how many samples its trials saw."""
    start, seen = made.device.state(), []
    monkeypatch.setattr(Trials, "run", counting(Trials.run, seen))

    def fit(**options):
        seen.clear()
        made.device.load_arrays(start)
        return made.fit(*data(60), **options), sum(seen)

    yield fit
    made.device.load_arrays(start)


def counting(run, seen: list[int]):
    def counted(self, *given):
        before = self.work.left
        found = run(self, *given)
        seen.append(int(before - self.work.left))
        return found

    return counted


def test_a_network_that_takes_long_is_tried_with_fewer_rates_and_says_so(made, fitted, monkeypatch):
    monkeypatch.setattr(trials, "WORK", 0.0)  # as if an update took long: a trial may see as much as the training
    whole, usual = fitted()
    assert "fewer rates" not in whole.found
    monkeypatch.setattr(work, "MOST", 0.0)
    short, less = fitted()
    assert "fewer rates tried to save time (effort=4 tries more)" in short.found
    assert short.updates < less <= 1.3 * short.updates < usual
    usually = short.updates // 60  # epochs; it may stop earlier if nothing is left to learn
    assert f" {LONGER * usually} epochs" in whole.found and f" {usually} epochs" in short.found and not short.restored


def test_more_effort_tries_as_much_as_without_a_limit(made, fitted, monkeypatch):
    fitted()
    state = state_of(made)
    monkeypatch.setattr(work, "MOST", 0.0)
    monkeypatch.setattr(work, "LEAD_WORK", 1e18)  # gains are measured as usual
    assert "fewer rates" not in fitted(effort=100)[0].found and state_of(made) == state


def test_trials_may_always_take_as_much_as_the_training():
    assert allowed(1000, step_macs=10**12, effort=1).left == 1000
    assert allowed(1000, step_macs=10**6, effort=1).left == work.MOST / 10**6 - 1000
    assert not allowed(1000, 10**12, 0.5).allows(501) and allowed(1000, 10**12, 1).allows(1000)


def test_gains_are_measured_with_fewer_samples_if_an_update_takes_long():
    assert measuring(10**6, 1.0) == (PROBES, LEAD)
    assert measuring(10**9, 1.0) == (8, 20)


@pytest.mark.parametrize("effort", [-1, "much", float("nan")])
def test_an_effort_that_is_no_number_is_an_error(made, effort):
    with pytest.raises(DataError, match="effort must be a number"):
        made.fit(*data(8), effort=effort)


def test_a_batch_taken_at_once_counts_as_its_samples():
    """Batch norms that learn their statistics see eight samples in a call: that is no more work per sample."""
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2))
    x = np.zeros((1, 1, 8, 8), np.float32)
    one, eight = (
        settling._step_macs(insitu.compile(net, data=x, precision="float", scheme="full", batch=batch).device)
        for batch in (1, 8)
    )
    assert one / 2 < eight < 2 * one
