"""Memory or speed: by default a program takes the fewest instructions that fit half of the board's SRAM."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import insitu
from insitu.boards import find_board
from insitu.cli import main
from insitu.deploy.cost import count, random_input
from insitu.devices.emulator import emulate
from insitu.errors import BoardError, BudgetError
from insitu.planner import plan_all
from insitu.planner.spent import spent_text

from .test_budget import Turned

torch = pytest.importorskip("torch")
nn = torch.nn

for package in ("elftools", "ziglang", "unicorn"):
    pytest.importorskip(package)


ROUND = 1024  # bytes: stack and protocol are known only after linking


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


@cache
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


def test_all_learn_the_same_bytes(small, quick):
    learned = []
    for deployed in (small, default_on(2 * quick.sram_bytes - 2), quick):
        device, rng = emulate(deployed.firmware), np.random.default_rng(0)
        for _ in range(3):
            device.run("train_step", *(random_input(rng, v) for v in deployed.program.plans["train_step"].graph.inputs))
        learned.append(device.state())
    for other in learned[1:]:
        assert all(np.array_equal(learned[0][name], value) for name, value in other.items())


def board_with(sram: int):
    """The same board with another amount of SRAM."""
    board = find_board("nrf52840")
    return replace(board, sram=replace(board.sram, bytes=sram))


def default_on(sram: int):
    return insitu.compile(model(), classes=4, scheme="last:1", board=board_with(sram)).deployed


def test_by_default_nothing_is_lowered_that_fits_half_of_the_board(quick):
    usual = made("balance")
    assert usual.sram_bytes == quick.sram_bytes and not usual.note
    assert default_on(2 * (quick.sram_bytes + ROUND)).sram_bytes == quick.sram_bytes


def test_what_does_not_fit_half_of_the_board_is_lowered_until_it_does(small, quick):
    found = default_on(2 * quick.sram_bytes - 2)
    assert small.sram_bytes < found.sram_bytes < quick.sram_bytes and not found.note


def test_what_fits_no_half_takes_all_that_makes_it_faster_and_says_so(small, quick):
    found = default_on(2 * small.sram_bytes - 2)
    assert small.sram_bytes < found.sram_bytes <= found.limits.sram and step(found) < step(small)
    assert "does not fit half of nrf52840's SRAM" in found.note and found.figures()["note"] == found.note


def test_the_sram_that_is_allowed_may_be_used_up(small, quick):
    assert made("balance", quick.sram_bytes + ROUND).sram_bytes == quick.sram_bytes
    assert made("balance", small.sram_bytes).sram_bytes == small.sram_bytes


def test_what_fits_nowhere_is_planned_once_for_its_goal_and_once_for_the_least(monkeypatch):
    planned, one = [], model()

    def counted(graphs, target, enough, made):
        planned.append((graphs, enough))
        return plan_all(graphs, target, enough, made)

    monkeypatch.setattr("insitu.deploy.programs.plan_all", counted)
    with pytest.raises(BudgetError):
        insitu.compile(one, classes=4, scheme="last:1", board="nrf52840", sram=26_000)
    own = [enough for graphs, enough in planned if graphs is planned[0][0]]
    assert len(own) == 2 and own[0] > own[1] == 0, "the program asked for; other options are others"


def test_another_word_is_refused():
    with pytest.raises(BoardError, match="prefer is 'power'") as e:
        insitu.compile("nothing.onnx", board="nrf52840", prefer="power")
    assert e.value.hint == "balance, memory, speed"
    with pytest.raises(SystemExit):
        main(["compile", "nothing.onnx", "--prefer", "power"])
