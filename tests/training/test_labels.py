"""A label that is no class: the program skips the step, counts it, and reads nothing outside its arrays."""

import numpy as np
import pytest

import insitu
from insitu.demo import TARGET, digits


@pytest.mark.parametrize("label", [-1, 10, 2_000_000_000])
def test_a_label_that_is_no_class_changes_nothing_but_the_counter(label):
    pytest.importorskip("sklearn")
    data = digits()
    device = insitu.compile(TARGET, data=data.x_train[:50], scheme="last:1").device
    before = device.state()
    loss, _ = device.run("train_step", data.x_train[:1], np.array([label], np.int32), np.float32(0.1))
    after = device.state()
    assert np.isnan(loss)
    assert after["counters"].tolist() == [1, 0, 0]
    assert all((before[name] == after[name]).all() for name in before if name != "counters")
