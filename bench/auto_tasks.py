"""Tasks for bench.auto whose classes or targets are new to the network: none of them chose a rule of `fit`.

A network that knows some exercises, faults or digits learns others; a watch learns with which arm an exercise is done;
a network that hears how high and how loud a tone is gets another microphone, or is asked for something else.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import insitu
from bench.default_fresh import stacked, taught, temporal_net, windows
from bench.default_tasks import Task, small_cnn, trained
from insitu.demo.digits import digits
from insitu.demo.watch import network, others, recordings

LEARNED = 12  # windows at the start of each recording
LENGTH = 101  # readings of a machine


def new_digits(seed: int) -> Task:
    """A network that knows the digits from 0 to 4 learns those from 5 to 9."""
    data, module = digits(), small_cnn()
    few, rest = data.y_train < 5, data.y_train >= 5
    model = trained(module, data.x_train[few], data.y_train[few], steps=150)
    options = {"data": data.x_train[rest][:200], "classes": 5, "example": np.zeros((1, 1, 8, 8), np.float32)}
    chosen = np.random.default_rng(seed).permutation(np.flatnonzero(rest))[:300]
    tested = data.y_test >= 5
    learn = data.x_train[chosen], data.y_train[chosen] - 5
    return Task(model, learn, (data.x_test[tested], data.y_test[tested] - 5), options)


# motion -----------------------------------------------------------------------------------------


@cache
def four_exercises(left_out: int) -> Any:
    """A temporal network that knows the first four exercises of everybody else."""
    parts = [p for n in range(1, 11) if n != left_out for p in windows(n, 64, 64) if p[1] < 4]
    return taught(temporal_net(), *stacked(parts), epochs=6)


def new_exercises(number: int, seed: int) -> Task:
    """It learns three others, from the start of each recording of a wearer whom it has never seen; the test windows
    come later and overlap by three quarters."""
    x, y = stacked([(w[:LEARNED], e - 4) for w, e in windows(number, 64, 64) if e >= 4])
    test = stacked([(w[4 * LEARNED :], e - 4) for w, e in windows(number, 64, 16) if e >= 4])
    chosen = np.sort(np.random.default_rng(seed).permutation(len(x))[: len(x) - seed])
    options = {"data": x, "classes": 3, "example": np.zeros((1, 6, 64), np.float32)}
    return Task(four_exercises(number), (x[chosen], y[chosen]), test, options)


def arms(number: int, seed: int) -> Task:
    """The watch's network learns 14 classes: the exercise and the arm. Windows overlap by three quarters."""
    learn, test = [], []
    for r in recordings()[number]:
        starts = range(0, len(r.x) - 127, 32)
        cut, label = np.stack([r.x[s : s + 128] for s in starts])[:, None], 2 * r.exercise + r.arm
        learn.append((cut[:LEARNED], label))
        test.append((cut[LEARNED + 3 :], label))
    x, y = stacked(learn)
    chosen = np.sort(np.random.default_rng(seed).permutation(len(x))[: len(x) - seed])
    options = {"data": others(number).x[::16], "classes": 14}
    return Task(network(number), (x[chosen], y[chosen]), stacked(test), options)


# a machine --------------------------------------------------------------------------------------


def vibrations(kinds: range, each: int, machine: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two sensors of a machine: a fault is a set of frequencies and how often they knock; machines differ in both."""
    rng, found, labels = np.random.default_rng(seed), [], []
    own = np.random.default_rng((77, machine))
    stretch, gain = own.uniform(0.9, 1.1), own.uniform(0.6, 1.4, 2)
    t = np.arange(LENGTH)
    for kind in kinds:
        made = np.random.default_rng((5, kind))
        tones, loud = made.uniform(0.03, 0.45, 3) * stretch, made.uniform(0.3, 1.0, (2, 3))
        period, knock = made.integers(9, 30), made.uniform(0, 1.5)
        for _ in range(each):
            phase = rng.uniform(0, 2 * np.pi, 3)
            waves = np.sin(2 * np.pi * tones[:, None] * t * rng.normal(1, 0.03) + phase[:, None])
            knocks = knock * (((t + rng.integers(period)) % period) < 3)
            noise = rng.normal(0, 0.9, (2, LENGTH))
            found.append(gain[:, None] * (rng.uniform(0.5, 1.5) * loud @ waves + knocks + noise))
            labels.append(kind)
    return np.asarray(found, np.float32), np.asarray(labels, np.int64)


@cache
def machine_net() -> Any:
    """A 1-D network with odd sizes that knows five faults of one machine."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv1d(2, 11, 7, stride=2, padding=3), nn.BatchNorm1d(11), nn.ReLU(), nn.Conv1d(11, 19, 5, padding=2),
        nn.ReLU(), nn.MaxPool1d(2), nn.Conv1d(19, 27, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(),
        nn.Linear(27, 5),
    )  # fmt: skip
    return taught(net, *vibrations(range(5), 150, 0, 1))


def new_faults(seed: int) -> Task:
    """Six other faults of another machine."""
    (x, y), (xt, yt) = (vibrations(range(5, 11), count, 1, s) for count, s in ((40, 100 + seed), (100, 2)))
    options = {"data": x[::2], "classes": 6, "example": np.zeros((1, 2, LENGTH), np.float32)}
    return Task(machine_net(), (x, y - 5), (xt, yt - 5), options)


# targets ----------------------------------------------------------------------------------------


def tones(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy tones, 64 readings each: their frequency, loudness and noise, each with a spread near 1."""
    rng = np.random.default_rng(seed)
    f, loud, phase = rng.uniform(0.02, 0.2, count), rng.uniform(0.5, 2, count), rng.uniform(0, 2 * np.pi, count)
    noise = rng.uniform(0.05, 0.6, count)
    waves = loud[:, None] * np.sin(2 * np.pi * f[:, None] * np.arange(64) + phase[:, None])
    waves += noise[:, None] * rng.normal(size=(count, 64))
    y = np.stack([20 * f, 2 * loud, 6 * noise], 1)
    return waves[:, None].astype(np.float32), y.astype(np.float32)


@cache
def tone_net() -> Any:
    """A 1-D network that tells frequency and loudness."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv1d(1, 12, 7, stride=2, padding=3), nn.ReLU(), nn.Conv1d(12, 16, 5, stride=2, padding=2), nn.ReLU(),
        nn.Conv1d(16, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(64, 2),
    )  # fmt: skip
    x, y = tones(1500, 1)
    return taught(net, x, y[:, :2], 20, lambda a, b: ((a - b) ** 2).mean())


def another_microphone(seed: int) -> Task:
    """Duller, with an offset and another gain."""
    (x, y), (xt, yt) = tones(200, 100 + seed), tones(600, 2)
    x, xt = (0.6 * (0.6 * w + 0.4 * np.roll(w, 1, 2)) + 0.3 for w in (x, xt))
    return Task(tone_net(), (x, y[:, :2]), (xt, yt[:, :2]), _towards_targets(x))


def another_target(seed: int) -> Task:
    """How much noise there is, with a new last layer."""
    (x, y), (xt, yt) = tones(200, 100 + seed), tones(600, 2)
    return Task(tone_net(), (x, y[:, 2:]), (xt, yt[:, 2:]), {**_towards_targets(x), "classes": 1})


def _towards_targets(x: np.ndarray) -> dict:
    return {"data": x, "recipe": insitu.Recipe(loss="mse"), "example": np.zeros((1, 1, 64), np.float32)}
