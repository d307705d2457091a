"""The row of a new class is tried on the kept samples in slices: bounded work, the same bytes, and safe if cut."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("unicorn")

import insitu
from insitu.deploy.living import life_cost
from insitu.devices.emulator import EmulatorDevice, emulate
from insitu.devices.living import TRYING, Living
from insitu.firmware import Firmware

from ..learners import imported
from .living import CLASSES, RATE, points

BOARDS = ("nrf51822", "stm32l476")  # samples in flash, and in SRAM
X, Y = points(60)
FAR = X / np.float32(8) + np.float32(1)


@cache
def firmware(board: str) -> Firmware:
    made = insitu.compile(imported(), classes=CLASSES, scheme="head", precision="float", board=board, store="4K",
                          max_classes=6).deployed  # fmt: skip
    assert made is not None and made.firmware is not None
    return made.firmware


def taught(board: str, kept: int = 40) -> tuple[EmulatorDevice, Living, int]:
    """A board that keeps so many samples, has learned, and takes a new class, with one sample of it."""
    device = emulate(firmware(board))
    life = Living(device)
    for i in range(kept):
        life.observe(X[i], label=int(Y[i]))
    life.rehearse(10, RATE)
    new = life.add_class("new")
    life.observe(FAR[40], label=new)
    return device, life, new


def spent(device: EmulatorDevice, life: Living, x: np.ndarray, label: int) -> int:
    life.observe(x, label=label, told=False)
    return device.core.spent


@pytest.mark.parametrize("board", BOARDS)
def test_keeping_a_sample_of_a_new_class_does_not_recall_every_other(board: str):
    taken = []
    for kept in (10, 40):
        device, life, new = taught(board, kept)
        taken.append(spent(device, life, FAR[45], new))
        assert life.statistics()["trying"] == life.statistics()["kept"] + 1
    assert taken[1] < 1.1 * taken[0]
    most = 0
    while life.statistics()["trying"]:
        life.slices(1, told=False)
        most = max(most, device.core.spent)
    assert most < taken[0]


def test_what_compile_prints_holds_for_a_new_class(board: str = BOARDS[0]):
    cost, _ = life_cost(firmware(board))
    device, life, new = taught(board)
    assert spent(device, life, FAR[45], new) < 1.1 * cost.observe  # soft float: numbers take a few more or less
    assert TRYING in cost.slices


@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("then", ["observe", "label", "predict", "checkpoint", "rollback", "rehearse", "forget"])
def test_a_trial_ends_in_the_same_bytes_whatever_comes_before_its_end(board: str, then: str):
    found = []
    for slices in (0, 7, 1000):
        device, life, new = taught(board)
        waiting = life.observe(X[50])
        if board == BOARDS[0]:
            life.checkpoint()
        spent(device, life, FAR[51], new)
        life.slices(slices, told=False)
        assert bool(life.statistics()["trying"]) == (slices < 1000)
        acts = {
            "observe": lambda life=life: life.observe(X[52], label=int(Y[52])),
            "label": lambda life=life, id=waiting: life.label(id, int(Y[50])),
            "predict": lambda device=device: device.run("predict", X[53:54]),
            "checkpoint": lambda life=life: life.checkpoint() if board == BOARDS[0] else None,
            "rollback": lambda life=life: life.rollback() if board == BOARDS[0] else None,
            "rehearse": lambda life=life: life.rehearse(6, RATE),
            "forget": lambda life=life: life.forget(1),
        }
        acts[then]()
        found.append((device.save_state(), life.records(), life.class_statistics()))
    assert found[0] == found[1] == found[2]


def test_a_cut_in_the_middle_of_a_trial_leaves_the_row_of_its_end():
    found = []
    for slices in (0, 9, 1000):
        device, life, new = taught(BOARDS[0])
        spent(device, life, FAR[51], new)
        life.slices(slices, told=False)
        if slices < 1000:
            device.restart()
        found.append((device.save_state(), life.records()))
    assert found[0] == found[1] == found[2]
