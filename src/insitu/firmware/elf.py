"""Read the tables of an ELF image as it is linked for a Cortex-M: 32 bits, little-endian.

Only sections, segments and symbols: debug information is left to pyelftools (image.py). A table that does not fit into
the file raises an exception.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from struct import Struct
from typing import NamedTuple

MAGIC = b"\x7fELF\x01\x01"  # 32 bits, little-endian
HEADER = Struct("<16sHHIIIIIHHHHHH")
SECTION, SEGMENT, SYMBOL = Struct("<10I"), Struct("<8I"), Struct("<IIIBBH")
ALLOCATED, NO_CONTENT, LOAD, FUNCTION = 2, 8, 1, 2  # a section's flag and type, a segment's type, a symbol's type
SYMBOLS, UNDEFINED, RESERVED = ".symtab", 0, 0xFF00  # numbers from here on are not sections


class SectionRow(NamedTuple):
    name: int
    type: int
    flags: int
    address: int
    offset: int
    bytes: int
    link: int
    info: int
    align: int
    entry: int


class SymbolRow(NamedTuple):
    name: str
    address: int
    bytes: int
    function: bool
    section: int


class Elf:
    def __init__(self, data: bytes):
        _, _, _, _, self.entry, segments, sections, *_, width, count, row, rows, names = HEADER.unpack_from(data)
        if (count and width != SEGMENT.size) or (rows and row != SECTION.size):
            raise ValueError("its tables have rows of another size")
        self.data, self._names = data, names
        self._segments = data[segments : segments + count * SEGMENT.size]
        self.rows = [SectionRow(*SECTION.unpack_from(data, sections + i * SECTION.size)) for i in range(rows)]

    def content(self, offset: int, count: int) -> bytes:
        found = self.data[offset : offset + count]
        if len(found) < count:
            raise ValueError(f"{count} bytes at {offset} go beyond its end")
        return found

    def segments(self) -> Iterator[tuple[int, bytes]]:
        """Physical address and content of everything that is loaded."""
        for kind, offset, _, address, count, *_ in SEGMENT.iter_unpack(self._segments):
            if kind == LOAD and count:
                yield address, self.content(offset, count)

    @cached_property
    def names(self) -> list[str]:
        """Of all sections."""
        table = self._table(self.rows[self._names]) if self.rows else b""
        return [_text(table, row.name) for row in self.rows]

    def symbols(self) -> Iterator[SymbolRow]:
        """All symbols with a name and a place."""
        row = next((row for name, row in zip(self.names, self.rows) if name == SYMBOLS), None)
        if row is None:
            return
        text = self._table(self.rows[row.link])
        for name, address, count, info, _, section in SYMBOL.iter_unpack(self._table(row)):
            if name and section != UNDEFINED:
                yield SymbolRow(_text(text, name), address, count, info & 15 == FUNCTION, section)

    def section_of(self, symbol: SymbolRow) -> str:
        return self.names[symbol.section] if symbol.section < RESERVED else ""

    def _table(self, row: SectionRow) -> bytes:
        return self.content(row.offset, row.bytes)


def _text(table: bytes, start: int) -> str:
    return table[start : table.index(0, start)].decode(errors="replace")
