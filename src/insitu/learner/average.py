"""The mean of the states after the last epochs of a training: less noise than any one of them.

It is kept on this machine, whatever device learns: the device's state is read after each of these epochs, and the mean
is loaded when the last one is over. Weights are mixed in real units, as between.py does. Where the rate falls to zero
there is little left to average; with a constant rate, the mean brings back most of what the noise costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from insitu.devices.device import Device
from insitu.learner.between import mixed
from insitu.learner.rates import trained_names


@dataclass(eq=False)
class Mean:
    """The running mean of the states after the last `epochs` epochs; with fewer than two of them, it does nothing."""

    epochs: int
    count: int = 0
    state: Mapping[str, np.ndarray] | None = None

    def add(self, device: Device, left: int) -> None:
        """After an epoch, with so many to come: count it in if it is one of the last, and load the mean at the end."""
        if self.epochs < 2 or left >= self.epochs:
            return
        self.count += 1
        now = dict(device.state())
        self.state = now if self.state is None else nearer(self.state, now, 1 / self.count)
        if not left:
            device.load_arrays(self.state)


def nearer(mean: Mapping[str, np.ndarray], now: Mapping[str, np.ndarray], share: float) -> dict[str, np.ndarray]:
    """The mean moved by this share towards a state, whose counters it takes over."""
    found = dict(now)
    for name in trained_names(now):
        found.update(mixed(mean, now, share, name))
    return found
