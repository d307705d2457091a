"""The flash of a board whose store is full, to count what one more sample costs there.

The bytes of c/device/store_flash.c, and no checkpoint. Every segment but one is in use and has as many records to keep
as any other, so that the next sample finds no free slot, and moving a segment to make room takes longest.
"""

from __future__ import annotations

import struct
from zlib import crc32

import numpy as np

from insitu.codegen.life_layout import SLOT_HEAD, Layout

MAGIC, GUARD, EVERY, NONE = 0x534C4E49, 1, 5, -1  # "INLS"; a flag; every fifth record is a guard


def full_flash(layout: Layout, model: int) -> bytes:
    """From the first page of the store to the end of the banks."""
    data, used = bytearray(b"\xff" * layout.flash_bytes), layout.segments - 1
    for segment in range(used):
        head = struct.pack("<III", MAGIC, 1, segment + 1)
        check = crc32(head + struct.pack("<I", model))
        _put(data, segment * layout.segment_bytes, head + struct.pack("<I", check))
    for number in range(used * layout.segment_slots):
        slot, segment = divmod(number, used)
        at = segment * layout.segment_bytes + SLOT_HEAD + layout.word + slot * layout.slot_bytes
        _put(data, at, _slot(layout, number + 1))
    return bytes(data)


def _put(data: bytearray, at: int, part: bytes) -> None:
    data[at : at + len(part)] = part


def _latents(layout: Layout, rng: np.random.Generator) -> bytes:
    parts = [(rng.normal(size=v.type.size) * 4).astype(v.type.numpy).tobytes() for v in layout.latents]
    return b"".join(part + bytes(-len(part) % 4) for part in parts)


def _slot(layout: Layout, id: int) -> bytes:
    """The first records have a class each, the others none; those beyond the capacity were dropped."""
    latents, guard = _latents(layout, np.random.default_rng(id)), id % EVERY == 0
    label = id - 1 if id <= min(layout.classes, EVERY - 1) else NONE
    head = struct.pack("<IhBBI", id, label, 0, GUARD if guard else 0, crc32(latents))
    fill = b"\xff" * (-len(latents) % layout.word)
    dropped = bytes(layout.word) if id > layout.capacity else b""
    return latents + fill + head + struct.pack("<I", crc32(head)) + dropped
