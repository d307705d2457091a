"""Reads an ELF image: what is loaded where, which symbol covers which bytes, and the line of C behind an address."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

from insitu.errors import ToolError, needs
from insitu.firmware.elf import ALLOCATED, MAGIC, NO_CONTENT, Elf, SymbolRow


@dataclass(frozen=True)
class Section:
    name: str
    address: int
    bytes: int
    loaded: bool  # has content in the file: takes flash


@dataclass(frozen=True)
class Symbol:
    name: str
    address: int  # without the Thumb bit
    bytes: int
    code: bool
    section: str


@dataclass(frozen=True, eq=False)
class Image:
    sections: tuple[Section, ...]  # only those that take memory
    symbols: tuple[Symbol, ...]
    segments: tuple[tuple[int, bytes], ...]  # physical address, content: what a programmer writes to flash
    marks: tuple[tuple[int, str], ...]  # address -> t or d: code or data from here on
    entry: int
    data: bytes = field(repr=False)

    @cached_property
    def by_name(self) -> dict[str, Symbol]:
        return {s.name: s for s in self.symbols}

    @cached_property
    def functions(self) -> tuple[Symbol, ...]:
        """Functions with a size, by address; the first name if a function has several."""
        found = {s.address: s for s in sorted(self.symbols, key=lambda s: s.name, reverse=True) if s.code and s.bytes}
        return tuple(found[a] for a in sorted(found))

    def section(self, name: str) -> Section | None:
        return next((s for s in self.sections if s.name == name), None)

    def at(self, address: int) -> str:
        """`function+offset` for an address."""
        for s in self.functions:
            if s.address <= address < s.address + s.bytes:
                return f"{s.name}+{address - s.address:#x}"
        return f"{address:#x}"

    def read(self, address: int, count: int) -> bytes:
        """The loaded content at an address."""
        for start, content in self.segments:
            if start <= address and address + count <= start + len(content):
                return content[address - start : address - start + count]
        raise ToolError(f"{address:#x} has no content in the image")

    def lines(self, file: str) -> dict[int, int]:
        """Address -> line, for the code that comes from this C file."""
        return _units(self.data).lines(file)


def read_image(path: str | Path) -> Image:
    try:
        data = Path(path).read_bytes()
    except OSError as e:
        raise ToolError(f"cannot be read: {e.strerror or e}", where=str(path)) from e
    return parse_image(data, str(path))


def parse_image(data: bytes, where: str = "image") -> Image:
    """The content of an image; raises if it is truncated or damaged."""
    if not data.startswith(MAGIC):
        raise ToolError("is not an ELF image of 32 bits, little-endian", where=where)
    try:
        image = _image(Elf(data))
    except Exception as e:  # a damaged file can fail anywhere, with any exception
        raise ToolError(f"is a damaged ELF image: {e!r}", where=where) from e
    if not image.segments:
        raise ToolError("is an ELF image with nothing to load", where=where)
    return image


def _image(elf: Elf) -> Image:
    rows = [(name, row) for name, row in zip(elf.names, elf.rows) if row.flags & ALLOCATED and row.bytes]
    symbols = list(elf.symbols())
    return Image(
        tuple(Section(name, row.address, row.bytes, row.type != NO_CONTENT) for name, row in rows),
        tuple(_symbol(s, elf) for s in symbols if s.name[:1] != "$"),
        tuple(elf.segments()),
        tuple(sorted((s.address, s.name[1]) for s in symbols if s.name[:2] in ("$t", "$d"))),
        elf.entry,
        elf.data,
    )


def _symbol(s: SymbolRow, elf: Elf) -> Symbol:
    return Symbol(s.name, s.address & ~1 if s.function else s.address, s.bytes, s.function, elf.section_of(s))


class _Units:
    """The parts of an image that have lines, by the name of their C file; no two have the same.

    Reading where a part begins takes longer than its lines. The model's own come first, so the others are hardly read.
    """

    def __init__(self, data: bytes):
        elf = _elf(data, "image")
        self._rest = elf.get_dwarf_info().iter_CUs() if elf.has_dwarf_info() else iter(())
        self._found: dict[str, Any] = {}
        self._one = Lock()  # parts share a position in the file

    def lines(self, file: str) -> dict[int, int]:
        with self._one:
            unit = self._find(file)
            program = unit.dwarfinfo.line_program_for_CU(unit) if unit else None
            states = [entry.state for entry in program.get_entries()] if program else []
        return {state.address: state.line for state in states if state is not None and not state.end_sequence}

    def _find(self, file: str) -> Any:
        while file not in self._found:
            unit = next(self._rest, None)
            if unit is None:
                return None
            name = unit.get_top_DIE().attributes.get("DW_AT_name")
            if name is not None:
                self._found.setdefault(Path(name.value.decode(errors="replace")).name, unit)
        return self._found[file]


_units = lru_cache(maxsize=8)(_Units)


def _elf(data: bytes, where: str):
    try:
        from elftools.common.exceptions import ELFError
        from elftools.elf.elffile import ELFFile
    except ImportError:
        raise needs("pyelftools", "emulate", "reading firmware") from None
    try:
        return ELFFile(io.BytesIO(data))
    except ELFError as e:
        raise ToolError(f"is not an ELF image: {e}", where=where) from e
