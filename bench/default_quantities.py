"""Quantities for the defaults of `fit`, written before any rule was run on them. One rule was
added since with them in view: when a solved last layer of a network that knows much is kept.

A table whose sensors drifted, the pitch of a sound through another microphone, the pace of an arm with a watch that was
turned, and how much of a substance a spectrum shows with another lamp. default_tasks.py says what a task is.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from bench.default_fresh import Make, taught
from bench.default_tasks import SHALLOW, Task, dense

Pair = tuple[np.ndarray, np.ndarray]


def squares(a: Any, b: Any) -> Any:
    return ((a - b) ** 2).mean()


def made(model: Any, learn: Pair, test: Pair) -> Task:
    import torch

    from insitu import Recipe

    x, y = learn
    options = {"data": x, "example": torch.zeros(1, *x.shape[1:]), "recipe": Recipe(loss="mse")}
    return Task(model, (x, y), test, options)


def strided(channels: int, outputs: int) -> Any:
    """Three convolutions over a signal."""
    import torch
    from torch import nn

    torch.manual_seed(5)
    return nn.Sequential(nn.Conv1d(channels, 10, 7, stride=2, padding=3), nn.ReLU(), nn.Conv1d(10, 16, 5, stride=2,
                         padding=2), nn.ReLU(), nn.Conv1d(16, 24, 3, stride=2, padding=1), nn.ReLU(),
                         nn.AdaptiveAvgPool1d(2), nn.Flatten(), nn.Linear(48, outputs))  # fmt: skip


# a table ------------------------------------------------------------------------------------------


def circuits(count: int, seed: int, drifted: bool = True) -> Pair:
    """The phase of a circuit with four parts (Friedman 3), in units of its spread; two of its sensors drift."""
    from sklearn.datasets import make_friedman3

    x, y = map(np.asarray, make_friedman3(count, noise=0.05, random_state=seed))
    x = (x - np.array([50, 1150, 0.5, 6])) / np.array([29, 320, 0.29, 2.9])
    x = x * np.array([0.6, 1.3, 1.0, 1.0]) + np.array([0.4, 0.0, -0.5, 0.0]) if drifted else x
    return x.astype(np.float32), ((y - 1.32) / 0.31).astype(np.float32)[:, None]


@cache
def circuit_net() -> Any:
    return taught(dense(4, 32, 24, 16, 1), *circuits(400, 1, drifted=False), 40, squares)


# sound --------------------------------------------------------------------------------------------


def tones(count: int, seed: int, other: bool = True) -> Pair:
    """The pitch (in octaves) of a tone with overtones, from 48 bands; another microphone hears low bands worse."""
    rng, bands = np.random.default_rng(seed), np.linspace(0, 5, 48)
    pitch, found = rng.uniform(0.3, 2.3, count), []
    for p in pitch:
        loud = rng.uniform(0.2, 1, 6) / np.arange(1, 7)
        power = sum(a * np.exp(-(((bands - p - np.log2(k + 1)) / 0.15) ** 2)) for k, a in enumerate(loud))
        found.append(np.log(power * rng.uniform(0.3, 3) + 0.05 * rng.exponential(size=48)))
    x = np.asarray(found) - (2.5 * np.exp(-bands) if other else 0)
    return (x / 2).astype(np.float32)[:, None], (pitch / 0.58 - 2.2).astype(np.float32)[:, None]


@cache
def tone_net() -> Any:
    return taught(strided(1, 1), *tones(800, 1, other=False), 25, squares)


# motion -------------------------------------------------------------------------------------------


def swings(count: int, seed: int, turned: bool = True) -> Pair:
    """The pace and the reach of an arm, from 64 readings of three axes; a watch that was turned mixes the axes."""
    rng, t = np.random.default_rng(seed), np.arange(64) / 64
    pace, reach = rng.uniform(1, 6, count), rng.uniform(0.3, 1.5, count)
    turn = 2 * np.pi * (pace[:, None] * t + rng.uniform(0, 1, (count, 1)))
    axes = np.stack([reach[:, None] * np.sin(turn), 0.6 * reach[:, None] * np.cos(turn), 0.3 * np.sin(2 * turn)], 1)
    x = axes + rng.normal(0, 0.25, axes.shape)
    angle = 0.9 if turned else 0.0
    mixed = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1 - 2 * turned]])
    y = np.stack([(pace - 3.5) / 1.44, (reach - 0.9) / 0.35], 1)
    return (mixed @ x).astype(np.float32), y.astype(np.float32)


@cache
def swing_net() -> Any:
    return taught(strided(3, 2), *swings(800, 1, turned=False), 25, squares)


# light --------------------------------------------------------------------------------------------


def spectra(count: int, seed: int, other: bool = True) -> Pair:
    """How much of one of four substances a spectrum of 48 readings shows; another lamp shines otherwise."""
    rng, own, at = np.random.default_rng(seed), np.random.default_rng(17), np.linspace(0, 1, 48)
    lines = np.stack([sum(a * np.exp(-(((at - c) / 0.06) ** 2)) for a, c in zip(own.uniform(0.3, 1, 3), own.random(3)))
                      for _ in range(4)])  # fmt: skip
    much = rng.gamma(2.0, 0.5, (count, 4))
    lamp = 1 + 0.5 * np.sin(5 * at) if other else np.ones(48)
    x = lamp * np.exp(-(much @ lines)) + rng.normal(0, 0.03, (count, 48))
    return (4 * x - 2).astype(np.float32), ((much[:, :1] - 1) / 0.7).astype(np.float32)


@cache
def spectrum_net() -> Any:
    return taught(dense(48, 40, 32, 16, 1), *spectra(500, 1, other=False), 30, squares)


QUANTITIES: dict[str, Make] = {
    "circuits, drifted, 120": (SHALLOW, lambda s: made(circuit_net(), circuits(120, 100 + s), circuits(800, 2))),
    "pitch, other microphone, 80": (SHALLOW, lambda s: made(tone_net(), tones(80, 100 + s), tones(600, 2))),
    "pace and reach, watch turned, 60": (SHALLOW, lambda s: made(swing_net(), swings(60, 100 + s), swings(600, 2))),
    "spectra, other lamp, 150": (SHALLOW, lambda s: made(spectrum_net(), spectra(150, 100 + s), spectra(800, 2))),
}
