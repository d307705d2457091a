"""Tasks for the defaults of `fit` that were put aside before a rule for networks that know little was looked for. They
were run with two candidates, of which the one was kept that also did no harm elsewhere; they chose no number in it.

Sound: words played faster, and words that are new to a small network. Motion: a watch worn the other way round, and a
sensor that reads half as often. Signals with a clipped sensor, or from scratch. Digits as outlines. Tables whose
columns were exchanged. Photos in negative colours. Quantities: cars of other countries. default_tasks.py says what a
task is.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from bench import photos
from bench.default_fresh import PHOTOS, Make, checkpoint, digit_net, kinds, mnist, stacked, taught, temporal, windows
from bench.default_tasks import SCHEMES, SHALLOW, WORDS, Task, cepstra, dense, speech, watch

# sound --------------------------------------------------------------------------------------------


def faster(waves: np.ndarray, by: float) -> np.ndarray:
    """Clips played faster, with silence at their ends."""
    length = waves.shape[1]
    at = np.arange(int(length / by)) * by
    made = np.stack([np.interp(at, np.arange(length), wave) for wave in waves.astype(np.float64)])
    missing = length - made.shape[1]
    return np.pad(made, ((0, 0), (missing // 2, missing - missing // 2)))


@cache
def quick_words(part: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    data = speech()
    chosen = np.random.default_rng(8).permutation(len(data[f"y_{part}"]))[:count]
    at = np.array([WORDS.index(str(n)) for n in data["class_names"]])
    return cepstra(faster(data[f"x_{part}"][chosen], 1.5)), at[data[f"y_{part}"][chosen]]


def played_faster(count: int, seed: int) -> Task:
    """The keyword network of MLPerf Tiny hears clips at one and a half times their speed."""
    (x, y), test = quick_words("train", 800), quick_words("test", 400)
    chosen = np.random.default_rng(seed).permutation(len(x))[:count]
    model = photos.folder("models") / "mlperf-tiny" / "kws_dscnn_fp32.tflite"
    return Task(model, (x[chosen], y[chosen]), test, {"data": x[chosen]})


@cache
def heard(part: str) -> tuple[np.ndarray, np.ndarray]:
    """Cepstra as pictures [1, 49, 10]."""
    data = speech()
    return np.ascontiguousarray(cepstra(data[f"x_{part}"]).transpose(0, 3, 1, 2)) / 4, data[f"y_{part}"].astype(
        np.int64
    )


@cache
def word_net() -> Any:
    """Three convolutions that know the first three of seven words."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 12, 5, stride=2, padding=2), nn.ReLU(), nn.Conv2d(12, 20, 3, padding=1), nn.ReLU(),
        nn.Conv2d(20, 24, 3, stride=2, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 3),
    )  # fmt: skip
    x, y = heard("train")
    return taught(net, x[y < 3], y[y < 3], 15)


def other_words(each: int, seed: int) -> Task:
    """It learns the four others."""
    import torch

    (x, y), (xt, yt) = heard("train"), heard("test")
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(np.concatenate([rng.permutation(np.flatnonzero(y == c))[:each] for c in range(3, 7)]))
    options = {"data": x[chosen], "classes": 4, "example": torch.zeros(1, 1, 49, 10)}
    return Task(word_net(), (x[chosen], y[chosen] - 3), (xt[yt >= 3], yt[yt >= 3] - 3), options)


# motion -------------------------------------------------------------------------------------------


def other_way_round(number: int, seed: int) -> Task:
    """A watch worn the other way round: two axes of each sensor change their sign."""
    task, sign = watch(number, seed), np.array([-1, -1, 1, -1, -1, 1], np.float32)
    (x, y), (xt, yt) = task.learn, task.test
    return Task(task.model, (x * sign, y), (xt * sign, yt), {"data": x * sign})


def half_as_often(number: int, each: int, seed: int) -> Task:
    """A temporal network that knows nobody like this wearer, from a sensor that reads half as often."""
    import torch

    parts = [(w[:, :, ::2], e) for w, e in windows(number, 128, 64)]
    x, y = stacked([(w[:each], e) for w, e in parts])
    test = stacked([(w[each + 1 :], e) for w, e in parts])
    chosen = np.sort(np.random.default_rng(seed).permutation(len(x))[: len(x) - 2 * seed])
    options = {"data": x, "example": torch.zeros(1, 6, 64)}
    return Task(temporal(number), (x[chosen], y[chosen]), test, options)


# signals ------------------------------------------------------------------------------------------


