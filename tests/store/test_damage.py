"""Damaged files: what comes back is what was written, or an error that says so; never something else."""

from __future__ import annotations

import random
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

from insitu.errors import Error, LearningWarning
from insitu.store.banks import Checkpoint, pack, unpack
from insitu.store.records import Shape, Store, open_store
from tests.store import lives

SHAPE = Shape(20, 10, features=4, classes=4)
KIND = "mlp last:1 int8"


def damaged(data: bytes, rnd: random.Random) -> bytes:
    """Some bits flipped, bytes zeroed, the end cut off or something appended."""
    some, k = bytearray(data), rnd.randrange(len(data))
    how = rnd.choice(("flip", "flip", "flip", "zeros", "cut", "more"))
    if how == "flip":
        for _ in range(rnd.choice((1, 1, 3, 50))):
            some[rnd.randrange(len(some))] ^= 1 << rnd.randrange(8)
    elif how == "zeros":
        n = rnd.choice((16, 512, 4096))
        some[k : k + n] = bytes(len(some[k : k + n]))
    return bytes(some[:k] if how == "cut" else some + rnd.randbytes(99) if how == "more" else some)


def kept(store: Store) -> dict[int, tuple]:
    """What the store has of each record; uses are none of a sample's meaning."""
    ids = sorted(store.ledger.records)
    parts = zip(ids, store.fetch(ids), store.fetch(ids, raw=True))
    return {id: (*store.ledger.records[id][1:4], latent, raw) for id, latent, raw in parts}


def agrees(found: dict[int, tuple], written: dict[int, tuple]) -> bool:
    """Is everything that was found as it was written? A damaged latent comes back as None."""
    return all(
        id in written and all(a is None or a == b for a, b in zip(one, written[id])) for id, one in found.items()
    )


def small_store(path: Path) -> Store:
    rng, store = np.random.default_rng(0), open_store(path, SHAPE)
    for i in range(40):
        latent, raw = (rng.integers(0, 256, n, np.uint8).tobytes() for n in (20, 10))
        store.add([latent], [i % 4 - (i % 7 == 0)], [i], [raw])
        store.means.see(i % 4, rng.normal(size=4))
        store.touch(i % 4)
    store.keep_fact("life", b"a record")
    return store


def test_every_record_of_a_damaged_store_is_as_it_was_written(tmp_path: Path):
    store = small_store(tmp_path / "s.db")
    written, means = kept(store), {k: m.tobytes() for k, m in store.means.means.items()}
    store.close()
    data, rnd, seen = (tmp_path / "s.db").read_bytes(), random.Random(0), {"opened": 0, "refused": 0, "lost": 0}
    for i in range(250):
        (tmp_path / f"{i}.db").write_bytes(damaged(data, rnd))
        try:
            store = open_store(tmp_path / f"{i}.db", SHAPE)
        except Error:
            seen["refused"] += 1
            continue
        try:
            assert agrees(kept(store), written)
            assert all(means[k] == m.tobytes() for k, m in store.means.means.items())
            assert store.fact("life") in (b"a record", None)
            seen["opened"] += 1
            seen["lost"] += store.trust.lost > 0
        except Error:
            seen["refused"] += 1
        finally:
            store.close()
    assert min(seen.values()) > 5, seen


def test_a_damaged_word_that_sqlite_quotes_is_an_error_of_ours(tmp_path: Path):
    store = small_store(tmp_path / "s.db")
    store.close()
    data = (
        (tmp_path / "s.db")
        .read_bytes()
        .replace(b"create table", b"create tabl\xf7")
        .replace(b"CREATE TABLE", b"CREATE TABL\xf7")
    )
    (tmp_path / "s.db").write_bytes(data)
    assert b"\xf7" in data
    with pytest.raises(Error, match="is damaged"):
        open_store(tmp_path / "s.db", SHAPE)


def test_no_flipped_bit_of_a_checkpoint_is_taken_for_it():
    point = Checkpoint(7, 3, bytes(range(60)))
    whole = pack(point)
    assert unpack(whole) == point
    for k in range(8 * len(whole)):
        changed = bytearray(whole)
        changed[k // 8] ^= 1 << k % 8
        assert unpack(bytes(changed)) is None
    assert all(unpack(whole[:k]) is None for k in range(len(whole))) and unpack(whole + b"0") is None


@pytest.fixture(scope="module")
def past(tmp_path_factory) -> tuple[Path, dict[int, tuple], list[bytes]]:
    """The folder of a life, its records, and the states that its banks have."""
    folder, states = tmp_path_factory.mktemp("past") / "life", []
    with warnings.catch_warnings(), lives.learner(KIND) as one:
        warnings.simplefilter("ignore")
        life = lives.lived(one, KIND, path=folder)
        states = [lives.bytes_of(one)]
        one.rehearse(steps=16)
        states += [lives.bytes_of(one)]
        found = kept(life.store)
    return folder, found, states


def live_on(folder: Path, written: dict[int, tuple], states: list[bytes]) -> str:
    """Open a damaged life, look at it, and live a little."""
    one = lives.learner(KIND)
    try:
        life = one.keep(folder)
        assert agrees(kept(life.store), written) and lives.bytes_of(one) in states
        lost = life.record.damaged
        x, y = lives.samples(lives.model_of(KIND), 12, seed=1)
        one.observe(x, y)
        one.rehearse(steps=8)
        assert np.isfinite(one.predict(x)).all()
        one.forget(1)
        one.close()
        with lives.learner(KIND) as again:
            again.keep(folder)
        return "lost" if lost else "opened"
    except Error:
        return "refused"
    finally:
        one.close()


def damage_lives(past, tmp_path: Path, count: int, seed: int) -> dict[str, int]:
    folder, written, states = past
    rnd, seen = random.Random(seed), {"opened": 0, "lost": 0, "refused": 0}
    for _ in range(count):
        copy = tmp_path / "copy"
        shutil.copytree(folder, copy)
        path = copy / rnd.choice(("store.db", "store.db", "bank0", "bank1"))
        if rnd.random() < 0.1:
            path.unlink()
        else:
            path.write_bytes(damaged(path.read_bytes(), rnd))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seen[live_on(copy, written, states)] += 1
        shutil.rmtree(copy)
    return seen


def test_a_damaged_life_goes_on_or_says_why_not(past, tmp_path: Path):
    seen = damage_lives(past, tmp_path, 12, seed=3)
    assert seen["opened"] and seen["refused"], seen


@pytest.mark.slow
def test_a_life_that_is_damaged_250_times_goes_on_or_says_why_not(past, tmp_path: Path):
    seen = damage_lives(past, tmp_path, 250, seed=0)
    assert min(seen.values()) > 5, seen


def test_a_lost_row_is_told_and_the_mean_of_its_class_is_made_again(past, tmp_path: Path):
    import sqlite3

    shutil.copytree(past[0], tmp_path / "life")
    with sqlite3.connect(tmp_path / "life" / "store.db") as link:
        link.execute("update records set label = 2 where id = (select min(id) from records where label = 0)")
        link.execute("update classes set mean = zeroblob(length(mean)) where label = 1")
    with lives.learner(KIND) as one:
        with pytest.warns(LearningWarning, match="2 rows of the store are damaged"):
            life = one.keep(tmp_path / "life")
        assert len(life.store) == len(past[1]) - 1 and one.statistics()["damaged"] == 2
        assert np.isfinite(life.store.means.means[1]).all() and life.store.means.means[1].any()
