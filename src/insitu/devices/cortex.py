"""An emulated Cortex-M or RISC-V core that runs a firmware image: Unicorn, a block port for bytes, exact counts.

Memory is exactly the board's budget: the flash cannot be written, and any access outside is an error that names the
place in the program. A native hook counts instructions for each line of the model's own C. They are instructions, not
cycles.
"""

from __future__ import annotations

import ctypes
import struct
from collections import deque
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from insitu.boards import Board
from insitu.devices.faults import ACCESS
from insitu.devices.flash import FLASH, Nor
from insitu.errors import DeviceError, needs
from insitu.firmware.image import Image
from insitu.terminal.wording import option
from insitu.toolchain.cache import cached, key_of
from insitu.toolchain.compiler import compile_c, compiler_version
from insitu.toolchain.sources import C_FOLDER

PORT = 0x40000000  # as in c/boards/port_emulator.c
ADDRESS, COUNT, READ, WRITE = 0, 4, 8, 12
SYSTEM = 0xE000E000  # the core's own registers
PAGE = 4096
PAINT = 0xA5
KEEP, OTHERS = 0xFFFF, 0
HARD_FAULT = 3  # the number of its vector
CAUSE = 0xE000ED28  # CFSR: what the core says of a fault
PUSHED = ("R0", "R1", "R2", "R3", "R12", "LR", "PC", "XPSR")  # by the core, before the handler
LIMIT = 20_000_000_000  # instructions per request: about fifty times the longest known training step


class Counts(ctypes.Structure):
    _fields_ = [
        ("base", ctypes.c_uint64), ("halfwords", ctypes.c_uint64), ("owner", ctypes.c_void_p),
        ("slots", ctypes.c_void_p), ("at", ctypes.c_void_p), ("current", ctypes.c_uint64), ("outside", ctypes.c_uint64),
        ("left", ctypes.c_uint64), ("stop", ctypes.c_void_p),
    ]  # fmt: skip


