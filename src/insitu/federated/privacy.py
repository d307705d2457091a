"""Differential privacy: each device's change is bounded and drowned in noise, and what that is worth is counted.

`local`: the device itself clips its change and adds the noise, so that nobody, the server included, sees more.
`central`: the server adds the noise to the sum, with Flower's own wrapper, and sees single changes. Epsilon is
that of Gaussian mechanisms composed over the rounds (Renyi divergence, no amplification by sampling), for a device's
whole data as the unit of privacy.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from math import log, sqrt

import numpy as np

from insitu.errors import DataError
from insitu.federated.units import Arrays

KINDS = ("local", "central")


@dataclass(frozen=True)
class Noise:
    """Clip the norm of a change to `clip`, then add noise of `multiplier` times that."""

    multiplier: float
    clip: float
    kind: str = "local"
    delta: float = 1e-5

    def __post_init__(self) -> None:
        if self.kind not in KINDS or not self.multiplier > 0 or not self.clip > 0 or not 0 < self.delta < 1:
            hint = f"noise and clip above 0, one of: {', '.join(KINDS)}"
            raise DataError(f"no such noise: {self}", where="privacy", hint=hint)

    def epsilon(self, rounds: int) -> float:
        """What so many rounds reveal about one device, at most, except with probability `delta`."""
        share = rounds / self.multiplier**2
        return share / 2 + sqrt(2 * share * log(1 / self.delta))


def own_noise(noise: Noise | None) -> Noise | None:
    """What a device adds itself."""
    return noise if noise and noise.kind == "local" else None


def private(change: Mapping[str, np.ndarray], noise: Noise, rng: np.random.Generator | None = None) -> Arrays:
    """The change of a device, clipped and with noise. The random numbers cannot be predicted, unless they are given."""
    rng = rng or np.random.default_rng(secrets.randbits(256))
    total = sqrt(sum(float(np.square(a, dtype=np.float64).sum()) for a in change.values()))
    share = min(1.0, noise.clip / total) if total else 1.0
    spread = noise.multiplier * noise.clip
    return {name: (a * share + rng.normal(0, spread, a.shape)).astype(np.float32) for name, a in change.items()}
