"""What a device sends after it has learned: the change of its units since a base, in few bits, sealed.

    sender = Sender(units, "4bit")
    data = sender.delta(base, learned, samples=56)       what the coding lost is added to the next delta
    change, samples = read_delta(data, units, base_hash(base))

A delta begins with a header: magic, version, coding, the units it is for, the hash of the base it applies to, how many
samples it stands for, and its length; it ends with a CRC-32. One for other units, another base or a later version is
refused, and so is a damaged one. Whether its numbers are plausible is decided in checks.py.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from zlib import crc32

import numpy as np

from insitu.errors import DataError
from insitu.federated.coding import CODINGS, decode, encode, most_bytes
from insitu.federated.units import Arrays, Unit, identity

MAGIC, VERSION = b"INSD", 1
HEAD = "<4sBBHI8sII"  # magic, version, coding, 0, units, base, samples, body bytes
HEAD_BYTES, CRC_BYTES = struct.calcsize(HEAD), 4
MOST_SAMPLES = 1 << 31
HASH_BYTES = 8
OTHER = "the learner of the server, or one with another scheme that the server was given too"


def base_hash(packed: bytes) -> bytes:
    """What identifies a base: 8 bytes."""
    return hashlib.blake2s(packed, digest_size=HASH_BYTES).digest()


# the base: everything in 16 bits ----------------------------------------------------------------


def pack_base(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Arrays as 16-bit numbers, each row of the first axis with its own step: what a server hands out."""
    return b"".join(_rows16(np.asarray(arrays[name], np.float64)) for name in sorted(arrays))


def _rows16(array: np.ndarray) -> bytes:
    rows = array.reshape(array.shape[0] if array.ndim > 1 else 1, -1)
    steps = (np.abs(rows).max(1, initial=0) / 32767).astype("<f4")
    numbers = np.rint(np.divide(rows, steps[:, None], out=np.zeros_like(rows), where=steps[:, None] > 0))
    return steps.tobytes() + np.clip(numbers, -32767, 32767).astype("<i2").tobytes()


def unpack_base(data: bytes, shapes: Mapping[str, tuple[int, ...]]) -> Arrays:
    """The arrays of a packed base; a DataError unless it has exactly these."""
    found: Arrays = {}
    at = 0
    for name in sorted(shapes):
        shape = shapes[name]
        rows, size = shape[0] if len(shape) > 1 else 1, int(np.prod(shape, dtype=np.int64))
        if len(data) - at < 4 * rows + 2 * size:
            raise DataError(f"ends at {len(data)} bytes, in {name}", where="base", hint=OTHER)
        steps = np.frombuffer(data, "<f4", rows, at).astype(np.float64)
        numbers = np.frombuffer(data, "<i2", size, at + 4 * rows).reshape(rows, -1)
        if not np.isfinite(steps).all():
            raise DataError("has a step that is not finite", where=f"base, {name}")
        found[name] = (numbers * steps[:, None]).astype(np.float32).reshape(shape)
        at += 4 * rows + 2 * size
    if at != len(data):
        raise DataError(f"has {len(data)} bytes, not {at}", where="base", hint=OTHER)
    return found


# deltas -----------------------------------------------------------------------------------------


def write_delta(change: Mapping[str, np.ndarray], units: Sequence[Unit], base: bytes, samples: int,
                coding: str = "int8") -> bytes:  # fmt: skip
    """The sealed bytes of a change; `base` is the hash of what it applies to."""
    body = b"".join(encode(change[u.name], coding) for u in units)
    head = (MAGIC, VERSION, CODINGS.index(coding), 0, identity(units), base, samples, len(body))
    data = struct.pack(HEAD, *head) + body
    return data + struct.pack("<I", crc32(data))


@dataclass(frozen=True)
class Head:
    """The header of a delta."""

    coding: str
    units: int
    base: bytes
    samples: int


def read_head(data: bytes) -> Head:
    """The header of whole, undamaged data."""
    if not isinstance(data, bytes) or len(data) < HEAD_BYTES + CRC_BYTES:
        raise DataError("is too short", where="delta")
    magic, version, coding, _, units, base, samples, length = struct.unpack_from(HEAD, data)
    if magic != MAGIC:
        raise DataError("is not a delta", where="delta")
    if version != VERSION or coding >= len(CODINGS):
        raise DataError(f"has version {version}, coding {coding}", where="delta", hint="update insitu on both sides")
    if len(data) != HEAD_BYTES + length + CRC_BYTES or struct.unpack("<I", data[-4:])[0] != crc32(data[:-4]):
        raise DataError("is damaged", where="delta")
    return Head(CODINGS[coding], units, base, samples)


def read_delta(data: bytes, units: Sequence[Unit], base: bytes) -> tuple[Arrays, int]:
    """The change of each unit, and how many samples it stands for."""
    head = read_head(data)
    if head.units != identity(units):
        raise DataError("belongs to another model or scheme", where="delta")
    if head.base != base:
        raise DataError("was made from another base", where="delta", hint="the device joins the next round")
    most = HEAD_BYTES + CRC_BYTES + sum(most_bytes(u.value.shape) for u in units)
    if len(data) > most:  # padding would be unpacked to many times its size
        raise DataError(f"has {len(data):,} bytes, honest ones at most {most:,}", where="delta")
    found: Arrays = {}
    body, at = data[HEAD_BYTES:-CRC_BYTES], 0
    for u in units:
        found[u.name], used = decode(body[at:], u.value.shape, head.coding)
        at += used
    if at != len(body):
        raise DataError(f"has {len(body)} bytes, not {at}", where="delta")
    return found, head.samples


@dataclass
class Sender:
    """Makes the deltas of a device. What a coding loses is kept and added to the next change: nothing is lost."""

    units: Sequence[Unit]
    coding: str = "int8"
    left: Arrays = field(default_factory=dict)

    def delta(self, base: Mapping[str, np.ndarray], learned: Mapping[str, np.ndarray], base_id: bytes,
              samples: int) -> bytes:  # fmt: skip
        """From the real values before and after learning."""
        wanted = {u.name: learned[u.name] - base[u.name] + self.left.get(u.name, 0) for u in self.units}
        data = write_delta(wanted, self.units, base_id, samples, self.coding)
        sent, _ = read_delta(data, self.units, base_id)
        self.left = {name: array - sent[name] for name, array in wanted.items()}
        return data
