"""Chip models that nobody here wrote, running the very image that would be flashed: QEMU's boards.

The image is handed over as a programmer would get it: .bin or .hex, with random bytes in SRAM, or .elf (QEMU clears
what such an image has in SRAM). The UART is a TCP port: `serial:socket://...` for a client that knows nothing of this.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from insitu.boards import Board
from insitu.devices.requests import Channel

MACHINES = {  # board -> QEMU's machine
    "stm32f405": "netduinoplus2", "stm32f205": "netduino2", "stm32f100": "stm32vldiscovery", "nrf51822": "microbit",
    "lm3s6965": "lm3s6965evb",
}  # fmt: skip


class Damaged:
    """A line on which every so many bytes, in each direction, one arrives with a bit turned."""

    def __init__(self, channel: Channel, every: int = 701):
        self.channel, self.every, self.faults = channel, every, 0
        self._carried = {"to": 0, "from": 0}

    def write(self, data: bytes) -> None:
        self.channel.write(self._carry("to", data))

    def read(self, most: int, timeout: float) -> bytes:
        return self._carry("from", self.channel.read(most, timeout))

    def close(self) -> None:
        self.channel.close()

    def _carry(self, way: str, data: bytes) -> bytes:
        changed, start = bytearray(data), self._carried[way]
        for at in range(-start % self.every, len(data), self.every):
            changed[at] ^= 1 << self.faults % 8
            self.faults += 1
        self._carried[way] += len(data)
        return bytes(changed)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def command(board: Board, image: Path, noise: Path, port: int) -> list[str]:
    line = ["-serial", f"tcp:127.0.0.1:{port},server=on,wait=off,nodelay=on"]
    start = ["qemu-system-arm", "-M", MACHINES[board.name], "-display", "none", "-monitor", "none", *line]
    if image.suffix == ".elf":
        return [*start, "-kernel", str(image)]
    place = f",addr={board.flash.origin:#x},force-raw=on" if image.suffix == ".bin" else ""
    filled = f"loader,file={noise},addr={board.sram.origin:#x},force-raw=on"
    return [*start, "-device", f"loader,file={image}{place}", "-device", filled]


@dataclass(frozen=True)
class Chip:
    """A running chip: the URL of its serial port, and the process that is the chip."""

    port: str
    process: subprocess.Popen

    def share(self, seconds: float = 1.0) -> float:
        """How much of one processor the chip takes at the moment: nearly nothing while its core sleeps."""
        before = self._spent()
        time.sleep(seconds)
        return (self._spent() - before) / seconds

    def _spent(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def running(board: Board, image: Path) -> Iterator[Chip]:
    """The chip with this image in its flash."""
    noise = image.with_name("noise.bin")
    noise.write_bytes(np.random.default_rng(7).bytes(board.sram.bytes))
    port = free_port()
    process = subprocess.Popen(command(board, image, noise, port), stderr=subprocess.PIPE)
    try:
        expect_port(process, port)
        yield Chip(f"socket://127.0.0.1:{port}", process)
    finally:
        process.kill()
        process.communicate()


def expect_port(process: subprocess.Popen, port: int) -> None:
    """Wait until somebody listens there. QEMU serves one client at a time, so nothing is opened to find out."""
    for _ in range(200):
        assert process.poll() is None, process.communicate()[1].decode()
        listening = Path("/proc/net/tcp").read_text()
        if f"0100007F:{port:04X} 00000000:0000 0A" in listening:
            return
        time.sleep(0.05)
    raise AssertionError("the chip's serial port does not open")
