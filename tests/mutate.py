"""Broken files: fixed mutations of real ones, and what a reader must do with them.

    for data in mutations(original, 500, seed=1):
        expect_graph_or_error(read, data)

A reader returns a graph that passes `check`, or raises one `insitu.Error`: no other exception, within LIMIT_S seconds
of processor time and LIMIT_BYTES of memory. `spots` are positions that matter (offsets, lengths). Every other mutation
is at a spot, because most of a model is weights, where a changed byte only changes a number.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from insitu.errors import Error
from insitu.graph import Graph, check

LIMIT_S = 5.0
LIMIT_BYTES = 256 << 20
WORDS = (0, 1, 2, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFF00, 0x10000000, 3, 255)


def mutations(data: bytes, count: int, seed: int, spots: Sequence[int] = ()) -> Iterator[bytes]:
    """The same `count` broken versions of `data` for the same seed."""
    rng = np.random.default_rng([seed, len(data)])
    for i in range(count):
        yield KINDS[i % len(KINDS)](bytearray(data), rng, _place(data, rng, spots if i // len(KINDS) % 2 else ()))


def expect_graph_or_error(read: Callable[[bytes], Graph], data: bytes) -> Error | None:
    """The error that the reader raised, None if it made a graph; anything else is an AssertionError."""
    start, memory = time.process_time(), _restart_peak()
    try:
        graph = read(data)
        assert isinstance(graph, Graph), f"gave a {type(graph).__name__}"
        check(graph)
        found = None
    except Error as e:
        assert str(e).strip(), "an error without a word"
        found = e
    except AssertionError:
        raise
    except BaseException as e:
        raise AssertionError(f"{type(e).__name__} instead of an insitu.Error: {e}") from e
    assert time.process_time() - start < LIMIT_S, f"took {time.process_time() - start:.1f} s"
    assert _peak_bytes() - memory < LIMIT_BYTES, f"took {(_peak_bytes() - memory) >> 20} MB"
    return found


def survey(read: Callable[[bytes], Graph], files: Iterator[bytes]) -> dict[str, int]:
    """How many became graphs and how many errors; raises for the first that became neither."""
    counts = {"graph": 0, "error": 0}
    for k, data in enumerate(files):
        try:
            counts["error" if expect_graph_or_error(read, data) else "graph"] += 1
        except AssertionError as e:
            raise AssertionError(f"mutation {k}: {e}") from e.__cause__
    return counts


def _restart_peak() -> int:
    """Reset the peak if Linux allows it, so that each file is measured on its own; returns the peak from now on."""
    with suppress(OSError):  # otherwise: the peak of the whole process, which hides smaller ones
        Path("/proc/self/clear_refs").write_text("5")
    return _peak_bytes()


def _peak_bytes() -> int:
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024
    except (OSError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _place(data: bytes, rng, spots: Sequence[int]) -> int:
    return int(spots[rng.integers(len(spots))]) if len(spots) else int(rng.integers(max(len(data), 1)))


# --- kinds of damage: (bytes, random numbers, where) -> bytes ---------------------------------------


def _truncate(data: bytearray, rng, at: int) -> bytes:
    return bytes(data[:at])


def _flip_bits(data: bytearray, rng, at: int) -> bytes:
    for k in range(int(rng.integers(1, 5))):
        where = at if k == 0 else int(rng.integers(max(0, at - 64), min(len(data), at + 64)))
        if where < len(data):
            data[where] ^= 1 << int(rng.integers(8))
    return bytes(data)


def _flip_many(data: bytearray, rng, at: int) -> bytes:
    for where in rng.integers(0, len(data), 64):
        data[where] ^= 1 << int(rng.integers(8))
    return bytes(data)


def _set_word(data: bytearray, rng, at: int) -> bytes:
    """A length or offset becomes huge, negative, or points to the end."""
    word = int(rng.choice([*WORDS, len(data), len(data) - 4, len(data) // 2]))
    data[at : at + 4] = word.to_bytes(4, "little")
    return bytes(data)


def _set_byte(data: bytearray, rng, at: int) -> bytes:
    data[at : at + 1] = bytes([int(rng.choice([0, 1, 2, 4, 127, 128, 255]))])
    return bytes(data)


def _nudge(data: bytearray, rng, at: int) -> bytes:
    """A number becomes a little larger or smaller: off by one, off by an element."""
    if at < len(data):
        data[at] = (data[at] + int(rng.choice([-8, -4, -1, 1, 4, 8]))) % 256
    return bytes(data)


def _splice(data: bytearray, rng, at: int) -> bytes:
    """A piece of the file overwrites another one."""
    size, source = int(rng.integers(1, 256)), int(rng.integers(len(data)))
    data[at : at + size] = data[source : source + size]
    return bytes(data)


def _remove(data: bytearray, rng, at: int) -> bytes:
    del data[at : at + int(rng.integers(1, 64))]
    return bytes(data)


def _insert(data: bytearray, rng, at: int) -> bytes:
    data[at:at] = rng.bytes(int(rng.integers(1, 64)))
    return bytes(data)


def _fill(data: bytearray, rng, at: int) -> bytes:
    size = int(rng.integers(1, 256))
    data[at : at + size] = bytes([int(rng.choice([0, 255]))]) * len(data[at : at + size])
    return bytes(data)


KINDS = (_truncate, _flip_bits, _set_word, _nudge, _splice, _flip_many, _set_byte, _remove, _insert, _fill)
