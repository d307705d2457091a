"""A device's description of itself, parsed: does it run this program, and if not, what differs?

Written for people who flashed yesterday's firmware: each part has a name, and a difference shows both sides.
"""

from __future__ import annotations

import struct

from insitu.codegen.device import INFO

NAMES = ("protocol", "bytes per frame", "model", "program", "bytes of arena", "bytes of saved state", "number of verbs")
HEXADECIMAL = ("model", "program")  # these are checksums


def described(info: bytes) -> dict[str, str]:
    """Part -> its value, as text; parsing ends at the first unreadable part."""
    head = struct.calcsize(INFO)
    if len(info) < head:
        return {"description": f"{len(info)} bytes that make no sense"}
    found = {
        name: f"{value:08x}" if name in HEXADECIMAL else f"{value:,}"
        for name, value in zip(NAMES, struct.unpack(INFO, info[:head]))
    }
    return {**found, **_verbs(info[head:], info[head - 1])}


def _verbs(rest: bytes, count: int) -> dict[str, str]:
    found = {}
    for _ in range(count):
        try:
            name = rest[1 : 1 + rest[0]].decode()
            ins, outs = rest[1 + rest[0] : 3 + rest[0]]
            sizes = struct.unpack_from(f"<{ins + outs}I", rest, 3 + rest[0])
        except (ValueError, IndexError, struct.error):
            return {**found, "the rest": f"{len(rest)} bytes that make no sense"}
        words = [", ".join(f"{n:,}" for n in part) or "nothing" for part in (sizes[:ins], sizes[ins:])]
        found[name] = f"takes {words[0]} bytes and gives {words[1]}"
        rest = rest[3 + rest[0] + 4 * (ins + outs) :]
    return {**found, "classes": ", ".join(class_names(rest))} if rest else found


def class_names(rest: bytes) -> list[str]:
    """The names at the end of a description."""
    names, at = [], 2
    while at < len(rest):
        names.append(rest[at + 1 : at + 1 + rest[at]].decode(errors="replace"))
        at += 1 + rest[at]
    return names


def differences(there: bytes, here: bytes) -> str:
    """The differences between a device's description and the expected one, with both sides of each part."""
    one, other = described(there), described(here)
    parts = [
        f"{name} {one.get(name, 'is missing')}, not {other.get(name, 'there')}"
        for name in {**other, **one}
        if one.get(name) != other.get(name)
    ]
    return "; ".join(parts)
