"""The firmware on emulated cores: the host's bytes, a budget that is enforced, and meaningful counts."""

import numpy as np
import pytest

import insitu
from insitu.devices.cortex import Cortex
from insitu.devices.emulator import emulate, open_emulator
from insitu.devices.host import open_program
from insitu.errors import BoardError, DeviceError
from insitu.firmware import build_firmware

from ..firmware.images import CORES, KINDS, board, changed, firmware, program, steps

for package in ("unicorn", "elftools", "ziglang"):
    pytest.importorskip(package)

EMULATED = [core for core in CORES if core != "M55"]
# statement, and what the error says about it
OUTSIDE = {
    "a store past SRAM": ("*(volatile uint32_t *)0x20010000 = 1;", "WRITE_UNMAPPED.* at "),
    "a load past SRAM": ("(void)*(volatile uint32_t *)0x20010000;", "READ_UNMAPPED.* at "),
    "a store below the stack": ("*(volatile uint32_t *)(0x20000000 - 4) = 1;", "WRITE_UNMAPPED.* at "),
    "a write to flash": ("*(volatile uint32_t *)0x08000000 = 1;", "WRITE_PROT.* at "),
}


def same_steps(device, host, kind: str, count: int) -> None:
    """Predictions, losses, outputs and the state after `count` training steps, byte by byte."""
    for inputs in steps(kind, count):
        for verb, given in (("predict", inputs[:1]), ("train_step", inputs)):
            there, here = device.run(verb, *given), host.run(verb, *given)
            assert [a.tobytes() for a in there] == [a.tobytes() for a in here]
    first, second = device.state(), host.state()
    assert {n: a.tobytes() for n, a in first.items()} == {n: a.tobytes() for n, a in second.items()}


@pytest.mark.parametrize("core", EMULATED)
@pytest.mark.parametrize("kind", KINDS)
def test_ten_training_steps_give_the_bytes_of_the_host(kind, core):
    host = open_program(program(kind, "host"))
    before = host.save_state()
    same_steps(emulate(firmware(kind, core)), host, kind, 10)
    assert host.save_state() != before


def test_plain_c_gives_the_bytes_of_the_cores_own_instructions():
    plain = open_emulator(program("conv"), board("M7"), flags=("-DINSITU_SCALAR",))
    fast = emulate(firmware("conv", "M7"))
    assert plain.core.image.segments != fast.core.image.segments
    same_steps(plain, fast, "conv", 4)


def test_an_image_without_lines_runs_but_its_instructions_are_not_said_to_be_0():
    """It was 0 with objects of a cache that had been compiled without debug information."""
    bare = open_emulator(program(), board("M7"), flags=("-g0",))
    same_steps(bare, emulate(firmware("linear", "M7")), "linear", 1)
    assert not bare.counted()
    for count in (lambda: bare.instructions("train_step"), lambda: bare.measure("predict", steps("linear", 1)[0][0])):
        with pytest.raises(DeviceError, match="cannot count the instructions of"):
            count()


@pytest.mark.parametrize("what", OUTSIDE)
def test_what_leaves_the_budget_is_an_error_that_names_the_function(what):
    statement, says = OUTSIDE[what]
    made = build_firmware(program(), board("M7"), extra=changed(statement))
    device = emulate(made, sram=65536)
    with pytest.raises(DeviceError, match=rf"{says}.*outside the 65,536 bytes of SRAM") as e:
        device.predict(steps("linear", 1)[0][0])
    assert "run_predict+0x" in str(e.value)


ENDLESS = {
    "one instruction": '__asm__ volatile("b .");',
    "a loop that works": "for (volatile uint32_t i = 1; i; i |= 2) { }",
}


@pytest.mark.parametrize("what", ENDLESS)
def test_firmware_that_loops_for_ever_is_stopped_where_it_is(what):
    device = emulate(build_firmware(program(), board("M7"), extra=changed(ENDLESS[what])), limit=100_000)
    with pytest.raises(DeviceError, match=r"no answer after 100,000 instructions; it is at run_predict\+0x") as e:
        device.predict(steps("linear", 1)[0][0])
    assert "limit=1000000" in e.value.hint


def test_a_request_that_takes_as_many_instructions_as_are_allowed_is_answered():
    x = steps("linear", 1)[0][0]
    device = emulate(firmware())
    before = device.total
    expected = device.predict(x)
    enough, few = device.total - before, 1000  # a request needs fewer than all of them
    assert emulate(firmware(), limit=enough).predict(x).tobytes() == expected.tobytes()
    with pytest.raises(DeviceError, match="no answer after 1,000 instructions"):
        emulate(firmware(), limit=few).predict(x)


