"""A store in a file: quotas, eviction, later labels, encryption, deletion, two processes, bad disks."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from insitu.errors import DataError
from insitu.store.records import Shape, Store, open_store
from insitu.store.rules import NONE, RULES, Ledger


def latents(count: int, size: int = 50, seed: int = 0) -> list[bytes]:
    return [row.tobytes() for row in np.random.default_rng(seed).integers(0, 256, (count, size), np.uint8)]


def folder_bytes(folder: Path) -> bytes:
    return b"".join(p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file())


def same(a: Store, b: Store) -> bool:
    ids = sorted(a.ledger.records)
    return a.ledger == b.ledger and a.fetch(ids) == b.fetch(ids)


def test_what_is_added_comes_back_after_reopening(tmp_path: Path):
    made, data = open_store(tmp_path / "s.db", 50), latents(40)
    ids = [a.id for a in made.add(data, [i % 3 for i in range(40)], list(range(40)))]
    made.close()
    again = open_store(tmp_path / "s.db", 50)
    assert ids == list(range(1, 41)) and again.fetch(ids) == data
    assert again.ledger.labelled == {0: 14, 1: 13, 2: 13} and again.ledger.records[7].worth == 6


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("key", [None, b"k" * 32])
def test_a_store_keeps_what_the_rules_keep(tmp_path: Path, rule: str, key: bytes | None):
    rng, data = np.random.default_rng(1), latents(400)
    store, ledger = open_store(tmp_path / "s.db", 50, count=30, rule=rule, key=key), Ledger(30, rule)
    for i, one in enumerate(data):
        label, worth = int(rng.integers(NONE, 3)), int(rng.integers(256))
        store.add([one], [label], [worth])
        ledger.observe(label, worth)
        if i % 7 == 0 and ledger.asks(1):
            store.label(ledger.asks(1)[0], 2)
            ledger.label(ledger.asks(1)[0], 2)
        if i == 200:
            store.close()
            store = open_store(tmp_path / "s.db", 50, count=30, rule=rule, key=key)
    assert store.ledger == ledger and len(store) <= 30
    assert store.fetch(ledger.records) == [data[id - 1] for id in ledger.records]


@pytest.mark.parametrize(("size", "raw", "quota"), [(1, 0, 65536), (72, 0, 65536), (640, 0, 300_000), (2560, 0, "1M"),
                                                   (2560, 99, "2M"), (200_000, 0, "3M"),
                                                   (30_000, 0, 1_000_001)])  # fmt: skip
def test_a_quota_holds_to_the_byte_and_is_used(tmp_path: Path, size: int, raw: int, quota: int | str):
    path, shape = tmp_path / "s.db", Shape(size, raw, features=64, classes=5)
    store = open_store(path, shape, quota=quota)
    rng, count = np.random.default_rng(0), max(300, store.capacity + store.capacity // 4)
    for i in range(count):
        one = i.to_bytes(4, "little") + bytes(rng.integers(0, 256, max(size - 4, 0), np.uint8))
        store.add([one[:size]], [i % 5 if i % 3 else NONE], [i % 256], [bytes(raw)] if raw else None)
        store.means.see(i % 5, rng.normal(size=64))
        store.touch(i % 5)
        if i % 40 == 39:
            store.forget(i % 5)
    store.base.settle()
    used = path.stat().st_size
    assert used <= store.quota
    assert size < 100 or store.capacity * (size + raw) > 0.55 * store.quota
    store.close()


@pytest.mark.parametrize(("quota", "least"), [("64K", 110), ("128K", 380), ("1M", 4000)])
def test_a_small_quota_is_not_spent_on_pages_that_are_never_made(quota: str, least: int):
    """A table of one leaf has no page above it, and its leaf is its root: 64K held 39 of these, in 20 KB."""
    assert open_store(None, Shape(72, features=72, classes=3), quota=quota).capacity >= least


def test_a_quota_that_is_too_small_says_what_would_do(tmp_path: Path):
    with pytest.raises(DataError, match="quota=") as e:
        open_store(tmp_path / "s.db", 2560, quota="10K")
    least = int(str(e.value).split("quota=")[1].split()[0])
    assert open_store(tmp_path / "s.db", 2560, quota=least).capacity >= 5


def test_a_smaller_quota_drops_records_and_shrinks_the_file(tmp_path: Path):
    store = open_store(tmp_path / "s.db", 2000, quota="1M")
    store.add(latents(300, 2000), [i % 4 for i in range(300)])
    kept = dict(zip(store.ledger.records, store.fetch(store.ledger.records)))
    store.close()
    small = open_store(tmp_path / "s.db", 2000, quota="1M", count=50)
    assert len(small) == 50 and {r.label for r in small.ledger.records.values()} == {0, 1, 2, 3}
    assert all(kept[id] == data for id, data in zip(small.ledger.records, small.fetch(small.ledger.records)))
    again = open_store(tmp_path / "s.db", 2000, quota="1M", count=50)
    assert same(again, small) and max(again.slots.of.values()) == 50


def test_the_same_sample_is_kept_once_and_takes_a_later_label():
    store = open_store(None, 50)
    a, b = latents(2)
    first, again, other = store.add([a, a, b])
    assert first.fresh and not again.fresh and again.id == first.id and other.id == 2
    (told,) = store.add([a], [1])
    assert told.id == first.id and told.told and store.ledger.records[first.id].label == 1
    (contrary,) = store.add([a], [0])
    assert contrary.fresh and len(store) == 3


# encryption and deletion ------------------------------------------------------------------------


def test_an_encrypted_store_shows_nothing_and_opens_only_with_its_key(tmp_path: Path):
    path, data = tmp_path / "s.db", latents(20)
    store = open_store(path, Shape(50, features=4), key=b"1" * 16)
    store.add(data, [1] * 20)
    store.means.see(1, np.full(4, 1234.5))
    store.touch(1)
    store.keep_fact("names", b"a secret name")
    store.close()
    content = folder_bytes(tmp_path)
    assert not any(one in content for one in data) and b"secret" not in content
    assert np.full(4, 1234.5, np.float32).tobytes() not in content
    for key, words in ((b"2" * 16, "key is wrong"), (None, "is encrypted")):
        with pytest.raises(DataError, match=words):
            open_store(path, Shape(50, features=4), key=key)
    again = open_store(path, Shape(50, features=4), key=b"1" * 16)
    assert again.fetch(range(1, 21)) == data and again.fact("names") == b"a secret name"


def test_a_key_for_a_plain_store_and_a_bad_key_are_refused(tmp_path: Path):
    open_store(tmp_path / "s.db", 50).close()
    with pytest.raises(DataError, match="not encrypted"):
        open_store(tmp_path / "s.db", 50, key=b"1" * 32)
    with pytest.raises(DataError, match="16, 24 or 32 bytes"):
        open_store(tmp_path / "t.db", 50, key=b"short")


def test_records_sealed_for_another_place_are_damaged(tmp_path: Path):
    path = tmp_path / "s.db"
    store = open_store(path, 50, key=b"1" * 16)
    store.add(latents(2))
    store.close()
    with sqlite3.connect(path) as link:
        link.execute("update latents set latent = (select latent from latents where slot = 2) where slot = 1")
    assert open_store(path, 50, key=b"1" * 16).fetch([1, 2])[0] is None


@pytest.mark.parametrize("damage", [
    "update latents set latent = zeroblob(50) where slot = 1", "delete from latents where slot = 1",
    "update latents set latent = 'text' where slot = 1", "update latents set latent = 7 where slot = 1",
])  # fmt: skip
def test_a_damaged_record_is_found(tmp_path: Path, damage: str):
    store = open_store(tmp_path / "s.db", 50)
    store.add(latents(2))
    store.close()
    with sqlite3.connect(tmp_path / "s.db") as link:
        link.execute(damage)
    assert open_store(tmp_path / "s.db", 50).fetch([1, 2]) == [None, latents(2)[1]]


CHANGES = ("label = 1", "label = 'x'", "id = 2", "id = 'x'", "guard = 1 - guard", "worth = 9", "uses = 9", "mark = 5",
           "seal = null", "id = 0")  # fmt: skip


@pytest.mark.parametrize("key", [None, b"k" * 16])
@pytest.mark.parametrize("change", CHANGES)
def test_a_row_that_was_changed_is_left_out(tmp_path: Path, change: str, key: bytes | None):
    store = open_store(tmp_path / "s.db", 50, key=key)
    store.add(latents(3), [0, 0, 0])
    store.close()
    with sqlite3.connect(tmp_path / "s.db") as link:
        link.execute(f"update records set {change} where slot = 1")
    again = open_store(tmp_path / "s.db", 50, key=key)
    assert again.trust.lost == 1 and sorted(again.ledger.records) == [2, 3] and again.fetch([2, 3]) == latents(3)[1:]
    assert again.add(latents(4)[3:], [1])[0].id == 4
    again.base.settle()
    again.close()
    assert latents(1)[0] not in folder_bytes(tmp_path)
    assert open_store(tmp_path / "s.db", 50, key=key).trust.lost == 0


def test_two_records_of_one_id_are_damage(tmp_path: Path):
    store = open_store(tmp_path / "s.db", 50)
    store.add(latents(2))
    store.close()
    with sqlite3.connect(tmp_path / "s.db") as link:
        numbers = "id, label, guard, worth, uses, mark, time, raw_mark, seal"
        link.execute(f"insert into records select 9, {numbers} from records where slot = 1")
    with pytest.raises(DataError, match="is damaged"):
        open_store(tmp_path / "s.db", 50)


def test_a_class_whose_row_was_changed_is_counted_again(tmp_path: Path):
    shape = Shape(50, features=4, classes=3)
    store = open_store(tmp_path / "s.db", shape)
    store.add(latents(12), [i % 2 for i in range(12)])
    for label in (0, 1):
        store.means.see(label, np.full(4, label + 1.0, np.float32))
        store.touch(label)
    store.keep_fact("one", b"1")
    store.keep_fact("other", b"2")
    store.close()
    with sqlite3.connect(tmp_path / "s.db") as link:
        link.execute("update classes set mean = zeroblob(16) where label = 1")
        link.execute("update facts set value = x'33' where name = 'one'")
    again = open_store(tmp_path / "s.db", shape)
    assert again.trust.lost == 1 and list(again.means.means) == [0] and again.ledger.labelled == {0: 6, 1: 6}
    assert again.fact("one") is None and again.fact("other") == b"2" and again.trust.lost == 2


@pytest.mark.parametrize("key", [None, b"k" * 16])
def test_a_store_from_before_rows_were_sealed_opens(tmp_path: Path, key: bytes | None):
    shape = Shape(50, 30, features=4, classes=3)
    store = open_store(tmp_path / "s.db", shape, key=key)
    store.add(latents(9), [i % 3 for i in range(9)], raws=latents(9, 30))
    store.forget(2)
    before = store.ledger, store.fetch(store.ledger.records)
    store.close()
    with sqlite3.connect(tmp_path / "s.db") as link:  # as format 1 was
        for column in ("records drop column raw_mark", "records drop column seal", "classes drop column seal",
                       "facts drop column seal"):  # fmt: skip
            link.execute(f"alter table {column}")
        link.execute("pragma user_version = 1")
    for _ in range(2):
        again = open_store(tmp_path / "s.db", shape, key=key)
        assert again.trust.lost == 0 and (again.ledger, again.fetch(again.ledger.records)) == before
        assert None not in again.fetch(again.ledger.records, raw=True)
        again.close()
    with sqlite3.connect(tmp_path / "s.db") as link:
        link.execute("update records set label = 1 where id = 1")
    assert open_store(tmp_path / "s.db", shape, key=key).trust.lost == 1


def test_what_is_dropped_forgotten_or_erased_is_in_no_file(tmp_path: Path):
    store, data = open_store(tmp_path / "s.db", Shape(50, 30), count=20), latents(60)
    raws = latents(60, 30, seed=1)
    store.add(data, [i % 3 for i in range(60)], raws=raws)
    gone = {id for id in range(1, 61) if id not in store.ledger.records} | set(store.forget(1))
    content = folder_bytes(tmp_path)
    assert gone and not any(data[id - 1] in content or raws[id - 1] in content for id in gone)
    assert any(data[id - 1] in content for id in store.ledger.records)
    store.erase()
    content = folder_bytes(tmp_path)
    assert not any(one in content for one in (*data, *raws)) and len(store) == 0 and store.ledger.next_id == 1
    assert store.add(data[:1], raws=raws[:1])[0].id == 1


# others -----------------------------------------------------------------------------------------


def _add_many(path: Path, seed: int) -> None:
    store = open_store(path, 50, count=100)
    for one in latents(150, seed=seed):
        store.add([one], [seed])
    store.close()


def test_two_processes_share_a_store(tmp_path: Path):
    path = tmp_path / "s.db"
    store, context = open_store(path, 50, count=100), multiprocessing.get_context("spawn")
    workers = [context.Process(target=_add_many, args=(path, seed)) for seed in (1, 2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [w.exitcode for w in workers] == [0, 0]
    store.refresh()
    both = latents(150, seed=1) + latents(150, seed=2)
    assert store.ledger.next_id == 301 and store.ledger.labelled == {1: 150, 2: 150} and len(store) == 100
    assert set(store.fetch(store.ledger.records)) <= set(both)


def test_an_error_inside_a_change_changes_nothing(tmp_path: Path):
    store = open_store(tmp_path / "s.db", 50)
    store.add(latents(3), [0, 1, 2])
    with pytest.raises(DataError, match="a record has"):
        store.add([*latents(2, seed=5), b"short"], [0, 0, 0])
    store.add(latents(1, seed=9), [0])
    assert sorted(store.ledger.records) == [1, 2, 3, 4] and store.ledger.labelled[0] == 2


def test_a_full_disk_is_a_clear_error_and_loses_nothing(tmp_path: Path):
    store = open_store(tmp_path / "s.db", 3000)
    store.add(latents(10, 3000), [0] * 10)
    store.base.link.execute(f"pragma max_page_count = {store.base.number('pragma page_count')}")  # no page more
    with pytest.raises(DataError, match="no room left"):
        for seed in range(1, 9):
            store.add(latents(10, 3000, seed), [0] * 10)
    store.base.link.execute("pragma max_page_count = 100000")
    assert store.fetch(range(1, 11)) == latents(10, 3000)
    store.add(latents(10, 3000, seed=20), [0] * 10)
    assert store.ledger.labelled[0] == len(store.ledger.records)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_a_clear_error(tmp_path: Path):
    tmp_path.chmod(0o500)
    with pytest.raises(DataError, match="cannot be opened|read-only"):
        open_store(tmp_path / "s.db", 50)


def test_no_store_and_another_models_store_are_refused(tmp_path: Path):
    (tmp_path / "s.db").write_bytes(b"hello" * 1000)
    with pytest.raises(DataError, match="is no store"):
        open_store(tmp_path / "s.db", 50)
    open_store(tmp_path / "t.db", Shape(50, model="a")).close()
    with pytest.raises(DataError, match="another model"):
        open_store(tmp_path / "t.db", Shape(50, model="b"))
