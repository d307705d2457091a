"""Checkpoints in two banks: whatever happens while one is written, the other is whole.

A checkpoint is 28 bytes of header and its payload (docs/checkpoints.md): "INSC", format version and kind (u16 each),
model, sequence, bytes of the payload, CRC-32 of the payload, CRC-32 of the header so far. The valid bank with the
higher sequence counts, compared as a wrapped int32 difference; a write goes to the other one. On Linux a bank is a file
that is written beside, synced, renamed, and its folder synced.
"""

from __future__ import annotations

import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

from insitu.errors import DataError
from insitu.files import write_whole

MAGIC = b"INSC"
VERSION = 1
HEADER = struct.Struct("<4sHHIIII")
HEADER_BYTES = HEADER.size + 4
RESTING, IN_A_BOUT, SEALED = 0, 1, 0x100  # kinds; the last is added to the others


@dataclass(frozen=True)
class Checkpoint:
    model: int
    sequence: int
    payload: bytes
    kind: int = RESTING


def pack(point: Checkpoint) -> bytes:
    head = HEADER.pack(MAGIC, VERSION, point.kind, point.model, point.sequence & 0xFFFFFFFF, len(point.payload),
                       zlib.crc32(point.payload))  # fmt: skip
    return head + struct.pack("<I", zlib.crc32(head)) + point.payload


def unpack(data: bytes) -> Checkpoint | None:
    """The checkpoint; None if it is damaged or incomplete. A DataError if it is whole, but of a later format."""
    if len(data) < HEADER_BYTES or data[:4] != MAGIC:
        return None
    _, version, kind, model, sequence, size, crc = HEADER.unpack_from(data)
    if struct.unpack_from("<I", data, HEADER.size)[0] != zlib.crc32(data[: HEADER.size]):
        return None
    if version > VERSION:
        raise DataError(f"a checkpoint has format {version}, but this insitu reads up to {VERSION}")
    payload = data[HEADER_BYTES:]
    return Checkpoint(model, sequence, payload, kind) if len(payload) == size and zlib.crc32(payload) == crc else None


def newer(a: Checkpoint, b: Checkpoint) -> bool:
    """Is a newer than b? Sequences may wrap around."""
    return 0 < (a.sequence - b.sequence) & 0xFFFFFFFF < 1 << 31


def bank_path(folder: Path, sequence: int) -> Path:
    return folder / f"bank{sequence % 2}"


def write_bank(folder: Path, point: Checkpoint) -> None:
    """Write a checkpoint over the older bank; when this returns, it is on the disk."""
    write_whole(bank_path(folder, point.sequence), pack(point))
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Names of files are on the disk when their folder is synced."""
    held = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(held)
    finally:
        os.close(held)


def read_banks(folder: Path) -> tuple[list[Checkpoint], int]:
    """The valid checkpoints, the newest first; and how many banks are damaged."""
    files = [p for p in (folder / "bank0", folder / "bank1") if p.exists()]
    found = [point for path in files if (point := unpack(_read(path))) is not None]
    if len(found) == 2 and newer(found[1], found[0]):
        found.reverse()
    return found, len(files) - len(found)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as e:
        raise DataError(f"cannot be read: {e.strerror or e}", where=str(path)) from e


def erase_banks(folder: Path) -> None:
    """Overwrite the banks with zeros, then remove them."""
    for path in (folder / "bank0", folder / "bank1"):
        if path.exists():
            with path.open("r+b") as f:
                f.write(bytes(path.stat().st_size))
                f.flush()
                os.fsync(f.fileno())
            path.unlink()
    sync_folder(folder)