@pytest.mark.parametrize("address", [0x20010000 - 500, 0x2000FFFC])
def test_a_budget_that_ends_within_a_page_holds_to_the_byte(address):
    made = build_firmware(program(), board("M7"), extra=changed(f"*(volatile uint8_t *){address}u += 1;"))
    x = steps("linear", 1)[0][0]
    assert emulate(made, sram=65536).predict(x).shape == emulate(made, sram=address + 1 - 0x20000000).predict(x).shape
    with pytest.raises(
        DeviceError, match=f"a write at {address:#x}: outside the {address - 0x20000000:,} bytes of SRAM"
    ):
        emulate(made, sram=address - 0x20000000).predict(x)


def test_an_image_larger_than_the_flash_is_refused():
    made = firmware()
    with pytest.raises(DeviceError, match="larger than 4,096 bytes of flash"):
        Cortex(made.image, made.board, flash=4096)


def test_the_same_program_without_the_stray_store_runs_within_that_budget():
    device = emulate(firmware(), sram=65536)
    assert device.predict(steps("linear", 1)[0][0]).shape == program().plans["predict"].graph.outputs[0].shape


def test_less_memory_than_the_firmware_takes_is_seen_at_once():
    with pytest.raises(DeviceError, match="outside the 4,096 bytes of SRAM"):
        emulate(firmware(), sram=4096)


def test_the_count_of_a_function_is_that_of_its_dearest_call():
    """Not of the first one: gradients of zero take less."""
    one, two = (emulate(firmware("conv", "M4")) for _ in range(2))
    x, label, rate = steps("conv", 1)[0]
    blank = (np.zeros_like(x), label, rate)
    each = [sum(one.measure("train_step", *given)[1].values()) for given in (blank, (x, label, rate), blank)]
    for given in (blank, (x, label, rate), blank):
        two.run("train_step", *given)
    assert each[0] < each[1] and sum(two.counted()["train_step"].values()) == max(each)


def test_counts_repeat_and_belong_to_layers():
    device = emulate(firmware("conv", "M4"))
    inputs = steps("conv", 1)[0]
    first, again = device.measure("predict", inputs[0])[1], device.measure("predict", inputs[0])[1]
    assert first == again
    step = device.measure("train_step", *inputs)[1]
    assert set(first) - {"(in and out)"} <= {n.name for n in program("conv").plans["predict"].nodes}
    assert sum(step.values()) > 2 * sum(first.values())
    assert first["inner"] > first["head"] > 0
    assert device.instructions("train_step") == sum(step.values()) < device.total


def test_a_core_that_only_qemu_has_is_refused_with_a_way_out():
    with pytest.raises(BoardError, match="cannot be emulated with pip packages alone"):
        open_emulator(program(), "corstone300")


# real networks ----------------------------------------------------------------------------------


def compare_learner(learner, count: int) -> None:
    """A compiled program on its host device and on the board's emulated core."""
    device, values = emulate(learner.deployed.firmware), learner.graphs["train_step"].inputs
    rng, rate = np.random.default_rng(0), np.float32(0.01)
    before = learner.device.state()
    for i in range(count):
        x = rng.integers(-128, 128, values[0].shape).astype(np.int8)
        y = np.array([i % 2], np.int32) if values[1].dtype == "s32" else rng.normal(size=values[1].shape)
        given = (x, np.asarray(y, values[1].type.numpy), rate)
        there, here = device.run("train_step", *given), learner.device.run("train_step", *given)
        assert [a.tobytes() for a in there] == [a.tobytes() for a in here]
    first, second = device.state(), learner.device.state()
    assert {n: a.tobytes() for n, a in first.items()} == {n: a.tobytes() for n, a in second.items()}
    assert any((second[n] != before[n]).any() for n in second)
    assert device.stack_bytes() <= learner.deployed.firmware.stack.bytes


def test_mcunet_trains_in_256_kb_and_gives_the_bytes_of_the_host(shared_models):
    learner = insitu.compile(
        shared_models / "mcunet-5fps.pkl", classes=10, scheme="mcunet-5fps/49kb", board="stm32f746", sram="256K"
    )
    assert learner.deployed.sram_bytes <= 256 * 1024 and learner.deployed.flash_bytes <= 1 << 20
    compare_learner(learner, 2)


MLPERF = {
    "ic_resnet8_int8": {"scheme": "last:2"},
    "kws_dscnn_int8": {"scheme": "last:2"},
    "vww_mbv1_int8": {"scheme": "last:2"},
    "ad01_int8": {"scheme": "last:1", "recipe": insitu.Recipe(loss="mse")},
}


@pytest.mark.parametrize("name", MLPERF)
def test_mlperf_tiny_models_give_the_bytes_of_the_host(name, shared_models):
    path = shared_models / "mlperf-tiny" / f"{name}.tflite"
    compare_learner(insitu.compile(path, board="stm32h743", **MLPERF[name]), 2)
