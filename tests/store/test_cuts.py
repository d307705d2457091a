"""Power cuts and bad disks: the next start has the old state or the new one, whole, and goes on byte for byte."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from insitu.errors import DataError, LearningWarning
from insitu.store.banks import Checkpoint, bank_path, newer, pack, read_banks, unpack, write_bank
from tests.store.lives import bytes_of, growing, kill, learner, lived
from tests.store.victim import CLASSES, digest, live

KIND = "mlp last:1 int8"
STEPS = 60
CUTS = int(os.environ.get("INSITU_CUTS", "4"))  # `make soak` takes 1,000


def start(folder: Path) -> subprocess.Popen:
    saved = folder.parent / "victim.insitu"
    if not saved.exists():
        growing().save(saved)
    command = [sys.executable, "-m", "tests.store.victim", str(saved), str(folder), str(STEPS)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def killed(folder: Path, rng: random.Random) -> bool:
    """Start a life, kill it at a random instant; returns whether it was still alive then."""
    process = start(folder)
    assert process.stdout is not None
    process.stdout.readline()  # imports are done
    time.sleep(rng.uniform(0.0, 1.2))
    alive = process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return alive


def test_a_life_that_is_killed_at_random_instants_goes_on_byte_for_byte(tmp_path: Path):
    with live(growing(), tmp_path / "whole", STEPS) as one:
        wanted = digest(one)
        full = one.life.store.ledger.trainees
        assert one.life.record.young == CLASSES and full.count == full.room, "a class was added, and others gave way"
    rng = random.Random(0)
    for _ in range(CUTS):
        killed(tmp_path / "cut", rng)
    done = start(tmp_path / "cut")
    out, errors = done.communicate(timeout=100)
    assert done.returncode == 0, errors
    assert out.split()[-1] == wanted


def test_every_step_of_a_checkpoint_may_be_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The bank is written, but the store does not name it yet: the old state and the old store count."""
    one = learner(KIND)
    life = lived(one, KIND, path=tmp_path / "life")
    one.rehearse(steps=16)
    state, kept = bytes_of(one), dict(life.store.ledger.records)

    def cut(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(type(life.store), "used", cut)
    with pytest.raises(KeyboardInterrupt):
        one.rehearse(steps=16)
    monkeypatch.undo()
    kill(one)
    points, _ = read_banks(tmp_path / "life")
    again = learner(KIND)
    life = again.keep(tmp_path / "life")
    assert points[0].sequence == life.record.sequence + 1, "a newer bank was there"
    assert bytes_of(again) == state and life.store.ledger.records == kept


def test_a_damaged_bank_leaves_the_other_and_two_are_a_clear_error(tmp_path: Path):
    one = learner(KIND)
    lived(one, KIND, path=tmp_path / "life")
    one.rehearse(steps=16)
    before = bytes_of(one)
    one.rehearse(steps=16)
    sequence = one.life.record.sequence
    one.close()
    path = bank_path(tmp_path / "life", sequence)
    path.write_bytes(path.read_bytes()[:-9] + b"\0" * 9)
    again = learner(KIND)
    with pytest.warns(LearningWarning, match="damaged"):
        again.keep(tmp_path / "life")
    assert bytes_of(again) == before and again.statistics()["records"] == 60
    again.close()
    for name in ("bank0", "bank1"):
        (tmp_path / "life" / name).write_bytes(b"INSC nothing else")
    with pytest.raises(DataError, match=r"both checkpoints are damaged or missing \(2 damaged\)"):
        learner(KIND).keep(tmp_path / "life")


def test_a_lost_store_leaves_what_was_learned(tmp_path: Path):
    one = learner(KIND)
    lived(one, KIND, path=tmp_path / "life")
    one.rehearse(steps=16)
    state = bytes_of(one)
    one.close()
    (tmp_path / "life" / "store.db").unlink()
    again = learner(KIND)
    again.keep(tmp_path / "life")
    assert bytes_of(again) == state and again.statistics()["bouts"] == 1 and again.statistics()["records"] == 0


def test_a_full_disk_in_the_middle_of_a_checkpoint_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    one = learner(KIND)
    lived(one, KIND, path=tmp_path / "life")
    one.rehearse(steps=16)
    state = bytes_of(one)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError, match="No space left"):
        one.rehearse(steps=16)
    monkeypatch.undo()
    kill(one)
    again = learner(KIND)
    again.keep(tmp_path / "life")
    assert bytes_of(again) == state and again.rehearse(steps=16).finished


def test_a_clock_that_goes_backwards_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with live(learner(KIND), tmp_path / "a", 30) as one:
        wanted = digest(one)
    now = iter(range(10**18, 0, -(10**9)))
    monkeypatch.setattr(time, "time_ns", lambda: next(now))
    monkeypatch.setattr(time, "time", lambda: next(now) / 1e9)
    with live(learner(KIND), tmp_path / "b", 30) as one:
        assert digest(one) == wanted


def test_a_store_cut_in_a_transaction_has_all_of_it_or_nothing(tmp_path: Path):
    one = learner(KIND)
    life = lived(one, KIND, path=tmp_path / "life")
    other = sqlite3.connect(tmp_path / "life" / "store.db")
    before = other.execute("select count(*) from records").fetchone()
    with pytest.raises(KeyboardInterrupt), life.store.changing():
        life.store.add([bytes(life.store.shape.latent)], [0])
        life.store._flush()
        raise KeyboardInterrupt
    assert other.execute("select count(*) from records").fetchone() == before


# the format -------------------------------------------------------------------------------------


def test_a_checkpoint_has_28_bytes_of_header_and_every_change_is_found():
    point = Checkpoint(0x12345678, 7, b"payload", 1)
    data = pack(point)
    assert len(data) == 28 + 7 and data[:4] == b"INSC" and unpack(data) == point
    for i in range(len(data)):
        assert unpack(data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :]) is None
        assert unpack(data[:i]) is None


def test_sequences_wrap_around(tmp_path: Path):
    last, first = Checkpoint(1, 0xFFFFFFFF, b"old"), Checkpoint(1, 0, b"new")
    assert newer(first, last) and not newer(last, first)
    for point in (last, first):
        write_bank(tmp_path, point)
    assert read_banks(tmp_path) == ([first, last], 0)


def test_a_checkpoint_of_a_later_format_is_refused():
    data = bytearray(pack(Checkpoint(1, 1, b"")))
    data[4] = 9
    from struct import pack_into
    from zlib import crc32

    pack_into("<I", data, 24, crc32(bytes(data[:24])))
    with pytest.raises(DataError, match="format 9"):
        unpack(bytes(data))