def waves(each: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy signals of 90 readings: a sine, a square, a saw, a chirp, a burst, and beats."""
    rng, t, found, labels = np.random.default_rng(seed), np.arange(90), [], []
    for _ in range(each):
        f, phase, at = rng.uniform(0.03, 0.09), rng.uniform(0, 1), rng.uniform(25, 65)
        turn = f * t + phase
        made = (np.sin(2 * np.pi * turn), np.sign(np.sin(2 * np.pi * turn)), 2 * (turn % 1) - 1,
                np.sin(2 * np.pi * (turn + f * t**2 / 120)), np.sin(6 * np.pi * turn) * np.exp(-(((t - at) / 12) ** 2)),
                np.sin(2 * np.pi * turn) * np.sin(2.6 * np.pi * turn))  # fmt: skip
        found += [rng.uniform(0.6, 1.4) * wave + rng.normal(0, 0.35, 90) for wave in made]
        labels += range(6)
    return np.asarray(found, np.float32)[:, None], np.asarray(labels, np.int64)


def wave_layers() -> Any:
    import torch
    from torch import nn

    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv1d(1, 10, 7, stride=2, padding=3), nn.BatchNorm1d(10), nn.ReLU(), nn.Conv1d(10, 18, 5, padding=2),
        nn.BatchNorm1d(18), nn.ReLU(), nn.MaxPool1d(3), nn.Conv1d(18, 26, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(26, 6),
    )  # fmt: skip


@cache
def wave_net() -> Any:
    return taught(wave_layers(), *waves(200, 1))


def clipped(each: int, seed: int, *, scratch: bool = False) -> Task:
    """A sensor that clips, is mounted upside down and wanders; or nothing of that, and a network that knows nothing."""
    import torch

    (x, y), (xt, yt) = waves(each, 100 + seed), waves(100, 2)
    if not scratch:
        wander = 0.8 * np.sin(np.linspace(0, 5, 90))
        x, xt = ((np.minimum(0.4, -w) + wander).astype(np.float32) for w in (x, xt))
    model = wave_layers().eval() if scratch else wave_net()
    return Task(model, (x, y), (xt, yt), {"data": x, "example": torch.zeros(1, 1, 90)})


# digits, tables, photos, quantities ---------------------------------------------------------------


def outlines(kind: str, count: int, seed: int) -> Task:
    """A network that knows digits sees their outlines."""
    import torch
    from scipy.ndimage import gaussian_gradient_magnitude

    x, y = mnist()
    learn, test = 2500 + np.random.default_rng((seed, 21)).permutation(1500)[:count], np.arange(4000, 5000)
    xs, xt = (2 * gaussian_gradient_magnitude(x[i], (0, 0, 0.7, 0.7)).astype(np.float32) for i in (learn, test))
    options = {"data": xs, "example": torch.zeros(1, 1, 14, 14)}
    return Task(digit_net(kind), (xs, y[learn]), (xt, y[test]), options)


@cache
def customers() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import make_classification

    x, y = map(np.asarray, make_classification(2600, 16, n_informative=9, n_classes=5, class_sep=1.4, random_state=31))
    return (x / x.std(0)).astype(np.float32), y.astype(np.int64)


@cache
def customer_net() -> Any:
    x, y = customers()
    return taught(dense(16, 40, 32, 24, 5), x[:1500], y[:1500], 30)


def exchanged(count: int, seed: int) -> Task:
    """A table of 16 columns of which ten changed their places."""
    import torch

    x, y = customers()
    order = np.arange(16)
    order[:10] = np.roll(order[:10], 3)
    x, learn = x[:, order], 1500 + np.random.default_rng(seed).permutation(600)[:count]
    options = {"data": x[learn], "example": torch.zeros(1, 16)}
    return Task(customer_net(), (x[learn], y[learn]), (x[2100:], y[2100:]), options)


def negatives(name: str, each: int, first: int, count: int, seed: int) -> Task:
    """Photos of flowers in negative colours."""
    task = kinds(checkpoint(name), each, first, count, seed)
    (x, y), (xt, yt) = task.learn, task.test
    return Task(task.model, (-1 - x, y), (-1 - xt, yt), task.options)


@cache
def cars() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cars by six numbers: how far they go, in units of its spread, and whether they are American."""
    from mlxtend.data import autompg_data

    x, y = autompg_data()
    kept = np.isfinite(x[:, :7]).all(1)  # the last column is a name
    x, y = x[kept], y[kept]
    numbers = (x[:, :6] - x[:, :6].mean(0)) / x[:, :6].std(0)
    return numbers.astype(np.float32), ((y - y.mean()) / y.std()).astype(np.float32)[:, None], x[:, 6] == 1


@cache
def car_net() -> Any:
    x, y, ours = cars()
    return taught(dense(6, 24, 24, 16, 1), x[ours], y[ours], 40, lambda a, b: ((a - b) ** 2).mean())


def foreign_cars(count: int, seed: int) -> Task:
    """A network that knows American cars meets others."""
    import torch

    from insitu import Recipe

    x, y, ours = cars()
    rest = np.random.default_rng(seed).permutation(np.flatnonzero(~ours))
    learn, test = rest[:count], rest[count:]
    options = {"data": x[learn], "example": torch.zeros(1, 6), "recipe": Recipe(loss="mse")}
    return Task(car_net(), (x[learn], y[learn]), (x[test], y[test]), options)


NEW: dict[str, Make] = {
    "keywords played faster, 70": (SCHEMES, lambda seed: played_faster(70, seed)),
    "four other words, 15 each": (SHALLOW, lambda seed: other_words(15, seed)),
    "watch the other way round, wearer 2": (SHALLOW, lambda seed: other_way_round(2, seed)),
    "motion read half as often, wearer 1, 84": (SCHEMES, lambda seed: half_as_often(1, 6, seed)),
    "signals clipped, 90": (SHALLOW, lambda seed: clipped(15, seed)),
    "signals from scratch, int8, 240": (("full",), lambda seed: clipped(40, seed, scratch=True)),
    "small digits as outlines, plain, 80": (SCHEMES, lambda seed: outlines("plain", 80, seed)),
    "small digits as outlines, residual, 120": (SCHEMES, lambda seed: outlines("residual", 120, seed)),
    "columns exchanged, 120": (SHALLOW, lambda seed: exchanged(120, seed)),
    "negatives of flowers 48-55, mbv2, 10 each": (PHOTOS, lambda seed: negatives("mbv2-w0.35", 10, 48, 8, seed)),
    "negatives of flowers 20-27, mcunet, 10 each": (PHOTOS, lambda seed: negatives("mcunet-5fps", 10, 20, 8, seed)),
    "cars of other countries, regression, 70": (SHALLOW, lambda seed: foreign_cars(70, seed)),
}
