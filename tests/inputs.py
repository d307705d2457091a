"""Inputs like those that the MLPerf Tiny models were made for: photos, speech features, smooth noise.

    realistic_inputs("vww", 200, shared_data)   float32[200, 96, 96, 3], in the float model's input range

Four of five are real (person photos, spoken words), every fifth is smooth noise at one of several contrasts. The ranges
are those of the models' training: ic pixels 0..255, vww pixels 0..1, kws MFCCs of speech scaled to a peak of 1, ad01
five frames of log-mel energies in dB. Pure functions of their arguments; the arrays are read-only.
"""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path

import numpy as np

RATE = 16000
CONTRASTS = (0.05, 0.2, 0.5, 1.0, 2.0)


@cache
def realistic_inputs(model: str, count: int, data_dir: Path, split: str = "test") -> np.ndarray:
    """float32[count, *shape] for model ic, vww, kws or ad01. The split is `train` or `test`: they share no sample."""
    real, shape, low, high = SOURCES[model]
    x = np.empty((count, *shape), np.float32)
    noisy = np.arange(count) % 5 == 4
    rng = np.random.default_rng([len(split), count])
    x[~noisy] = real(int((~noisy).sum()), Path(data_dir), split)
    for k, i in enumerate(np.flatnonzero(noisy)):
        x[i] = smooth_noise(rng, shape, low, high, CONTRASTS[k % len(CONTRASTS)])
    x.setflags(write=False)
    return x


def smooth_noise(rng, shape, low: float, high: float, contrast: float) -> np.ndarray:
    """White noise blurred along every axis except the last, scaled to `contrast` of the range around a random mean."""
    noise = rng.standard_normal(shape)
    axes = range(max(1, len(shape) - 1))
    for axis in axes:
        width = max(2, shape[axis] // 8)
        for _ in range(2):  # two box filters: a triangle, smooth enough
            noise = sum(np.roll(noise, s, axis) for s in range(width)) / width
    noise *= 0.5 / np.abs(noise).max()
    middle = low + (high - low) * rng.uniform(0.3, 0.7)
    return np.clip(middle + contrast * (high - low) * noise, low, high).astype(np.float32)


def photos(size: int, peak: float):
    """Person photos (128x128 JPEGs) at size x size, 0..peak."""

    def make(count: int, folder: Path, split: str) -> np.ndarray:
        from PIL import Image

        with np.load(folder / "person.npz") as data:
            jpeg, offsets = data[f"jpg_{split}"], data[f"off_{split}"]
        found = np.empty((count, size, size, 3), np.float32)
        for i, k in enumerate(_spread(len(offsets) - 1, count)):
            image = Image.open(io.BytesIO(jpeg[offsets[k] : offsets[k + 1]].tobytes())).convert("RGB")
            found[i] = np.asarray(image.resize((size, size), Image.Resampling.BILINEAR), np.float32)
        return _expose(found / 255) * np.float32(peak)

    return make


def _expose(images: np.ndarray) -> np.ndarray:
    """Every other photo dark or in hard light: a classifier is less sure about those, and its outputs vary more."""
    cycles = (1, 1.5), (0, -0.1, -0.1, -0.2)
    contrast, offset = (np.resize(np.array(c, np.float32), (len(images), 1, 1, 1)) for c in cycles)
    return np.clip(0.5 + contrast * (images - 0.5) + offset, 0, 1)


def mfccs(count: int, folder: Path, split: str) -> np.ndarray:
    """[count, 49, 10, 1]: frames of 30 ms every 20 ms, 40 mel bands of 20 to 4000 Hz, log, DCT, the first ten."""
    words = _words(count, folder, split)
    words = words / np.maximum(words.max(axis=1, keepdims=True), 1e-3)
    spectrum = np.abs(_stft(words, 480, 320, 512))[:, :49]
    mel = np.log(spectrum @ mel_bands(40, 512, 20, 4000) + 1e-6)
    k, n = np.arange(10)[:, None], np.arange(40)[None]
    dct = 2 * np.cos(np.pi * k * (2 * n + 1) / 80) / np.sqrt(80)
    return (mel @ dct.T)[..., None].astype(np.float32)


def log_mels(count: int, folder: Path, split: str) -> np.ndarray:
    """[count, 640]: five frames of 128 mel bands in dB, of speech over a humming machine."""
    words = _words(count, folder, split)
    rng = np.random.default_rng(5)
    t = np.arange(words.shape[1]) / RATE
    pitch = rng.uniform(60, 400, (count, 1))
    hum = sum(np.sin(2 * np.pi * pitch * h * t + rng.uniform(0, 6, (count, 1))) / h for h in range(1, 12))
    level = 10 ** rng.uniform(-3.5, -1.5, (count, 1))
    sound = words * rng.uniform(0, 0.3, (count, 1)) + level * (hum + rng.standard_normal(words.shape))
    power = np.abs(_stft(sound, 1024, 512, 1024)) ** 2
    # narrow bands have larger weights, so that every band of white noise has the same energy
    bands = mel_bands(128, 1024, 0, RATE / 2)
    decibels = 10 * np.log10(power @ (bands / np.maximum(bands.sum(axis=0) * RATE / 1024, 1e-9)) + 1e-9)
    start = rng.integers(0, decibels.shape[1] - 5, count)
    return np.stack([d[s : s + 5].reshape(-1) for d, s in zip(decibels, start)]).astype(np.float32)


def mel_bands(bands: int, fft: int, low: float, high: float) -> np.ndarray:
    """[fft/2 + 1, bands]: triangles evenly spaced on the mel scale 1127 ln(1 + f/700)."""
    edges = 700 * np.expm1(np.linspace(np.log1p(low / 700), np.log1p(high / 700), bands + 2))
    f = np.arange(fft // 2 + 1)[:, None] * RATE / fft
    rise = (f - edges[:-2]) / np.diff(edges)[:-1]
    fall = (edges[2:] - f) / np.diff(edges)[1:]
    return np.maximum(0, np.minimum(rise, fall))


def _words(count: int, folder: Path, split: str) -> np.ndarray:
    with np.load(folder / "speech7.npz") as data:
        x = data[f"x_{split}"]
    return x[_spread(len(x), count)] / 32768


def _stft(x: np.ndarray, frame: int, step: int, fft: int) -> np.ndarray:
    frames = np.lib.stride_tricks.sliding_window_view(x, frame, axis=1)[:, ::step]
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(frame) / frame)
    return np.fft.rfft(frames * window, fft)


def _spread(have: int, wanted: int) -> np.ndarray:
    """`wanted` indices spread evenly over `have` samples; from the start again if there are too few."""
    return np.arange(wanted) * max(1, have // wanted) % have


# model -> (maker of real inputs, shape, lowest and highest value of the model's inputs)
SOURCES = {
    "ic": (photos(32, 255), (32, 32, 3), 0.0, 255.0),
    "vww": (photos(96, 1), (96, 96, 3), 0.0, 1.0),
    "kws": (mfccs, (49, 10, 1), -20.0, 20.0),
    "ad01": (log_mels, (640,), -60.0, 10.0),
}
