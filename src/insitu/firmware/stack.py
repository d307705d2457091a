"""How deep the stack of an image can get: the sum of the stack frames along the deepest chain of calls.

Read from the machine code, so it holds for every compiler and for the compiler's own runtime. A frame is the sum of
everything a function ever pushes, so it is never too small. The protocol calls the model's functions through pointers,
and kernels may choose among functions of their own: such a call may reach any function whose address is stored there.
(A function that calls through a pointer is never called through one itself: where flash begins at 0, small numbers
look like addresses.) Recursion, other calls through pointers, and frames whose size is not in the code are errors.
This file decodes Thumb; stack_riscv.py decodes RISC-V.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from insitu.errors import ToolError
from insitu.firmware.image import Image, Symbol

EXCEPTION = {False: 8 * 4 + 8, True: 26 * 4 + 8}  # bytes without and with floating point registers, plus alignment
ALIGN = 8
# functions that call through pointers: where the pointers are stored, and what they may call
POINTERS = {".protocol": (".constants", ".model"), ".kernels": (".kernels", ".kernels")}


@dataclass(frozen=True)
class Function:
    name: str
    section: str
    frame: int  # bytes pushed
    calls: frozenset[int]  # addresses
    indirect: bool  # calls through a pointer
    takes: frozenset[int]  # addresses of functions that it computes


@dataclass(frozen=True)
class Depth:
    bytes: int  # with room for one exception, aligned
    chain: tuple[tuple[str, int], ...]  # function, its frame: the deepest chain


@dataclass(frozen=True)
class Machine:
    """How the code of a kind of core is read."""

    decode: Callable[[Image, Symbol], Function]
    exception: Mapping[bool, int]  # bytes pushed when it traps, without and with floating point registers
    align: int
    bit: int  # set in the address of a function


def stack_depth(image: Image, fpu: bool, root: str = "reset", machine: Machine | None = None) -> Depth:
    """The most stack that a program starting at `root` can need; `machine`: Thumb, if it is not another."""
    machine = machine or THUMB
    functions = {s.address: machine.decode(image, s) for s in image.functions}
    made = {a for f in functions.values() for a in f.takes}
    taken = {}
    for caller, (kept, callees) in POINTERS.items():
        known = stored_addresses(image, kept, machine.bit) | made
        possible = {a for a, f in functions.items() if f.section == callees and not f.indirect}
        taken[caller] = frozenset(possible & known)
    for f in functions.values():
        if f.indirect and f.section not in taken:
            raise ToolError("calls through a pointer: its stack depth cannot be determined", where=f.name)
    start = image.by_name.get(root)
    if start is None:
        raise ToolError(f"there is no function {root}", where="image")
    chain = _deepest(start.address, functions, taken, {}, ())
    need = sum(frame for _, frame in chain) + machine.exception[fpu]
    return Depth(-(-need // machine.align) * machine.align, chain)


def _deepest(
    at: int, functions: dict[int, Function], taken: dict[str, frozenset[int]], known: dict, path: tuple[int, ...]
):
    if at in known:
        return known[at]
    if at in path:
        names = " -> ".join(functions[a].name for a in (*path[path.index(at) :], at))
        raise ToolError(f"recursion, so the stack depth cannot be determined: {names}", where="firmware")
    f = functions[at]
    below = (f.calls & set(functions)) | (taken[f.section] if f.indirect else frozenset())
    chains = [_deepest(b, functions, taken, known, (*path, at)) for b in sorted(below)]
    best = max(chains, key=lambda c: sum(frame for _, frame in c), default=())
    known[at] = ((f.name, f.frame), *best)
    return known[at]


def stored_addresses(image: Image, name: str, bit: int = 1) -> set[int]:
    """Words in the data of a section that could be addresses of functions."""
    section = image.section(name)
    if section is None:
        return set()
    content = image.read(section.address, section.bytes)
    words = np.frombuffer(content, "<u4", len(content) // 4)
    return set(np.unique(words[words & 1 == bit] - np.uint32(bit)).tolist())


# decoding ---------------------------------------------------------------------------------------


def decode(image: Image, symbol: Symbol) -> Function:
    frame, calls, takes, indirect = 0, set(), set(), False
    low: dict[int, int] = {}  # register -> its lower half
    for at, one, two in instructions(image, symbol):
        frame += pushed(one, two, symbol.name)
        target = branch(at, one, two)
        if target is not None and not symbol.address <= target < symbol.address + symbol.bytes:
            calls.add(target)
        if target is not None and target == symbol.address and one & 0xF800 == 0xF000 and two & 0xD000 == 0xD000:
            calls.add(target)  # calls itself
        indirect |= one & 0xFF87 == 0x4780 or (one & 0xFF87 == 0x4700 and one != 0x4770)
        half = immediate_half(one, two)
        if half:
            upper, register, value = half
            if upper:
                takes.add((value << 16 | low.get(register, 0)) & ~1)
            else:
                low[register] = value
    return Function(symbol.name, symbol.section, frame, frozenset(calls), indirect, frozenset(takes))


def instructions(image: Image, symbol: Symbol) -> Iterator[tuple[int, int, int]]:
    """(address, first halfword, second halfword or 0) of each instruction, without literal pools."""
    code = image.read(symbol.address, symbol.bytes)
    marks = [(a, kind) for a, kind in image.marks if symbol.address <= a < symbol.address + symbol.bytes]
    data = [(a, next((b for b, k in marks if b > a and k == "t"), 1 << 32)) for a, kind in marks if kind == "d"]
    at = 0
    while at + 2 <= len(code):
        skip = next((end for start, end in data if start <= symbol.address + at < end), None)
        if skip is not None:
            at = skip - symbol.address
            continue
        (one,) = struct.unpack_from("<H", code, at)
        wide = one >> 11 in (0b11101, 0b11110, 0b11111) and at + 4 <= len(code)
        two = struct.unpack_from("<H", code, at + 2)[0] if wide else 0
        yield symbol.address + at, one, two
        at += 4 if wide else 2


def pushed(one: int, two: int, where: str) -> int:
    """Bytes this instruction takes from the stack."""
    if one & 0xFE00 == 0xB400:  # push {r0-r7, lr}
        return 4 * (one & 0x1FF).bit_count()
    if one & 0xFF80 == 0xB080:  # sub sp, #
        return 4 * (one & 0x7F)
    if one == 0xE92D:  # push.w {...}
        return 4 * two.bit_count()
    if one == 0xF84D and two & 0x0F00 == 0x0D00:  # str r, [sp, #-n]!
        return two & 0xFF
    if one == 0xE96D:  # strd r, r, [sp, #-n]!
        return 4 * (two & 0xFF)
    if one & 0xFFBF == 0xED2D and two & 0x0E00 == 0x0A00:  # vpush
        return 4 * (two & 0xFF)
    if one & 0xFBEF == 0xF1AD and two & 0x8F00 == 0x0D00:  # sub.w sp, sp, #
        return expanded((one >> 10 & 1) << 11 | (two >> 12 & 7) << 8 | two & 0xFF)
    if one & 0xFBFF == 0xF2AD and two & 0x8F00 == 0x0D00:  # subw sp, sp, #
        return (one >> 10 & 1) << 11 | (two >> 12 & 7) << 8 | two & 0xFF
    if one & 0xFF87 in (0x4485, 0x4685) or (one & 0xFFEF == 0xEBAD and two & 0x0F00 == 0x0D00):
        # add sp, r; mov sp, r; sub.w sp, sp, r
        raise ToolError("has a stack frame whose size is not in the code", where=where)
    return 0


def expanded(imm12: int) -> int:
    """The constant that a 12-bit Thumb immediate stands for."""
    byte = imm12 & 0xFF
    if imm12 >> 10 == 0:
        return (byte, byte << 16 | byte, byte << 24 | byte << 8, byte * 0x01010101)[imm12 >> 8 & 3]
    turn, value = imm12 >> 7, 0x80 | imm12 & 0x7F
    return (value >> turn | value << (32 - turn)) & 0xFFFFFFFF


def branch(at: int, one: int, two: int) -> int | None:
    """The target of a branch (bl, b.w, b, with or without a condition); None for other instructions."""
    if one & 0xF800 == 0xF000 and two & 0xD000 == 0x8000 and one >> 7 & 7 != 7:  # b<cond>.w; 7: no branch at all
        s, j1, j2 = one >> 10 & 1, two >> 13 & 1, two >> 11 & 1
        offset = j2 << 19 | j1 << 18 | (one & 0x3F) << 12 | (two & 0x7FF) << 1
        return at + 4 + offset - (s << 20)
    if one & 0xF000 == 0xD000 and one >> 8 & 0xF < 0xE:  # b<cond>; the rest are udf and svc
        return at + 4 + ((one & 0xFF) << 1) - (0x200 if one & 0x80 else 0)
    if one & 0xF500 == 0xB100:  # cbz, cbnz
        return at + 4 + ((one >> 9 & 1) << 6 | (one >> 3 & 0x1F) << 1)
    if one & 0xF800 == 0xF000 and two & 0x9000 == 0x9000:  # bl, b.w
        s, j1, j2 = one >> 10 & 1, two >> 13 & 1, two >> 11 & 1
        i1, i2 = 1 - (j1 ^ s), 1 - (j2 ^ s)
        offset = i1 << 23 | i2 << 22 | (one & 0x3FF) << 12 | (two & 0x7FF) << 1
        return at + 4 + offset - (s << 24)
    if one & 0xF800 == 0xE000:  # b
        offset = (one & 0x7FF) << 1
        return at + 4 + offset - (0x1000 if one & 0x400 else 0)
    return None


def immediate_half(one: int, two: int) -> tuple[bool, int, int] | None:
    """(whether it is the upper half, register, value) of a movw or movt."""
    if one & 0xFB70 != 0xF240 or two & 0x8000:
        return None
    value = (one & 0xF) << 12 | (one >> 10 & 1) << 11 | (two >> 12 & 7) << 8 | two & 0xFF
    return bool(one & 0x80), two >> 8 & 0xF, value


THUMB = Machine(decode, EXCEPTION, ALIGN, 1)
