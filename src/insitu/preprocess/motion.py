"""From the readings of a motion sensor to the windows a network was trained on, as part of its graph.

    Motion(rate=50, highpass=0.3, mean=(0.0, 0.0, 0.0), std=(4.0, 4.0, 4.0), window=128, overlap=0.5)

A recording of any length is cut into windows, and `overlap` of each is in the next. The graph then takes readings
f32[1, times, 1, channels], one row per point in time, and some more of them than the network looks at: the filter has
no edges inside. It works row by row (`--rows`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Builder, Graph, Type, Value
from insitu.ops.layout import reshape, transpose
from insitu.ops.motion import OVERLAP, fir
from insitu.ops.normalize import normalize
from insitu.ops.quant import quantize
from insitu.preprocess.front import in_front
from insitu.terminal.misspelled import all_spelled

INPUT = "readings"
Numbers = float | tuple[float, ...]


@all_spelled
@dataclass(frozen=True)
class Motion:
    """Filters in Hz (None: no filter), then (x - mean) / std: one number, or one per channel."""

    rate: float = 50.0  # readings per second
    highpass: float | None = None  # takes away what changes more slowly: gravity
    lowpass: float | None = None  # takes away what changes faster: noise
    taps: int = 25  # length of the filters, odd
    mean: Numbers = 0.0
    std: Numbers = 1.0
    window: int | None = None  # readings that the network looks at; None: as many as its input has
    overlap: float = OVERLAP  # how much of a window is in the next, if a recording is longer: 0 to below 1

    @property
    def filter(self) -> tuple[float, ...]:
        """The taps of both filters together: windowed sinc (Hamming), as scipy.signal.firwin makes them."""
        made = np.zeros(self.taps)
        made[self.taps // 2] = 1.0
        if self.lowpass:
            made = self._sinc(self.lowpass)
        if self.highpass:
            made = made - self._sinc(self.highpass)
        return tuple(map(float, made.astype(np.float32))) if self.lowpass or self.highpass else ()

    def _sinc(self, hertz: float) -> np.ndarray:
        if not 0 < hertz < self.rate / 2 or self.taps < 3 or self.taps % 2 == 0:
            what = f"a filter at {hertz} Hz with {self.taps} taps does not fit {self.rate} readings per second"
            raise GraphError(what, where="Motion", hint="0 < Hz < rate / 2, and an odd number of taps")
        at = np.arange(self.taps) - self.taps // 2
        made = np.sinc(2 * hertz / self.rate * at) * np.hamming(self.taps)
        return made / made.sum()

    def applied_to(self, graph: Graph) -> Graph:
        """The graph that takes readings."""
        if len(graph.inputs) != 1 or len(_sizes(graph.inputs[0])) > 2:
            raise GraphError("windows of readings need a model with one input, times x channels", where=graph.name)
        return in_front(graph, lambda builder: self._made(builder, graph.inputs[0]))

    def _made(self, builder: Builder, old: Value) -> Value:
        times, channels, turned = self._layout(old)
        self._check(times)
        taps, cut = self.filter, {} if self.overlap == OVERLAP else {"overlap": float(self.overlap)}
        taps = taps or ((1.0,) if cut else ())  # a filter says how recordings are cut: here one that changes nothing
        x = builder.input(INPUT, Type("f32", (1, times + max(len(taps) - 1, 0), 1, channels)))
        x = fir(x, taps=taps, name="filtered", **cut) if taps else x
        mean, std = (self._numbers(v, channels) for v in (self.mean, self.std))
        x = normalize(x, mean=mean, std=std, name="normalised")
        x = transpose(x, perm=(0, 3, 2, 1), name=f"{old.name}.turned") if turned else x
        x = quantize(x, name=f"{old.name}.s8", out=old.type) if old.dtype == "s8" else x
        return x if x.shape == old.shape else reshape(x, shape=old.shape, name=old.name)

    def _check(self, times: int) -> None:
        if self.window not in (None, times):
            what = f"the network looks at {times} readings, not at {self.window}"
            raise GraphError(what, where="Motion", hint=f"window={times}, or a network that takes {self.window}")
        if not 0 <= self.overlap < 1:
            raise GraphError(f"overlap must be from 0 to below 1, not {self.overlap}", where="Motion")

    def _layout(self, old: Value) -> tuple[int, int, bool]:
        """(times, channels, whether channels come first): there are more times than channels."""
        sizes = _sizes(old)
        first, last = sizes if len(sizes) == 2 else (*sizes, 1)
        return (last, first, True) if last > first else (first, last, False)

    def _numbers(self, value: Numbers, channels: int) -> tuple[float, ...]:
        many = tuple(map(float, value)) if isinstance(value, tuple | list | np.ndarray) else (float(value),) * channels
        if len(many) != channels:
            raise GraphError(f"{len(many)} numbers do not fit {channels} channels", where="Motion")
        return many


def _sizes(value: Value) -> list[int]:
    return [d for d in value.shape if d > 1]
