"""What a .wav file has: its rate, its channels, its samples between -1 and 1.

Python's own reader knows plain PCM only: before 3.12 it refuses the files that recorders write for 24 bits or more than
two channels (WAVE_FORMAT_EXTENSIBLE), and floats in every version.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from insitu.errors import DataError
from insitu.files import contents

PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
# (format, bits) -> type of a sample, its zero, its full scale
KINDS: dict[tuple[int, int], tuple[np.dtype, int, int]] = {
    (PCM, 8): (np.dtype("u1"), 128, 128), (PCM, 16): (np.dtype("<i2"), 0, 1 << 15),
    (PCM, 32): (np.dtype("<i4"), 0, 1 << 31), (FLOAT, 32): (np.dtype("<f4"), 0, 1),
    (FLOAT, 64): (np.dtype("<f8"), 0, 1),
}  # fmt: skip
NEEDED = "PCM with 8, 16, 24 or 32 bits, or floats"


def samples(path: Path) -> tuple[np.ndarray, int]:
    """f64[count, channels], and the rate. A file that was cut off has what is there."""
    found = dict(chunks(contents(path), str(path)))
    if len(found.get(b"fmt ", b"")) < 16 or b"data" not in found:
        raise DataError("is not a .wav file that can be read: it has no sound", where=str(path))
    kind, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", found[b"fmt "])
    if kind == EXTENSIBLE and len(found[b"fmt "]) >= 26:
        (kind,) = struct.unpack_from("<H", found[b"fmt "], 24)
    data = found[b"data"]
    if (kind, bits) == (PCM, 24):
        bits, data = 32, widened(data)
    if (kind, bits) not in KINDS or not 1 <= channels <= 64 or rate < 1:
        what = f"has samples of {bits} bits in format {kind}, {channels} channels, {rate} per second"
        raise DataError(what, where=str(path), hint=NEEDED)
    return _reals(data, *KINDS[kind, bits], channels), rate


def _reals(data: bytes, kind: np.dtype, zero: int, full: int, channels: int) -> np.ndarray:
    """Whole frames as numbers; a float that is no number is silence."""
    whole = len(data) // (kind.itemsize * channels) * channels
    found = (np.frombuffer(data, kind, whole).astype(np.float64) - zero) / full
    return np.clip(np.nan_to_num(found), -1, 1).reshape(-1, channels)


def chunks(data: bytes, where: str) -> Iterator[tuple[bytes, bytes]]:
    """(name, contents) of the parts of a RIFF file; a part that says more than the file has ends with it."""
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        raise DataError("is not a .wav file", where=where)
    at = 12
    while at + 8 <= len(data):
        name, size = struct.unpack_from("<4sI", data, at)
        yield name, data[at + 8 : at + 8 + size]
        at += 8 + size + size % 2


def widened(data: bytes) -> bytes:
    """Samples of 24 bits in 32."""
    whole = np.frombuffer(data[: len(data) // 3 * 3], np.uint8).reshape(-1, 3)
    return np.pad(whole, ((0, 0), (1, 0))).tobytes()
