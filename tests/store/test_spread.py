"""Classes from their means alone, with one covariance matrix shared by all."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from insitu.store.drift import Means
from insitu.store.spread import MOST, Spread, spread_bytes
from insitu.training.newcomer import discriminant

from .lives import learner, model_of, samples


def scattered(count: int = 400, width: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Three classes that are apart in one direction, and scatter far more in another."""
    rng, y = np.random.default_rng(0), np.arange(count) % 3
    x = rng.normal(size=(count, width)) * np.array([8, *[0.5] * (width - 1)])
    x[:, 1] += 2 * y + 0.3 * x[:, 0]
    return x.astype(np.float32), y


def followed(x: np.ndarray, y: np.ndarray) -> tuple[Means, Spread]:
    means, spread = Means(), Spread(x.shape[1])
    for row, k in zip(x, y):
        spread.see(*means.see(int(k), row))
    return means, spread


def test_the_running_covariance_is_the_covariance():
    x, y = scattered()
    means, spread = followed(x, y)
    apart = x - np.stack([means.means[int(k)] for k in y])
    wanted, (n, p) = apart.T @ apart, (len(x) - 3, x.shape[1])
    assert np.allclose(spread.sums, wanted, rtol=1e-3, atol=1e-2 * np.abs(wanted).max() / 100)
    shrunk = n * wanted + p * np.trace(wanted) / p * np.eye(p)
    found = spread.metric(len(x), 3)
    assert found is not None and np.allclose(found, np.linalg.inv(shrunk / (n + p) / n), rtol=1e-2)


def test_a_discriminant_sees_what_nearest_means_do_not():
    x, y = scattered()
    means, spread = followed(x, y)
    metric = spread.metric(len(x), 3)
    assert metric is not None
    scores = []
    for a in (metric, np.eye(x.shape[1])):
        weight, bias = discriminant([means.means[k] for k in range(3)], a)
        scores.append(float(((x @ weight.T + bias).argmax(1) == y).mean()))
    assert scores[0] > 0.95 > 0.7 > scores[1]


def test_it_is_kept_and_takes_no_more_than_its_share():
    _, spread = followed(*scattered())
    again = Spread.from_bytes(6, spread.to_bytes())
    assert again.to_bytes() == spread.to_bytes() and not Spread.from_bytes(7, spread.to_bytes()).sums.any()
    assert spread_bytes(6, 1 << 20) == len(spread.to_bytes()) and spread_bytes(MOST + 1, 1 << 40) == 0
    assert spread_bytes(100, 20_000) == 0


def test_a_life_from_means_alone_goes_on_after_a_restart(tmp_path: Path):
    one, (x, y) = learner("mlp head"), samples(model_of("mlp head"))
    other = one.on("host")
    for made, cuts in ((one, ()), (other, (20, 40))):
        made.keep(tmp_path / str(len(cuts)), covariance=True)
        for i in range(60):
            made.observe(x[i : i + 1], int(y[i]))
            if i in cuts:
                made.close_life()
                made.keep(tmp_path / str(len(cuts)), covariance=True)
    assert one.device.save_state() == other.device.save_state() and one.learned
    assert one.statistics()["file_bytes"] <= one.statistics()["quota_bytes"]