class Cortex:
    """A core with an image in its flash. `send` puts bytes on its line, `receive` runs it until it has answered."""

    def __init__(self, image: Image, board: Board, sram: int | None = None, flash: int | None = None,
                 limit: int | None = None, nor: Nor | None = None):  # fmt: skip
        self.nor, self._broken = nor, None  # the flash it may write; what went wrong there
        self.image, self.board, self.limit = image, board, limit or LIMIT
        self.sram, self.flash = sram or board.sram.bytes, flash or board.flash.bytes
        self._incoming: deque[int] = deque()
        self._outgoing = bytearray()
        self._block = [0, 0]
        self._asked: int | None = None
        self.spent = 0  # instructions from the last byte of a request to the first of its answer
        self.served = 0  # the same of all requests so far
        self.uc = self._open()
        self._keep = self._count()
        self.reset()

    # memory -----------------------------------------------------------------------------------

    def _open(self):
        unicorn = import_unicorn()
        uc, self._registers = opened(unicorn, self.board)
        map_pages(uc, self.board.flash.origin, self.flash, unicorn.UC_PROT_READ | unicorn.UC_PROT_EXEC)
        map_pages(uc, self.board.sram.origin, self.sram, unicorn.UC_PROT_READ | unicorn.UC_PROT_WRITE)
        if self.board.core.arm:
            uc.mem_map(SYSTEM, PAGE)
        uc.mmio_map(PORT, PAGE, self._port_read, None, self._port_write, None)
        for address, content in self.image.segments:
            if not self.board.flash.origin <= address <= self.board.flash.origin + self.flash - len(content):
                raise DeviceError(f"the image is larger than {self.flash:,} bytes of flash", where=self.board.name)
            uc.mem_write(address, content)
        if self.nor:
            self.nor.blank(uc)
        return uc

    def reset(self) -> None:
        """Power on: SRAM contains only noise."""
        start, end = pages(self.board.sram.origin, self.sram)
        noise = np.random.default_rng(0).integers(0, 256, end - start, np.uint8).tobytes()
        self.uc.mem_write(start, noise)
        first, last = self.board.sram.origin, self.board.sram.origin + self.sram
        self._beyond = {a: noise[a - start : b - start] for a, b in ((start, first), (last, end)) if b > a}
        self._incoming.clear()
        self._outgoing.clear()
        self._at = self._first()
        self._hungry, self.complaint = False, ""  # about a core that has trapped
        self._broken = None

    def _first(self) -> int:
        """Where it begins: as the vector table says, with the stack it says, or at the first byte of flash."""
        if not self.board.core.arm:
            return self.board.flash.origin
        top, start = np.frombuffer(self.uc.mem_read(self.board.flash.origin, 8), "<u4")
        self.uc.reg_write(self._registers["SP"], int(top))
        self.uc.reg_write(self._registers["IPSR"], 0)
        return int(start)

    # the line ---------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        self._incoming.extend(data)

    def receive(self) -> bytes:
        """The program's output until it waits for more; an error if that takes more instructions than the limit."""
        self._hungry, self._keep[1].left = False, self.limit
        while not self._hungry or self._incoming:
            self._run()
        self._check_beyond()
        said, self._outgoing = bytes(self._outgoing), bytearray()
        return said

    def _run(self) -> None:
        """Until it waits for more bytes; a core that traps goes on in its handler, which tells the other end."""
        self._hungry = False
        try:
            self.uc.emu_start(self._at | self.board.core.arm, 0xFFFFFFFE)  # Thumb code has odd addresses
            self._at = self._register("PC")
        except import_unicorn().UcError as e:
            self._trap(e)
            return
        if self._broken:
            raise self._broken
        if not self._hungry and not self._keep[1].left:
            raise self._endless()
        if not self._hungry:
            raise DeviceError(f"the program stopped at {self.image.at(self._at)}", where=self.board.name)

    def _trap(self, error) -> None:
        """Enter the handler as the core would: registers on the stack, the cause where the handler looks for it.

        Without a stack, or in a handler that traps itself, there is nobody left to tell: an error at once. So it
        is on RISC-V, where the handler tells nobody.
        """
        again, self.complaint = bool(self.complaint), self.complaint or self._complaint(error)
        if again or not self.board.core.arm or not self._push():
            raise DeviceError(self.complaint, where=self.board.name) from error
        self.uc.mem_write(CAUSE, struct.pack("<I", cause_of(error)))
        self._at = struct.unpack("<I", self.peek(self.board.flash.origin + 4 * HARD_FAULT, 4))[0]

    def _push(self) -> bool:
        """Put registers on the stack, as the core does for an exception; is there room?"""
        saved = [self._register(name) for name in PUSHED]
        stack = (self._register("SP") - 4 * len(saved)) & ~7
        try:
            self.uc.mem_write(stack, struct.pack(f"<{len(saved)}I", *saved))
        except import_unicorn().UcError:
            return False
        self.uc.reg_write(self._registers["SP"], stack)
        self.uc.reg_write(self._registers["IPSR"], HARD_FAULT)
        return True

    def _register(self, name: str) -> int:
        return self.uc.reg_read(self._registers[name])

    def _endless(self) -> DeviceError:
        return DeviceError(
            f"no answer after {self.limit:,} instructions; it is at {self.image.at(self._at)}",
            where=self.board.name,
            hint=f"{option(limit=10 * self.limit)} if it needs more; otherwise it loops there forever",
        )

    def _complaint(self, error) -> str:
        at, caller = self._register("PC"), self._register("LR") & ~1
        text = f"{error} at {self.image.at(at)}, called from {self.image.at(caller)}"
        beyond = f": outside the {self.sram:,} bytes of SRAM and {self.flash:,} of flash"
        return text + (beyond if cause_of(error) & ACCESS else ": no instruction of this core")

    def _check_beyond(self) -> None:
        """Memory is mapped in pages: bytes of the first and last page beyond the budget must not have changed."""
        for address, content in self._beyond.items():
            now = self.peek(address, len(content))
            if now != content:
                at = address + next(i for i, (a, b) in enumerate(zip(now, content)) if a != b)
                raise DeviceError(f"a write at {at:#x}: outside the {self.sram:,} bytes of SRAM", where=self.board.name)

    def _port_read(self, uc, offset, size, _):
        if offset != READ:
            return int(offset >= FLASH and self.nor is not None and self.nor.refused)
        if not self._incoming:
            self._hungry = True
            uc.emu_stop()
            return 0
        count = min(self._block[1], len(self._incoming))
        uc.mem_write(self._block[0], bytes(self._incoming.popleft() for _ in range(count)))
        self._asked = int(self.slots.sum())
        return count

    def _port_write(self, uc, offset, size, value, _):
        if offset >= FLASH:
            self._flash_write(uc, offset - FLASH, value)
        elif offset in (ADDRESS, COUNT):
            self._block[offset // 4] = value
        elif offset == WRITE:
            if self._asked is not None:
                self.spent, self._asked = int(self.slots.sum()) - self._asked, None
                self.served += self.spent
            self._outgoing += uc.mem_read(*self._block)

    def _flash_write(self, uc, register: int, value: int) -> None:
        """A wrong write or a power cut stops the core; it cannot be raised inside of Unicorn."""
        if self.nor is None or self._broken:
            return
        try:
            self.nor.write(uc, register, value)
        except DeviceError as e:
            self._broken = e
            uc.emu_stop()

    # counting ---------------------------------------------------------------------------------

    def _count(self):
        """Install the hook. Slot 0 is everything except the model's calls; `own` gives lines of C their slots."""
        base, end = self.board.flash.origin, max(a + len(c) for a, c in self.image.segments)
        self.owner = np.full((end - base) // 2 + 1, KEEP, np.uint16)
        self.at = np.zeros(len(self.owner), np.uint64)
        self.slots = np.zeros(KEEP, np.uint64)
        pointers = (a.ctypes.data for a in (self.owner, self.slots, self.at))
        counts = Counts(base, len(self.owner), *pointers, OTHERS, 0, self.limit, stopper())
        hook = counting_library().count_instruction
        install(self.uc, hook, counts)
        return hook, counts

    def own(self, start: int, bytes: int, slot: int) -> None:
        """From now on, instructions here, and in functions called from here, count for this slot."""
        first = (start - self.board.flash.origin) // 2
        self.owner[first : first + -(-bytes // 2)] = slot

    def peek(self, address: int, count: int) -> bytes:
        return bytes(self.uc.mem_read(address, count))

    def stack_bytes(self) -> int:
        """The maximum depth of the stack: where no paint is left."""
        bottom, top = (self.image.by_name[n].address for n in ("stack_bottom", "stack_top"))
        painted = np.frombuffer(self.peek(bottom, top - bottom), np.uint8) == PAINT
        return top - bottom - int(np.argmin(painted)) if not painted.all() else 0


def cause_of(error) -> int:
    """CFSR for what Unicorn calls by names of its own."""
    unicorn = import_unicorn()
    if error.errno in (unicorn.UC_ERR_FETCH_UNMAPPED, unicorn.UC_ERR_FETCH_PROT):
        return 1
    data = (unicorn.UC_ERR_READ_UNMAPPED, unicorn.UC_ERR_WRITE_UNMAPPED, unicorn.UC_ERR_READ_PROT,
            unicorn.UC_ERR_WRITE_PROT)  # fmt: skip
    return 2 if error.errno in data else 1 << 16


def opened(unicorn, board: Board):
    """An emulator of the board's core, and the numbers of its registers, by Arm's names."""
    if board.core.arm:
        from unicorn import arm_const

        model = getattr(arm_const, f"UC_CPU_ARM_CORTEX_{board.core.model}")
        names = ("PC", "LR", "SP", "IPSR", *PUSHED)
        registers = {name: getattr(arm_const, f"UC_ARM_REG_{name}") for name in names}
        return unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB, model), registers
    from unicorn import riscv_const

    registers = {"PC": riscv_const.UC_RISCV_REG_PC, "LR": riscv_const.UC_RISCV_REG_RA}
    return unicorn.Uc(unicorn.UC_ARCH_RISCV, unicorn.UC_MODE_RISCV32), registers


def map_pages(uc, origin: int, bytes: int, rights: int) -> None:
    """Map memory from the start of its first page: a boot loader may own the first bytes of that page."""
    start, end = pages(origin, bytes)
    uc.mem_map(start, end - start, rights)


def pages(origin: int, bytes: int) -> tuple[int, int]:
    """First and last address of the pages that contain these bytes."""
    return origin // PAGE * PAGE, -(-(origin + bytes) // PAGE) * PAGE


def install(uc, hook, counts: Counts) -> None:
    """Unicorn's own Python hooks call Python for every instruction; this one stays in C."""
    from unicorn import UC_HOOK_CODE
    from unicorn.unicorn_py3.unicorn import uclib

    handle = ctypes.c_size_t()
    function = ctypes.cast(hook, ctypes.c_void_p)
    everywhere = (ctypes.c_uint64(1), ctypes.c_uint64(0))
    status = uclib.uc_hook_add(
        uc._uch,
        ctypes.byref(handle),
        UC_HOOK_CODE,
        function,
        ctypes.cast(ctypes.pointer(counts), ctypes.c_void_p),
        *everywhere,
    )
    if status:
        raise DeviceError(f"the counting hook was refused: {status}")


def stopper() -> int | None:
    """The address of the emulator's function that stops it."""
    from unicorn.unicorn_py3.unicorn import uclib

    return ctypes.cast(uclib.uc_emu_stop, ctypes.c_void_p).value


@cache
def counting_library() -> ctypes.CDLL:
    source = C_FOLDER / "emulator" / "count.c"
    key = key_of(compiler_version(), source.read_text())
    flags = ["-std=c99", "-O2", "-fPIC", "-shared", "-fno-sanitize=undefined"]
    path = cached("emulator", key, ".so", lambda to: compile_c([*flags, str(source), "-o", str(to)]))
    return ctypes.CDLL(str(Path(path)))


def import_unicorn() -> Any:
    try:
        import unicorn
    except ImportError:
        raise needs("unicorn", "emulate", "the emulator") from None
    return unicorn
