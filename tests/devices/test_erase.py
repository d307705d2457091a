"""A board's samples leave it on demand: all of them deleted, those without a label dropped, all of them exported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("unicorn")

import insitu
from insitu.devices.flash import BEFORE, TORN, PowerCut
from insitu.devices.link import LinkDevice
from insitu.devices.living import NONE, Kept, Living
from insitu.store.export import export_board

from ..learners import imported
from .cuts import Bench, prepared
from .living import CLASSES, RATE, alive, compiled, points

BOARDS = ("nrf51822", "stm32l476")  # samples in flash, and in SRAM


@pytest.mark.parametrize("mid_bout", [False, True])
def test_erasing_leaves_nothing_in_the_flash(mid_bout: bool):
    bench, fresh = prepared(30), alive()[0]
    assert bench.flash()[0].count(b"\xff") < bench.nor.bytes
    if mid_bout:
        bench.life.slices(12, 10, RATE, partial=True)
    bench.life.erase()
    assert bench.flash()[0] == b"\xff" * bench.nor.bytes
    assert bench.device.save_state() == fresh.save_state() and not bench.life.records()
    found = bench.life.statistics()
    assert found["observed"] == found["bouts"] == found["phase"] == 0 and found["next_id"] == 1
    assert bench.life.erases(found) == sum(bench.nor.erases)
    with pytest.raises(insitu.DataError, match="no checkpoint"):
        bench.life.rollback()
    assert bench.life.observe(points(1)[0][0], label=1) == 1
    bench.life.checkpoint()
    bench.device.restart()
    assert [r.id for r in bench.life.records()] == [1]


def test_erasing_a_board_without_flash_leaves_nothing_in_sram():
    device, life = alive("stm32l476")
    x, y = points(20)
    for i in range(20):
        life.observe(x[i], label=int(y[i]))
    latents = {one for one in life.latents() if any(one)}
    life.rehearse(5, RATE)
    life.erase()
    sram = device.core.peek(device.core.board.sram.origin, device.core.board.sram.bytes)
    assert latents and not any(one in sram for one in latents) and not life.records()


@pytest.mark.parametrize("when", [BEFORE, TORN])
def test_an_erase_that_is_cut_is_done_again(when: str):
    bench = prepared(12)
    start = bench.flash()
    total = bench.operations(Living.erase)
    for at in range(total):
        bench.start_with(start)
        bench.nor.cut(at, when, seed=at)
        with pytest.raises(PowerCut):
            bench.life.erase()
        bench.device.restart()
        bench.life.statistics()
        bench.life.erase()
        assert bench.flash()[0] == b"\xff" * bench.nor.bytes


def test_a_worn_page_is_told():
    bench = prepared(12)
    bench.nor.worn.add(0)
    with pytest.raises(insitu.DeviceError, match="flash"):
        bench.life.erase()


@pytest.mark.parametrize("board", BOARDS)
def test_samples_without_a_label_are_dropped(board: str):
    _, life = alive(board)
    x, y = points(21)
    for i in range(21):
        life.observe(x[i], label=int(y[i]) if i % 3 else NONE)
    labelled = [r for r in life.records() if r.label != NONE]
    life.slices(3, 10, RATE, partial=True)  # also while a bout asks its guards
    assert life.forget_unlabelled() == 7 and life.forget_unlabelled() == 0
    assert [r.id for r in life.records()] == [r.id for r in labelled] and not life.asks()
    assert life.go_on()["bouts"] == 1


def test_both_drop_the_same_and_go_on_alike():
    learner = insitu.compile(imported(), classes=CLASSES, scheme="head", precision="float", board="stm32l476",
                             store="1K")  # fmt: skip
    x, y = points(60)
    with learner.on("emulator") as board:
        assert isinstance(board.device, LinkDevice)
        life = Living(board.device)
        here = learner.keep(count=life.capacity, rule="balanced")  # the board's default
        for i in range(60):
            label = int(y[i]) if i % 2 else NONE
            life.observe(x[i], label=label)
            learner.observe(x[i][None], None if label == NONE else label)
            if i == 30:
                assert life.forget_unlabelled() == here.forget_unlabelled() > 0
        kept = here.store.ledger.records
        assert life.records() == [Kept(r.id, r.label, r.guard, r.worth, r.uses) for _, r in sorted(kept.items())]


@pytest.mark.parametrize("board", BOARDS)
def test_exported_samples_are_those_that_are_kept(board: str, tmp_path: Path):
    device, life = alive(board)
    x, y = points(12)
    for i in range(12):
        life.observe(x[i], label=int(y[i]) if i % 3 else NONE)
    with np.load(export_board(life, tmp_path / "kept.npz")) as found:
        (name,) = (n for n in found.files if n.startswith("latent_"))
        for i in range(12):
            assert np.array_equal(found[name][i], device.run("encode", x[i : i + 1])[0][0])
        assert found["id"].tolist() == list(range(1, 13))
        assert found["label"].tolist() == [int(y[i]) if i % 3 else NONE for i in range(12)]
        assert found["guard"].tolist() == [r.guard for r in life.records()] and len(found["names"]) == CLASSES


def test_the_learner_on_a_board_has_these_calls(tmp_path: Path):
    x, y = points(8)
    with compiled().on("emulator") as board:
        board.observe(x, y)
        board.observe(points(1, 9)[0])
        assert board.life.forget_unlabelled() == 1
        with np.load(board.life.export(tmp_path / "kept.npz")) as found:
            assert len(found["id"]) == 8
        board.life.erase()
        assert not board.life.statistics()["kept"]


def test_exporting_does_not_disturb_a_bout():
    states = []
    for export in (False, True):
        bench: Bench = prepared(20)
        bench.life.slices(14, 10, RATE, partial=True)
        if export:
            bench.life.latents()
        bench.life.go_on()
        states.append(bench.found())
    assert states[0] == states[1]
