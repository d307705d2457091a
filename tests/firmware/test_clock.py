"""A clock that never becomes ready does not stop a board: every image reaches main in a bounded number of instructions.

Peripherals are plain memory here. Their registers first show noise, in which any bit appears sooner or later, and from
some read on nothing but zeros: each wait of the clock's set-up is met, and then one that never ends by itself.
"""

from __future__ import annotations

import numpy as np
import pytest

from insitu.boards import Board, boards, find_board
from insitu.firmware import build_firmware

from .images import program

for package in ("unicorn", "elftools", "ziglang"):
    pytest.importorskip(package)

PAGE, CORE = 4096, 0xE0000000
MOST = 8_000_000  # instructions: a wait reads a register 100,000 times, in about six instructions each
NAMES = sorted(name for name in boards() if find_board(name).port)


class Silent:
    """A core whose peripherals go silent after so many reads."""

    def __init__(self, board: Board, image, alive: int):
        import unicorn

        from insitu.devices.cortex import map_pages, opened

        self.uc, self.registers = opened(unicorn, board)
        self.image, self.alive, self.noise, self.pages = image, alive, np.random.default_rng(0), set()
        map_pages(self.uc, board.flash.origin, board.flash.bytes, unicorn.UC_PROT_ALL)
        map_pages(self.uc, board.sram.origin, board.sram.bytes, unicorn.UC_PROT_ALL)
        for address, content in image.segments:
            self.uc.mem_write(address, content)
        self.uc.hook_add(unicorn.UC_HOOK_MEM_UNMAPPED, self._map)
        self.reads = self.uc.hook_add(unicorn.UC_HOOK_MEM_READ, self._read) if alive else None

    def _map(self, uc, access, address, size, value, _) -> bool:
        """Whatever the image uses beside flash and SRAM is a peripheral, but for the core's own registers: they never
        change, and the size of a cache that is noise takes long to go through."""
        uc.mem_map(address // PAGE * PAGE, PAGE)
        if address < CORE:
            self.pages.add(address // PAGE * PAGE)
        return True

    def _read(self, uc, access, address, size, value, _) -> None:
        if address // PAGE * PAGE not in self.pages:
            return
        self.alive -= 1
        for page in self.pages if self.alive < 0 else ():
            uc.mem_write(page, bytes(PAGE))
        if self.alive < 0:
            uc.hook_del(self.reads)
        else:
            uc.mem_write(address, self.noise.bytes(4))

    def start(self, most: int = MOST) -> str:
        """Where it is after so many instructions, or when it has reached main."""
        start, main = (self.image.by_name[name].address & ~1 for name in ("reset", "main"))
        self.uc.reg_write(self.registers["SP"], self.image.by_name["stack_top"].address)
        self.uc.emu_start(start | 1, main, count=most)
        at = self.uc.reg_read(self.registers["PC"])
        return "main" if at == main else self.image.at(at)


@pytest.fixture(scope="module", params=NAMES)
def built(request):
    board = find_board(request.param)
    return board, build_firmware(program(), board, port=board.port).image


@pytest.mark.parametrize("alive", [0, 1, 5, 20, 60, 200])
def test_a_clock_that_never_becomes_ready_does_not_stop_the_start(alive, built):
    assert Silent(*built, alive).start() == "main"


def test_the_start_waits_for_its_clock(built):
    """Or the test above would say nothing."""
    assert Silent(*built, 0).start(most=100_000) != "main"
