"""Weight scales that need no table: they follow from the multipliers that requantise their layer.

A multiplier m 2^(shift - 31) = s_x s_w / s_y has 31 bits, a float32 scale has 24. The multiplier times s_y / s_x,
rounded to 24 bits, is the scale. From the scale follow the factors of an update (1 / s_w, or 1 / (s_x s_w) for a bias)
and the shares of integer gradients. This file defines, in numpy, what the kernels channel_scales_f32 and
channel_shares_s16 compute. A table is replaced only if the computed numbers equal it in every bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import frexp

import numpy as np

from insitu.graph.call import Multipliers, Scales, Shares
from insitu.graph.types import GROUP

MANTISSA = 1 << 23


@dataclass(frozen=True, eq=False)
class Layer:
    """A layer's multipliers, with their C names."""

    m: str
    shift: str
    multipliers: Multipliers
    shifts: np.ndarray

    @property
    def ratio(self) -> tuple[int, int]:
        """s_y / s_x as ratio * 2^(exponent - 31), ratio in [2^30, 2^31)."""
        fraction, exponent = frexp(self.multipliers.y_scale / self.multipliers.x_scale)
        return min(int(fraction * 2**31 + 0.5), 2**31 - 1), exponent

    @property
    def scales(self) -> np.ndarray:
        """s_w, as the C computes them."""
        ratio, exponent = self.ratio
        high = self.multipliers.array.astype(np.int64) * ratio >> 32
        low = high < 1 << 29
        bits = (exponent + 125 + self.shifts.astype(np.int64) - low << 23) + (np.where(low, high * 2, high) + 32 >> 6)
        return bits.astype(np.uint32).view(np.float32)

    def fields(self) -> dict:
        """The fields of the struct weight_scales."""
        ratio, exponent = self.ratio
        return {"m": self.m, "shift": self.shift, "ratio": str(ratio), "exponent": str(exponent + 125)}


@dataclass(frozen=True)
class Derived:
    """How numbers follow from a layer's scales s: (over + rest) / s, where `rest` is tiny; s itself if over is 0."""

    layer: Layer
    over: float = 0.0
    rest: int = 0


def derive(wanted: Scales, layers: list[Layer]) -> Derived | None:
    """How to compute these numbers from one of the layers, or None if impossible."""
    for layer in layers:
        if layer.multipliers.array.shape == wanted.array.shape:
            for way in _ways(layer):
                if _numbers(way, wanted).tobytes() == wanted.array.tobytes():
                    return way
    return None


def _ways(layer: Layer) -> Iterator[Derived]:
    yield Derived(layer)
    yield Derived(layer, 1.0)
    exact = 1.0 / layer.multipliers.x_scale
    over = np.float32(exact)
    yield Derived(layer, float(over), int(np.rint((exact - float(over)) / float(np.spacing(over)) * 2.0**23)))


def _numbers(way: Derived, wanted: Scales) -> np.ndarray:
    scales = way.layer.scales
    if isinstance(wanted, Shares):
        return shares_of(scales, wanted.powers)
    return quotients(way.over, way.rest, scales) if way.over else scales


def quotients(over: float, rest: int, scales: np.ndarray) -> np.ndarray:
    """(over + rest / 2^23 of its last bit) / scales, rounded once: the float quotient, corrected by its remainder."""
    with np.errstate(over="ignore", divide="ignore"):
        found = np.float32(over) / scales
    q, s, c = _mantissa(found), _mantissa(scales), _mantissa(np.array([over], np.float32))
    left = 2 * (((c << 23) + rest << (c < s)) - q * s).astype(np.int32).astype(np.int64)
    step = (left > s).astype(np.int64) - (left < -s)
    return (found.view(np.uint32) + step).astype(np.uint32).view(np.float32)


def shares_of(scales: np.ndarray, powers: np.ndarray) -> np.ndarray:
    """s / 2^(k - 15), halves rounded up, with one k per group of channels or one for all."""
    bits = scales.view(np.uint32).astype(np.int64)
    k = np.repeat(powers, GROUP)[: len(bits)] if powers.size > 1 else powers
    right = np.clip(135 - (bits >> 23) + k.astype(np.int64), 1, 31)
    return (_mantissa(scales) + (1 << right - 1) >> right).astype(np.int16)


def _mantissa(x: np.ndarray) -> np.ndarray:
    return (x.view(np.uint32).astype(np.int64) & MANTISSA - 1) | MANTISSA
