"""A training is compared with its trial: steps that are too long show in the loss of the samples learned from."""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from insitu.errors import LearningWarning
from insitu.learner import settle
from insitu.learner.choice import choose
from insitu.learner.watch import unsteady

from ..learners import data, learner, state_of


def test_a_loss_is_compared_with_room_for_chance():
    assert unsteady(0.35, 0.18) and unsteady(1.4, 0.2) and unsteady(np.inf, 0.3)
    assert not unsteady(0.1, 0.11) and not unsteady(0.04, 0.0) and not unsteady(0.3, 0.2)
    assert not unsteady(3.0, np.inf)  # no trial said


def test_a_training_that_ends_above_its_trial_begins_again_at_a_third_of_the_rates(monkeypatch):
    found = []

    def optimistic(*args):
        """The trial learned all of its samples by heart, says the first answer."""
        found.append(choose(*args))
        return replace(found[-1], learned=-1.0)

    made, (x, y) = learner("full", head_init="zero"), data(60)
    before = state_of(made)
    usual = made.fit(x, y)
    made = learner("full", head_init="zero")
    monkeypatch.setattr(settle, "choose", optimistic)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LearningWarning)
        again = made.fit(x, y)
    assert again.rate == pytest.approx(usual.rate / 9) and again.head_rate == pytest.approx(usual.head_rate / 9)
    assert again.restored and not usual.restored and state_of(made) == before  # three times, then as it was
    assert found[0].learned < 1.0


@pytest.mark.parametrize("given", [{}, {"validation": data(80, seed=1)}])
def test_a_training_that_is_stopped_early_is_not_compared_with_a_whole_trial(given):
    """It began again at a third of the rates, twice, and was undone at last."""
    x, y = data(60)
    made = learner("full", head_init="zero")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LearningWarning)  # two epochs at a high rate
        stopped = made.fit(x, y, stop_epoch=2, **given)
    whole = learner("full", head_init="zero").fit(x, y, **given)
    assert stopped.rate == whole.rate and len(stopped.loss) == 2 and not stopped.restored


def test_a_training_goes_on_until_it_is_where_its_trial_was():
    """At a high rate the best comes at the end: it was stopped after ten epochs without progress, tried at lower rates,
    and undone at 25 %, although its trial had reached 85 %."""
    made = learner("full", head_init="zero")
    history = made.fit(*data(60), validation=data(80, seed=1))
    assert not history.restored and max(history.validation) > 0.8
    assert made.evaluate(*data(400, seed=2))["accuracy"] > 0.7


def test_a_training_ends_when_no_sample_has_anything_left_to_teach():
    """It went on to its last epoch with a loss of 0.000."""
    x, y = data(40)
    made = learner("full", head_init="zero")
    history = made.fit(x, y)
    assert "68 epochs" in history.found and len(history.loss) < 50
    assert [losses.max() < 0.05 for losses in history.losses[-4:]] == [False, True, True, True]
    assert made.evaluate(x, y)["accuracy"] == 1.0 and not history.restored
    given: list[dict[str, Any]] = [{"epochs": 68}, {"rate": 0.015, "head_rate": 2.6, "epochs": 68}, {"average": 4}]
    for options in given:  # all epochs are wanted
        assert len(learner("full", head_init="zero").fit(x, y, **options).loss) == 68, options
