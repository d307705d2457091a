"""A board whose core traps says so at once: the client does not wait for an answer that never comes."""

import shutil
import time

import pytest

from insitu.boards import find_board
from insitu.devices.emulator import emulate
from insitu.devices.faults import Fault, fault_error, read_fault
from insitu.devices.frames import FAULTED, Answer
from insitu.devices.qemu import open_qemu
from insitu.devices.serial import open_serial
from insitu.errors import DeviceError
from insitu.firmware import build_firmware
from insitu.firmware.flash import images

from ..firmware.images import board, changed, program, steps
from .chips import MACHINES, running

for package in ("unicorn", "elftools", "ziglang"):
    pytest.importorskip(package)

SECONDS = 20  # on a busy machine; 600 are what a slow board may take
UNMAPPED = '__asm__ volatile("ldr r0, =0x0f000001\\n mov lr, r0\\n bx lr\\n .ltorg");'
UNDEFINED = '__asm__ volatile("udf #0");'
needs_qemu = pytest.mark.skipif(not shutil.which("qemu-system-arm"), reason="no qemu-system-arm")


def expect_fault(device, *says: str, kind: str = "linear") -> str:
    """The next prediction fails within seconds; what the error says."""
    start = time.monotonic()
    with pytest.raises(DeviceError) as e:
        device.predict(steps(kind, 1)[0][0])
    assert time.monotonic() - start < SECONDS
    text = str(e.value)
    assert all(words in text for words in says), text
    return text


@pytest.mark.parametrize("core", ("M0+", "M3", "M4", "M7", "M33"))
@pytest.mark.parametrize(("statement", "says"), [(UNMAPPED, "0xf000000"), (UNDEFINED, "run_predict+0x")])
def test_the_emulator_tells_what_trapped_and_who_called_it(core, statement, says):
    device = emulate(build_firmware(program(), board(core), extra=changed(statement)))
    expect_fault(device, says, "called from")


@pytest.mark.parametrize("core", ("M0+", "M7"))
def test_the_handler_on_the_board_sends_a_frame(core):
    """Its own words, without what the emulator has seen."""
    device = emulate(build_firmware(program(), board(core), extra=changed(UNDEFINED)))
    device.link.faulted = lambda fault: fault_error(fault, device.core.image.at)
    text = expect_fault(device, "the board faulted at run_predict+0x", "exception 3", "load(...)")
    assert core == "M0+" or "an undefined instruction" in text


def test_a_board_that_has_faulted_says_so_again_until_it_is_restarted():
    device = emulate(build_firmware(program(), board("M7"), extra=changed(UNDEFINED)))
    expect_fault(device)
    for _ in range(3):
        with pytest.raises(DeviceError, match="no instruction of this core"):
            device.ping()
    device.restart()
    assert device.ping() > 0


@needs_qemu
@pytest.mark.parametrize("core", ("M3", "M7", "M33", "M55"))
def test_qemu_tells_of_an_undefined_instruction(core):
    with open_qemu(program(), board(core), extra=changed(UNDEFINED)) as device:
        expect_fault(device, "the board faulted at run_predict+0x", "an undefined instruction", "reset the board")


@needs_qemu
def test_qemu_tells_of_a_jump_to_nowhere():
    with open_qemu(program(), board("M7"), extra=changed(UNMAPPED)) as device:
        expect_fault(device, "0xf000000")


@needs_qemu
@pytest.mark.parametrize("name", MACHINES)
def test_a_flashed_image_tells_over_its_uart(name, tmp_path):
    pytest.importorskip("serial")
    chip = find_board(name)
    made = build_firmware(program("conv"), chip, port=chip.port, extra=changed(UNDEFINED, kind="conv"))
    path = tmp_path / "firmware.hex"
    path.write_bytes(images(made.image.data)[".hex"])
    with running(made.board, path) as chip, open_serial(chip.port, made.program) as device:
        expect_fault(device, "the board faulted at 0x", "exception 3", "reset the board", kind="conv")


def test_other_frames_are_no_faults():
    assert read_fault(Answer(0, FAULTED, 7, 0, bytes(24))) is None  # an answer
    assert read_fault(Answer(0, FAULTED, 0, 0, bytes(8))) is None  # cut
    assert read_fault(Answer(0, 1, 0, 0, b"")) is None  # damage
    assert read_fault(Answer(0, FAULTED, 0, 0, bytes(24))) == Fault(0, 0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (Fault(3, 0x8000100, 0x8000201, 0x20000100, 0x82, 0x40000000), "not its own (access to 0x40000000)"),
        (Fault(3, 0, 0, 0x1FFFFF00, 0x10, 0), "the board faulted: no room on the stack"),
        (Fault(0, 0, 0, 0x20000100, 0, 0), "its program ended"),
        (Fault(15, 0x8000100, 0, 0x20000100, 0, 0), "exception 15, which has no handler"),
    ],
)
def test_the_error_says_why_and_what_to_do(fault, says):
    error = fault_error(fault)
    assert says in str(error) and "load(...)" in error.hint
