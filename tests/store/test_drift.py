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


def sure_of(samples: int, confidence: float, drift: Drift, seed: int = 0) -> float:
    """Drift after so many samples, all of one kind, of which the network is about this sure."""
    rng = np.random.default_rng(seed)
    for _ in range(samples):
        p = np.float32(np.clip(confidence + rng.normal(0, 0.05), 0, 1))
        drift.see(rng.normal(size=16).astype(np.float32), p)
    return drift.value


def test_drift_rises_when_the_network_gets_less_sure_of_samples_that_look_as_before():
    drift = Drift()
    assert sure_of(400, 0.9, drift) < 0.3
    assert sure_of(64, 0.65, drift) > 0.5


def test_a_network_that_gets_surer_has_not_drifted_but_is_held_to_it_from_then_on():
    drift = Drift()
    assert sure_of(64, 0.3, drift) < 0.3 and sure_of(1000, 0.9, drift) < 0.3
    assert drift.mean[-1] > 0.85
    assert sure_of(64, 0.6, drift) > 0.5


def test_a_network_that_is_always_sure_is_not_alarmed_by_a_little_less():
    drift = Drift()
    sure_of(64, 1.0, drift)
    assert sure_of(64, 0.96, drift) < 0.5


def test_a_drift_that_was_saved_goes_on_with_the_same_bytes():
    one = Drift()
    sure_of(100, 0.7, one)
    other = Drift.from_bytes(one.to_bytes())
    assert sure_of(50, 0.9, one, 1) == sure_of(50, 0.9, other, 1) and one.to_bytes() == other.to_bytes()
