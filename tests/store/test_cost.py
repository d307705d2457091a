"""What a class that was added may take from the others."""

from __future__ import annotations

import numpy as np
import pytest

import insitu
from insitu.errors import BoardError, DataError
from insitu.training.newcomer import may_take
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
    assert biases == sorted(biases) and biases[0] < biases[1] < biases[2] < biases[3]


@pytest.mark.parametrize("cost, kept, taken", [(0, 99, 0), (0.01, 99, 0), (0.01, 100, 1), (0.05, 9999, 25), (1, 7, 7)])
def test_a_row_may_take_a_share_rounded_down(cost: float, kept: int, taken: int):
    assert may_take(cost, kept) == taken


def test_a_cost_is_a_share():
    with pytest.raises(DataError, match="cost must be a number from 0 to 1, not 5"):
        KINDS["mlp head"]().keep(cost=5)


def test_a_board_takes_the_same_share_and_needs_a_store_for_it():
    with pytest.raises(DataError, match="class_cost must be a number from 0 to 1, not 5"):
        insitu.compile(imported(), classes=4, precision="float", board="nrf51822", store="4K", class_cost=5)
    with pytest.raises(BoardError, match="there is none"):
        insitu.compile(imported(), classes=4, precision="float", board="nrf51822", class_cost=0.02)
