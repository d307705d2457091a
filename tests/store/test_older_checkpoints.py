"""A folder that an older insitu wrote: its record knows less, and its life goes on."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import insitu
from insitu.codegen.state import StateLayout
from insitu.errors import DataError
from insitu.store.banks import VERSION, bank_path, pack, read_banks
from insitu.store.record import LifeRecord

from ..devices.living import RATE, points
from ..learners import imported

YOUNGER = ("abandoned", "damaged", "young", "room", "pace")  # than the first record


def learner() -> insitu.Learner:
    return insitu.compile(imported(), classes=4, scheme="head", precision="float", max_classes=5)


def older(record: bytes) -> bytes:
    return json.dumps({k: v for k, v in json.loads(record).items() if k not in YOUNGER}).encode()


def older_payload(layout: StateLayout, payload: bytes) -> bytes:
    """State, the length of the record, the record; in a bout another state."""
    at = layout.bytes + 4
    end = at + int.from_bytes(payload[layout.bytes : at], "little")
    record = older(payload[at:end])
    return payload[: layout.bytes] + len(record).to_bytes(4, "little") + record + payload[end:]


def written(folder: Path) -> tuple[bytes, np.ndarray]:
    """A life in this folder, as an older version left it: its state, and what it predicts."""
    x, y = points(100)
    with learner() as one:
        life = one.keep(folder)
        one.observe(x[:80], y[:80])
        one.rehearse(20, rate=RATE)
        layout = one.program.state
        assert layout is not None and set(YOUNGER) <= set(vars(LifeRecord()))
        found = one.device.save_state(), one.predict(x)
        with life.store.changing():
            life.store.keep_fact("life", older(life.record.to_json()))
        life._begun = False  # closed without saving again
    for point in read_banks(folder)[0]:
        bank_path(folder, point.sequence).write_bytes(
            pack(replace(point, payload=older_payload(layout, point.payload)))
        )
    return found


@pytest.mark.parametrize("bank", ["the one of the store", "the other one"])
def test_a_life_of_an_older_version_is_opened(tmp_path: Path, bank: str):
    state, predicted = written(tmp_path)
    if bank == "the other one":  # with the record of the bank, not of the store
        (tmp_path / "store.db").unlink()
    x, y = points(120)
    with learner() as one:
        life = one.keep(tmp_path)
        assert one.device.save_state() == state and np.array_equal(one.predict(x[:100]), predicted)
        assert life.record.bouts == 1 and life.record.pace == 1.0 and life.record.room == 0.0
        one.observe(x[100:], y[100:])
        assert one.rehearse(20, rate=RATE).finished or bank == "the other one"


def test_a_checkpoint_of_a_later_format_is_refused(tmp_path: Path):
    written(tmp_path)
    for point in read_banks(tmp_path)[0]:
        data = bytearray(pack(point))
        data[4:6] = (VERSION + 1).to_bytes(2, "little")
        data[24:28] = zlib.crc32(bytes(data[:24])).to_bytes(4, "little")
        bank_path(tmp_path, point.sequence).write_bytes(bytes(data))
    with learner() as one, pytest.raises(DataError, match="format 2"):
        one.keep(tmp_path)
