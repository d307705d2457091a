"""Deltas: what is lost is sent later, and what does not belong is refused by name."""

import struct
from zlib import crc32

import numpy as np
import pytest

from insitu.errors import DataError
from insitu.federated.checks import Limits, checked_reply
from insitu.federated.coding import CODINGS
from insitu.federated.delta import (
    HEAD_BYTES,
    VERSION,
    Sender,
    base_hash,
    pack_base,
    read_delta,
    unpack_base,
    write_delta,
)
from insitu.federated.rounds import programs_of
from insitu.federated.units import to_real, units_of
from tests.federated.fleet import fresh

LEARNER = fresh()
UNITS = units_of(LEARNER.graphs)
REAL = to_real(UNITS, LEARNER.device.state())
ID = base_hash(pack_base(REAL))


def change(scale: float = 0.01, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(0, scale, a.shape).astype(np.float32) for name, a in REAL.items()}


def sealed(data: bytes) -> bytes:
    return data[:-4] + struct.pack("<I", crc32(data[:-4]))


@pytest.mark.parametrize("coding", CODINGS)
def test_what_a_coding_loses_is_sent_later(coding):
    """The same change again and again: the sum of what arrives approaches the sum of what was meant."""
    sender, wanted, arrived = Sender(UNITS, coding), change(), dict.fromkeys(REAL, 0.0)
    for _ in range(60):
        data = sender.delta(REAL, {n: a + wanted[n] for n, a in REAL.items()}, ID, 5)
        sent, samples = read_delta(data, UNITS, ID)
        assert samples == 5
        arrived = {n: arrived[n] + sent[n] for n in sent}
    off = np.sqrt(sum(np.square(arrived[n] / 60 - wanted[n]).sum() for n in REAL))
    assert off < 0.25 * np.sqrt(sum(np.square(a).sum() for a in wanted.values()))


def test_a_base_comes_back_within_16_bits():
    back = unpack_base(pack_base(REAL), {name: a.shape for name, a in REAL.items()})
    for name, a in REAL.items():
        assert np.abs(back[name] - a).max() <= np.abs(a).max() / 32767
    with pytest.raises(DataError):
        unpack_base(pack_base(REAL)[:-1], {name: a.shape for name, a in REAL.items()})


def refused(data: object, match: str) -> None:
    with pytest.raises(DataError, match=match):
        checked_reply(data, programs_of([UNITS]), ID, REAL, Limits())


def test_a_delta_that_does_not_belong_is_refused_by_name():
    good = write_delta(change(), UNITS, ID, 10)
    refused(None, "is missing")
    refused(good[:20], "too short")
    refused(b"XXXX" + good[4:], "is not a delta")
    refused(good[:-1] + b"\0", "damaged")
    refused(sealed(good[:4] + bytes([VERSION + 1]) + good[5:]), "version 2")
    refused(write_delta(change(), UNITS[1:], ID, 10), "not part of this fleet")
    refused(write_delta(change(), UNITS, bytes(8), 10), "another base")
    refused(write_delta(change(), UNITS, ID, 0), "0 samples")
    refused(write_delta(change(), UNITS, ID, 1 << 30), "1,073,741,824 samples")
    refused(write_delta(change(1e6), UNITS, ID, 10), "moves the model by")
    at = HEAD_BYTES
    refused(sealed(good[:at] + struct.pack("<f", np.nan) + good[at + 4 :]), "a scale is nan")
    refused(sealed(good[:at] + struct.pack("<f", np.inf) + good[at + 4 :]), "a scale is inf")


def test_ten_thousand_damaged_replies_are_refused_or_bounded():
    """Random damage, half of it with a right CRC: never another exception, never a number beyond the limits."""
    rng, programs, taken = np.random.default_rng(0), programs_of([UNITS]), 0
    originals = [write_delta(change(), UNITS, ID, 10, coding) for coding in CODINGS]
    most = 10.0 * max(1.0, float(np.sqrt(sum(np.square(a).sum() for a in REAL.values()))))
    for i in range(10_000):
        data = bytearray(originals[i % len(originals)])
        for at in rng.integers(0, len(data) - 4, rng.integers(1, 6)):
            data[at] = rng.integers(256)
        data = bytes(data[: rng.integers(1, len(data))] if i % 7 == 0 else data)
        try:
            reply = checked_reply(sealed(data) if i % 2 and len(data) > 4 else data, programs, ID, REAL, Limits())
        except DataError:
            continue
        taken += 1
        total = float(np.sqrt(sum(np.square(a, dtype=np.float64).sum() for a in reply.change.values())))
        assert np.isfinite(total) and total <= most and 1 <= reply.samples <= Limits().samples
    assert taken < 5_000  # only damage to the numbers themselves, sealed again, can pass
