"""Tasks for the defaults of `fit` from domains of no earlier list, written before the rule was run on any of them.

Heartbeats from another lead, bearings under another load, radio modulations through a channel, gestures seen by another
radar, drawn icons of another style, new digits, new words, new wearers of a watch, people by night, the weather of
another place, birds that are known already, gestures on a touch pad from scratch, and a repaired robot arm. Each has
a network of a shape of its own; two are in float. default_tasks.py says what a task is; default_scenes.py makes data.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from bench import photos
from bench.default_fresh import Make, mnist, stacked, taught, windows
from bench.default_quantities import squares
from bench.default_scenes import arm, bearings, beats, birds, icons, modulations, radar, touches, weather
from bench.default_tasks import SCHEMES, SHALLOW, Task, mel_matrix, pixels, speech

Pair = tuple[np.ndarray, np.ndarray]


def met(model: Any, learn: Pair, test: Pair, **options) -> Task:
    """A network meets these samples."""
    example = np.zeros((1, *learn[0].shape[1:]), np.float32)
    return Task(model, learn, test, {"data": learn[0], "example": example, **options})


# networks -----------------------------------------------------------------------------------------


def layers(kind: str, i: int, o: int, act: Any, *, size: int = 3, stride: int = 1, norm: bool = True, dims: int = 1):
    """A convolution (or a depthwise and a pointwise one) along time or over a picture, its norm and activation."""
    from torch import nn

    conv, batch = (nn.Conv1d, nn.BatchNorm1d) if dims == 1 else (nn.Conv2d, nn.BatchNorm2d)
    after = lambda width: [*([batch(width)] if norm else []), act()]  # noqa: E731
    if kind == "separable":
        deep = conv(i, i, size, stride=stride, padding=size // 2, groups=i, bias=not norm)
        return [deep, *after(i), conv(i, o, 1, bias=not norm), *after(o)]
    return [conv(i, o, size, stride=stride, padding=size // 2, bias=not norm), *after(o)]


def residual(width: int, act: Any, *, norm: bool, dims: int) -> Any:
    """x + a convolution, an activation and a convolution of x; then an activation."""
    from torch import nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(*layers("plain", width, width, act, norm=norm, dims=dims),
                                      *layers("plain", width, width, act, norm=norm, dims=dims)[:-1])  # fmt: skip
            self.act = act()

        def forward(self, x):
            return self.act(x + self.body(x))

    return Block()


def net(*body: Any, width: int, classes: int, dims: int = 1) -> Any:
    """These layers, the mean of each channel, and a head."""
    from torch import nn

    mean = nn.AdaptiveAvgPool1d(1) if dims == 1 else nn.AdaptiveAvgPool2d(1)
    return nn.Sequential(*body, mean, nn.Flatten(), nn.Linear(width, classes))


def seeded(seed: int) -> None:
    import torch

    torch.manual_seed(seed)


def table_net(act: Any, *sizes: int) -> Any:
    from torch import nn

    seeded(5)
    made = [m for a, b in pairwise(sizes[:-1]) for m in (nn.Linear(a, b), act())]
    return nn.Sequential(*made, nn.Linear(sizes[-2], sizes[-1]))


# one-dimensional signals --------------------------------------------------------------------------


@cache
def beat_net() -> Any:
    from torch import nn

    seeded(1)
    act = nn.Hardswish
    body = (*layers("plain", 1, 10, act, size=7, stride=2), *layers("separable", 10, 18, act, size=5),
            *layers("separable", 18, 26, act, stride=2), *layers("separable", 26, 26, act))  # fmt: skip
    return taught(net(*body, width=26, classes=5), *beats(160, 1, other=False), 10)


@cache
def bearing_net() -> Any:
    from torch import nn

    seeded(2)
    act = nn.GELU
    body = (*layers("plain", 2, 14, act, size=9, stride=2, norm=False), residual(14, act, norm=False, dims=1),
            *layers("plain", 14, 22, act, stride=2, norm=False), residual(22, act, norm=False, dims=1))  # fmt: skip
    return taught(net(*body, width=22, classes=5), *bearings(200, 1, other=False), 12)


@cache
def modulation_net() -> Any:
    from torch import nn

    seeded(3)
    act = nn.SiLU
    body = (*layers("plain", 2, 16, act, size=5), *layers("plain", 16, 24, act, size=5, stride=2),
            *layers("plain", 24, 24, act), *layers("plain", 24, 32, act, stride=2))  # fmt: skip
    return taught(net(*body, width=32, classes=6), *modulations(300, 1, other=False), 15)


def touch_net() -> Any:
    """It knows nothing."""
    from torch import nn

    seeded(4)
    act = nn.Hardswish
    body = (*layers("plain", 2, 12, act, size=5), *layers("plain", 12, 20, act, size=5, stride=2),
            *layers("plain", 20, 28, act, stride=2, norm=False))  # fmt: skip
    return net(*body, width=28, classes=8).eval()


@cache
def wearers(number: int) -> list[tuple[np.ndarray, int]]:
    """Each recording's windows of 0.8 s, and who wears the watch."""
    return [(w, number) for w, _ in windows(number, 40, 40)]


