"""Tiny living programs on emulated boards, shared by the tests about them."""

from __future__ import annotations

from functools import cache

import numpy as np

import insitu
from insitu.deploy import Deployment
from insitu.devices.emulator import EmulatorDevice, emulate
from insitu.devices.living import Living

from ..learners import imported

CLASSES, WIDTH, STORE = 4, 6, "4K"
RATE = 0.05


@cache
def compiled(board: str = "nrf51822", scheme: str = "last:1", store: str = STORE, classes: int = CLASSES):
    """A small perceptron whose first layers are frozen, with room for some dozen samples."""
    return insitu.compile(imported(), classes=classes, scheme=scheme, precision="float", board=board, store=store)


def deployed(board: str = "nrf51822", scheme: str = "last:1", store: str = STORE) -> Deployment:
    found = compiled(board, scheme, store).deployed
    assert found is not None
    return found


def alive(*arguments: str) -> tuple[EmulatorDevice, Living]:
    """The device and its life, freshly started."""
    firmware = deployed(*arguments).firmware
    assert firmware is not None
    device = emulate(firmware)
    return device, Living(device)


def points(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Samples whose class is their largest coordinate."""
    x = np.random.default_rng(seed).normal(size=(count, WIDTH)).astype(np.float32)
    return x, x[:, :CLASSES].argmax(1)
