"""Each op: the C does what its numpy meaning says. Integers are equal, floats are within the tolerance."""

from functools import cache

import numpy as np
import pytest

from insitu.graph import REGISTRY, evaluate
from insitu.graph.check import check

from ..each import each
from .case_library import TARGETS, all_bound, library

CLOSENESS = 1e-5
FLOOR = 1e-6


def close(a, b, tol=CLOSENESS, floor=FLOOR) -> None:
    """max|a-b| <= tol * max(max|b|, floor), b computed in float64; numbers that are infinite in b must be so in a."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    finite = ~np.isinf(b)
    np.testing.assert_array_equal(a[~finite], b[~finite])
    a, b = a[finite], b[finite]
    worst = np.max(np.abs(a - b), initial=0.0)
    allowed = tol * max(np.max(np.abs(b), initial=0.0), floor)
    assert worst <= allowed, f"off by {worst:.3g}, {allowed:.3g} allowed"


@pytest.mark.parametrize("target", TARGETS)
def test_c_equals_the_numpy_meaning(target):
    def claim(label: str) -> None:
        bound = all_bound()[label]
        device = library(target)[label]
        device.poison(0xA5)  # nothing may depend on the previous contents of the arena
        got = device.predict(*bound.feeds)
        for v, g, w in zip(bound.graph.outputs, _many(got), meaning(label)):
            assert g.shape == w.shape
            if v.dtype in ("f32", "f64"):
                close(g, w)
            else:
                np.testing.assert_array_equal(g, w)

    each(all_bound(), claim)


@cache
def meaning(label: str) -> tuple:
    bound = all_bound()[label]
    return _many(evaluate(bound.graph, *bound.feeds, precision=np.float64))


def test_cases_are_legal_graphs():
    each(all_bound(), lambda label: check(all_bound()[label].graph))


def test_every_op_has_cases_and_a_sentence():
    for op in REGISTRY.values():
        assert op.cases, f"op {op.name} has no cases"
        assert op.doc, f"op {op.name} has no docstring"


def _many(x):
    return x if isinstance(x, tuple) else (x,)