@cache
def wearer_net() -> Any:
    """It tells six wearers apart."""
    from torch import nn

    seeded(6)
    act = nn.ELU
    body = (*layers("plain", 6, 16, act, size=5, norm=False), nn.MaxPool1d(2),
            *layers("plain", 16, 24, act, norm=False), nn.MaxPool1d(2),
            *layers("plain", 24, 30, act, norm=False))  # fmt: skip
    x, y = stacked([part for n in range(1, 7) for part in wearers(n)])
    return taught(net(*body, width=30, classes=6), x, y - 1, 8)


def new_wearers(each: int, seed: int) -> Task:
    """Four others, with a new head: the first windows of each recording, then the later ones."""
    parts = [part for n in range(7, 11) for part in wearers(n)]
    (x, y), (xt, yt) = stacked([(w[:each], n) for w, n in parts]), stacked([(w[each + 1 :], n) for w, n in parts])
    chosen = np.sort(np.random.default_rng(seed).permutation(len(x))[: len(x) - 3 * seed])
    tested = np.sort(np.random.default_rng(9).permutation(len(xt))[:1200])
    return met(wearer_net(), (x[chosen], y[chosen] - 7), (xt[tested], yt[tested] - 7), classes=4)


# pictures -----------------------------------------------------------------------------------------


@cache
def radar_net() -> Any:
    from torch import nn

    seeded(7)
    act = nn.Hardswish
    body = (*layers("plain", 1, 8, act, dims=2), *layers("separable", 8, 16, act, stride=2, dims=2),
            *layers("separable", 16, 24, act, dims=2), *layers("separable", 24, 28, act, stride=2, dims=2))  # fmt: skip
    return taught(net(*body, width=28, classes=6, dims=2), *radar(150, 1, other=False), 12)


@cache
def icon_net() -> Any:
    from torch import nn

    seeded(8)
    act = nn.LeakyReLU
    body = (*layers("plain", 3, 12, act, stride=2, dims=2), residual(12, act, norm=True, dims=2),
            *layers("plain", 12, 22, act, stride=2, dims=2), residual(22, act, norm=True, dims=2))  # fmt: skip
    return taught(net(*body, width=22, classes=8, dims=2), *icons(120, 1, other=False), 10)


@cache
def bird_net() -> Any:
    from torch import nn

    seeded(9)
    act = nn.ReLU
    body = (*layers("plain", 1, 9, act, size=5, stride=2, norm=False, dims=2),
            *layers("plain", 9, 17, act, norm=False, dims=2), nn.MaxPool2d(2),
            *layers("plain", 17, 25, act, norm=False, dims=2))  # fmt: skip
    return taught(net(*body, width=25, classes=7, dims=2), *birds(150, 1), 12)


@cache
def first_digits() -> Any:
    """A dense network that knows the digits 0 to 4."""
    from torch import nn

    x, y = mnist()
    known = np.flatnonzero(y[:2500] < 5)
    return taught(nn.Sequential(nn.Flatten(), table_net(nn.Tanh, 196, 64, 48, 33, 5)), x[known], y[known])


def last_digits(count: int, seed: int) -> Task:
    """It learns 5 to 9, with a new head."""
    x, y = mnist()
    rest, order = np.flatnonzero(y >= 5), np.random.default_rng(seed)
    learn, test = rest[rest >= 3000], rest[rest < 3000][:1200]
    learn = order.permutation(learn)[:count]
    return met(first_digits(), (x[learn], y[learn] - 5), (x[test], y[test] - 5), classes=5)


@cache
def mel_pictures() -> Pair:
    """All clips as 24 mel bands of 25 windows of 40 ms."""
    data = speech()
    waves = np.concatenate([data[f"x_{part}"] for part in ("train", "val", "test")]).astype(np.float64)
    waves = (waves / np.maximum(np.abs(waves).max(1, keepdims=True), 1)).reshape(len(waves), 25, 640)
    power = np.square(np.abs(np.fft.rfft(waves * np.hanning(640), 1024)))
    found = np.log(power @ mel_matrix(24, 60.0, 7000.0, 513) + 1e-3)
    y = np.concatenate([data[f"y_{part}"] for part in ("train", "val", "test")])
    return ((found - found.mean()) / found.std()).astype(np.float32)[:, None], y.astype(np.int64)


@cache
def spoken_net() -> Any:
    """It knows the first four of seven words."""
    from torch import nn

    seeded(10)
    act = nn.ReLU6
    body = (*layers("plain", 1, 14, act, size=5, stride=2, dims=2), *layers("separable", 14, 26, act, dims=2),
            *layers("separable", 26, 34, act, stride=2, dims=2), *layers("separable", 34, 34, act, dims=2))  # fmt: skip
    x, y = mel_pictures()
    return taught(net(*body, width=34, classes=4, dims=2), x[y < 4], y[y < 4], 15)


