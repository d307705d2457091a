"""Optimizers whose averages fade away: nothing subnormal stays in the state, and no weight can tell."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import insitu.ops  # noqa: F401  fills the registry
from insitu.devices.host import HostDevice, open_host
from insitu.graph import Builder, build, f32, s32
from insitu.ops.update import adam, sgd_momentum
from insitu.training.train import SCALAR, Recipe
from tests.training.programs import float_programs, opened, samples

STEPS, SIZE = 3000, 64
LEAST = np.finfo(np.float32).tiny


def subnormal(array: np.ndarray) -> int:
    return int(((array != 0) & (np.abs(array) < LEAST)).sum())


def gradients(steps: int) -> np.ndarray:
    """Each weight has a scale of its own, from 1 to 1e-44, and learns in the first hundred steps only."""
    drawn = np.random.default_rng(0).standard_normal((steps, SIZE)) * np.logspace(0, -44, SIZE)
    drawn[100:] = 0
    return drawn.astype(np.float32)


def updater(op, states: int) -> HostDevice:
    """A program whose only call is this update; the weights and averages are inputs and outputs."""
    builder = Builder("update")
    with build(builder):
        kept = [builder.input(f"s{i}", f32(SIZE)) for i in range(states)]
        kept += [builder.input("bias", f32(2))] if op is adam else []
        rest = builder.input("dw", f32(SIZE)), builder.input("rate", SCALAR), builder.input("count", s32(3))
        return open_host(builder.graph(*op(*kept, *rest)))


def run(op, states: int, rate: float) -> list[np.ndarray]:
    device, count = updater(op, states), np.zeros(3, np.int32)
    kept = [np.zeros(SIZE, np.float32) for _ in range(states)] + ([np.zeros(2, np.float32)] if op is adam else [])
    for dw in gradients(STEPS):
        *kept, count = device.predict(*kept, dw, np.float32(rate), count)
    return kept


@pytest.mark.parametrize("op, states, make", [
    (adam, 3, lambda w, rate: torch.optim.Adam([w], lr=rate)),
    (sgd_momentum, 2, lambda w, rate: torch.optim.SGD([w], lr=rate, momentum=0.9)),
])  # fmt: skip
def test_weights_are_those_of_an_optimizer_that_keeps_the_smallest_numbers(op, states, make):
    found = run(op, states, 1e-3)
    w = torch.zeros(SIZE, dtype=torch.float64)
    optimizer = make(w, 1e-3)
    for dw in gradients(STEPS):
        w.grad = torch.from_numpy(dw.astype(np.float64))
        optimizer.step()
    np.testing.assert_allclose(found[0], w.numpy(), rtol=0, atol=1e-5 * float(w.abs().max()))
    assert sum(subnormal(a) for a in found[1:]) == 0


def test_no_average_is_subnormal_after_3000_steps_with_dead_units():
    device = opened(float_programs("mlp", Recipe(optimizer="adam", clip=0.0), batch=4))
    x, y = samples("mlp", 4)
    device.run("train_step", x, y, np.float32(1e-3))
    state = device.state()
    first = next(name for name in state if name.endswith(".bias"))
    state[first][::2] = -100.0  # no sample reaches these units any more
    device.load_arrays(state)
    step = device.prepared(x, y, np.float32(1e-3), verb="train_step")
    for _ in range(STEPS):
        step()
    found = {name: a for name, a in device.state().items() if name.endswith((".m", ".v"))}
    assert any((a == 0).any() for a in found.values())  # the dead units' averages have ended
    assert {name: subnormal(a) for name, a in found.items()} == dict.fromkeys(found, 0)
