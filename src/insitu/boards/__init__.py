"""Boards: the memory a program may use on each, and how it is compiled. One JSON file per board, or the user's own.

A profile describes the chip's memory in its address space, and no pins or peripherals. Energy figures are typical
values from the data sheets (core running from flash, peripherals off): estimates, not measurements.
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
ALIGN = {"sram": 16, "flash": 256}  # bytes: SRAM starts with the stack, flash with the vectors


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
    mw_per_mhz: float | None  # milliwatts per megahertz while running; None if not published
    note: str = ""

    @property
    def core(self) -> Cpu:
        return CPUS[self.cpu]

    @property
    def emulated(self) -> str:
        """The emulator that runs its firmware here, or an empty string."""
        return self.core.emulator

    def milliseconds(self, instructions: float) -> float:
        """Time at one instruction per cycle: a Cortex-M7 may be faster, wait states and loads make it slower."""
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
    raise BoardError(f"there is no board {str(name)!r}", hint=f"{', '.join(boards())}; or your own profile, FILE.json")


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
        raise BoardError("a profile must be a JSON object", where=str(path))
    unknown = sorted(set(found) - {f.name for f in fields(Board)})
    if unknown:
        known = ", ".join(f.name for f in fields(Board))
        raise BoardError(f"unknown field {unknown[0]}", where=str(path), hint=known)
    name, title, note = (_line(found, field, path) for field in ("name", "title", "note"))
    cpu = found.get("cpu")
    if not isinstance(cpu, str) or cpu not in CPUS:
        raise BoardError(f"cpu is {cpu!r}, which is unknown", where=str(path), hint=", ".join(CPUS))
    clock = _number(found, "clock_mhz", path)
    energy = None if found.get("mw_per_mhz") is None else _number(found, "mw_per_mhz", path)
    sram, flash = _memory(found, "sram", path), _memory(found, "flash", path)
    if sram.origin < flash.end and flash.origin < sram.end:
        raise BoardError("flash and sram overlap", where=str(path))
    return Board(name or path.stem, title or name or path.stem, cpu, sram, flash, clock, energy, note)


def _line(found: dict, field: str, path: Path) -> str:
    """A text that goes into comments of generated files: it must be one line and must not end a comment."""
    text = found.get(field, "")
    if not isinstance(text, str) or not text.isprintable() or "*/" in text:
        raise BoardError(f"{field} must be one line of text, not {text!r}", where=str(path))
    return text


def _memory(found: dict, field: str, path: Path) -> Memory:
    part = found.get(field)
    if not isinstance(part, dict) or set(part) != {"origin", "bytes"}:
        raise BoardError(
            f"{field} needs origin and bytes", where=str(path), hint='{"origin": "0x20000000", "bytes": 262144}'
        )
    try:
        memory = Memory(*(int(v, 0) if isinstance(v, str) else index(v) for v in (part["origin"], part["bytes"])))
    except (TypeError, ValueError) as e:
        raise BoardError(f"{field}: {e}", where=str(path)) from e
    if memory.origin % ALIGN[field]:
        raise BoardError(f"{field} starts at {memory.origin:#x}", where=str(path), hint=f"a multiple of {ALIGN[field]}")
    if not (0 <= memory.origin < memory.end <= 1 << 32) or memory.bytes < 1024:
        raise BoardError(f"{field} at {memory.origin:#x} cannot have {memory.bytes} bytes", where=str(path))
    return memory


def _number(found: dict, field: str, path: Path) -> float:
    value = found.get(field)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e6:
        raise BoardError(f"{field} must be a number > 0, not {value!r}", where=str(path))
    return float(value)
