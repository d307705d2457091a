"""Any network that can be imported compiles for any board and budget, or says that it does not fit."""

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch import nn

import insitu
from insitu.errors import BudgetError, GraphError

from .board_nets import CLASSES, SmallGated, board_net

BOARDS = ("rp2040", "nrf52840", "stm32l476", "stm32f746", "nrf5340", "esp32c3", "corstone300")


def drawn_options(rng, module) -> dict:
    """A scheme, a board, an arithmetic, a budget; rows only if the image has its channels last."""
    layers = sum(isinstance(m, nn.Conv2d) for m in module.modules())
    return {
        "scheme": str(rng.choice(["head", "head", "full", f"last:{rng.integers(1, layers + 1)}"])),
        "board": str(rng.choice(BOARDS)),
        "prefer": str(rng.choice(["memory", "speed"])),
        "precision": "float" if rng.random() < 0.15 else "int8",
        "sram": int(rng.integers(6, 40) * 1024) if rng.random() < 0.4 else None,
        "recipe": insitu.Recipe(grad=rng.choice([None, "f32", "s8"]), rows=module.last and bool(rng.random() < 0.4)),
    }


def compiled(seed: int) -> str:
    """The outcome: a size, or an error that says what to do."""
    rng, (module, example) = np.random.default_rng(seed), board_net(seed)
    x, options = rng.normal(size=(8, *example[0].shape[1:])).astype(np.float32), drawn_options(rng, module)
    try:
        made = insitu.compile(module, example=example, classes=CLASSES, data=x, **options)
    except BudgetError as e:
        return f"{options}: {e.what.splitlines()[0]}   try: {e.hint}"
    except GraphError as e:  # not every network can take its image in rows
        assert options["recipe"].rows and "cannot arrive row by row" in e.what
        return f"{options}: {e.what}"
    assert made.deployed is not None
    return f"{options}: {made.deployed.sram_bytes} B"


def test_networks_with_gates_and_branches_compile_for_any_board():
    for seed in range(4):
        print(f"seed {seed}:", compiled(seed))  # the last line is the one that failed


def test_a_squeeze_and_excitation_network_trains_its_head_on_an_rp2040_as_here():
    for package in ("unicorn", "elftools", "ziglang"):
        pytest.importorskip(package)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(8, 1, 12, 12)).astype(np.float32), rng.integers(0, 10, 8).astype(np.int32)
    made = insitu.compile(SmallGated().eval(), example=x[:1], classes=10, data=x, scheme="head", board="rp2040")
    assert made.deployed is not None and made.deployed.fits
    with made.on("emulator") as board:
        for i in range(4):
            step = x[i : i + 1], y[i : i + 1], np.float32(0.05)
            assert board.device.run("train_step", *step)[0] == made.device.run("train_step", *step)[0]
        assert board.device.save_state() == made.device.save_state()


@pytest.mark.slow
def test_two_hundred_networks_compile_for_any_board():
    for seed in range(200):
        print(f"seed {seed}:", compiled(seed))
