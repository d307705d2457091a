"""Spoken words from the zoo for the audio demo: seven words by hundreds of speakers, with or without a hum."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from insitu.zoo import find

ENTRY = "speech7"
ROWS, HOP = 50, 320  # a second at 16 kHz
SNR = 5.0  # dB: how much louder the words are than the hum
CORNER = 50.0  # Hz: above it, the hum falls by 3 dB per octave
PARTS = ("train", "val", "test")


@dataclass(frozen=True, eq=False)
class Words:
    """A second of sound per word, and its class; the parts of the data share no speaker."""

    x: np.ndarray  # int16[N, 50, 320, 1]
    y: np.ndarray

    def __len__(self) -> int:
        return len(self.y)

    def few(self, each: int) -> Words:
        """The first ones of each class."""
        chosen = np.sort(np.concatenate([np.flatnonzero(self.y == c)[:each] for c in np.unique(self.y)]))
        return Words(self.x[chosen], self.y[chosen])


@cache
def _arrays() -> dict[str, np.ndarray]:
    with np.load(find(ENTRY), allow_pickle=False) as arrays:
        return dict(arrays)


def labels() -> tuple[str, ...]:
    return tuple(map(str, _arrays()["class_names"]))


def words(part: str, hum: bool = False) -> Words:
    """The words of a part: train, val or test."""
    x = _arrays()[f"x_{part}"]
    x = hummed(x, PARTS.index(part)) if hum else x
    return Words(x.reshape(-1, ROWS, HOP, 1), _arrays()[f"y_{part}"].astype(np.int64))


def hummed(x: np.ndarray, seed: int, below: float = SNR) -> np.ndarray:
    """Sounds int16[N, samples] with a low hum, this many dB below each."""
    rng, sound = np.random.default_rng(seed), x.astype(np.float32)
    bins = np.fft.rfft(rng.standard_normal(x.shape, np.float32))
    falls = 1 / np.sqrt(1 + np.arange(bins.shape[1]) / CORNER)
    hum = np.fft.irfft(bins * falls, x.shape[1])
    loud = np.sqrt((sound**2).mean(1, keepdims=True) / (hum**2).mean(1, keepdims=True)) * 10 ** (-below / 20)
    return np.clip(np.rint(sound + hum * loud), -32768, 32767).astype(np.int16)
