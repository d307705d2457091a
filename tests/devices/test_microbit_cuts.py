"""Power cuts on a chip model that nobody here wrote: the nRF51 of QEMU's microbit, with its flash controller.

The firmware is the one that would be flashed. gdb stops it before each operation of its flash and copies the flash:
that is what a cut leaves there. The chip then starts with each copy, and with copies in which the next operation was
done in part.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("serial")
pytest.importorskip("ziglang")

from insitu.boards import find_board
from insitu.devices.living import Living
from insitu.devices.serial import open_serial
from insitu.firmware import Firmware

from .gdb import Gdb, Monitor, debugged
from .living import RATE, compiled, points

pytestmark = pytest.mark.skipif(not shutil.which("qemu-system-arm"), reason="no qemu-system-arm")
ERASED = 0xFF


def flashable() -> Firmware:
    deployed = compiled("nrf51822").deployed
    assert deployed is not None and deployed.flashable is not None
    return deployed.flashable


@dataclass(eq=False)
class Chip:
    """The chip, somebody who talks to it, and somebody who looks into it."""

    life: Living
    gdb: Gdb
    monitor: Monitor
    firmware: Firmware

    @property
    def origin(self) -> int:
        return self.life.life["origin"]

    def flash(self) -> bytes:
        return self.gdb.read(self.origin, self.life.life["flash_bytes"])

    def found(self) -> tuple[bytes, tuple]:
        return self.life.device.save_state(), tuple(self.life.records())

    def start_with(self, flash: bytes, seed: int) -> None:
        """Power on with this flash; SRAM is noise."""
        board = self.firmware.board
        self.gdb.stop()
        self.monitor.ask("system_reset")
        self.gdb.write(self.origin, flash)
        self.gdb.write(board.sram.origin, np.random.default_rng(seed).bytes(board.sram.bytes))
        self.gdb.send("c")
        self.life.device.link.done = None

    def operations(self, act) -> Iterator[tuple[int, bytes, bytes]]:
        """Stop before each operation of the flash: its address, the word to program (empty: a page is erased), and
        the whole flash at that moment."""
        program, erase = (self.firmware.image.by_name[f"flash_{name}"].address for name in ("program", "erase"))
        self.gdb.stop()
        for address in (program, erase):
            self.gdb.breakpoint(address)
        self.gdb.send("c")
        acting = threading.Thread(target=act)
        acting.start()
        while True:
            stopped = self._stopped(acting)
            if not stopped:
                break
            word = self.gdb.read(self.gdb.register(1), 4) if self.gdb.register(15) == program & ~1 else b""
            yield self.gdb.register(0), word, self.flash()
            self.gdb.go()
        self.gdb.stop()
        for address in (program, erase):
            self.gdb.breakpoint(address, on=False)
        self.gdb.send("c")

    def _stopped(self, acting: threading.Thread) -> bool:
        """Wait for the next stop, or for the end of the act."""
        self.gdb.socket.settimeout(0.2)
        try:
            while True:
                try:
                    return bool(self.gdb.receive())
                except TimeoutError:
                    if not acting.is_alive():
                        return False
        finally:
            self.gdb.socket.settimeout(60)


def torn(flash: bytes, at: int, word: bytes, page: int, seed: int) -> bytes:
    """The operation was cut in its middle: each bit has changed by chance."""
    size = len(word) or page
    old = np.frombuffer(flash[at : at + size], np.uint8)
    new = old & np.frombuffer(word, np.uint8) if word else np.full(page, ERASED, np.uint8)
    mask = np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)
    return flash[:at] + ((old & ~mask) | (new & mask)).tobytes() + flash[at + size :]


def check(folder: Path, every: int) -> int:
    """Cut a checkpoint and a sample that makes another give way; returns the number of starts."""
    firmware, board, starts = flashable(), find_board("nrf51822"), 0
    image = folder / "firmware.elf"
    image.write_bytes(firmware.image.data)
    with debugged(board, image) as (url, gdb, monitor):
        gdb.send("c")
        with open_serial(url, firmware.program) as device:
            chip = Chip(Living(device), gdb, monitor, firmware)
            x, y = points(45)
            for i in range(44):
                chip.life.observe(x[i], label=int(y[i]))
            chip.life.rehearse(4, RATE, partial=True)
            for act in (chip.life.checkpoint, lambda: chip.life.observe(x[44], label=int(y[44]))):
                starts += _check(chip, act, every)
    return starts


def _check(chip: Chip, act, every: int) -> int:
    old, seen, starts = chip.found(), [], 0
    if act == chip.life.checkpoint:  # what was learned since the last one is lost with the power
        chip.life.device.run(
            "learn", *chip.life.device.run("encode", points(1)[0]), np.zeros(1, np.int32), np.float32(1)
        )
        lost = chip.found()
        seen = list(chip.operations(act))
        assert chip.found() == lost
    else:
        seen = list(chip.operations(act))
    new = chip.found()
    assert len(seen) > 10 and old != new
    page = chip.life.life["page_bytes"]
    for number, (address, word, flash) in enumerate(seen):
        if number % every and number < len(seen) - 3:
            continue
        for seed, image in enumerate((flash, torn(flash, address - chip.origin, word, page, number))):
            chip.start_with(image, number + seed)
            assert chip.found() in (old, new), f"operation {number} of {len(seen)}: neither the old nor the new"
            starts += 1
    chip.start_with(seen[-1][2], 0)
    act()  # so that the next act begins after this one
    return starts


def test_a_cut_leaves_the_old_or_the_new(tmp_path):
    assert check(tmp_path, every=60) > 20


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_cut_at_any_operation_leaves_the_old_or_the_new(tmp_path):
    assert check(tmp_path, every=1) > 200
