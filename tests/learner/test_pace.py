"""How many samples go to a device at once: whole updates, few at first unless it is quick, never too many bytes."""

import numpy as np
import pytest

from insitu.learner.pace import MOST_BYTES, MOST_GROWTH, QUICK, Pace

from ..learners import data, learner


def sizes(pace: Pace, count: int) -> list[int]:
    return [len(part) for part in pace.parts(count)]


def test_a_device_that_nobody_knows_gets_one_update_first():
    first, second, *_ = sizes(Pace(batch=5), 5000)
    assert first == 5 and second <= 5 * MOST_GROWTH


def test_a_quick_device_gets_a_short_epoch_at_once():
    assert sizes(Pace(quick=True), QUICK) == [QUICK]
    assert sizes(Pace(batch=1000, quick=True), 1500)[0] == 1000


@pytest.mark.parametrize("quick", [False, True])
def test_samples_that_are_made_never_take_too_many_bytes(quick):
    assert max(sizes(Pace(MOST_BYTES // 3, quick=quick), 40)) == 3


def test_parts_change_no_result(monkeypatch):
    x, y = data(40)
    one, two = learner("head"), learner("head")
    want = one.fit(x, y, epochs=2, rate=0.1)
    monkeypatch.setattr(type(two.device), "quick", False)
    found = two.fit(x, y, epochs=2, rate=0.1)
    assert found.loss == want.loss
    assert np.array_equal(np.concatenate(found.losses), np.concatenate(want.losses))
    assert one.device.save_state() == two.device.save_state()
