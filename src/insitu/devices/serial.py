"""A real board on a serial port: the same protocol as the emulator, through pyserial.

with open_serial("/dev/ttyACM0", program) as board:
    board.run("train_step", x, labels, rate)

A port may also be one of pyserial's URLs: socket://host:port, rfc2217://host:port, spy:///dev/ttyACM0.
"""

from __future__ import annotations

import importlib
import time

from insitu.boards import BAUD
from insitu.codegen import Program
from insitu.codegen.device import Interface
from insitu.devices.link import LinkDevice
from insitu.errors import DeviceError, needs

QUIET = 0.1  # seconds of silence: no frame is being sent
URLS = "socket://host:port, rfc2217://host:port, spy:///dev/ttyACM0"
NEVER_QUIET = 5.0  # seconds after which we stop waiting for silence


class SerialChannel:
    """A serial port as a channel: 8 bits, no parity, one stop bit."""

    def __init__(self, port: str, baud: int = BAUD):
        serial = pyserial()
        self._failures = (serial.SerialException, OSError)
        try:
            self.port = serial.serial_for_url(port, baud, timeout=0, write_timeout=10)
            self.port.reset_input_buffer()  # output of a board while it starts is not for us
        except (*self._failures, ValueError) as e:
            raise DeviceError(f"cannot be opened: {e}", where=port, hint=_hint(port)) from e

    def write(self, data: bytes) -> None:
        try:
            self.port.write(data)
            self.port.flush()
        except self._failures as e:
            raise self._gone(e) from e

    def read(self, most: int, timeout: float) -> bytes:
        try:
            self.port.timeout = max(timeout, 0)
            first = self.port.read(1)  # waits; the rest has arrived by then
            self.port.timeout = 0  # not read(in_waiting): a socket reports one waiting byte, however many there are
            return first + self.port.read(most - 1) if first else b""
        except self._failures as e:
            raise self._gone(e) from e

    def settle(self) -> None:
        """Start fresh: end a frame that someone may have left half-sent, and wait until the board is silent.

        A board that received garbage complains about all of it, which must not be mistaken for answers to us.
        """
        self.write(b"\0")
        end = time.monotonic() + NEVER_QUIET
        while self.read(4096, QUIET) and time.monotonic() < end:
            pass

    def close(self) -> None:
        self.port.close()

    def _gone(self, e: Exception) -> DeviceError:
        return DeviceError(f"the line broke: {e}", where=str(self.port.port), hint="plug it in again")


def open_serial(port: str, program: Program | Interface, baud: int = BAUD, **options) -> LinkDevice:
    """The device on this port; it must run exactly this program. Options are LinkDevice's: timeouts and tries."""
    channel = SerialChannel(port, baud)
    try:
        channel.settle()
        return LinkDevice(channel, program, **options)
    except BaseException:
        channel.close()
        raise


def _hint(port: str) -> str:
    """What to do about a port that cannot be opened: an address has other reasons than a cable."""
    kind, found, rest = port.partition("://")
    if not found:
        return known_ports()
    if kind in ("socket", "rfc2217"):
        return f"is the serial port server at {rest} on, reachable, and listening on that TCP port?"
    return f"is the rest of the address right? Known: {URLS}"


def known_ports() -> str:
    """The serial ports of this machine, for a hint."""
    ports = importlib.import_module("serial.tools.list_ports")
    return ", ".join(sorted(p.device for p in ports.comports())) or "no serial port found: plug in the board"


def pyserial():
    try:
        return importlib.import_module("serial")
    except ImportError as e:
        raise needs("pyserial", "serial", "a board on a serial port") from e
