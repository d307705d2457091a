"""Each op's gradient rule: against finite differences in float64, and against torch's autograd."""

import numpy as np
import pytest

from .gradients import differentiated, with_gradients

STEP = 1e-6
CLOSENESS = 1e-6
# inputs that are data or statistics, not something to train: (op, input)
WITHOUT = {
    ("batch_norm", "x3"),
    ("batch_norm", "x4"),
    ("soft_cross_entropy", "x1"),
    ("binary_cross_entropy", "x1"),
    ("mean_squared_error", "x1"),
}


def close(a, b, tol=CLOSENESS) -> None:
    """max|a-b| <= tol * max(max|b|, 1e-3)"""
    worst = np.max(np.abs(a - b), initial=0.0)
    allowed = tol * max(np.max(np.abs(b), initial=0.0), 1e-3)
    assert worst <= allowed, f"off by {worst:.3g}, {allowed:.3g} allowed"


@pytest.mark.parametrize("label", with_gradients())
def test_gradient_is_the_finite_difference(label):
    d = differentiated(label)
    for i, x in enumerate(d.feeds):
        name = f"x{i}"
        if x.dtype != np.float64 or (d.op.name, name) in WITHOUT:
            continue
        assert name in d.gradients, f"input {i} has no gradient"
        close(d.gradients[name], finite_difference(d, i))


def finite_difference(d, i: int) -> np.ndarray:
    """The central difference for every element of feed i."""
    found = np.zeros(d.feeds[i].shape)
    for at in np.ndindex(found.shape):
        losses = []
        for step in (STEP, -STEP):
            moved = d.feeds[i].copy()
            moved[at] += step
            losses.append(d.loss(*d.feeds[:i], moved, *d.feeds[i + 1 :]))
        found[at] = (losses[0] - losses[1]) / (2 * STEP)
    return found
