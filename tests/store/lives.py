"""Learners of many kinds, and small lives of theirs."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import nn

import insitu
from tests.learners import data, imported

CLASSES = 4


@cache
def one_dimensional() -> insitu.Model:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv1d(2, 6, 3, padding=1), nn.ReLU(), nn.Conv1d(6, 8, 3), nn.ReLU(), nn.Flatten(),
                        nn.Linear(8 * 10, CLASSES)).eval()  # fmt: skip
    return insitu.load(net, torch.zeros(1, 2, 12))


@cache
def two_dimensional() -> insitu.Model:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
                        nn.Flatten(), nn.Linear(8, CLASSES)).eval()  # fmt: skip
    return insitu.load(net, torch.zeros(1, 1, 7, 7))


@cache
def normed() -> insitu.Model:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, CLASSES)).eval()
    return insitu.load(net, torch.zeros(1, 6))


def samples(model: insitu.Model, count: int = 80, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Samples of the model's shape; the class is the largest of their first four numbers."""
    shape = model.graph.inputs[0].shape[1:]
    x = np.random.default_rng(seed).normal(size=(count, *shape)).astype(np.float32)
    return x, x.reshape(count, -1)[:, :CLASSES].argmax(1)


KINDS = {
    "mlp head": lambda: insitu.compile(imported(), classes=CLASSES, precision="float"),
    "mlp last:1 int8": lambda: insitu.compile(imported(), classes=CLASSES, scheme="last:1", data=data(60)[0]),
    "mlp full adam": lambda: insitu.compile(
        imported(), classes=CLASSES, scheme="full", precision="float", recipe=insitu.Recipe(optimizer="adam")
    ),
    "1-D last:1 int8": lambda: insitu.compile(
        one_dimensional(), scheme="last:1", data=samples(one_dimensional())[0], classes=CLASSES
    ),
    "2-D head int8": lambda: insitu.compile(two_dimensional(), data=samples(two_dimensional())[0], classes=CLASSES),
    "2-D full float": lambda: insitu.compile(two_dimensional(), scheme="full", precision="float"),
    "batch of 4": lambda: insitu.compile(
        imported(), classes=CLASSES, scheme="full", precision="float", batch=4, head_init="uniform"
    ),
    "batch norm": lambda: insitu.compile(normed(), scheme="full", precision="float", batch=4),
    "int8 head": lambda: insitu.compile(imported(), classes=CLASSES, head="int8", data=data(60)[0]),
}
MODELS = {"1-D": one_dimensional, "2-D": two_dimensional, "bat": normed}


def model_of(kind: str) -> insitu.Model:
    return normed() if kind == "batch norm" else MODELS.get(kind[:3], imported)() if kind[:3] != "bat" else imported()


@cache
def made(kind: str) -> insitu.Learner:
    return KINDS[kind]()


def learner(kind: str = "mlp last:1 int8") -> insitu.Learner:
    """A new learner of this kind; its program is compiled once."""
    return made(kind).on("host")


@cache
def _growing(scheme: str) -> insitu.Learner:
    options = {"precision": "float"} if scheme == "head" else {"data": data(60)[0]}
    return insitu.compile(imported(), classes=CLASSES, max_classes=CLASSES + 1, scheme=scheme, **options)


def growing(scheme: str = "last:1") -> insitu.Learner:
    """A new learner with room for one class more; with the head alone, it keeps what is typical."""
    return _growing(scheme).on("host")


def lived(one: insitu.Learner, kind: str, count: int = 60, **options) -> insitu.Life:
    """A life with labelled samples of every class."""
    life = one.keep(**options)
    x, y = samples(model_of(kind), count)
    one.observe(x, y)
    return life


def bytes_of(one: insitu.Learner) -> bytes:
    return one.device.save_state()


def kill(one: insitu.Learner) -> None:
    """What the end of its process leaves: nothing is saved any more."""
    one.life.store.close()
    one.life._lock.release()
