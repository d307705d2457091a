"""A board whose flash wears out, and a class that is forgotten in the middle of a bout: nothing else is lost."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("unicorn")

from insitu.devices.living import Living
from insitu.errors import DeviceError

from .cuts import Bench, prepared
from .living import CLASSES, RATE, points


def kept(life: Living) -> dict[int, tuple[int, bool]]:
    return {r.id: (r.label, r.guard) for r in life.records()}


def pages_of(bench: Bench, bank: bool) -> list[int]:
    """The pages of the store, or of the two banks behind it."""
    nor, life = bench.nor, bench.life.life
    first = (nor.bytes - 2 * int(life["bank_bytes"])) // nor.page
    return list(range(first, nor.bytes // nor.page)) if bank else list(range(first))


def after_restart(bench: Bench) -> dict[int, tuple[int, bool]]:
    bench.device.restart()
    return kept(bench.life)


def test_samples_outlive_pages_of_the_store_that_wear_out():
    """Page after page refuses. A sample that gave way there cannot be marked: the next start finds it again, and one of
    the newest gives way for it."""
    bench = prepared(20)
    x, y = points(100, seed=5)
    again = kept(bench.life)
    for page in pages_of(bench, bank=False):
        bench.nor.worn.add(page)
        dropped = set()
        for at in range(5 * page, 5 * page + 5):
            bench.life.observe(x[at], label=int(y[at]))
            dropped.add(bench.life.statistics()["dropped"])
        before, now = again, kept(bench.life)
        assert set(before) - set(now) <= dropped
        again = after_restart(bench)
        assert len(set(now) - set(again)) <= len(set(again) - set(now))
        assert all(again[id] == now[id] for id in set(now) & set(again))
    bench.life.observe(x[-1], label=0)
    assert kept(bench.life) == again and bench.life.statistics()["failures"] > 0
    assert bench.life.rehearse(8, RATE, partial=True)["bouts"] > 1  # it still learns from what it has


def test_a_checkpoint_that_cannot_be_written_is_told_and_changes_nothing():
    bench = prepared(20)
    before = bench.found()
    bench.nor.worn |= set(pages_of(bench, bank=True))
    bouts = bench.life.statistics()["bouts"]
    for act in (lambda life: life.checkpoint(), lambda life: life.rehearse(8, RATE, partial=True),
                lambda life: life.forget(1)):  # fmt: skip
        with pytest.raises(DeviceError, match="could not write its flash"):
            act(bench.life)
        assert bench.life.statistics()["phase"] == 0 and bench.life.statistics()["bouts"] == bouts
        bench.device.restart()
        assert bench.found() == before  # the class is there again: its checkpoint still has it
    bench.nor.worn.clear()
    bench.life.forget(1)
    bench.device.restart()
    assert 1 not in {label for label, _ in kept(bench.life).values()}


@pytest.mark.parametrize("board", ["nrf51822", "stm32l476"])  # a checkpoint in flash, or a copy in SRAM
@pytest.mark.parametrize("phase", [1, 2, 3, 4])  # saving, asking the guards, learning, asking them again
def test_a_class_is_forgotten_in_the_middle_of_a_bout(board: str, phase: int):
    bench = prepared(30, board) if board == "nrf51822" else _in_sram(board)
    layout = bench.device.interface.state
    assert layout is not None
    before = layout.unpack(bench.device.save_state()[16:])
    bench.life.slices(0, 12, RATE, partial=True)
    while bench.life.statistics()["phase"] < phase:
        bench.life.slices(1)
    bench.life.slices(3 if phase == 3 else 0)
    assert bench.life.statistics()["phase"] == phase
    count = bench.life.forget(2)
    found = bench.life.statistics()
    assert count > 0 and found["phase"] == found["left"] == 0
    now = layout.unpack(bench.device.save_state()[16:])
    assert now["head.bias"][2] == -1e9 and not now["head.weight"][2].any()
    for name in before:  # as if the bout had never begun
        others = [k for k in range(CLASSES) if k != 2] if name.startswith("head") else ...
        assert now[name][others].tobytes() == before[name][others].tobytes()
    assert 2 not in {label for label, _ in kept(bench.life).values()}
    assert bench.life.rehearse(8, RATE, partial=True)["bouts"] > 0


def _in_sram(board: str) -> Bench:
    bench = Bench.started(board)
    x, y = points(30)
    for i in range(30):
        bench.life.observe(x[i], label=int(y[i]) if i % 3 else -1)
    bench.life.rehearse(8, RATE, partial=True)
    return bench
