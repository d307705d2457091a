"""Tasks for the defaults of `fit`: networks that meet other data than they were made for, and networks from scratch.

A task is a function of a seed that gives a network, samples to learn and samples to test. The first rules of
learner/rates.py were tuned on `TUNED`, later ones also on the others; default_fresh.py has newer tasks. Photos,
sounds and checkpoints are looked for where bench/photos.py looks; others are trained here with torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from bench import photos
from insitu.demo.digits import TARGET, digits
from insitu.demo.watch import network, others, wearer


@dataclass(frozen=True, eq=False)
class Task:
    """A network, what it should learn, and what it is tested on."""

    model: Any
    learn: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]
    options: dict = field(default_factory=dict)  # of compile


SCHEMES = ("head", "last:4", "full")
SHALLOW = ("head", "last:2", "full")


# watches ----------------------------------------------------------------------------------------


def watch(number: int, seed: int) -> Task:
    """A watch meets a wearer its network has not seen: 56 windows, 7 exercises."""
    person, chosen = wearer(number), np.random.default_rng(seed).permutation(56)[: 56 - seed]
    options = {"data": others(number).x[::16]}
    learn = person.learn.x[chosen], person.learn.y[chosen]
    return Task(network(number), learn, (person.test.x, person.test.y), options)


# sounds -----------------------------------------------------------------------------------------

WORDS = ("down", "go", "left", "no", "off", "on", "right", "stop", "up", "yes")  # of the keyword network


@cache
def speech() -> dict[str, np.ndarray]:
    with np.load(photos.folder("data") / "speech7.npz") as data:
        return {name: data[name] for name in data.files}


def mel_matrix(bins: int = 40, low: float = 20.0, high: float = 4000.0, size: int = 257, rate: int = 16000):
    def mel(f):
        return 1127.0 * np.log1p(np.asarray(f) / 700.0)

    edges = np.linspace(mel(low), mel(high), bins + 2)
    at = mel(np.linspace(0, rate / 2, size))[:, None]
    up, down = (at - edges[:-2]) / (edges[1:-1] - edges[:-2]), (edges[2:] - at) / (edges[2:] - edges[1:-1])
    weights = np.maximum(0, np.minimum(up, down))
    weights[0] = 0
    return weights


def cepstra(waves: np.ndarray) -> np.ndarray:
    """Ten cepstral coefficients of 49 windows of 30 ms, as the keyword network of MLPerf Tiny takes them."""
    x = waves.astype(np.float64) / np.maximum(np.abs(waves.astype(np.float64)).max(1, keepdims=True), 1)
    frames = np.stack([x[:, s : s + 480] for s in range(0, 16000 - 480 + 1, 320)], 1)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(480) / 480)
    spectrum = np.abs(np.fft.rfft(frames * window, 512))
    logs = np.log(spectrum @ mel_matrix() + 1e-6)
    k = np.arange(40)
    basis = np.cos(np.pi / 40 * (k[:, None] + 0.5) * np.arange(10)) * np.sqrt(2 / 40)
    return (logs @ basis)[..., None].astype(np.float32)


@cache
def words(part: str) -> tuple[np.ndarray, np.ndarray]:
    data = speech()
    return cepstra(data[f"x_{part}"]), data[f"y_{part}"].astype(np.int64)


def keywords(count: int, seed: int, *, keep: bool = True) -> Task:
    """The keyword network of MLPerf Tiny hears new speakers: `count` clips of seven of its twelve words."""
    (x, y), (xt, yt) = words("train"), words("test")
    chosen = np.random.default_rng(seed).permutation(len(x))[:count]
    at = np.array([WORDS.index(w) for w in speech()["class_names"]]) if keep else np.arange(7)
    options = {"data": x[chosen], **({} if keep else {"classes": 7})}
    model = photos.folder("models") / "mlperf-tiny" / "kws_dscnn_fp32.tflite"
    return Task(model, (x[chosen], at[y[chosen]]), (xt, at[yt]), options)


# digits -----------------------------------------------------------------------------------------


def mirrored(count: int, seed: int, *, classes: int | None = None) -> Task:
    """The demo's digits, mirrored."""
    data, chosen = digits(), np.random.default_rng(seed).permutation(1347)[:count]
    x, xt = data.x_train[..., ::-1].copy(), data.x_test[..., ::-1].copy()
    options = {"data": x[chosen], **({"classes": classes} if classes else {})}
    return Task(TARGET, (x[chosen], data.y_train[chosen]), (xt, data.y_test), options)


# photos -----------------------------------------------------------------------------------------


