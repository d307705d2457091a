"""The stack frames and calls of a RISC-V image (rv32imc), for stack.py: what a function pushes, and whom it calls.

A call is one jump (jal, c.jal, c.j) or two instructions side by side (auipc, jalr). A jump through another register is
a call through a pointer. Nothing is pushed when the core traps: a handler has to do that, and ours does not return.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from insitu.errors import ToolError
from insitu.firmware.image import Image, Symbol
from insitu.firmware.stack import Function, Machine

START = ".vectors"  # where reset sets the stack pointer
SP, RA = 2, 1
LUI, AUIPC, JAL, JALR, IMMEDIATE, REGISTERS = 0x37, 0x17, 0x6F, 0x67, 0x13, 0x33


def decode(image: Image, symbol: Symbol) -> Function:
    frame, calls, takes, indirect = 0, set(), set(), False
    upper: dict[int, int] = {}  # register -> what lui or auipc put there
    before = 0
    for at, word in instructions(image, symbol):
        frame += 0 if symbol.section == START else pushed(word, symbol.name)
        target, linked = jump(at, word, before)
        if target is not None and (linked or not symbol.address <= target < symbol.address + symbol.bytes):
            calls.add(target)
        indirect |= target is None and through_register(word)
        if word & 0x7F in (LUI, AUIPC):
            upper[word >> 7 & 31] = (word & 0xFFFFF000) + (at if word & 0x7F == AUIPC else 0)
        if word & 0x707F == IMMEDIATE and word >> 15 & 31 in upper:
            takes.add(upper[word >> 15 & 31] + signed(word >> 20, 12) & 0xFFFFFFFF)
        before = word
    return Function(symbol.name, symbol.section, frame, frozenset(calls), indirect, frozenset(takes))


def instructions(image: Image, symbol: Symbol) -> Iterator[tuple[int, int]]:
    """(address, instruction); one of 16 bits has no ones in its upper half, and not both in its lowest bits."""
    code, at = image.read(symbol.address, symbol.bytes), 0
    while at + 2 <= len(code):
        (half,) = struct.unpack_from("<H", code, at)
        wide = half & 3 == 3 and at + 4 <= len(code)
        yield symbol.address + at, struct.unpack_from("<I", code, at)[0] if wide else half
        at += 4 if wide else 2


def pushed(word: int, where: str) -> int:
    """Bytes this instruction takes from the stack."""
    if word & 3 != 3:
        return pushed_short(word, where)
    if word >> 7 & 31 != SP or word & 0x7F not in (IMMEDIATE, REGISTERS, LUI, AUIPC):
        return 0
    if word & 0x707F == IMMEDIATE and word >> 15 & 31 == SP:  # addi sp, sp, n
        return max(-signed(word >> 20, 12), 0)
    raise _unknown(where)


def pushed_short(half: int, where: str) -> int:
    kind, register = half & 0xE003, half >> 7 & 31
    if kind == 0x6001 and register == SP:  # c.addi16sp
        bits = (half >> 12 & 1) << 9 | (half >> 3 & 3) << 7 | (half >> 5 & 1) << 6 | (half >> 2 & 1) << 5
        return max(-signed(bits | (half >> 6 & 1) << 4, 10), 0)
    if kind == 0x0001 and register == SP:  # c.addi sp, n
        return max(-signed((half >> 12 & 1) << 5 | half >> 2 & 31, 6), 0)
    if kind == 0x8002 and register == SP and half >> 2 & 31:  # c.mv, c.add
        raise _unknown(where)
    return 0


def _unknown(where: str) -> ToolError:
    return ToolError("has a stack frame whose size is not in the code", where=where)


def jump(at: int, word: int, before: int) -> tuple[int | None, bool]:
    """Where an unconditional jump leads, None if the code does not say; and whether it comes back."""
    if word & 0x7F == JAL:
        bits = (word >> 31) << 20 | (word >> 12 & 0xFF) << 12 | (word >> 20 & 1) << 11 | (word >> 21 & 0x3FF) << 1
        return at + signed(bits, 21), word >> 7 & 31 == RA
    if word & 0xE003 in (0x2001, 0xA001) and word & 3 != 3:  # c.jal, c.j
        return at + signed(short_offset(word), 12), word & 0xE003 == 0x2001
    base = word >> 15 & 31 if word & 3 == 3 else word >> 7 & 31
    if through_register(word) and before & 0x7F == AUIPC and before >> 7 & 31 == base:
        offset = signed(word >> 20, 12) if word & 3 == 3 else 0
        return (at - 4 + (before & 0xFFFFF000) + offset) & 0xFFFFFFFF, comes_back(word)
    return None, False


def short_offset(half: int) -> int:
    places = ((12, 11), (11, 4), (10, 9), (9, 8), (8, 10), (7, 6), (6, 7), (5, 3), (4, 2), (3, 1), (2, 5))
    return sum((half >> here & 1) << there for here, there in places)


def through_register(word: int) -> bool:
    """Does it jump where a register says, other than back to the caller?"""
    if word & 3 == 3:
        return word & 0x707F == JALR and not (word >> 15 & 31 == RA and word >> 7 & 31 == 0)
    register = word >> 7 & 31
    return word & 0xE07F == 0x8002 and register != 0 and (register != RA or bool(word & 0x1000))


def comes_back(word: int) -> bool:
    return word >> 7 & 31 == RA if word & 3 == 3 else bool(word & 0x1000)


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


RISCV = Machine(decode, {False: 0}, 16, 0)
