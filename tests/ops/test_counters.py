"""Counters of skipped, clipped and saturated updates stop at the largest number, in C as in the numpy meaning."""

import inspect

import numpy as np
import pytest

from insitu.graph import evaluate

from ..each import each
from ..learners import data, learner
from .case_library import Bound, all_bound, library

MOST = 2**31 - 1


def place_of_count(bound: Bound) -> int | None:
    """Which input of the op has the counters."""
    names = list(inspect.signature(bound.graph.nodes[0].op.rules["infer"]).parameters)
    at = names.index("count") if "count" in names else None
    return at if at is not None and at < len(bound.feeds) and bound.feeds[at].dtype == np.int32 else None


def labels() -> list[str]:
    return [label for label, bound in all_bound().items() if place_of_count(bound) is not None]


@pytest.mark.parametrize("left", [0, 1])
def test_counters_stop_at_the_largest_number(left):
    def claim(label: str) -> None:
        bound = all_bound()[label]
        feeds = list(bound.feeds)
        at = place_of_count(bound)
        assert at is not None
        feeds[at] = np.full_like(feeds[at], MOST - left)
        got, want = library("scalar")[label].predict(*feeds), evaluate(bound.graph, *feeds)
        np.testing.assert_array_equal(got[-1], want[-1])  # counters are the last output
        assert (got[-1] >= MOST - left).all() and got[-1].shape == (3,)

    each(labels(), claim)


def test_the_cases_do_count():
    """At least one case increments each counter, so that stopping can be seen."""
    went_up = np.zeros(3, bool)
    for label in labels():
        bound, at = all_bound()[label], place_of_count(all_bound()[label])
        feeds = list(bound.feeds)
        feeds[at] = np.zeros_like(feeds[at])
        went_up |= np.asarray(evaluate(bound.graph, *feeds)[-1]) > 0
    assert went_up.all()


@pytest.mark.parametrize("left", [0, 1])
def test_a_step_on_a_number_that_is_not_finite_does_not_wrap_the_counter(left):
    device = learner().device
    device.finite = False  # as C called by an application: the kernel skip_step counts it
    x, y = data(1)
    device.load_arrays({"counters": np.full(3, MOST - left, np.int32)})
    device.run("train_step", np.full_like(x, np.nan), y.astype(np.int32), np.float32(0.1))
    assert device.counters()["skipped"] == MOST