@cache
def pictures(name: str, part: int) -> tuple[np.ndarray, np.ndarray]:
    found = photos.read(name)[part]
    limit = 1200 if part and name == "flowers" else 1000 if part else None
    found = found.first(limit) if limit else found
    return found, found.labels.astype(np.int64)  # type: ignore[return-value]


def pixels(found, chosen) -> np.ndarray:
    return np.stack([np.asarray(found.image(int(i))) for i in chosen]).astype(np.int16)


def flowers(model: str, each: int, classes: int, seed: int) -> Task:
    """An ImageNet checkpoint learns flowers: `each` photos of each kind, of the first so many kinds."""
    (train, y), (test, yt) = pictures("flowers", 0), pictures("flowers", 1)
    rng = np.random.default_rng(seed)
    chosen = np.concatenate([rng.permutation(np.flatnonzero(y == c))[:each] for c in range(classes)])
    tested = np.flatnonzero(yt < classes)[:600]
    learn, tests = ((pixels(part, some) - 128).astype(np.int8) for part, some in ((train, chosen), (test, tested)))
    options = {"classes": classes}
    return Task(photos.folder("models") / f"{model}.pkl", (learn, y[chosen]), (tests, yt[tested]), options)


def persons(count: int, seed: int) -> Task:
    """The person detector of MLPerf Tiny sees other photos."""
    (train, y), (test, yt) = pictures("person", 0), pictures("person", 1)
    chosen, tested = np.random.default_rng(seed).permutation(len(y))[:count], np.arange(0, len(yt), 2)[:500]
    small = lambda p: np.ascontiguousarray(p[:, 16:112, 16:112].astype(np.float32) / 255)  # noqa: E731
    x, xt = small(pixels(train, chosen)), small(pixels(test, tested))
    model = photos.folder("models") / "mlperf-tiny" / "vww_mbv1_fp32.tflite"
    return Task(model, (x, y[chosen]), (xt, yt[tested]), {"data": x[:64]})


# tables and small pictures, with networks made here -------------------------------------------------


def trained(module, x: np.ndarray, y: np.ndarray, loss=None, steps: int = 400):
    """A torch network after some steps of Adam on all of these samples."""
    import torch
    from torch import nn

    loss = loss or nn.functional.cross_entropy
    optimizer, inputs, targets = torch.optim.Adam(module.parameters(), 0.01), torch.tensor(x), torch.tensor(y)
    for _ in range(steps):
        optimizer.zero_grad()
        loss(module(inputs), targets).backward()
        optimizer.step()
    return module.eval()


def dense(*sizes: int):
    import torch
    from torch import nn

    torch.manual_seed(0)
    pairs = [(nn.Linear(a, b), nn.ReLU()) for a, b in pairwise(sizes)]
    return nn.Sequential(*[layer for two in pairs for layer in two][:-1])


def small_cnn(channels: int = 1):
    import torch
    from torch import nn

    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(channels, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.Conv2d(12, 24, 3, stride=2, padding=1),
        nn.BatchNorm2d(24), nn.ReLU(), nn.Conv2d(24, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip


@cache
def inverting() -> Any:
    data = digits()
    return trained(small_cnn(), data.x_train, data.y_train, steps=150)


def inverted(count: int, seed: int) -> Task:
    """A network with batch norm that knows digits sees them white on black turned black on white, with noise."""
    import torch

    data, rng = digits(), np.random.default_rng(seed)
    chosen = rng.permutation(1347)[:count]
    x = (1 - data.x_train[chosen] + 0.1 * rng.normal(size=(count, 1, 8, 8))).astype(np.float32)
    options = {"data": x, "example": torch.zeros(1, 1, 8, 8)}
    return Task(inverting(), (x, data.y_train[chosen]), (1 - data.x_test, data.y_test), options)


def scratch(count: int, seed: int, precision: str) -> Task:
    """A convolutional network that knows nothing learns digits."""
    import torch
    from torch import nn

    data, chosen = digits(), np.random.default_rng(seed).permutation(1347)[:count]
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 10),
    ).eval()  # fmt: skip
    x = data.x_train[chosen]
    options = {"data": x, "example": torch.zeros(1, 1, 8, 8), "precision": precision}
    return Task(net, (x, data.y_train[chosen]), (data.x_test, data.y_test), options)


@cache
def table(name: str):
    from sklearn import datasets

    found = getattr(datasets, f"load_{name}")()
    x = ((found.data - found.data.mean(0)) / found.data.std(0)).astype(np.float32)
    order = np.random.default_rng(7).permutation(len(x))
    return x[order], found.target[order]


