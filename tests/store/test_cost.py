"""What a class that was added may take from the others."""

from __future__ import annotations

import numpy as np
import pytest

from insitu.errors import DataError
from insitu.store.class_rows import _priced, _taken
from tests.learners import imported

from .lives import CLASSES, KINDS, samples


def added(cost: float) -> np.ndarray:
    """The row's bias of a class that is like the others, with this cost."""
    one = KINDS["mlp head"]()
    x, y = samples(imported(), 120)
    one.fit(x, y)
    one.keep(cost=cost)
    one.add_class("like")
    one.observe(samples(imported(), 20, seed=1)[0], ["like"] * 20)
    return one.device.state()["head.bias"][CLASSES]


def test_a_class_that_may_cost_more_leaves_less_room():
    biases = [added(cost) for cost in (0.0, 0.02, 0.2, 1.0)]
    assert biases == sorted(biases) and biases[1] < biases[2] < biases[3]


@pytest.mark.parametrize("cost", [1e-6, 0.01, 0.3])
@pytest.mark.parametrize("count", [1, 7, 512])
def test_a_shift_takes_the_share_that_it_may_and_hardly_less(count: int, cost: float):
    ahead = np.random.default_rng(count).normal(-1, 2, count).astype(np.float32)
    shift = float(_priced(ahead, cost))
    assert shift < 0 and 0.99 * cost < _taken(ahead, shift) <= 1.001 * cost


def test_a_row_that_takes_less_than_it_may_is_not_moved():
    assert _priced(np.full(9, 8, np.float32), 0.01) == 0 and _priced(np.zeros(0, np.float32), 0.01) == 0


def test_a_cost_is_a_share():
    with pytest.raises(DataError, match="cost must be a number from 0 to 1, not 5"):
        KINDS["mlp head"]().keep(cost=5)
