"""The mean of the last epochs: in real units, whatever the arithmetic, and only of epochs that this call has seen."""

import numpy as np
import pytest

import insitu
from insitu.errors import DataError
from insitu.learner.rates import real, trained_values

from ..learners import data, learner

INT8 = {"precision": "int8", "data": data(40)[0]}
ARITHMETICS = {
    "float": {},
    "residual": INT8,
    "master": {**INT8, "recipe": insitu.Recipe(arithmetic="master")},
    "nearest": {**INT8, "recipe": insitu.Recipe(arithmetic="nearest")},
}
COURSE = {"epochs": 4, "rate": 0.05, "schedule": "constant"}


@pytest.mark.parametrize("name", ARITHMETICS)
def test_the_result_is_the_mean_of_the_states_after_the_last_epochs(name):
    made, samples = learner("full", **ARITHMETICS[name]), data(40)
    first, states = made.device.state(), []
    for epoch in range(COURSE["epochs"]):
        made.fit(*samples, **COURSE, start_epoch=epoch, stop_epoch=epoch + 1)
        states.append(made.device.state())
    made.device.load_arrays(first)
    made.fit(*samples, **COURSE, average=3)
    found = made.device.state()
    fine = {"f32": 0, "s8": 1.5 / 256 if name in ("residual", "master") else 1.0, "s32": 1.0}  # what the state can hold
    for v in trained_values(made.graphs):
        unit = 1 if v.type.quant is None else v.type.quant.scales(v.type.rank)
        mean = np.mean([real(state, v) for state in states[1:]], axis=0)
        assert (np.abs(real(found, v) - mean) <= 1e-6 + fine[v.dtype] * unit).all(), v.name
        assert not np.array_equal(real(found, v), real(states[-1], v))
    assert np.array_equal(found["counters"], states[-1]["counters"])


def test_epochs_of_an_earlier_call_cannot_be_averaged():
    made = learner("head")
    with pytest.raises(DataError, match="start_epoch=2 at most"):
        made.fit(*data(40), **COURSE, average=2, start_epoch=3)
    with pytest.raises(DataError, match="average must be"):
        made.fit(*data(40), average=-1)


def test_rates_that_are_found_are_found_with_the_mean():
    made = learner("full", head_init="zero")
    history = made.fit(*data(120), schedule="constant", average=4)
    assert not history.restored and made.evaluate(*data(400, seed=9))["accuracy"] > 0.8
