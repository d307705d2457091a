"""Each op's gradient rule, compared with finite differences in float64 and with torch's autograd."""

import numpy as np
import pytest

from .gradients import differentiated, with_gradients

STEP = 1e-6
CLOSENESS = 1e-6
# inputs that are data or statistics, not trainable: (op, input)
WITHOUT = {
    ("fir", "x0"),
    ("normalize", "x0"),
    ("batch_norm", "x3"),
    ("batch_norm", "x4"),
    ("batch_norm_train", "x3"),
    ("batch_norm_train", "x4"),
    ("soft_cross_entropy", "x1"),
    ("binary_cross_entropy", "x1"),
    ("mean_squared_error", "x1"),
}
# ops without a function in torch
NOT_IN_TORCH = {
    k
    for k, (op, case) in with_gradients().items()
    if op.name in ("dropout_train", "fir", "merge_channels", "normalize")
    or case.attrs.get("coordinates") == "align_corners"
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


@pytest.mark.parametrize("label", [k for k in with_gradients() if k not in NOT_IN_TORCH])
def test_gradient_is_torch_s(label):
    torch = pytest.importorskip("torch", reason="compares with torch")
    from .torch_twins import TWINS

    d = differentiated(label)
    if d.op.name not in TWINS:
        pytest.skip(f"torch_twins.py has no function for {d.op.name}: only compared with differences")
    inputs = [torch.tensor(x, requires_grad=x.dtype == np.float64) for x in d.feeds]
    results = TWINS[d.op.name](*inputs, **d.op.complete(d.case.attrs))
    results = results if isinstance(results, tuple) else (results,)
    pairs = [(y, torch.tensor(r.astype(np.float64))) for y, r in zip(results, d.weights) if r is not None]
    torch.stack([(y * r).sum() for y, r in pairs]).sum().backward()
    for name, found in d.gradients.items():
        grad = inputs[int(name[1:])].grad
        assert grad is not None
        close(found, grad.numpy())


def finite_difference(d, i: int) -> np.ndarray:
    """The central difference for every element of feed i."""
    found, moved = np.zeros(d.feeds[i].shape), d.feeds[i].copy()
    feeds = (*d.feeds[:i], moved, *d.feeds[i + 1 :])
    for at in np.ndindex(found.shape):
        here, losses = moved[at], []
        for step in (STEP, -STEP):
            moved[at] = here + step
            losses.append(d.loss(*feeds))
        found[at] = (losses[0] - losses[1]) / (2 * STEP)
        moved[at] = here
    return found
