"""Checkpoints that older programs wrote end earlier (docs/living.md); this one goes on from them."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("unicorn")

from .cuts import Bench, Found, prepared
from .living import points

HEAD = struct.Struct("<4sHHIIIII")
Flash = tuple[bytes, np.ndarray]


def banks(bench: Bench) -> list[int]:
    """Where the two banks begin in the flash."""
    life = bench.life.life
    first = life["segments"] * life["segment_pages"] * life["page_bytes"]
    return [first, first + life["bank_bytes"]]


def shorter(bench: Bench, flash: Flash, by: int) -> Flash:
    """The flash as a program wrote it whose checkpoints were so many bytes shorter."""
    data, written = bytearray(flash[0]), flash[1].copy()
    for at in banks(bench):
        magic, version, kind, model, sequence, size, _, _ = HEAD.unpack_from(data, at)
        assert (magic, version, kind) == (b"INSC", 1, 1)
        size -= by
        payload = bytes(data[at + HEAD.size : at + HEAD.size + size])
        data[at + HEAD.size + size : at + HEAD.size + size + by] = b"\xff" * by
        head = struct.pack("<4sHHIIII", magic, version, kind, model, sequence, size, zlib.crc32(payload))
        data[at : at + HEAD.size] = head + struct.pack("<I", zlib.crc32(head))
    return bytes(data), written


def started(bench: Bench, flash: Flash) -> tuple[Found, dict, list[dict]]:
    bench.start_with(flash)
    return bench.found(), bench.life.statistics(), bench.life.class_statistics()


@pytest.mark.parametrize("missing, what", [(4, "the room of a new class"), (8, "and the pages that were erased")])
def test_a_checkpoint_of_an_older_program_is_loaded(missing: int, what: str):
    bench = prepared(60)
    bench.life.checkpoint()  # in the other bank, too
    flash = bench.flash()
    found, told, classes = started(bench, flash)
    assert told["continued"] and told["bank_erases"] > 0
    older, then, same = started(bench, shorter(bench, flash, missing))
    assert older == found and same == classes, what
    assert then == {**told, "bank_erases": told["bank_erases"] if missing == 4 else 0}
    x, y = points(70)
    for i in range(60, 70):
        bench.life.observe(x[i], label=int(y[i]))
    bench.goes_on()
    bench.life.checkpoint()
    now = bench.found()
    bench.device.restart()
    assert bench.found() == now and bench.life.statistics()["continued"]


def test_a_damaged_checkpoint_of_an_older_program_is_not_loaded():
    bench = prepared(60)
    bench.life.checkpoint()
    data, written = shorter(bench, bench.flash(), 4)
    broken = bytearray(data)
    for at in banks(bench):
        broken[at + HEAD.size] ^= 1
    bench.start_with((bytes(broken), written))
    assert not bench.life.statistics()["continued"]
