"""A living program on an emulated board: it keeps the samples that the rules keep, learns, judges and survives."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("unicorn")

import insitu
from insitu.boards import find_board
from insitu.codegen.device import emit_device
from insitu.codegen.life_layout import CLASS, PAST, RECORD, layout_of
from insitu.deploy import Limits
from insitu.deploy.stores import fitting_store
from insitu.devices.flash import AFTER, BEFORE, TORN, Nor, PowerCut
from insitu.devices.living import NONE, Living
from insitu.errors import BoardError, BudgetError, DataError, DeviceError
from insitu.store.drift import Drift, Means, group_means, worths
from insitu.store.rules import Ledger
from insitu.toolchain.compiler import compile_c
from insitu.toolchain.sources import C_FOLDER

from ..learners import imported
from .living import CLASSES, RATE, WIDTH, alive, compiled, deployed, points

BOARDS = ("nrf51822", "stm32l476")  # samples in flash, and in SRAM


def label_of(i: int, y: np.ndarray) -> int:
    return int(y[i]) if i % 3 else NONE


def lived(life: Living, ledger: Ledger, count: int, seed: int = 0) -> np.ndarray:
    """A history of samples, some without a label, some labelled later, told to both."""
    x, y = points(count, seed)
    for i in range(count):
        life.observe(x[i], label=label_of(i, y))
        found = life.statistics()
        record, dropped = ledger.observe(label_of(i, y), worth=0)
        assert (found["last_id"], found["dropped"]) == (record.id, dropped)
        if i % 7 == 6 and (asked := life.asks(1)):
            life.label(asked[0], int(y[asked[0] - 1]))
            ledger.label(asked[0], int(y[asked[0] - 1]))
    return x


def same(life: Living, ledger: Ledger) -> bool:
    mine = [(r.id, r.label, r.guard, r.uses) for r in life.records()]
    return mine == [(r.id, r.label, r.guard, r.uses) for r in sorted(ledger.records.values(), key=lambda r: r.id)]


@pytest.mark.parametrize("board", BOARDS)
def test_a_board_keeps_and_learns_what_the_rules_say(board: str):
    device, life = alive(board)
    ledger = Ledger(life.capacity)
    lived(life, ledger, 3 * life.capacity)
    assert same(life, ledger) and life.statistics()["kept"] > 0.9 * life.capacity
    life.rehearse(25, RATE)
    ledger.begin()
    for _ in range(25):
        ledger.lesson()
    ledger.judged(ledger.guard_ids())
    assert same(life, ledger)
    firmware = deployed(board).firmware
    assert firmware is not None and device.stack_bytes() <= firmware.stack.bytes


def test_encode_and_learn_on_a_board_are_a_training_step():
    made, (device, _) = compiled(), alive()
    x, y = points(6)
    for i in range(6):
        sample, label = x[i : i + 1], y[i : i + 1].astype(np.int32)
        loss, _ = device.run("learn", *device.run("encode", sample), label, np.float32(RATE))
        wanted, _ = made.device.run("train_step", sample, label, np.float32(RATE))
        assert loss.tobytes() == wanted.tobytes()
    assert device.save_state() == made.device.save_state()


def test_what_is_seen_is_followed_bit_for_bit():
    device, life = alive()
    x, y = points(90)
    drift, means = Drift(), Means()
    for i in range(90):
        if i == 40:
            life.rehearse(8, RATE)
        life.observe(x[i], label=int(y[i]))
        latents = device.run("encode", x[i : i + 1])
        logits, features = device.run("recall", *latents)
        _, confidence = worths(logits)
        drift.see(group_means(np.concatenate([a.reshape(1, -1) for a in latents], 1))[0], confidence[0])
        means.see(int(y[i]), features)
    found = life.statistics()
    assert found["usual"] == 64 and np.float32(found["drift"]) == np.float32(drift.value) > 0
    assert np.float32(found["recent_confidence"]) == np.float32(drift.confidence)
    assert [c["in_mean"] for c in life.class_statistics()] == [means.counts[k] for k in range(CLASSES)]


def test_doubt_is_followed_bit_for_bit():
    """The network learns while the first samples arrive; after 100, it sees those that it is least sure of."""
    device, life = alive()
    x, y = points(400)
    drift, found = Drift(), []

    def surely(x: np.ndarray) -> np.float32:
        return worths(device.run("recall", *device.run("encode", x[None]))[0])[1][0]

    for i in range(170):
        if i in (20, 24, 28):
            life.rehearse(200, 6 * RATE)
        if i == 100:
            x[100:] = sorted(x[100:], key=surely)
        life.observe(x[i], label=int(y[i]) if i < 100 else NONE)
        latents = device.run("encode", x[i : i + 1])
        drift.see(group_means(np.concatenate([a.reshape(1, -1) for a in latents], 1))[0], surely(x[i]))
        found.append(np.float32(drift.value))
        assert np.float32(life.statistics()["drift"]) == found[-1]
    alike = replace(drift, recent=np.append(drift.recent[:-1], drift.mean[-1]))  # sure as ever, of the same samples
    assert alike.value < found[-1] > 0.1


def test_a_sample_that_is_seen_again_is_kept_once():
    _, life = alive()
    x, y = points(3)
    first = life.observe(x[0])
    assert life.observe(x[0]) == first and life.observe(x[1]) == first + 1
    assert life.observe(x[0], label=int(y[0])) == first
    assert [(r.id, r.label) for r in life.records()] == [(first, int(y[0])), (first + 1, NONE)]
    other = (int(y[0]) + 1) % CLASSES
    assert life.observe(x[0], label=other) == first + 2  # the same sample with another label is another sample


def test_a_bout_that_does_harm_is_undone():
    device, life = alive()
    x, y = points(150)
    for i in range(60):
        life.observe(x[i], label=int(y[i]))
    good = life.rehearse(400, 0.2)
    assert good["guards"] >= 4 and good["undone"] == 0 and good["right"] > good["guards"] / 2
    state = device.save_state()
    bad = life.rehearse(40, 50.0)  # a rate that destroys what was learned
    assert bad["undone"] == 1 and bad["lost"] > bad["won"] and bad["right"] == good["right"]
    layout = device.interface.state
    assert layout is not None
    before, after = (layout.unpack(s[16:])["head.weight"] for s in (state, device.save_state()))
    assert np.array_equal(before, after)


@pytest.mark.parametrize("board", BOARDS)
def test_slices_give_the_same_bytes_as_one_call(board: str):
    states = []
    for slices in (1, 5, 1000):
        device, life = alive(board)
        x, y = points(40)
        for i in range(40):
            life.observe(x[i], label=int(y[i]))
        life.slices(0, 30, RATE)
        while life.slices(slices):
            pass
        states.append((device.save_state(), life.records()))
    assert states[0] == states[1] == states[2]


def test_a_restarted_board_goes_on_where_it_was():
    device, life = alive()
    x, y = points(60)
    for i in range(30):
        life.observe(x[i], label=int(y[i]))
    life.rehearse(20, RATE)
    known = device.save_state(), life.records(), life.class_statistics()
    device.restart()
    assert known == (device.save_state(), life.records(), life.class_statistics())
    assert life.statistics()["continued"] == 1


def test_samples_outlive_a_cut_before_any_checkpoint():
    device, life = alive()
    x, y = points(10)
    ids = [life.observe(x[i], label=int(y[i])) for i in range(10)]
    device.restart()
    assert [r.id for r in life.records()] == ids and life.observe(points(1, 5)[0][0]) == ids[-1] + 1


def test_without_flash_nothing_outlives_the_power():
    device, life = alive("stm32l476")
    life.observe(points(1)[0][0])
    with pytest.raises(DataError, match="no checkpoint"):
        life.checkpoint()
    device.restart()
    assert not life.records()


def test_mistakes_are_told():
    _, life = alive()
    x, _ = points(1)
    with pytest.raises(DataError, match="not a class"):
        life.observe(x[0], label=CLASSES)
    with pytest.raises(DataError, match="no sample"):
        life.label(7, 1)
    with pytest.raises(DataError, match="without a sample"):
        life.rehearse(3, RATE)
    life.observe(x[0], label=0)
    assert life.rehearse(3, RATE, partial=True)["steps"] == 3
    for wrong in (1.7, 2**40, -2, float("nan")):
        with pytest.raises(DataError, match="integer|not a class"):
            life.label(1, wrong)
    for name in ("", "x" * 32, "x" * 10_000, "a\0b", "a\nb"):
        with pytest.raises(DataError, match="name"):
            life.add_class(name)
    with pytest.raises(DataError, match="rate must be"):
        life.rehearse(3, float("nan"))
    with pytest.raises(DataError, match="not finite"):
        life.observe(np.full(WIDTH, np.nan, np.float32), label=0)
    for k in range(1, CLASSES):
        life.forget(k)
    with pytest.raises(DataError, match="last class"):
        life.forget(0)
    with pytest.raises(DataError, match="not a class"):
        life.observe(x[0], label=1)


def test_programs_without_a_store_know_none_of_this():
    from insitu.devices.emulator import open_emulator

    plain = insitu.compile(imported(), classes=CLASSES, scheme="last:1", precision="float", board="nrf51822")
    assert plain.deployed is not None
    with open_emulator(plain.deployed.program, "nrf51822") as device:
        with pytest.raises(DataError, match="keeps no samples"):
            Living(device)
        with pytest.raises(DeviceError, match="does not know this request"):
            device.link.ask("statistics")


# what it needs ----------------------------------------------------------------------------------


def test_every_byte_of_the_store_is_counted():
    made = deployed()
    assert made.firmware is not None
    layout, account = layout_of(made.program), made.firmware.account
    assert layout is not None and account.flash["store"] == 4096 == layout.store_flash
    assert account.flash["checkpoints"] == 2 * layout.bank_bytes and layout.origin == 0x40000 - layout.flash_bytes
    assert made.sram_bytes < 16384 and account.sram["life"] > RECORD * layout.capacity
    in_ram = deployed("stm32l476").firmware
    assert in_ram is not None
    ram = in_ram.account
    assert ram.sram["store"] >= 4096 and "store" not in ram.flash


def test_python_knows_the_sizes_of_the_structs(tmp_path):
    sizes = {"rules_record": RECORD, "rules_class": CLASS, "life_past": PAST}
    lines = [f"typedef char {name}_is[sizeof({name}) == {size} ? 1 : -1];" for name, size in sizes.items()]
    (tmp_path / "size.c").write_text("\n".join(['#include "device/life.h"', *lines, ""]))
    compile_c(["-std=c99", "-I", str(C_FOLDER), "-c", str(tmp_path / "size.c"), "-o", str(tmp_path / "size.o")])


def test_a_store_that_is_too_small_says_what_would_do():
    with pytest.raises(BudgetError, match="holds 0 samples"):
        compiled(store="1K")
    with pytest.raises(BoardError, match="is for boards"):
        insitu.compile(imported(), classes=4, precision="float", store="8K")


@pytest.mark.parametrize("sram, flash", [(9_000, 10**6), (10**6, 90_000), (9_000, 90_000)])
def test_the_largest_store_is_found_in_a_few_trials(sram: int, flash: int):
    """Each kilobyte takes 64 bytes of SRAM and 1,100 of flash, beside 4,000 and 20,000."""
    limits, tried = Limits(find_board("nrf51822"), sram, flash, store=200 << 10), []

    def takes(store: int) -> SimpleNamespace:
        tried.append(store)
        return SimpleNamespace(sram=4_000 + 64 * (store >> 10), flash=20_000 + 1_100 * (store >> 10))

    largest = min((sram - 4_000) // 64, (flash - 20_000) // 1_100)
    assert fitting_store(limits, takes(200 << 10), takes) == largest << 10 and len(tried) <= 4


def test_a_store_that_does_not_fit_is_answered_with_the_largest_that_does():
    with pytest.raises(BudgetError) as error:
        compiled(store="240K")
    size = int(re.fullmatch(r'store="(\d+)K" \(fits\)', error.value.hint)[1])
    assert deployed(store=f"{size}K").sram_bytes <= 16_384


def test_the_state_is_that_of_the_same_program_without_a_store():
    living, plain = deployed().program.state, compiled().program.state
    assert living is not None and plain is not None and living.model == plain.model


def test_generated_c_is_the_same_every_time():
    assert emit_device(deployed().program) == emit_device(deployed().program)


# the flash --------------------------------------------------------------------------------------


class Memory:
    """Just enough of an emulator."""

    def __init__(self):
        self.data = bytearray(b"\xff" * 4096)

    def mem_read(self, address: int, count: int) -> bytearray:
        return self.data[address : address + count]

    def mem_write(self, address: int, data: bytes) -> None:
        self.data[address : address + len(data)] = data


def program(nor: Nor, memory: Memory, address: int, word: bytes) -> None:
    memory.mem_write(0, word)
    for register, value in ((0, address), (4, 0), (8, 1)):
        nor.write(memory, register, value)


def test_the_emulated_flash_enforces_its_rules():
    memory, nor = Memory(), Nor(1024, 2048, 1024, 4)
    program(nor, memory, 1024, b"\x01\x02\x03\x04")
    assert memory.data[1024:1028] == b"\x01\x02\x03\x04"
    for address, what in ((1024, "twice"), (1026, "programmed"), (512, "programmed"), (3072, "programmed")):
        with pytest.raises(DeviceError, match=what):
            program(nor, memory, address, b"\0\0\0\0")
    nor.write(memory, 0, 1024)
    nor.write(memory, 12, 1)
    assert memory.data[1024:2048] == b"\xff" * 1024 and nor.erases == [1, 0]
    program(nor, memory, 1024, b"\0\0\0\0")


@pytest.mark.parametrize("when", [BEFORE, TORN, AFTER])
def test_the_power_fails_where_it_was_told_to(when: str):
    memory, nor = Memory(), Nor(1024, 2048, 1024, 4)
    nor.cut(1, when, seed=3)
    program(nor, memory, 1024, b"\0\0\0\0")
    with pytest.raises(PowerCut):
        program(nor, memory, 1028, b"\0\0\0\0")
    found = bytes(memory.data[1028:1032])
    assert (found == b"\xff" * 4) == (when == BEFORE) and (found == b"\0" * 4) == (when == AFTER)
