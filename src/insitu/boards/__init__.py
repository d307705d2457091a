"""Boards: what a program for each may use, and how it is compiled. One JSON file a board, or a file of the user's own.

A profile names the chip's memory as it lies in its address space; it knows nothing of pins or peripherals. Energy
figures are typical ones of the data sheets (core running from flash, peripherals off): estimates, no measurements.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from functools import cache
from operator import index
from pathlib import Path

from insitu.boards.cpu import CPUS, Cpu
from insitu.errors import BoardError

FOLDER = Path(__file__).parent
ALIGN = {"sram": 16, "flash": 256}  # bytes: the stack at the start of the one, vectors at that of the other


@dataclass(frozen=True)
class Memory:
    """A stretch of the address space."""

    origin: int
    bytes: int

    @property
    def end(self) -> int:
        return self.origin + self.bytes


@dataclass(frozen=True)
class Board:
    name: str
    title: str
    cpu: str
    sram: Memory
    flash: Memory
    clock_mhz: float
    mw_per_mhz: float | None  # milliwatts for each megahertz, running; None where nothing is published
    note: str = ""

    @property
    def core(self) -> Cpu:
        return CPUS[self.cpu]

    @property
    def emulated(self) -> str:
        """What runs its firmware here: an emulator's name, or nothing."""
        return self.core.emulator

    def milliseconds(self, instructions: float) -> float:
        """At one instruction a cycle: a Cortex-M7 may do better, wait states and loads do worse."""
        return instructions / self.clock_mhz / 1000

    def millijoules(self, instructions: float) -> float | None:
        return None if self.mw_per_mhz is None else instructions * self.mw_per_mhz / 1e6

    def to_json(self) -> dict:
        memory = {
            k: {"origin": hex(m.origin), "bytes": m.bytes} for k, m in (("sram", self.sram), ("flash", self.flash))
        }
        return {**asdict(self), **memory}


@cache
def boards() -> dict[str, Board]:
    """Every board that comes with insitu, by name."""
    return {p.stem: read_board(p) for p in sorted(FOLDER.glob("*.json"))}


def find_board(name: str | Path | Board) -> Board:
    """A board by its name, or the profile in a file."""
    if isinstance(name, Board):
        return name
    if str(name) in boards():
        return boards()[str(name)]
    if str(name).endswith(".json"):
        return read_board(Path(name))
    raise BoardError(
        f"there is no board {str(name)!r}", hint=f"{', '.join(boards())}; or a profile of your own, FILE.json"
    )


def read_board(path: Path) -> Board:
    """The profile in a JSON file."""
    try:
        found = json.loads(path.read_text())
    except OSError as e:
        raise BoardError(f"cannot be read: {e.strerror or e}", where=str(path)) from e
    except (ValueError, RecursionError) as e:
        raise BoardError(f"is not JSON: {e}", where=str(path)) from e
    return board_of(found, path)


def board_of(found, path: Path) -> Board:
    """A checked profile; an error says which field is wrong."""
    if not isinstance(found, dict):
        raise BoardError("a profile is an object of fields", where=str(path))
    unknown = sorted(set(found) - {f.name for f in fields(Board)})
    if unknown:
        known = ", ".join(f.name for f in fields(Board))
        raise BoardError(f"unknown field {unknown[0]}", where=str(path), hint=known)
    name, title, note = (_line(found, field, path) for field in ("name", "title", "note"))
    cpu = found.get("cpu")
    if not isinstance(cpu, str) or cpu not in CPUS:
        raise BoardError(f"cpu is {cpu!r}", where=str(path), hint=", ".join(CPUS))
    clock = _number(found, "clock_mhz", path)
    energy = None if found.get("mw_per_mhz") is None else _number(found, "mw_per_mhz", path)
    sram, flash = _memory(found, "sram", path), _memory(found, "flash", path)
    if sram.origin < flash.end and flash.origin < sram.end:
        raise BoardError("flash and sram overlap", where=str(path))
    return Board(name or path.stem, title or name or path.stem, cpu, sram, flash, clock, energy, note)


def _line(found: dict, field: str, path: Path) -> str:
    """Words that go into comments of generated files: on one line, and they end no comment."""
    text = found.get(field, "")
    if not isinstance(text, str) or not text.isprintable() or "*/" in text:
        raise BoardError(f"{field} is {text!r}", where=str(path), hint="a line of text")
    return text


def _memory(found: dict, field: str, path: Path) -> Memory:
    part = found.get(field)
    if not isinstance(part, dict) or set(part) != {"origin", "bytes"}:
        raise BoardError(
            f"{field} wants origin and bytes", where=str(path), hint='{"origin": "0x20000000", "bytes": 262144}'
        )
    try:
        memory = Memory(*(int(v, 0) if isinstance(v, str) else index(v) for v in (part["origin"], part["bytes"])))
    except (TypeError, ValueError) as e:
        raise BoardError(f"{field}: {e}", where=str(path)) from e
    if memory.origin % ALIGN[field]:
        raise BoardError(f"{field} lies at {memory.origin:#x}", where=str(path), hint=f"a multiple of {ALIGN[field]}")
    if not (0 <= memory.origin < memory.end <= 1 << 32) or memory.bytes < 1024:
        raise BoardError(f"{field} lies at {memory.origin:#x} with {memory.bytes} bytes", where=str(path))
    return memory


def _number(found: dict, field: str, path: Path) -> float:
    value = found.get(field)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e6:
        raise BoardError(f"{field} is {value!r}", where=str(path), hint="a number above zero")
    return float(value)
