"""The image that is flashed, on chip models of others: it trains over the serial line to the bytes of the host."""

import shutil

import numpy as np
import pytest

from insitu.boards import Port, find_board
from insitu.devices.host import open_program
from insitu.devices.link import LinkDevice
from insitu.devices.serial import SerialChannel, open_serial
from insitu.firmware import Firmware, build_firmware
from insitu.firmware.flash import images

from ..firmware.images import program, steps
from . import rp2040
from .chips import MACHINES, Damaged, running

for package in ("elftools", "ziglang", "serial"):
    pytest.importorskip(package)
needs_qemu = pytest.mark.skipif(not shutil.which("qemu-system-arm"), reason="no qemu-system-arm")

NOISE = 3000  # bytes


def flashable(name: str, compiler: str = "zig") -> Firmware:
    board = find_board(name)
    assert isinstance(board.port, Port)
    made = build_firmware(program("conv"), board, port=board.port, compiler=compiler)
    assert made.sram_bytes <= board.sram.bytes and made.flash_bytes <= board.flash.bytes
    return made


def written(made: Firmware, suffix: str, folder):
    path = folder / f"firmware{suffix}"
    assert made.board.port is not None
    path.write_bytes(made.image.data if suffix == ".elf" else images(made.image.data, made.board.port.family)[suffix])
    return path


def noisy(port: str, made: Firmware) -> tuple[LinkDevice, Damaged]:
    """The device on a line that carried noise before we came, and damages what it carries now."""
    channel = SerialChannel(port)
    channel.write(np.random.default_rng(1).bytes(NOISE))
    channel.settle()
    line = Damaged(channel)
    return LinkDevice(line, made.program, timeout=0.5, tries=20), line


def expect_twenty_steps(device: LinkDevice) -> None:
    """Losses, and the state afterwards, are the host's."""
    host = open_program(program("conv", "host"))
    for step in steps("conv", 20):
        assert device.run("train_step", *step)[0].tobytes() == host.run("train_step", *step)[0].tobytes()
    assert device.save_state() == host.save_state()


@needs_qemu
@pytest.mark.parametrize("suffix", (".elf", ".hex"))
def test_the_flashed_image_trains_to_the_bytes_of_the_host(suffix, tmp_path):
    made = flashable("stm32f405")
    with running(made.board, written(made, suffix, tmp_path)) as chip, open_serial(chip.port, made.program) as device:
        expect_twenty_steps(device)


@needs_qemu
@pytest.mark.parametrize("name", MACHINES)
def test_noise_on_the_line_does_not_change_what_is_learned(name, tmp_path):
    """Random bytes in SRAM, 3,000 on the line before the first request, and damage both ways while it trains.

    A board that waits for the next request sleeps.
    """
    made = flashable(name)
    with running(made.board, written(made, ".bin", tmp_path)) as chip:
        device, line = noisy(chip.port, made)
        expect_twenty_steps(device)
        assert chip.share() < 0.1
        assert line.faults > 20 and device.counters()["rejected"] > 10
        device.close()


def test_a_uf2_boots_and_trains_on_a_model_of_the_rp2040(tmp_path):
    """From the first block that the ROM checks to the state after 20 steps, with the same noise as above."""
    made = flashable("pico")
    with rp2040.running(written(made, ".uf2", tmp_path)) as (port, process):
        device, line = noisy(port, made)
        expect_twenty_steps(device)
        assert line.faults > 20
        device.close()
        process.kill()
        assert rp2040.last(process, "baud") == pytest.approx(made.board.port.baud, rel=0.01)
