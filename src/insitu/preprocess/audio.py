"""From the samples of a microphone to the features a network was trained on, as part of its graph.

    Audio()                                              49 x 10 MFCC of a second at 16 kHz: MLPerf Tiny's keywords
    Audio(coefficients=None, high=7600.0, mean=-6.0, std=3.0)      logarithms of 40 mel bands, normalised
    Audio(coefficients=None, high=7600.0, scale="pcen")            the bands divided by their own recent past (PCEN)

The graph then takes int16 samples, one row per hop. Everything before the first layer is in integers and works row by
row: `--rows` (Recipe(rows=True)) takes the sound as it arrives, and neither it nor its spectrogram exists whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Builder, Graph, Type, Value, build, check, evaluate
from insitu.ops._sound import bins_used, points
from insitu.ops.layout import reshape, transpose
from insitu.ops.normalize import normalize
from insitu.ops.pcen import mel, pcen, smooth
from insitu.ops.quant import quantize
from insitu.ops.sound import cepstrum, log_mel, spectrum
from insitu.preprocess.front import in_front
from insitu.terminal.misspelled import all_spelled

INPUT = "sound"
Numbers = float | tuple[float, ...]


@all_spelled
@dataclass(frozen=True)
class Audio:
    """Features of sound; the defaults are those of the MLPerf Tiny keyword network (DS-CNN)."""

    rate: int = 16000  # samples per second
    seconds: float = 1.0
    window_ms: float = 30.0
    hop_ms: float = 20.0
    bands: int = 40  # mel bands from `low` to `high` Hz
    low: float = 20.0
    high: float = 4000.0
    coefficients: int | None = 10  # MFCC; None: the bands themselves
    scale: str = "log"  # of the bands; or "pcen": (x / (floor + m)^pcen_gain + bias)^root - bias^root, m their past
    power: int = 1  # of amplitudes, before they are added up in bands
    floor: float = 1e-6  # added before the logarithm, for samples between -1 and 1
    gain: float = 1.0  # for quiet microphones
    mean: Numbers = 0.0  # of the features: one number, or one per feature
    std: Numbers = 1.0
    shape: str = "hann"  # of the window
    pcen_seconds: float = 0.4  # how long a band's past is: the time constant of its smoother
    pcen_gain: float = 0.98
    pcen_bias: float = 2.0
    pcen_root: float = 0.5

    @property
    def hop(self) -> int:
        """Samples per row."""
        return round(self.rate * self.hop_ms / 1000)

    @property
    def window(self) -> int:
        """Samples of sound in a frame."""
        return round(self.rate * self.window_ms / 1000)

    @property
    def rows(self) -> int:
        """Hops in a clip; its sound arrives as so many rows."""
        return int(round(self.rate * self.seconds) // max(self.hop, 1))

    @property
    def frames(self) -> int:
        """Rows of features in a clip."""
        return (self.rows * self.hop - self.window) // max(self.hop, 1) + 1

    @property
    def features(self) -> int:
        """Numbers in a frame: coefficients, or bands without them."""
        return self.coefficients or self.bands

    @property
    def share(self) -> float:
        """Of a new frame in the smoothed bands: a filter of first order with the time constant `pcen_seconds`."""
        frames = self.pcen_seconds * self.rate / max(self.hop, 1)
        return float((np.sqrt(1 + 4 * frames**2) - 1) / (2 * frames**2)) if frames > 0 else 1.0

    @property
    def input(self) -> Type:
        """What the program takes: int16 sound."""
        return Type("s16", (1, self.rows, self.hop, 1))

    def applied_to(self, graph: Graph) -> Graph:
        """The graph that takes sound."""
        if len(graph.inputs) != 1:
            raise GraphError("features of sound need a model with one input", where=graph.name)
        return in_front(graph, lambda builder: self._fitted(builder, graph.inputs[0]))

    def _fitted(self, builder: Builder, old: Value) -> Value:
        """The features in the shape and type of an input."""
        sizes = [d for d in old.shape if d > 1]
        made = self.made(builder)
        if sizes == [self.features, self.frames] != [self.frames, self.features]:
            made = transpose(made, perm=(0, 2, 1, 3), name=f"{old.name}.turned")
        elif sizes != [d for d in (self.frames, self.features) if d > 1]:
            what = f"input {old.name} is {old.type}, but this makes {self.frames} frames x {self.features} features"
            raise GraphError(what, where="Audio", hint="seconds, window_ms, hop_ms, bands, coefficients=")
        if old.dtype == "s8":
            made = quantize(made, name=f"{old.name}.s8", out=old.type)
        return made if made.shape == old.shape else reshape(made, shape=old.shape, name=old.name)

    def made(self, builder: Builder) -> Value:
        """The features f32[1, frames, features, 1] of a new input."""
        self._check()
        x = builder.input(INPUT, self.input)
        n = points(self.window)
        mels = {"bands": self.bands, "rate": self.rate, "low": float(self.low), "high": float(self.high)}
        bins = bins_used(self.bands, n, self.rate, mels["low"], mels["high"])
        x = spectrum(x, window=self.window, bins=bins, shape=self.shape, name="spectrum")
        x = SCALES[self.scale](self, x, points=n, gain=float(self.gain), **mels)
        if self.coefficients:
            x = cepstrum(x, count=self.coefficients, name="mfcc")
        mean, std = self._numbers(self.mean), self._numbers(self.std)
        if self.coefficients and set(mean) == {0.0} and set(std) == {1.0}:
            return x
        count = max(len(mean), len(std))
        return normalize(x, mean=mean * (count // len(mean)), std=std * (count // len(std)), axis=2, name="features")

    def _logarithms(self, x: Value, **mels) -> Value:
        return log_mel(x, floor=float(self.floor), power=self.power, name="log_mel", **mels)

    def _pcen(self, x: Value, **mels) -> Value:
        x = mel(x, name="mel", **mels)
        past = smooth(x, share=self.share, name="past")
        numbers = {"gain": float(self.pcen_gain), "bias": float(self.pcen_bias), "root": float(self.pcen_root)}
        return pcen(x, past, unit=x.type.scale, floor=float(self.floor), name="pcen", **numbers)

    def _numbers(self, value: Numbers) -> tuple[float, ...]:
        many = tuple(map(float, value)) if isinstance(value, tuple | list | np.ndarray) else (float(value),)
        if len(many) not in (1, self.features):
            raise GraphError(f"{len(many)} numbers do not fit {self.features} features", where="Audio")
        return many

    def _check(self) -> None:
        if self.hop < 1 or self.window < 4 or self.rows * self.hop < self.window:
            what = f"{self.seconds} s at {self.rate} Hz with windows of {self.window_ms} ms every {self.hop_ms} ms"
            raise GraphError(f"{what}: has no frame", where="Audio")
        if self.scale not in SCALES:
            raise GraphError(f"there is no scale {self.scale!r}", where="Audio", hint=", ".join(SCALES))
        if self.scale == "pcen" and self.power != 1:
            raise GraphError(f"scale='pcen' is of amplitudes, not of power {self.power}", where="Audio", hint="power=1")

    def graph(self) -> Graph:
        """The features alone, as a graph."""
        builder = Builder("features")
        with build(builder):
            return check(builder.graph(self.made(builder)))

    def of(self, sound: np.ndarray) -> np.ndarray:
        """f32[n, frames, features]: the features of int16 sound [n, samples], computed by the numpy meaning."""
        graph, rows = self.graph(), np.asarray(sound).reshape(-1, *self.input.shape[1:])
        return np.concatenate([np.asarray(evaluate(graph, x[None]))[..., 0] for x in rows])


SCALES = {"log": Audio._logarithms, "pcen": Audio._pcen}  # op by name: words that a user writes
