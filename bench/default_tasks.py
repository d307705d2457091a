"""Tasks for the defaults of `fit`: networks that meet other data than they were made for, and networks from scratch.

A task is a function of a seed that gives a network, samples to learn and samples to test. Which of them the rules of
learner/rates.py were tuned on is said by `TUNED`; the others were first run when the rules were finished. Photos,
sounds and checkpoints are looked for where bench/photos.py looks; others are trained here with torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
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


# watches ----------------------------------------------------------------------------------------


def watch(number: int, seed: int) -> Task:
    """A watch meets a wearer its network has not seen: 56 windows, 7 exercises."""
    person = wearer(number)
    options = {"data": others(number).x[seed::16]}
    return Task(network(number), (person.learn.x, person.learn.y), (person.test.x, person.test.y), options)


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
    x = waves.astype(np.float64) / max(1, np.abs(waves.astype(np.float64)).max(1, keepdims=True).max())
    x = waves.astype(np.float64) / np.maximum(np.abs(waves.astype(np.float64)).max(1, keepdims=True), 1)
    frames = np.stack([x[:, s : s + 480] for s in range(0, 16000 - 480 + 1, 320)], 1)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(480) / 480)
    spectrum = np.abs(np.fft.rfft(frames * window, 512))
    logs = np.log(spectrum @ mel_matrix() + 1e-6)
    k = np.arange(40)
    basis = np.cos(np.pi / 40 * (k[:, None] + 0.5) * np.arange(10)) * np.sqrt(2 / 40)
    basis[:, 0] *= np.sqrt(1 / 2) * np.sqrt(2)
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


TASKS: dict[str, Callable[[int], Task]] = {
    "watch 1": lambda seed: watch(1, seed),
    "watch 2": lambda seed: watch(2, seed),
    "watch 3": lambda seed: watch(3, seed),
    "watch 5": lambda seed: watch(5, seed),
    "keywords 100": lambda seed: keywords(100, seed),
    "keywords new head 350": lambda seed: keywords(350, seed, keep=False),
    "mirrored digits 300": lambda seed: mirrored(300, seed),
    "mirrored digits new head 60": lambda seed: mirrored(60, seed, classes=10),
    "flowers mcunet 20x10": lambda seed: flowers("mcunet-5fps", 10, 20, seed),
}
TUNED = tuple(TASKS)
