"""Memory or speed: if speed is preferred, instructions are only spent until the program fits the SRAM."""

from functools import cache

import numpy as np
import pytest

import insitu
from insitu.cli import main
from insitu.deploy.cost import count, random_input
from insitu.devices.emulator import emulate
from insitu.errors import BoardError, BudgetError
from insitu.planner.spent import spent_text

from .test_budget import Turned

torch = pytest.importorskip("torch")
nn = torch.nn

for package in ("elftools", "ziglang", "unicorn"):
    pytest.importorskip(package)


@cache
def model():
    """Two peaks: at the beginning a map that can run in stripes, and at the end the gradient of a trained weight."""
    torch.manual_seed(0)
    layers = (
        Turned(),
        nn.Conv2d(3, 24, 3, 1, 1),
        nn.ReLU(),
        nn.Conv2d(24, 64, 3, 4, 1),
        nn.ReLU(),
        nn.Conv2d(64, 128, 1),
    )
    net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 3)).eval()
    x = np.random.default_rng(0).normal(size=(8, 32, 32, 3)).astype(np.float32)
    return insitu.load(net, torch.tensor(x[:1])).quantize(x)


def made(prefer: str, sram: int | None = None):
    return insitu.compile(model(), classes=4, scheme="last:1", board="nrf52840", prefer=prefer, sram=sram).deployed


@pytest.fixture(scope="module")
def small():
    return made("memory")


@pytest.fixture(scope="module")
def quick():
    return made("speed")


def step(deployed) -> int:
    return sum(count(deployed.firmware)["train_step"].values())


def test_with_memory_to_spare_nothing_is_lowered_and_a_step_takes_fewer_instructions(small, quick):
    assert spent_text(small.lowered) and not spent_text(quick.lowered)
    assert quick.sram_bytes > small.sram_bytes and step(quick) < step(small)


def test_in_between_it_is_lowered_as_far_as_the_sram_asks_for(small, quick):
    between = made("speed", quick.sram_bytes - 1)
    assert small.sram_bytes < between.sram_bytes < quick.sram_bytes
    assert step(quick) < step(between) < step(small)
    assert spent_text(between.lowered) != spent_text(small.lowered)


def test_what_fits_with_the_least_memory_fits_whatever_is_preferred(small):
    assert made("speed", small.sram_bytes).sram_bytes == small.sram_bytes
    with pytest.raises(BudgetError):
        made("speed", 2048)


def test_both_learn_the_same_bytes(small, quick):
    learned = []
    for deployed in (small, quick):
        device, rng = emulate(deployed.firmware), np.random.default_rng(0)
        for _ in range(3):
            device.run("train_step", *(random_input(rng, v) for v in deployed.program.plans["train_step"].graph.inputs))
        learned.append(device.state())
    assert all(np.array_equal(learned[0][name], value) for name, value in learned[1].items())


def test_another_word_is_refused():
    with pytest.raises(BoardError, match="prefer is 'power'") as e:
        insitu.compile("nothing.onnx", board="nrf52840", prefer="power")
    assert e.value.hint == "memory or speed"
    with pytest.raises(SystemExit):
        main(["compile", "nothing.onnx", "--prefer", "power"])
