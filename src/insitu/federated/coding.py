"""Numbers in few bits: `int8`, `4bit` and `2bit` with a scale per channel, and `ternary`: a few signs and their gaps.

    coded = encode(array, "4bit")        bytes
    array = decode(coded, shape, "4bit")

A channel is a slice of the first axis; its scale is one byte, a share of the array's largest magnitude. `ternary` keeps
the largest numbers, all with the same magnitude, and stores how far each is from the one before it as a Golomb-Rice
code: near the entropy of such gaps, where general compressors are not. Decoding checks every length before it allocates
anything. Nothing here knows what the numbers mean (delta.py).
"""

from __future__ import annotations

import struct
from math import log2, prod

import numpy as np

from insitu.errors import DataError

BITS = {"int8": 8, "4bit": 4, "2bit": 2}
CODINGS = (*BITS, "ternary")
KEPT = 1 / 16  # the share of numbers that ternary keeps
SCALES = 255


def encode(array: np.ndarray, coding: str) -> bytes:
    array = np.ascontiguousarray(array, np.float32)
    return encode_ternary(array.ravel()) if coding == "ternary" else encode_channels(array, BITS[coding])


def decode(data: bytes, shape: tuple[int, ...], coding: str) -> tuple[np.ndarray, int]:
    """The array, and how many bytes it took; a DataError if they are damaged."""
    if coding == "ternary":
        flat, used = decode_ternary(data, prod(shape))
        return flat.reshape(shape), used
    return decode_channels(data, shape, BITS[coding])


def most_bytes(shape: tuple[int, ...]) -> int:
    """No coding of an array of this shape is longer."""
    return TERNARY + _channels(shape) + prod(shape)


# a scale per channel ----------------------------------------------------------------------------


def encode_channels(array: np.ndarray, bits: int) -> bytes:
    """The largest magnitude (f32), a byte per channel, then the numbers."""
    rows = _rows(array)
    largest = float(np.abs(rows).max(initial=0))
    shares = np.ceil(np.abs(rows).max(1, initial=0) / largest * SCALES) if largest else np.zeros(len(rows))
    steps = _steps(largest, shares, bits)
    numbers = np.rint(np.divide(rows, steps[:, None], out=np.zeros_like(rows, np.float64), where=steps[:, None] > 0))
    return struct.pack("<f", largest) + shares.astype(np.uint8).tobytes() + pack(numbers.astype(np.int32), bits)


def decode_channels(data: bytes, shape: tuple[int, ...], bits: int) -> tuple[np.ndarray, int]:
    size, channels = prod(shape), _channels(shape)
    end = 4 + channels + -(-size * bits // 8)
    if len(data) < end:
        raise DataError(f"has {len(data)} bytes of {end}", where="delta")
    largest = _magnitude(struct.unpack_from("<f", data)[0])
    steps = _steps(largest, np.frombuffer(data, np.uint8, channels, 4).astype(np.float64), bits)
    numbers = unpack(data[4 + channels : end], bits, size).reshape(channels, -1)
    return (numbers * steps[:, None]).astype(np.float32).reshape(shape), end


def _rows(array: np.ndarray) -> np.ndarray:
    return array.reshape(_channels(array.shape), -1).astype(np.float64)


def _channels(shape: tuple[int, ...]) -> int:
    """How many scales: one per slice of the first axis of a weight, one for a bias."""
    return shape[0] if len(shape) > 1 and shape[0] else 1


def _steps(largest: float, shares: np.ndarray, bits: int) -> np.ndarray:
    return largest * shares / SCALES / (2 ** (bits - 1) - 1)


def _magnitude(value: float) -> float:
    if not np.isfinite(value) or value < 0:
        raise DataError(f"a scale is {value}", where="delta")
    return float(value)


def pack(numbers: np.ndarray, bits: int) -> bytes:
    """Signed numbers with this many bits each, the first in the lowest bits."""
    each = (numbers.ravel()[:, None] >> np.arange(bits) & 1).astype(np.uint8)
    return np.packbits(each.ravel(), bitorder="little").tobytes()


def unpack(data: bytes, bits: int, count: int) -> np.ndarray:
    each = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")[: count * bits].reshape(count, bits)
    numbers = (each.astype(np.int32) << np.arange(bits)).sum(1)
    return numbers - (each[:, -1].astype(np.int32) << bits)


# a few signs ------------------------------------------------------------------------------------


def encode_ternary(flat: np.ndarray, kept: float = KEPT) -> bytes:
    """Their magnitude (f32), how many (u32), the code's parameter (u8), then gap and sign of each."""
    count = min(max(1, round(len(flat) * kept)), int(np.count_nonzero(flat)))
    chosen = np.sort(np.argsort(-np.abs(flat), kind="stable")[:count])
    size = float(np.abs(flat[chosen]).mean()) if count else 0.0
    gaps = np.diff(chosen, prepend=-1) - 1
    power = rice_power(float(gaps.mean())) if count else 0
    bits = [rice(int(gap), power) + ("1" if flat[i] < 0 else "0") for gap, i in zip(gaps, chosen)]
    text = "".join(bits)
    body = np.packbits(np.frombuffer(text.encode(), np.uint8) - 48, bitorder="little").tobytes()
    return struct.pack("<fIBI", size, count, power, len(body)) + body


TERNARY = struct.calcsize("<fIBI")


def rice_power(mean: float) -> int:
    """The parameter whose codes are shortest for gaps of this mean."""
    return max(0, round(log2(max(mean, 1e-9) * 0.693))) if mean > 0 else 0


def rice(number: int, power: int) -> str:
    """number >> power in ones, a zero, then the low bits."""
    low = "".join(str(number >> i & 1) for i in range(power))
    return "1" * (number >> power) + "0" + low


def decode_ternary(data: bytes, size: int) -> tuple[np.ndarray, int]:
    if len(data) < TERNARY:
        raise DataError(f"has {len(data)} bytes of {TERNARY}", where="delta")
    magnitude, count, power, length = struct.unpack_from("<fIBI", data)
    if count > size or power > 31 or len(data) - TERNARY < length or length * 8 < count * (power + 2):
        raise DataError("a list of signs does not fit its size", where="delta")
    bits = np.unpackbits(np.frombuffer(data, np.uint8, length, TERNARY), bitorder="little")
    flat = np.zeros(size, np.float32)
    places, negative = _read_gaps(bits, count, power, size)
    flat[places] = np.where(negative, -_magnitude(magnitude), _magnitude(magnitude))
    return flat, TERNARY + length


def _read_gaps(bits: np.ndarray, count: int, power: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The places of the signs, and which are negative."""
    text = (bits + ord("0")).tobytes().decode()  # str.find is faster than any search in numpy
    places, negative, at, place = np.zeros(count, np.int64), np.zeros(count, bool), 0, -1
    for i in range(count):
        ones = text.find("0", at)  # the first zero from here on ends the ones
        end = ones + 1 + power
        if ones < 0 or end >= len(text):
            raise DataError("a list of signs ends too early", where="delta")
        low = int(text[end - 1 : ones : -1], 2) if power else 0
        place, negative[i], at = place + (ones - at << power) + low + 1, text[end] == "1", end + 1
        if place >= size:
            raise DataError("a sign is outside its array", where="delta")
        places[i] = place
    return places, negative
