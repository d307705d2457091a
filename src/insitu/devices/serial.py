"""A real board on a serial port: the same protocol as the emulator, through pyserial.

with open_serial("/dev/ttyACM0", program) as board:
    board.run("train_step", x, labels, rate)
"""

from __future__ import annotations

import importlib

from insitu.codegen import Program
from insitu.codegen.device import Interface
from insitu.devices.link import LinkDevice
from insitu.errors import DeviceError, needs

BAUD = 115_200


class SerialChannel:
    """A serial port as a channel: 8 bits, no parity, one stop bit."""

    def __init__(self, port: str, baud: int = BAUD):
        serial = pyserial()
        self._failures = (serial.SerialException, OSError)
        try:
            self.port = serial.Serial(port, baud, timeout=0, write_timeout=10)
            self.port.reset_input_buffer()  # what a board says while it starts is not for us
        except (*self._failures, ValueError) as e:
            raise DeviceError(f"cannot be opened: {e}", where=port, hint=known_ports()) from e

    def write(self, data: bytes) -> None:
        try:
            self.port.write(data)
            self.port.flush()
        except self._failures as e:
            raise self._gone(e) from e

    def read(self, most: int, timeout: float) -> bytes:
        try:
            self.port.timeout = max(timeout, 0)
            first = self.port.read(1)  # waits; the rest is there already
            return first + self.port.read(min(most - 1, self.port.in_waiting)) if first else b""
        except self._failures as e:
            raise self._gone(e) from e

    def close(self) -> None:
        self.port.close()

    def _gone(self, e: Exception) -> DeviceError:
        return DeviceError(f"the line broke: {e}", where=str(self.port.port), hint="is it plugged in?")


def open_serial(port: str, program: Program | Interface, baud: int = BAUD, **options) -> LinkDevice:
    """The device on this port; it must run this very program. Options are LinkDevice's: timeouts and tries."""
    channel = SerialChannel(port, baud)
    try:
        return LinkDevice(channel, program, **options)
    except BaseException:
        channel.close()
        raise


def known_ports() -> str:
    """The serial ports of this machine, for a hint."""
    ports = importlib.import_module("serial.tools.list_ports")
    return ", ".join(sorted(p.device for p in ports.comports())) or "no serial port was found: is the board plugged in?"


def pyserial():
    try:
        return importlib.import_module("serial")
    except ImportError as e:
        raise needs("pyserial", "serial", "a board on a serial port") from e
