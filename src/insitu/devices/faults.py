"""What a board says when its core has trapped (docs/protocol.md), and how that is told.

The board's side is fault() in c/boards/startup.c. The frame comes unasked; requests.py waits for it with every answer.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from insitu.devices.frames import FAULTED, Answer
from insitu.errors import DeviceError
from insitu.terminal.wording import either

WORDS = "<6I"
EXCEPTIONS = {0: "its program ended", 2: "non-maskable interrupt", 3: "hard fault", 4: "memory fault", 5: "bus fault",
              6: "usage fault"}  # fmt: skip
# bit of the configurable fault status register (CFSR) -> what it stands for
CAUSES = {
    0: "fetched an instruction from memory that is not its own",
    1: "accessed memory that is not its own",
    4: "no room on the stack for an exception", 5: "no room on the stack for floating point registers",
    8: "fetched an instruction where there is no memory", 9: "accessed an address without memory",
    10: "accessed an address without memory a few instructions before",
    12: "no memory for the stack", 13: "no memory for the stack",
    16: "an undefined instruction", 17: "jumped to an even address", 18: "returned to no valid place",
    19: "floating point is switched off, or the firmware is for another core", 20: "the stack is too small",
    24: "an access that is not aligned", 25: "a division by zero",
}  # fmt: skip
ACCESS, ADDRESS_KNOWN = 0x0303, 0x8080  # bits of CFSR: the memory refused an access; to this address


def hint() -> str:
    """What to do about a trap."""
    return either(
        shell="its state is lost: reset the board, then insitu run DIR --load FILE with the last one you saved. If it "
        "happens again: is the firmware built for this very board? --on emulator runs it with every access checked",
        python="its state is lost: reset the board, then load(...) with the last one you saved. If it happens again: "
        'is the firmware built for this very board? on("emulator") runs it with every access checked',
    )


@dataclass(frozen=True)
class Fault:
    """A core that has trapped, and what it knows about that."""

    exception: int
    at: int  # where it was; 0: unknown
    caller: int  # the link register there
    stack: int
    cause: int  # CFSR
    address: int  # which it could not access, if the cause says that it is known

    @property
    def access(self) -> str:
        """to 0x20010000, if that is known"""
        return f"to {self.address:#x} " if self.cause & ADDRESS_KNOWN else ""

    @property
    def why(self) -> str:
        """The causes in words."""
        found = [text for bit, text in CAUSES.items() if self.cause >> bit & 1]
        return ", ".join(found) or EXCEPTIONS.get(self.exception, f"exception {self.exception}, which has no handler")


def read_fault(answer: Answer) -> Fault | None:
    """What a frame says of a fault; None if it is another one."""
    if answer.status != FAULTED or answer.sequence != 0 or len(answer.data) < struct.calcsize(WORDS):
        return None
    return Fault(*struct.unpack_from(WORDS, answer.data))


def fault_error(fault: Fault, place: Callable[[int], str] = hex, where: str = "device") -> DeviceError:
    """The error to raise; `place` names an address of the program."""
    about = f" (access {fault.access.strip()})" if fault.access else ""
    at = f" at {place(fault.at)}, called from {place(fault.caller & ~1)}" if fault.at else ""
    registers = f"exception {fault.exception}, cause {fault.cause:#x}, stack pointer {fault.stack:#x}"
    return DeviceError(f"the board faulted{at}: {fault.why}{about}; {registers}", where=where, hint=hint())
