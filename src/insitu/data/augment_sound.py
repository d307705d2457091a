"""Random changes to sound: earlier or later, louder or quieter, with noise. Pure numpy; same seed, same changes.

    learner.fit(x, y, augment=AugmentSound(), views=8)

Works on int16 samples of any shape, one sound per entry of the first axis.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from insitu.errors import DataError


@dataclass(frozen=True)
class AugmentSound:
    """A function of (sounds, rng). A field that is 0 switches that change off."""

    shift: float = 0.1  # of the length, to either side; silence follows
    gain: float = 0.5  # decades: from 10^-gain to 10^gain times as loud, as far as nothing is clipped
    noise: float = 0.03  # at most, of the sound's own peak

    def __call__(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A changed copy of sounds."""
        if x.dtype != np.int16:
            raise DataError(f"sounds must be int16, not {x.dtype}")
        return np.stack([self._one(sound, rng) for sound in x.reshape(len(x), -1)]).reshape(x.shape)

    def _one(self, sound: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        y = moved(sound.astype(np.float32), round(rng.uniform(-self.shift, self.shift) * len(sound)))
        peak = max(float(np.abs(y).max()), 1.0)
        y = y + np.float32(rng.uniform(0, self.noise) * peak) * rng.standard_normal(len(y), np.float32)
        louder = min(10 ** rng.uniform(-self.gain, self.gain), 32767 / peak)
        return np.clip(np.rint(y * np.float32(louder)), -32768, 32767).astype(np.int16)


def moved(sound: np.ndarray, by: int) -> np.ndarray:
    """The sound later by this many samples (earlier if negative), with silence in the gap."""
    kept = sound[: len(sound) - by] if by >= 0 else sound[-by:]
    return np.pad(kept, (by, 0) if by >= 0 else (0, -by))
