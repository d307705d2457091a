"""The power fails at an operation of the flash: the next start has the old or the new state, whole, and goes on from it
byte for byte. `-m slow` cuts at every operation; otherwise at some, and at the last ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("unicorn")

from insitu.devices.flash import BEFORE
from insitu.devices.living import Living

from .cuts import Bench, Found, all_cuts, cuts, prepared
from .living import RATE, points

EVERY = [61, pytest.param(1, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])]


def old_and_new(bench: Bench, act: Callable[[Living], object]) -> dict[Found, Found]:
    """What is there before and after an act, each with what follows from it."""
    start, expected = bench.flash(), {}
    for acts in (False, True):
        bench.start_with(start)
        if acts:
            act(bench.life)
            bench.device.restart()
        found = bench.found()
        expected[found] = bench.goes_on()
    bench.start_with(start)
    return expected


def check(bench: Bench, act: Callable[[Living], object], every: int) -> int:
    """Cut everywhere; returns how many cuts were made."""
    expected, made, seen = old_and_new(bench, act), 0, set()
    for at, when, found in all_cuts(bench, act) if every == 1 else cuts(bench, act, every):
        assert found in expected, f"operation {at}, {when}: neither the old nor the new one"
        if found not in seen or (when != BEFORE and at % 8 == 0):
            assert bench.goes_on() == expected[found], f"operation {at}, {when}: it goes on differently"
        seen.add(found)
        made += 1
    assert len(seen) == len(expected)  # both were found
    return made


@pytest.mark.parametrize("every", EVERY)
def test_a_checkpoint_is_the_old_one_or_the_new_one(every: int):
    bench = prepared(20)

    def act(life: Living) -> None:
        """Learn a little, which only SRAM knows of; then save it."""
        latents = life.device.run("encode", points(1)[0])
        life.device.run("learn", *latents, np.zeros(1, np.int32), np.float32(RATE))
        life.checkpoint()

    assert check(bench, act, every) > 20


@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize("samples", [5, 60])
def test_a_sample_is_kept_whole_or_not_at_all(samples: int, every: int):
    """With room left, and when another sample gives way."""
    bench = prepared(samples)
    x, y = points(1, seed=9)
    check(bench, lambda life: life.observe(x[0], label=int(y[0])), every)


def fill_segments(bench: Bench) -> None:
    """Observe until the next sample makes the board move others to another page."""
    x, y = points(100, seed=4)
    for i in range(100):
        start = bench.flash()
        if bench.operations(lambda life: life.observe(x[i], label=int(y[i]))) > 100:  # noqa: B023
            bench.start_with(start)
            return
        bench.life.checkpoint()
    raise AssertionError("no sample was ever moved")


@pytest.mark.parametrize("every", EVERY)
def test_samples_outlive_their_move_to_another_page(every: int):
    bench = prepared(60)
    fill_segments(bench)
    x, y = points(100, seed=4)
    kept = {r.id for r in bench.life.records()}
    i = bench.life.statistics()["next_id"] - 61
    check(bench, lambda life: life.observe(x[i], label=int(y[i])), every)
    assert len(kept) > 20


@pytest.mark.parametrize("every", EVERY)
def test_a_label_arrives_or_does_not(every: int):
    bench = prepared(60)
    asked = bench.life.asks(1)[0]
    check(bench, lambda life: life.label(asked, 1), every)


@pytest.mark.parametrize("every", EVERY)
def test_a_class_is_forgotten_with_all_its_samples_or_not_at_all(every: int):
    bench = prepared(20)
    check(bench, lambda life: life.forget(1), every)
    assert not any(r.label == 1 for r in bench.life.records())


@pytest.mark.parametrize("every", EVERY)
def test_the_first_start_may_be_cut_too(every: int):
    """Flash as it is delivered: the first sample opens the first page."""
    bench = Bench.started()
    x, y = points(1)
    check(bench, lambda life: life.observe(x[0], label=int(y[0])), every)


def test_two_damaged_banks_are_the_initial_state():
    bench = prepared(10)
    data, written = bench.flash()
    first = bench.device.interface.life["segments"] * 1024
    bench.start_with((data[:first] + b"\0" * (len(data) - first), written))
    assert bench.life.statistics()["continued"] == 0 and len(bench.life.records()) == 10


def test_one_damaged_bank_leaves_the_other():
    bench = prepared(10)
    older = bench.found()
    bench.life.rehearse(4, RATE, partial=True)
    newer = bench.found()
    data, written = bench.flash()
    at, size = bench.device.interface.life["segments"] * 1024, bench.device.interface.life["bank_bytes"]
    found = []
    for bank in range(2):
        damaged = bytearray(data)
        damaged[at + bank * size + 40] ^= 1
        bench.start_with((bytes(damaged), written))
        assert bench.life.statistics()["continued"] == 1
        found.append(bench.found())
    assert newer in found and len(set(found)) == 2
    assert older[1] == newer[1]


def test_a_checkpoint_of_another_program_is_not_loaded():
    bench, other = prepared(6), Bench.started("nrf51822", "head")
    data, written = bench.flash()
    if len(data) != other.nor.bytes:
        data, written = data[: other.nor.bytes], written[: other.nor.bytes // 4]
    first = other.found()
    other.start_with((data, written))
    assert other.life.statistics()["continued"] == 0 and other.found() == (first[0], ())
