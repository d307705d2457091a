"""Tasks for the defaults of `fit` that were written before the rule as it is was run on any of them: no number of it
was chosen with them.

Five kinds of data with two networks each. Sound: instruments in another room. Motion: a watch whose axes were
exchanged. Tables: gas sensors that have aged. Pictures: letters of another typeface. Signals: the current of other
appliances. default_tasks.py says what a task is.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from bench.default_fresh import Make, stacked, taught, windows
from bench.default_tasks import SCHEMES, SHALLOW, Task, dense

# networks -----------------------------------------------------------------------------------------


def separable(i: int, o: int, stride: int = 1) -> list[Any]:
    """A depthwise and a pointwise convolution, each with a batch norm."""
    from torch import nn

    return [nn.Conv2d(i, i, 3, stride=stride, padding=1, groups=i, bias=False), nn.BatchNorm2d(i), nn.ReLU(),
            nn.Conv2d(i, o, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU()]  # fmt: skip


def picture_net(kind: str, classes: int, rows: int = 1) -> Any:
    """For pictures of one channel: three convolutions with a dense layer (of so many rows), or separable ones."""
    import torch
    from torch import nn

    torch.manual_seed(3)
    if kind == "separable":
        blocks = (*separable(10, 20), *separable(20, 30, 2), *separable(30, 30))
        return nn.Sequential(nn.Conv2d(1, 10, 3, stride=2, padding=1), nn.ReLU(), *blocks, nn.AdaptiveAvgPool2d(1),
                             nn.Flatten(), nn.Linear(30, classes))  # fmt: skip
    return nn.Sequential(nn.Conv2d(1, 9, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(9, 15, 3, padding=1),
                         nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(15, 21, 3), nn.ReLU(), nn.AdaptiveAvgPool2d((rows, 1)),
                         nn.Flatten(), nn.Linear(21 * rows, 24), nn.ReLU(), nn.Linear(24, classes))  # fmt: skip


def signal_net(kind: str, channels: int, length: int, classes: int) -> Any:
    """For signals: strided convolutions with batch norms, or dense layers."""
    import torch
    from torch import nn

    torch.manual_seed(4)
    if kind == "dense":
        return nn.Sequential(nn.Flatten(), dense(channels * length, 48, 32, 24, classes))
    return nn.Sequential(nn.Conv1d(channels, 12, 5, stride=2, padding=2), nn.BatchNorm1d(12), nn.ReLU(),
                         nn.Conv1d(12, 20, 5, stride=2, padding=2), nn.BatchNorm1d(20), nn.ReLU(),
                         nn.Conv1d(20, 28, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(),
                         nn.Linear(28, classes))  # fmt: skip


# sound --------------------------------------------------------------------------------------------


def instruments(each: int, room: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Eight made-up instruments as pictures of 24 bands and 17 moments. A room filters and echoes."""
    rng, own, t = np.random.default_rng(seed), np.random.default_rng((9, room)), np.arange(17)
    filtered, echo = own.normal(0, 0.9 * room, 24), 0.5 * room
    found, labels = [], []
    for kind in range(8):
        made = np.random.default_rng((3, kind))
        overtones, attack, decay = made.uniform(0, 1, 6), made.uniform(0.3, 4), made.uniform(2, 12)
        for _ in range(each):
            pitch, at = rng.uniform(2, 6), rng.integers(0, 5)
            shape = np.where(t >= at, (1 - np.exp(-(t - at + 0.5) / attack)) * np.exp(-(t - at) / decay), 0)
            bands = sum(loud * np.exp(-((np.arange(24) - pitch * (k + 1)) ** 2)) for k, loud in enumerate(overtones))
            power = rng.uniform(0.5, 2) * np.outer(bands, shape + echo * np.roll(shape, 4))
            found.append(np.log(power + 0.03 * rng.exponential(size=(24, 17))) + filtered[:, None])
            labels.append(kind)
    return np.asarray(found, np.float32)[:, None] / 3, np.asarray(labels, np.int64)


@cache
def instrument_net(kind: str) -> Any:
    return taught(picture_net(kind, 8, 2), *instruments(150, 0, 1))


def other_room(kind: str, each: int, seed: int) -> Task:
    (x, y), test = instruments(each, 1, 100 + seed), instruments(60, 1, 2)
    return Task(instrument_net(kind), (x, y), test, {"data": x, "example": np.zeros((1, 1, 24, 17), np.float32)})


# motion -------------------------------------------------------------------------------------------


@cache
def exercise_net(kind: str, left_out: int) -> Any:
    """It knows the exercises of everybody else."""
    parts = [p for n in range(1, 11) if n != left_out for p in windows(n, 50, 50)]
    return taught(signal_net(kind, 6, 50, 7), *stacked(parts), epochs=6)


def axes_exchanged(kind: str, number: int, each: int, seed: int) -> Task:
    """A wearer whom it has never seen, with a sensor that was mounted another way."""
    order = [1, 0, 2, 4, 3, 5]
    parts = [(w[:, order], e) for w, e in windows(number, 50, 25)]
    x, y = stacked([(w[:each], e) for w, e in parts])
    chosen = np.sort(np.random.default_rng(seed).permutation(len(x))[: len(x) - 3 * seed])
    options = {"data": x, "example": np.zeros((1, 6, 50), np.float32)}
    test = stacked([(w[each + 1 :], e) for w, e in parts])
    return Task(exercise_net(kind, number), (x[chosen], y[chosen]), test, options)


# tables -------------------------------------------------------------------------------------------


