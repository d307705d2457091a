"""Sound from .wav files: one channel at the rate that a model listens at, in pieces of the length that its input takes.

Samples lie between -1 and 1, or are int16 for a model that computes its own features (preprocess/audio.py).
"""

from __future__ import annotations

import wave
from math import gcd
from pathlib import Path

import numpy as np

from insitu.data.riff import samples
from insitu.data.source import source_of
from insitu.errors import DataError
from insitu.graph import Graph, Value
from insitu.terminal.wording import either

ENOUGH = 0.5  # a piece at the end that is shorter than this share of the input is dropped
FULL = 1 << 15  # a sample of 1.0 as an int16


def read_wav(path: Path, rate: int | None = None) -> np.ndarray:
    """The sound as float32 between -1 and 1, at this rate; channels are averaged."""
    found, own = samples(path)
    if not len(found):
        raise DataError("has no sound", where=str(path))
    return resampled(found.mean(axis=1), own, rate or own).astype(np.float32)


def resampled(sound: np.ndarray, own: int, rate: int) -> np.ndarray:
    """The sound at another rate: its spectrum, cut or extended by zeros."""
    if own == rate or not len(sound):
        return sound
    step = own // gcd(own, rate)
    padded = np.pad(sound, (0, -len(sound) % step))
    count = len(padded) * rate // own
    made = np.fft.irfft(np.fft.rfft(padded)[: count // 2 + 1], count) * (count / len(padded))
    return np.clip(made[: len(sound) * rate // own], -1, 1)


def write_wav(path: Path, sound: np.ndarray, rate: int) -> None:
    """int16 samples as a file."""
    with wave.open(str(path), "wb") as f:
        f.setnchannels(1)
        f.setsampwidth(2)
        f.setframerate(rate)
        f.writeframes(np.asarray(sound, "<i2").tobytes())


def length_of(value: Value, where: str) -> int:
    """How many samples of sound an input takes at once."""
    raw = value.dtype == "s16" and value.type.rank == 4 and value.shape[3] == 1
    if not raw and (value.type.rank not in (2, 3) or value.type.size != max(value.shape)):
        what = f"input {value.name} is {value.type}, which does not take raw sound"
        front = either(shell="--audio", python="transform=insitu.Audio()")
        raise DataError(what, where=where, hint=f"{front} computes features inside the model; or give .npz")
    return value.type.size


def sound_samples(path: Path, graph: Graph) -> np.ndarray:
    """[count, ...]: a file in pieces, as samples of the only input of a graph."""
    value = graph.inputs[0]
    cut = pieces(read_wav(path, source_of(graph).rate), length_of(value, str(path)))
    return (as_int16(cut) if value.dtype == "s16" else cut).reshape(-1, *value.shape[1:])


def as_int16(sound: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(sound * FULL), -FULL, FULL - 1).astype(np.int16)


def pieces(sound: np.ndarray, length: int) -> np.ndarray:
    """[count, length]: the sound in consecutive pieces; a short piece is padded with silence."""
    count = max(1, int(len(sound) / length + 1 - ENOUGH))
    found = np.zeros(count * length, np.float32)
    found[: len(sound)] = sound[: count * length]
    return found.reshape(count, length)
