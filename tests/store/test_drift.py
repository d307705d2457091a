"""Worth, class means and drift: float32, in a fixed order."""

from __future__ import annotations

import numpy as np

from insitu.ops._mathf import expf
from insitu.store.drift import GROUPS, REFERENCE, Drift, Means, group_means, worths
from insitu.toolchain.compiler import SCALAR
from tests.ops.test_mathf import computed


def test_the_exponential_has_the_bits_of_the_c():
    x = np.concatenate([np.linspace(-110, 95, 20001), [0.0, -0.0, 1e-30, -87.4, 88.7, 200]]).astype(np.float32)
    ours = computed("exp", x, SCALAR)
    assert np.array_equal(expf(x).view(np.uint32), ours.view(np.uint32))


def test_worth_is_high_where_two_classes_are_close():
    worth, confidence = worths(np.array([[0, 0, -9], [9, -9, 0], [3, 3.1, 3]], np.float32))
    assert worth[0] == 255 and worth[1] == 1 and worth[2] > 240
    assert np.allclose(confidence, [0.5, 0.99988, 0.3559], atol=1e-3)
    assert worths(np.zeros((1, 1), np.float32))[0][0] == 0


def test_group_means_are_means_of_every_sixteenth_feature():
    f = np.random.default_rng(0).normal(size=(3, 37)).astype(np.float32)
    wanted = np.stack([f[:, i::GROUPS].mean(1) for i in range(GROUPS)], 1)
    assert np.allclose(group_means(f), wanted, atol=1e-6)
    assert group_means(f[:, :5]).shape == (3, 5)


def test_drift_stays_low_until_the_samples_change():
    rng, drift, found = np.random.default_rng(0), Drift(), []
    for i in range(600):
        f = rng.normal(loc=0.0 if i < 400 else 1.5, size=(1, 64)).astype(np.float32)
        drift.see(group_means(f)[0], np.float32(0.9))
        found.append(drift.value)
    assert not any(found[: REFERENCE - 1]) and max(found[:400]) < 0.3 and found[-1] > 3
    assert np.isclose(drift.confidence, 0.9)


def test_a_class_mean_is_the_mean():
    f, means = np.random.default_rng(0).normal(size=(50, 8)).astype(np.float32), Means()
    for row in f:
        means.see(2, row)
    assert means.counts == {2: 50} and np.allclose(means.means[2], f.mean(0), atol=1e-6)
    means.forget(2)
    assert not means.counts and not means.means