@cache
def table_net(name: str, *sizes: int) -> Any:
    x, y = table(name)
    half = len(x) // 3
    if name == "diabetes":
        y = ((y - y.mean()) / y.std()).astype(np.float32)[:, None]
        return trained(dense(*sizes), x[:half], y[:half], lambda a, b: ((a - b) ** 2).mean(), steps=60)
    return trained(dense(*sizes), x[:half], y[:half].astype(np.int64), steps=60)


def sensors(name: str, count: int, seed: int, *sizes: int, **options) -> Task:
    """A network trained on a third of a table; then every sensor drifts: other gains and offsets."""
    import torch

    from insitu import Recipe

    x, y = table(name)
    drift, rng = np.random.default_rng(5), np.random.default_rng(seed)
    width, third = x.shape[1], len(x) // 3
    moved = (x * drift.uniform(0.3, 1.7, width) + drift.normal(0, 0.7, width)).astype(np.float32)
    rest = third + rng.permutation(len(x) - third)
    if name == "diabetes":
        y = ((y - y.mean()) / y.std()).astype(np.float32)[:, None]
        options = {"recipe": Recipe(loss="mse"), **options}
    learn, test = rest[:count], rest[count:]
    options = {"example": torch.zeros(1, width), "data": moved[learn], **options}
    return Task(table_net(name, *sizes), (moved[learn], y[learn]), (moved[test], y[test]), options)


def pictures_of_digits(count: int, seed: int) -> Task:
    """The CIFAR network of MLPerf Tiny learns digits, enlarged and coloured."""
    data, chosen = digits(), np.random.default_rng(seed).permutation(1347)[:count]

    def enlarged(x: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(
            np.repeat(np.repeat(255 * x[:, 0, :, :, None], 4, 1), 4, 2).repeat(3, 3), np.float32
        )

    x, xt = enlarged(data.x_train[chosen]), enlarged(data.x_test[:300])
    model = photos.folder("models") / "mlperf-tiny" / "ic_resnet8_fp32.tflite"
    return Task(model, (x, data.y_train[chosen]), (xt, data.y_test[:300]), {"classes": 10, "data": x[:64]})


TUNED: dict[str, Callable[[int], Task]] = {
    "watch, wearer 1": lambda seed: watch(1, seed),
    "watch, wearer 2": lambda seed: watch(2, seed),
    "watch, wearer 3": lambda seed: watch(3, seed),
    "keywords, 100 clips": lambda seed: keywords(100, seed),
    "keywords, new head, 350 clips": lambda seed: keywords(350, seed, keep=False),
    "mirrored digits, 300": lambda seed: mirrored(300, seed),
    "mirrored digits, new head, 60": lambda seed: mirrored(60, seed, classes=10),
    "flowers, mcunet, 20 x 10": lambda seed: flowers("mcunet-5fps", 10, 20, seed),
}
OTHERS: dict[str, tuple[tuple[str, ...], Callable[[int], Task]]] = {
    "watch, wearer 6": (SHALLOW, lambda seed: watch(6, seed)),
    "watch, wearer 8": (SHALLOW, lambda seed: watch(8, seed)),
    "watch, wearer 10": (SHALLOW, lambda seed: watch(10, seed)),
    "wine, drifted sensors, 40": (SHALLOW, lambda seed: sensors("wine", 40, seed, 13, 24, 16, 3)),
    "breast cancer, drifted sensors, 120": (SHALLOW, lambda seed: sensors("breast_cancer", 120, seed, 30, 32, 16, 2)),
    "breast cancer, float, 20": (SHALLOW, lambda seed: sensors("breast_cancer", 20, seed, 30, 32, 16, 2,
                                                              precision="float")),
    "diabetes, regression, float, 150": (("full",), lambda seed: sensors("diabetes", 150, seed, 10, 32, 16, 1,
                                                                         precision="float")),
    "inverted digits, batch norm, 400": (SHALLOW, lambda seed: inverted(400, seed)),
    "digits from scratch, float, 1200": (("full",), lambda seed: scratch(1200, seed, "float")),
    "digits from scratch, int8, 600": (("full",), lambda seed: scratch(600, seed, "int8")),
    "digits as photos, resnet8, 150": (("head", "last:4"), lambda seed: pictures_of_digits(150, seed)),
    "person, vww, 200": (("head", "last:4"), lambda seed: persons(200, seed)),
    "flowers, mbv2, 15 x 8": (("head", "last:4"), lambda seed: flowers("mbv2-w0.35", 8, 15, seed)),
    "flowers, proxyless, 10 x 20": (("head", "last:4"), lambda seed: flowers("proxyless-w0.3", 20, 10, seed)),
}  # fmt: skip
