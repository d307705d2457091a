"""Small learners and data that several tests share."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import nn

import insitu


def data(count: int = 30, width: int = 6, classes: int = 4, seed: int = 0):
    """Points whose class is their largest coordinate."""
    x = np.random.default_rng(seed).normal(size=(count, width)).astype(np.float32)
    return x, x[:, :classes].argmax(1)


def mlp(width: int = 6, classes: int = 4, hidden: int = 8) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(),
                         nn.Linear(hidden, classes)).eval()  # fmt: skip


@cache
def imported() -> insitu.Model:
    """The network above, read once: torch takes longer to export it than insitu to compile it."""
    return insitu.load(mlp(), torch.zeros(1, 6))


def learner(scheme: str = "full", batch: int = 1, module: nn.Module | None = None, **options) -> insitu.Learner:
    options = {"classes": 4, "precision": "float", "head_init": "uniform", **options}
    if module is None:
        return insitu.compile(imported(), scheme=scheme, batch=batch, **options)
    return insitu.compile(module, example=torch.zeros(1, 6), scheme=scheme, batch=batch, **options)


def state_of(learner: insitu.Learner) -> bytes:
    return learner.device.save_state()
