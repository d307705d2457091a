"""Sound from .wav files: samples between -1 and 1, one channel, in pieces of the length that an input takes."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np

from insitu.errors import DataError
from insitu.graph import Value

WIDTHS = {1: (np.uint8, 128, 128), 2: (np.dtype("<i2"), 0, 1 << 15), 4: (np.dtype("<i4"), 0, 1 << 31)}
ENOUGH = 0.5  # a piece at the end that is shorter than this share of the input is dropped


def read_wav(path: Path) -> np.ndarray:
    """The sound as float32 between -1 and 1; channels are averaged."""
    try:
        with wave.open(str(path), "rb") as f:
            width, channels, data = f.getsampwidth(), f.getnchannels(), f.readframes(f.getnframes())
    except (wave.Error, EOFError) as e:
        raise DataError(f"is not a .wav file that can be read: {e}", where=str(path)) from e
    if width not in WIDTHS:
        raise DataError(f"has {8 * width} bits per sample", where=str(path), hint="PCM with 8, 16 or 32 bits")
    kind, zero, scale = WIDTHS[width]
    sound = (np.frombuffer(data, kind).astype(np.float64) - zero) / scale
    return sound.reshape(-1, channels).mean(axis=1).astype(np.float32)


def length_of(value: Value, where: str) -> int:
    """How many samples of sound an input takes at once."""
    if value.type.rank not in (2, 3) or value.type.size != max(value.shape):
        what = f"input {value.name} is {value.type}, which does not take raw sound"
        raise DataError(what, where=where, hint="compute its features first, and give them as .npz")
    return value.type.size


def pieces(sound: np.ndarray, length: int) -> np.ndarray:
    """[count, length]: the sound in consecutive pieces; a short piece is padded with silence."""
    count = max(1, int(len(sound) / length + 1 - ENOUGH))
    found = np.zeros(count * length, np.float32)
    found[: len(sound)] = sound[: count * length]
    return found.reshape(count, length)
