"""Which class every byte of an image belongs to: arena, state, constants by layer, kernels, and so on.

Every section that takes memory belongs to one class, and every byte in it to a symbol or to alignment. A section
without a class, or of a class that must not be in that memory (for example a kernel's static variable), is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from insitu.errors import BudgetError
from insitu.firmware.image import Image, Section, Symbol

# section -> (memory, class)
CLASSES = {
    ".boot2": ("flash", "startup"),
    ".vectors": ("flash", "startup"),
    ".startup": ("flash", "startup"),
    ".constants": ("flash", "constants"),
    ".model": ("flash", "model"),
    ".kernels": ("flash", "kernels"),
    ".protocol": ("flash", "protocol"),
    ".port": ("flash", "port"),
    ".runtime": ("flash", "toolchain runtime"),
    ".stack": ("sram", "stack reserve"),
    ".state": ("sram", "state"),
    ".arena": ("sram", "arena"),
    ".life": ("sram", "life"),
    ".store": ("sram", "store"),
    ".protocol_ram": ("sram", "protocol"),
    ".port_ram": ("sram", "port"),
}
LITERALS = "(literals)"
WIDE = 64  # bytes: the largest alignment of a section
GAP = 16  # bytes: a wider hole cannot be alignment


@dataclass(frozen=True)
class Account:
    """Bytes by memory and class; `parts` has the symbols of each."""

    sram: Mapping[str, int]
    flash: Mapping[str, int]
    parts: Mapping[tuple[str, str], Mapping[str, int]] = field(repr=False)

    @property
    def sram_bytes(self) -> int:
        return sum(self.sram.values())

    @property
    def flash_bytes(self) -> int:
        return sum(self.flash.values())

    def to_json(self) -> dict[str, Any]:
        return {"sram": dict(self.sram), "flash": dict(self.flash)}


def account(image: Image) -> Account:
    """Account for every byte, or raise and name the bytes that belong to no class."""
    strays = [s for s in image.sections if s.name not in CLASSES]
    if strays:
        raise BudgetError(f"{strays[0].bytes} bytes of {strays[0].name} are in no class: {_names(image, strays[0])}")
    bytes: dict[str, dict[str, int]] = {"sram": {}, "flash": {}}
    parts: dict[tuple[str, str], dict[str, int]] = {}
    for section in image.sections:
        memory, kind = CLASSES[section.name]
        found = covered(image, section)
        parts.setdefault((memory, kind), {}).update(found)
        counted = bytes[memory]
        counted[kind] = counted.get(kind, 0) + sum(found.values())
        counted["alignment"] = counted.get("alignment", 0) + section.bytes - sum(found.values())
    for memory, counted in bytes.items():
        counted["alignment"] += _between(image, memory)
        check_sum(image, memory, sum(counted.values()))
    return Account(bytes["sram"], bytes["flash"], parts)


def with_reserved(found: Account, reserved: Mapping[str, int]) -> Account:
    """The account with flash that the image does not fill: pages for samples and checkpoints."""
    return replace(found, flash={**found.flash, **{name: count for name, count in reserved.items() if count}})


def covered(image: Image, section: Section) -> dict[str, int]:
    """Symbol -> bytes, for a section. Bytes without a symbol must be alignment or, in flash, literals."""
    if section.name == ".stack":
        return {"stack": section.bytes}
    found: dict[str, int] = {}
    at = section.address
    inside = [s for s in image.symbols if s.section == section.name and s.bytes]
    for s in sorted(inside, key=lambda s: (s.address, -s.bytes)):
        if s.address + s.bytes <= at:
            continue  # another name for the same bytes
        _hole(section, at, s.address, s.name, found)
        found[s.name] = found.get(s.name, 0) + s.address + s.bytes - max(at, s.address)  # two files may use a name
        at = s.address + s.bytes
    _hole(section, at, section.address + section.bytes, "the end", found)
    return found


def _hole(section: Section, at: int, to: int, name: str, found: dict[str, int]) -> None:
    """Strings and jump tables have no symbol; they are constants of the code in the same section."""
    if to - at < GAP:
        return
    if CLASSES[section.name][0] == "sram":
        raise BudgetError(f"{to - at} bytes of {section.name} before {name} belong to no symbol")
    found[LITERALS] = found.get(LITERALS, 0) + to - at


def _between(image: Image, memory: str) -> int:
    """The bytes that alignment left free between the sections."""
    places = sorted((s.address, s.bytes) for s in image.sections if CLASSES[s.name][0] == memory)
    holes = [b[0] - (a[0] + a[1]) for a, b in pairwise(places)]
    if any(not 0 <= hole < WIDE for hole in holes):
        raise BudgetError(f"{max(holes)} bytes between two sections of {memory} belong to none")
    return sum(holes)


def check_sum(image: Image, memory: str, counted: int) -> None:
    """The classes must add up to the image's memory, from its first byte to its last."""
    places = [(s.address, s.address + s.bytes) for s in image.sections if CLASSES[s.name][0] == memory]
    taken = max(end for _, end in places) - min(start for start, _ in places)
    if taken != counted:
        raise BudgetError(f"{taken} bytes of {memory} are taken, {counted} are accounted for")


def _names(image: Image, section: Section) -> str:
    return ", ".join(s.name for s in image.symbols if s.section == section.name and s.bytes) or "no symbol"


def constants_by_layer(account: Account, layers: Mapping[str, str]) -> dict[str, int]:
    """Bytes of constants of each layer; `layers` maps a C name to its layer."""
    found: dict[str, int] = {}
    for name, bytes in account.parts.get(("flash", "constants"), {}).items():
        layer = layers.get(name, name)
        found[layer] = found.get(layer, 0) + bytes
    return found


def largest(parts: Mapping[str, int], count: int = 5) -> list[tuple[str, int]]:
    return sorted(parts.items(), key=lambda item: -item[1])[:count]


__all__ = ["Account", "Symbol", "account", "constants_by_layer", "largest"]
