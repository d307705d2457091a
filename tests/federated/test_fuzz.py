"""10,000 hostile replies through the whole server: none stops it, and its model is that of the one honest device."""

from __future__ import annotations

import struct
from random import Random
from zlib import crc32

import numpy as np
import pytest

from insitu.federated.coding import CODINGS
from insitu.federated.delta import HEAD_BYTES, write_delta
from insitu.federated.noted import Traffic
from insitu.federated.units import units_of
from tests.federated.fleet import fresh

pytest.importorskip("flwr", reason='flwr is not installed: pip install "insitu[flower]"')

from flwr.app import ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg

from insitu.federated.strategy import DELTA, LEFT_OUT, LOSS, RECORD, SAMPLES, WANTS, Deltas
from tests.federated.test_rounds import Here, apps, everyone, message_to

SEED, ROUNDS, EACH = 20261118, 100, 100
HONEST = 0  # the node that does not lie
NAN = float("nan")


def sealed(data: bytes) -> bytes:
    return data[:-4] + struct.pack("<I", crc32(data[:-4]))


def hostile_delta(rng: Random, good: bytes) -> object:
    """Bytes, or anything else in their place. What is sealed again has nonsense in its head or in a scale."""
    at = rng.randrange(len(good))
    flipped = bytes([*good[:at], good[at] ^ (1 << rng.randrange(8)), *good[at + 1 :]])
    head = bytearray(good)
    field, values = rng.choice([(4, [0, 2, 255]), (5, [4, 9, 255])])
    head[field] = rng.choice(values)  # version, coding
    for start, size in ((8, 4), (12, 8)):  # units, base
        if rng.random() < 0.3:
            head[start : start + size] = rng.randbytes(size)
    samples = good[:20] + struct.pack("<I", rng.choice([0, 1_000_001, 2**31, 2**32 - 1])) + good[24:]
    scale = struct.pack("<f", rng.choice([NAN, float("inf"), -1.0, 1e30, -0.5, 3e38]))
    return rng.choice([
        None, 7, NAN, "text", [1, 2], [b"", good], b"", good[:at], rng.randbytes(rng.randrange(300)),
        b"INSD" + rng.randbytes(rng.randrange(400)), good + rng.randbytes(9), flipped, flipped, sealed(bytes(head)),
        sealed(samples), sealed(good[:HEAD_BYTES] + scale + good[HEAD_BYTES + 4 :]), sealed(good[: at // 2] + bytes(4)),
    ])  # fmt: skip


def hostile(rng: Random, good: bytes, node: int) -> Message:
    """A reply of a device that wants to do harm."""
    kind = rng.randrange(12)
    if kind == 0:
        return Message(Error(rng.randrange(9), rng.randbytes(200).decode("latin1")), reply_to=message_to(node))
    record = {DELTA: hostile_delta(rng, good), SAMPLES: rng.choice([NAN, -5, 10**12, "x"]), WANTS: 1,
              LOSS: rng.choice([NAN, 1e308, "x", [1.0]]), LEFT_OUT: rng.choice([[1, 2], "x", ["x"] * 900])}  # fmt: skip
    kept = {k: v for k, v in record.items() if v is not None and (k == DELTA or rng.random() < 0.4)}
    contents = {1: {}, 2: {"metrics": MetricRecord({"num-examples": 10**9})}, 3: {"other": ConfigRecord(kept)},
                4: {RECORD: ArrayRecord()}, 5: {RECORD: ConfigRecord(kept), "arrays": ArrayRecord()}}  # fmt: skip
    return Message(RecordDict(contents.get(kind, {RECORD: ConfigRecord(kept)})), reply_to=message_to(node))


def test_ten_thousand_hostile_replies_change_nothing():
    rng, units = Random(SEED), units_of(fresh().graphs)
    Here(apps(1))  # Flower's identity of this process
    server = Deltas(everyone(FedAvg, EACH + 1), [fresh()])
    arrays, sent = server.first, 0
    for number in range(1, ROUNDS + 1):
        base = server.handout.next(arrays)
        server.traffic.append(Traffic(number))
        server.asked = set(range(EACH + 1))
        change = {u.name: np.full(u.value.shape, 1e-3, np.float32) for u in units}
        goods = [write_delta(change, units, base.id, 30, coding) for coding in CODINGS]
        nodes = [rng.choice([node] * 6 + [900, 1]) for node in range(1, EACH + 1)]  # some answer for others
        lies = [hostile(rng, rng.choice(goods), node) for node in nodes]
        honest = Message(RecordDict({RECORD: ConfigRecord({DELTA: goods[0]})}), reply_to=message_to(HONEST))
        replies = [*lies, honest]
        rng.shuffle(replies)
        found, _ = server.aggregate_train(number, replies)
        sent += len(lies)
        assert found is not None and server.traffic[-1].replies == 1, [d.why for d in server.dropped[-EACH:]]
        wanted = {n: base.arrays[n] + change[n] + server.handout.ahead()[n] for n in base.arrays}
        arrays = {n: a.numpy() for n, a in found.items()}
        assert all(np.allclose(arrays[n], a, atol=1e-5) for n, a in wanted.items())
    assert sent == 10_000 and len(server.dropped) >= sent
    assert max(len(d.why) for d in server.dropped) < 500


def test_rounds_of_hostile_replies_alone_leave_the_model_byte_for_byte():
    rng, units = Random(SEED + 1), units_of(fresh().graphs)
    Here(apps(1))
    server = Deltas(everyone(FedAvg, EACH), [fresh()])
    base = server.handout.next(server.first)
    good = write_delta({u.name: np.full(u.value.shape, 1e-3, np.float32) for u in units}, units, base.id, 30)
    server.traffic.append(Traffic(1))
    server.asked = set(range(EACH))
    assert server.aggregate_train(1, [hostile(rng, good, node) for node in range(EACH)]) == (None, None)
