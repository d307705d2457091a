"""The files that a programmer writes to flash, from a linked ELF image: .bin, .hex, and .uf2 for boards that are
drives.

Needs only Python, because it is copied to a board's folder and run there by its Makefile:

    python3 flash.py out/firmware.elf [family of the .uf2]
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

LOAD = 1  # the type of a segment that takes memory
PAGE = 256  # bytes of a UF2 block that are content
UF2_BLOCK = "<8I476sI"
UF2_MAGIC = (0x0A324655, 0x9E5D5157, 0x0AB16F30)
UF2_FAMILY = 0x2000  # flag: the block names its chip
ERASED = b"\xff"
ROW = 16  # bytes per line of Intel hex


def flashed(elf: bytes) -> tuple[int, bytes]:
    """The start of the image in flash, and its bytes; gaps between segments are filled like erased flash."""
    parts = sorted(part for part in segments(elf) if part[1])
    if not parts:
        raise ValueError("it has no loadable segment")
    origin, data = parts[0][0], b""
    for address, content in parts:
        if address < origin + len(data):
            raise ValueError(f"two segments overlap at {address:#x}")
        data += ERASED * (address - origin - len(data)) + content
    return origin, data


def segments(elf: bytes) -> list[tuple[int, bytes]]:
    """Physical address and contents of the loaded segments (32 bits, little endian)."""
    if elf[:6] != b"\x7fELF\x01\x01":
        raise ValueError("is not a 32-bit ELF image")
    (start,) = struct.unpack_from("<I", elf, 28)
    size, count = struct.unpack_from("<HH", elf, 42)
    heads = [struct.unpack_from("<8I", elf, start + i * size) for i in range(count)]
    return [(where, elf[at : at + length]) for kind, at, _, where, length, *_ in heads if kind == LOAD]


def intel_hex(origin: int, data: bytes) -> bytes:
    """Lines of 16 bytes; each 64 KB of addresses start with a line that has their upper half."""
    lines, upper, at = [], None, 0
    while at < len(data):
        address = origin + at
        if address >> 16 != upper:
            upper = address >> 16
            lines.append(_record(0, 4, upper.to_bytes(2, "big")))
        count = min(ROW, len(data) - at, 0x10000 - (address & 0xFFFF))
        lines.append(_record(address & 0xFFFF, 0, data[at : at + count]))
        at += count
    return "".join([*lines, _record(0, 1, b"")]).encode()


def _record(address: int, kind: int, data: bytes) -> str:
    check = -(len(data) + (address >> 8) + address + kind + sum(data)) & 0xFF
    return f":{len(data):02X}{address:04X}{kind:02X}{data.hex().upper()}{check:02X}\n"


def uf2(origin: int, data: bytes, family: int) -> bytes:
    """Blocks of 512 bytes with 256 bytes of content each, for a boot loader that is a USB drive."""
    pages = [data[at : at + PAGE].ljust(PAGE, ERASED) for at in range(0, len(data), PAGE)]
    first, second, last = UF2_MAGIC
    return b"".join(
        struct.pack(UF2_BLOCK, first, second, UF2_FAMILY, origin + PAGE * i, PAGE, i, len(pages), family, page, last)
        for i, page in enumerate(pages)
    )


def images(elf: bytes, family: int | None = None) -> dict[str, bytes]:
    """Suffix -> content, for everything that can be flashed."""
    origin, data = flashed(elf)
    made = {".bin": data, ".hex": intel_hex(origin, data)}
    return made if family is None else {**made, ".uf2": uf2(origin, data, family)}


if __name__ == "__main__":
    source = Path(sys.argv[1])
    for suffix, content in images(source.read_bytes(), *(int(n, 0) for n in sys.argv[2:3])).items():
        source.with_suffix(suffix).write_bytes(content)
