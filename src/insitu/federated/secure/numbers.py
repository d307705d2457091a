"""A change as 16-bit numbers with one step for all devices, bounded on the device; and masked numbers as sealed bytes.

No server can check a change that it cannot see. So each device bounds the norm of its own change (`clip`), and all use
the step that follows from it: a number of 16 bits then holds every entry, and the sum of all is exact. What rounding
loses stays on the device and is added to its next change.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from zlib import crc32

import numpy as np

from insitu.errors import DataError
from insitu.federated.checks import norm
from insitu.federated.delta import base_hash
from insitu.federated.privacy import Noise, private
from insitu.federated.units import Arrays, Unit, identity

MAGIC, VERSION = b"INSM", 1
HEAD = "<4sBBHI8sI"  # magic, version, bits, 0, units, base, numbers
HEAD_BYTES, CRC_BYTES = struct.calcsize(HEAD), 4
LARGEST = 32767
FAR = 6.0  # standard deviations of noise that the numbers have room for


def step_of(clip: float, noise: Noise | None = None) -> float:
    """What one unit of the numbers stands for."""
    return clip * (1 + FAR * (noise.multiplier if noise else 0.0)) / LARGEST


def bounded(change: Mapping[str, np.ndarray], clip: float, noise: Noise | None) -> Arrays:
    """The change with a norm of at most clip; with noise on top if this device adds its own."""
    if noise is not None:
        return private(change, noise)
    share = min(1.0, clip / max(norm(change), 1e-30))
    return {name: np.asarray(a * share, np.float32) for name, a in change.items()}


def as_numbers(change: Mapping[str, np.ndarray], units: Sequence[Unit], step: float) -> tuple[np.ndarray, Arrays]:
    """All numbers in the order of the units, and what rounding lost of each array."""
    flat, left = [], {}
    for u in units:
        numbers = np.clip(np.rint(change[u.name] / step), -LARGEST, LARGEST)
        left[u.name] = np.clip(change[u.name] - numbers * step, -step, step).astype(np.float32)
        flat.append(numbers.astype(np.int64).ravel())
    return np.concatenate(flat), left


def as_arrays(numbers: np.ndarray, units: Sequence[Unit], step: float) -> Arrays:
    """The arrays that numbers stand for."""
    found, at = {}, 0
    for u in units:
        found[u.name] = (numbers[at : at + u.size] * step).astype(np.float32).reshape(u.value.shape)
        at += u.size
    return found


# on the way -------------------------------------------------------------------------------------


def write_masked(numbers: np.ndarray, bits: int, units: Sequence[Unit], packed: bytes) -> bytes:
    """Masked numbers for these units and this base."""
    head = struct.pack(HEAD, MAGIC, VERSION, bits, 0, identity(units), base_hash(packed), numbers.size)
    data = head + pack_bits(numbers, bits)
    return data + struct.pack("<I", crc32(data))


def read_masked(data: object, bits: int, units: Sequence[Unit], base: bytes) -> np.ndarray:
    """Masked numbers, if they belong here. Whether they are honest cannot be seen."""
    count = sum(u.size for u in units)
    wanted = struct.pack(HEAD, MAGIC, VERSION, bits, 0, identity(units), base, count)
    if not isinstance(data, bytes) or len(data) != HEAD_BYTES + -(-count * bits // 8) + CRC_BYTES:
        raise DataError("is missing, or has another length", where="masked change")
    if struct.unpack("<I", data[-4:])[0] != crc32(data[:-4]):
        raise DataError("is damaged", where="masked change")
    if data[:HEAD_BYTES] != wanted:
        raise DataError("belongs to another model, scheme, base or version", where="masked change")
    return unpack_bits(data[HEAD_BYTES:-CRC_BYTES], bits, count)


def pack_bits(numbers: np.ndarray, bits: int) -> bytes:
    each = (numbers[:, None] >> np.arange(bits, dtype=np.uint32) & np.uint32(1)).astype(np.uint8)
    return np.packbits(each.ravel(), bitorder="little").tobytes()


def unpack_bits(data: bytes, bits: int, count: int) -> np.ndarray:
    each = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")[: count * bits].reshape(count, bits)
    return (each.astype(np.uint32) << np.arange(bits, dtype=np.uint32)).sum(1, dtype=np.uint32)


ENTRY = "<I"


def pack_entries(entries: Mapping[int, bytes]) -> bytes:
    """Blobs of equal length by the number of a device."""
    return b"".join(struct.pack(ENTRY, i) + blob for i, blob in sorted(entries.items()))


def unpack_entries(data: object, length: int) -> dict[int, bytes]:
    each = 4 + length
    if not isinstance(data, bytes) or len(data) % each:
        raise DataError(f"are not blobs of {length} bytes", where="secure aggregation")
    parts = [data[at : at + each] for at in range(0, len(data), each)]
    return {struct.unpack_from(ENTRY, part)[0]: part[4:] for part in parts}
