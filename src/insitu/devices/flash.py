"""The flash that an emulated core may write, with the rules of NOR flash enforced, and a power supply that can fail.

Programming clears bits of whole words, and each word once between two erases; erasing sets a whole page. Anything
else, or a write outside the reserved pages, is an error. A `worn` page refuses, and the driver is told. `cut` makes the
power fail at one of the next operations: before it, after it, or in its middle, with only some of its bits changed.
c/boards/flash_emulator.c is the driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from insitu.errors import DeviceError

FLASH = 0x100  # its registers, from the emulator's port on
ADDRESS, SOURCE, PROGRAM, ERASE = 0, 4, 8, 12
BEFORE, TORN, AFTER = "before", "torn", "after"  # when the power fails


class PowerCut(DeviceError):
    """The power has failed: the core has stopped, SRAM is lost, flash is as it was at that moment."""


@dataclass(frozen=True, eq=False)
class Operation:
    """A word that is programmed or a page that is erased, and the whole flash before it."""

    at: int  # from the start of the reserved pages
    old: np.ndarray
    new: np.ndarray
    before: bytes
    written: np.ndarray

    def cut(self, nor: Nor, when: str, seed: int) -> bytes:
        """The flash if the power fails here."""
        nor.seed = seed
        part = {BEFORE: self.old, AFTER: self.new}.get(when)
        part = nor.torn(self.old, self.new) if part is None else part
        return self.before[: self.at] + part.tobytes() + self.before[self.at + len(part) :]


@dataclass
class Nor:
    """The reserved pages of a flash, and what has been done to them."""

    origin: int
    bytes: int
    page: int
    word: int
    operations: int = 0  # words programmed and pages erased
    erases: list[int] = field(default_factory=list)  # by page
    cut_at: int | None = None
    when: str = BEFORE
    seed: int = 0
    worn: set[int] = field(default_factory=set)  # pages that can be neither erased nor programmed any more
    refused: bool = False  # was the last operation refused?

    @staticmethod
    def of(life: Mapping[str, Any] | None) -> Nor | None:
        """The flash of a living program; None if it has none."""
        if not life or not life.get("flash_bytes"):
            return None
        return Nor(int(life["origin"]), int(life["flash_bytes"]), int(life["page_bytes"]), int(life["word_bytes"]))

    def __post_init__(self) -> None:
        self.erases = [0] * (self.bytes // self.page)
        self.written = np.zeros(self.bytes // self.word, bool)
        self.registers = {ADDRESS: 0, SOURCE: 0}
        self.watch: list[Operation] | None = None  # if it is a list, every operation is added to it

    def cut(self, after: int, when: str = BEFORE, seed: int = 0) -> None:
        """The power fails at the operation after so many more."""
        self.cut_at, self.when, self.seed = self.operations + after, when, seed

    def blank(self, uc) -> None:
        """As the chip is delivered: every page erased."""
        uc.mem_write(self.origin, b"\xff" * self.bytes)

    def load(self, uc, data: bytes) -> None:
        """The content of an earlier day."""
        uc.mem_write(self.origin, data)
        self.written = (np.frombuffer(data, np.uint8).reshape(-1, self.word) != 0xFF).any(1)

    def write(self, uc, register: int, value: int) -> None:
        if register in self.registers:
            self.registers[register] = value
        elif self._refuses():
            return
        elif register == PROGRAM:
            self._program(uc, self.registers[ADDRESS], bytes(uc.mem_read(self.registers[SOURCE], self.word)))
        elif register == ERASE:
            self._erase(uc, self.registers[ADDRESS])

    def _refuses(self) -> bool:
        self.refused = (self.registers[ADDRESS] - self.origin) // self.page in self.worn
        return self.refused

    def _program(self, uc, address: int, word: bytes) -> None:
        self._inside(address, self.word, "programmed")
        number = (address - self.origin) // self.word
        if self.written[number]:
            raise DeviceError(f"the word at {address:#x} of flash was programmed twice since its page was erased")
        old = np.frombuffer(bytes(uc.mem_read(address, self.word)), np.uint8)
        self._change(uc, address, old, old & np.frombuffer(word, np.uint8))
        self.written[number] = True

    def _erase(self, uc, address: int) -> None:
        self._inside(address, self.page, "erased")
        page = (address - self.origin) // self.page
        old = np.frombuffer(bytes(uc.mem_read(address, self.page)), np.uint8)
        self.erases[page] += 1
        each = self.page // self.word
        self.written[page * each : (page + 1) * each] = False
        self._change(uc, address, old, np.full(self.page, 0xFF, np.uint8))

    def _inside(self, address: int, bytes: int, what: str) -> None:
        if address % bytes or not self.origin <= address <= self.origin + self.bytes - bytes:
            end = self.origin + self.bytes
            raise DeviceError(
                f"{address:#x} cannot be {what}: {bytes} bytes of flash from {self.origin:#x} to {end:#x}"
            )

    def _change(self, uc, address: int, old: np.ndarray, new: np.ndarray) -> None:
        """Write, unless the power fails here."""
        if self.watch is not None:
            before = bytes(uc.mem_read(self.origin, self.bytes))
            self.watch.append(Operation(address - self.origin, old, new, before, self.written.copy()))
        fails = self.cut_at == self.operations
        self.operations += 1
        if fails:
            self.cut_at = None
            if self.when != BEFORE:
                uc.mem_write(address, (new if self.when == AFTER else self.torn(old, new)).tobytes())
            raise PowerCut(f"the power failed at operation {self.operations - 1} of the flash")
        uc.mem_write(address, new.tobytes())

    def torn(self, old: np.ndarray, new: np.ndarray) -> np.ndarray:
        """Some of the bits have changed: each by chance, or (of a page) all of those in a part of it."""
        rng = np.random.default_rng((self.seed, self.operations))
        mask = rng.integers(0, 256, len(old), dtype=np.uint8)
        if len(old) > self.word and self.seed % 3:
            at = rng.integers(len(old))
            mask = np.where((np.arange(len(old)) < at) == (self.seed % 3 == 1), 0xFF, 0).astype(np.uint8)
        return (old & ~mask) | (new & mask)