def new_words(each: int, seed: int) -> Task:
    """It learns the three others; most clips are for the test."""
    x, y = mel_pictures()
    rng, of = np.random.default_rng(seed), [np.flatnonzero(y == word) for word in (4, 5, 6)]
    chosen = rng.permutation(np.concatenate([rng.permutation(w[:50])[:each] for w in of]))
    test = np.concatenate([w[50:] for w in of])
    return met(spoken_net(), (x[chosen], y[chosen] - 4), (x[test], y[test] - 4), classes=3)


@cache
def people_photos(part: int, first: int, count: int) -> Pair:
    """Photos of 32 x 32 with or without a person."""
    found = photos.read("person")[part]
    order = np.random.default_rng(3).permutation(len(found.labels))[first : first + count]
    x = pixels(found, order).astype(np.float32).reshape(count, 32, 4, 32, 4, 3).mean((2, 4)) / 255
    return np.ascontiguousarray(x.transpose(0, 3, 1, 2)), found.labels[order].astype(np.int64)


@cache
def people_net() -> Any:
    from torch import nn

    seeded(11)
    act = nn.ReLU
    body = (*layers("plain", 3, 12, act, stride=2, dims=2), *layers("plain", 12, 24, act, stride=2, dims=2),
            *layers("separable", 24, 40, act, dims=2), *layers("plain", 40, 40, act, stride=2, dims=2))  # fmt: skip
    x, y = people_photos(0, 0, 2600)
    return taught(net(*body, width=40, classes=2, dims=2), 2 * x - 1, y, 12)


def by_night(x: np.ndarray, seed: int) -> np.ndarray:
    """Dark, blue and noisy."""
    tint = np.array([0.35, 0.45, 0.8], np.float32)[:, None, None]
    noise = np.random.default_rng(seed).normal(0, 0.04, x.shape)
    return (2 * np.clip(tint * x**1.6 + noise, 0, 1) - 1).astype(np.float32)


def people(count: int, seed: int) -> Task:
    (x, y), (xt, yt) = people_photos(0, 2600, 800), people_photos(1, 0, 1000)
    chosen = np.random.default_rng(seed).permutation(len(x))[:count]
    return met(people_net(), (by_night(x[chosen], 50 + seed), y[chosen]), (by_night(xt, 2), yt))


# tables -------------------------------------------------------------------------------------------


@cache
def weather_net() -> Any:
    from torch import nn

    return taught(table_net(nn.SiLU, 9, 37, 29, 19, 5), *weather(900, 1, other=False), 25)


@cache
def arm_net() -> Any:
    from torch import nn

    return taught(table_net(nn.Tanh, 7, 40, 32, 22, 2), *arm(1500, 1, other=False), 40, squares)


def repaired(count: int, seed: int) -> Task:
    from insitu import Recipe

    return met(arm_net(), arm(count, 100 + seed), arm(1000, 2), recipe=Recipe(loss="mse"))


DOMAINS: dict[str, Make] = {
    "heartbeats, other lead, 75": (SCHEMES, lambda s: met(beat_net(), beats(15, 100 + s), beats(200, 2))),
    "bearings, other load, 80": (SCHEMES, lambda s: met(bearing_net(), bearings(16, 100 + s), bearings(200, 2))),
    "modulations, other channel, float, 150": (SCHEMES, lambda s: met(
        modulation_net(), modulations(25, 100 + s), modulations(200, 2), precision="float")),
    "gestures, other radar, 72": (SCHEMES, lambda s: met(radar_net(), radar(12, 100 + s), radar(170, 2))),
    "icons in outline, 96": (SCHEMES, lambda s: met(icon_net(), icons(12, 100 + s), icons(130, 2))),
    "digits 5 to 9, dense, 75": (SHALLOW, lambda s: last_digits(75, s)),
    "three other words as mel pictures, 60": (SCHEMES, lambda s: new_words(20, s)),
    "four new wearers, 112": (SHALLOW, lambda s: new_wearers(2, s)),
    "people by night, 160": (SCHEMES, lambda s: people(160, s)),
    "weather elsewhere, float, 120": (SHALLOW, lambda s: met(
        weather_net(), weather(120, 100 + s), weather(1000, 2), precision="float")),
    "birds, nothing new, 140": (SHALLOW, lambda s: met(bird_net(), birds(20, 100 + s), birds(150, 2))),
    "touch gestures from scratch, 240": (SHALLOW, lambda s: met(touch_net(), touches(30, 100 + s), touches(130, 2))),
    "robot arm, repaired, regression, 100": (SHALLOW, lambda s: repaired(100, s)),
}  # fmt: skip
