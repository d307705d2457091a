"""Places in the arena: nothing overlaps, and a search comes close to the lower bound where greedy orders do not."""

from itertools import count, pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insitu.planner.lifetimes import Buffer, lower_bound
from insitu.planner.place.placer import Problem, place, problem_of


def training_step(seed: int, depth: int = 12) -> tuple[Buffer, ...]:
    """Buffers like those of backpropagation: kept from a layer to its gradient, gradients that pass one or several
    layers, and scratch of every step."""
    rng = Random(seed)
    found, end = [], 2 * depth
    for i in range(depth):
        found.append(Buffer((f"kept{i}",), rng.randint(200, 3000), i, end - i))
        found.append(Buffer((f"gradient{i}",), rng.randint(2000, 20000), depth + i, depth + i + 1))
        last = min(end, depth + i + rng.randint(2, 5))
        found.append(Buffer((f"skipped{i}",), rng.randint(1000, 6000), depth + i, last))
    found += [Buffer((f"scratch{t}",), rng.randint(100, 8000), t, t) for t in range(end + 1)]
    return tuple(found)


@st.composite
def shrinking(draw):
    """Buffers, some of which need fewer bytes later."""
    found = []
    for i in range(draw(st.integers(8, 20))):
        first, life, size = draw(st.integers(-1, 8)), draw(st.integers(0, 5)), draw(st.integers(1, 2000))
        later = [(first + step, size * left // 4) for step, left in ((1, 3), (2, 1)) if step <= life and size >= 4]
        found.append(Buffer((f"b{i}",), size, first, first + life, tuple(later[: draw(st.integers(0, 2))])))
    return tuple(found)


@given(shrinking())
@settings(max_examples=40, deadline=None)
def test_a_searched_placement_keeps_live_bytes_apart_and_is_no_worse_than_greedy(buffers):
    offsets, total = place(buffers, rounds=6)
    for step in range(-1, 15):
        live = sorted((offsets[b], b.size(step)) for b in buffers if b.first <= step <= b.last)
        assert all(at + size <= above for (at, size), (above, _) in pairwise(live))
    assert all(at % 16 == 0 and at + b.bytes <= total for b, at in offsets.items())
    assert lower_bound(buffers) <= total <= place(buffers)[1]
    assert place(buffers, rounds=6) == (offsets, total)


def slowly(problem: Problem, order: list[int]) -> tuple[int, tuple[int, ...]]:
    """Each buffer at the lowest multiple of 16 at which nothing lies in its way."""
    at: dict[int, int] = {}
    for i in order:
        met = [(at[j], at[j] + its, own) for j, own, its in problem.rivals[i] if j in at]
        at[i] = next(o for o in count(0, 16) if all(o >= end or start >= o + own for start, end, own in met))
    return max(at[i] + size for i, size in enumerate(problem.size)), tuple(at[i] for i in range(len(at)))


@given(shrinking(), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_buffers_lie_as_low_as_they_can_and_those_placed_before_a_change_stay(buffers, rng):
    problem, order = problem_of(buffers, 16), list(range(len(buffers)))
    rng.shuffle(order)
    top, at = found = slowly(problem, order)
    assert problem.greedy(order) == problem.greedy(order, most=top) == found
    assert problem.greedy(order, most=top - 1) is None
    turn = rng.randrange(len(order))
    changed = [*order[:turn], *sorted(order[turn:])]
    assert problem.greedy(changed, turn, at) == slowly(problem, changed)


@pytest.mark.parametrize("seed", (1, 2, 3, 7, 10))
def test_where_greedy_orders_lose_over_a_percent_the_search_loses_less_than_a_third_of_one(seed):
    buffers = training_step(seed)
    bound = lower_bound(buffers)
    assert place(buffers)[1] > 1.01 * bound
    assert place(buffers, rounds=60)[1] < 1.003 * bound
