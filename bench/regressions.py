"""How much of the variance of new targets does `fit(x, y)` explain, beside scikit-learn's ridge and MLPRegressor?

    python -m bench.regressions                 every task, two seeds
    python -m bench.regressions --only two      a part of it

Untrained networks (two hidden layers of 32 and 24; two convolutions for the signal) learn from 200 samples, tested on
the others. Inputs have unit variance, targets stay in their own units. The MLPRegressor has the same hidden layers and
gets scaled targets; without, it learns nothing of targets around 5e5. The rules were made while looking at these tasks.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings

import numpy as np

import insitu
from insitu.terminal.table import table

SAMPLES, SEEDS = 200, (0, 1)
KINDS = [(precision, scheme) for precision in ("int8", "float") for scheme in ("head", "full")]


def friedman(number: int, noise: float, seed: int):
    from sklearn import datasets

    return getattr(datasets, f"make_friedman{number}")(700, noise=noise, random_state=seed)


def diabetes(seed: int):
    from sklearn.datasets import load_diabetes

    return load_diabetes(return_X_y=True)


def houses(seed: int):
    """Prices around 100,000 that depend on products of properties."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(2000, 8))
    logs = 0.4 * x[:, 0] + 0.3 * np.tanh(x[:, 1] * x[:, 2]) - 0.2 * np.abs(x[:, 3]) + 0.1 * rng.normal(size=2000)
    return x, 1e5 * np.exp(logs)


def two(seed: int):
    """Two targets of unlike units, around 2 and 68."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(800, 6))
    small = 2 + 0.3 * np.sin(x[:, 0]) + 0.2 * x[:, 1] + 0.05 * rng.normal(size=800)
    return x, np.stack([small, 68 + 9 * x[:, 2] + 5 * x[:, 3] ** 2 + rng.normal(size=800)], 1)


def signal(seed: int):
    """Frequency and loudness of a noisy tone of 64 readings."""
    rng = np.random.default_rng(seed)
    f, a, phase = rng.uniform(0.02, 0.2, 900), rng.uniform(0.5, 2, 900), rng.uniform(0, 6.3, 900)
    waves = a[:, None] * np.sin(2 * np.pi * f[:, None] * np.arange(64) + phase[:, None])
    return (waves + 0.2 * rng.normal(size=(900, 64)))[:, None], np.stack([1000 * f, a], 1)


def unit(by: float, offset: float, seed: int):
    """The same product, in another unit."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(600, 6))
    return x, by * (offset + x[:, 0] + x[:, 1] * x[:, 2] + 0.2 * rng.normal(size=600))


TASKS = {
    "diabetes": diabetes,
    "friedman 1": lambda seed: friedman(1, 1.0, seed),
    "friedman 2": lambda seed: friedman(2, 50.0, seed),
    "friedman 3": lambda seed: friedman(3, 0.1, seed),
    "houses": houses,
    "two units": two,
    "signal": signal,
    "targets of 1e-3": lambda seed: unit(1e-3, 0, seed),
    "targets of 5e5": lambda seed: unit(1e5, 5, seed),
}


def samples(name: str, seed: int):
    """((x, y) to learn, (x, y) to test)."""
    x, y = TASKS[name](seed)
    order = np.random.default_rng(seed).permutation(len(x))
    x, y = x[order], y.reshape(len(y), -1)[order].astype(np.float32)
    x = ((x - x.mean(0)) / x.std(0) if x.ndim == 2 else x).astype(np.float32)
    count = min(SAMPLES, len(x) // 2)
    return (x[:count], y[:count]), (x[count:], y[count:])


def network(x: np.ndarray, targets: int):
    import torch
    from torch import nn

    torch.manual_seed(0)
    if x.ndim == 2:
        layers = [nn.Linear(x.shape[1], 32), nn.ReLU(), nn.Linear(32, 24), nn.ReLU(), nn.Linear(24, targets)]
    else:
        layers = [nn.Conv1d(1, 12, 7, stride=2, padding=3), nn.ReLU(), nn.Conv1d(12, 16, 5, stride=2, padding=2),
                  nn.ReLU(), nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(64, targets)]  # fmt: skip
    return nn.Sequential(*layers).eval()


def peers(learn) -> dict:
    """Name -> a fitted estimator."""
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.linear_model import RidgeCV
    from sklearn.neural_network import MLPRegressor
    from sklearn.preprocessing import StandardScaler

    x, y = learn[0].reshape(len(learn[0]), -1), learn[1]
    net = MLPRegressor(hidden_layer_sizes=(32, 24), max_iter=1000, random_state=0)
    mlp = TransformedTargetRegressor(net, transformer=StandardScaler())
    return {"ridge": RidgeCV(np.logspace(-4, 4, 20)).fit(x, y), "mlp": mlp.fit(x, y)}


def fitted(precision: str, scheme: str, learn, test, seed: int) -> tuple[np.ndarray, float]:
    """The outputs for the test samples, and the CPU time of `fit` as a multiple of a training at a given rate."""
    recipe, example = insitu.Recipe(loss="mse"), np.zeros((1, *learn[0].shape[1:]), np.float32)
    made = insitu.compile(network(*(learn[0], learn[1].shape[1])), example=example, data=learn[0], scheme=scheme,
                          precision=precision, recipe=recipe)  # fmt: skip
    start, began = made.device.state(), time.process_time()
    made.fit(*learn, seed=seed)
    took, outputs = time.process_time() - began, made.predict(test[0])
    made.device.load_arrays(start)
    began = time.process_time()
    made.fit(*learn, seed=seed, rate=1e-12)
    return outputs, took / (time.process_time() - began)


def explained(outputs: np.ndarray, y: np.ndarray) -> np.ndarray:
    """In percent, for each target."""
    return 100 * (1 - np.square(outputs.reshape(y.shape) - y).mean(0) / y.var(0))


def row(name: str) -> tuple[str, ...]:
    found: dict[str, list] = {}
    times: dict[str, list[float]] = {}
    for seed in SEEDS:
        learn, test = samples(name, seed)
        for peer, made in peers(learn).items():
            found.setdefault(peer, []).append(explained(made.predict(test[0].reshape(len(test[0]), -1)), test[1]))
        for kind in KINDS:
            outputs, ratio = fitted(*kind, learn, test, seed)
            found.setdefault(" ".join(kind), []).append(explained(outputs, test[1]))
            times.setdefault(kind[1], []).append(ratio)
    shares = [", ".join(f"{v:.1f}" for v in np.mean(each, 0)) for each in found.values()]
    return name, *shares, *(f"{np.mean(each):.1f}" for each in times.values())


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="tasks whose name contains this")
    only = parser.parse_args(argv).only
    headers = ("task", "ridge", "MLPRegressor", *map(" ".join, KINDS), "time, head", "time, full")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        print(table(headers, [row(name) for name in TASKS if only in name]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