def gases(count: int, age: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Six gases by eleven sensors, each with a response of its own that saturates; sensors lose some of it with age."""
    rng, own = np.random.default_rng(seed), np.random.default_rng(17)
    response, old = own.lognormal(0, 0.7, (6, 11)), own.uniform(0, 1, 11)
    y = rng.integers(0, 6, count)
    dose = rng.lognormal(0, 0.5, (count, 1))
    x = np.log1p(dose * response[y] * (1 - age * old)) + 0.3 * age * (old - 0.5) + rng.normal(0, 0.18, (count, 11))
    return (2 * x - 1.5).astype(np.float32), y.astype(np.int64)


@cache
def gas_net(depth: str) -> Any:
    sizes = {"deep": (11, 24, 24, 24, 24, 6), "wide": (11, 64, 32, 6)}[depth]
    return taught(dense(*sizes), *gases(900, 0.0, 1), epochs=20)


def aged(depth: str, age: float, count: int, seed: int) -> Task:
    (x, y), test = gases(count, age, 100 + seed), gases(700, age, 2)
    return Task(gas_net(depth), (x, y), test, {"data": x, "example": np.zeros((1, 11), np.float32)})


# letters ------------------------------------------------------------------------------------------


@cache
def glyph(letter: str, family: str, style: str) -> np.ndarray:
    """A letter as a picture of 60 x 48."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    canvas = FigureCanvasAgg(Figure(figsize=(0.48, 0.60), dpi=100))
    canvas.figure.text(0.5, 0.5, letter, ha="center", va="center", fontsize=30, family=family, style=style)
    canvas.draw()
    return 1 - np.asarray(canvas.buffer_rgba())[..., 0] / 255.0


def letters(each: int, family: str, style: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Letters of 15 x 12, each turned and moved a little, with noise."""
    from scipy.ndimage import rotate, shift

    rng, found, labels = np.random.default_rng(seed), [], []
    for label, letter in enumerate("ABCDEFGHKMRS"):
        for _ in range(each):
            made = rotate(glyph(letter, family, style), rng.normal(0, 7), reshape=False, order=1)
            made = shift(made, rng.normal(0, 3, 2), order=1).reshape(15, 4, 12, 4).mean((1, 3))
            found.append(made + rng.normal(0, 0.12, (15, 12)))
            labels.append(label)
    return np.asarray(found, np.float32)[:, None], np.asarray(labels, np.int64)


@cache
def letter_net(kind: str) -> Any:
    return taught(picture_net(kind, 12), *letters(120, "DejaVu Sans", "normal", 1))


def other_typeface(kind: str, style: str, each: int, seed: int) -> Task:
    (x, y), test = letters(each, "DejaVu Serif", style, 100 + seed), letters(40, "DejaVu Serif", style, 2)
    return Task(letter_net(kind), (x, y), test, {"data": x, "example": np.zeros((1, 1, 15, 12), np.float32)})


# appliances ---------------------------------------------------------------------------------------


def currents(kinds: range, each: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The current of appliances over 75 readings: how it starts, how it varies, and the noise of the mains."""
    rng, t, found, labels = np.random.default_rng(seed), np.arange(75), [], []
    for kind in kinds:
        made = np.random.default_rng((8, kind))
        inrush, settles, level = made.uniform(0, 3), made.uniform(2, 15), made.uniform(0.4, 1.2)
        period, depth, duty = made.integers(6, 24), made.uniform(0.1, 0.8), made.uniform(0.2, 0.8)
        for _ in range(each):
            on = (t >= rng.integers(0, 20)).astype(float)
            since = np.cumsum(on)
            cycle = (((since + rng.integers(period)) % period) < duty * period).astype(float)
            wave = on * (level * rng.uniform(0.7, 1.3) + inrush * np.exp(-since / settles) - depth * level * cycle)
            found.append(wave + rng.normal(0, 0.25, 75))
            labels.append(kind)
    return np.asarray(found, np.float32)[:, None], np.asarray(labels, np.int64)


@cache
def appliance_net(kind: str) -> Any:
    """It knows seven appliances."""
    return taught(signal_net(kind, 1, 75, 7), *currents(range(7), 120, 1))


def other_appliances(kind: str, each: int, seed: int) -> Task:
    """Five others, with a new head."""
    (x, y), (xt, yt) = currents(range(7, 12), each, 100 + seed), currents(range(7, 12), 80, 2)
    options = {"data": x, "classes": 5, "example": np.zeros((1, 1, 75), np.float32)}
    return Task(appliance_net(kind), (x, y - 7), (xt, yt - 7), options)


LATER: dict[str, Make] = {
    "instruments in another room, convolutions, 96": (SCHEMES, lambda seed: other_room("plain", 12, seed)),
    "instruments in another room, separable, 64": (SCHEMES, lambda seed: other_room("separable", 8, seed)),
    "axes exchanged, wearer 5, convolutions, 84": (SHALLOW, lambda seed: axes_exchanged("strided", 5, 6, seed)),
    "axes exchanged, wearer 6, dense, 112": (SHALLOW, lambda seed: axes_exchanged("dense", 6, 8, seed)),
    "aged gas sensors, deep, 60": (SCHEMES, lambda seed: aged("deep", 0.8, 60, seed)),
    "aged gas sensors, wide, 150": (SHALLOW, lambda seed: aged("wide", 0.4, 150, seed)),
    "serif letters, convolutions, 72": (SCHEMES, lambda seed: other_typeface("plain", "normal", 6, seed)),
    "serif letters in italics, separable, 120": (SCHEMES, lambda seed: other_typeface("separable", "italic", 10, seed)),
    "five other appliances, convolutions, 50": (SHALLOW, lambda seed: other_appliances("strided", 10, seed)),
    "five other appliances, dense, 150": (SHALLOW, lambda seed: other_appliances("dense", 30, seed)),
}
