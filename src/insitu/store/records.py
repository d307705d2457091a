"""A store of records on this machine: latents with labels, within a quota, kept by the rules.

    store = open_store("life/store.db", 2560, quota="16M")
    arrivals = store.add(latents, labels, worths)
    store.fetch([arrival.id for arrival in arrivals])

rules.py says what is kept and what gives way, database.py has the file. Every change is one transaction. A record's
place in the file (its slot) is overwritten when the record gives way, so the file does not grow and nothing that was
dropped stays in it. Nothing here knows a network or learns.
"""

from __future__ import annotations

import json
import sqlite3
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import NamedTuple

import numpy as np

from insitu.data.arguments import byte_count, one_of, optional
from insitu.errors import DataError
from insitu.store.database import Database, told
from insitu.store.drift import Means
from insitu.store.pages import geometry
from insitu.store.rules import NONE, RULES, Ledger, Record
from insitu.store.sealing import Seal
from insitu.store.trust import SEALED as SEALS
from insitu.store.trust import row_seal, seal_rows

QUOTA = "64M"
FLUSH = 4096  # records that wait for one write
FREE = (0, NONE, 0, 0, 0, 0, None)  # the numbers of a slot without a record
SELECT = ("select latent from latents where slot = ?", "select raw from latents where slot = ?")
ABOUT, SEALED = "about", b"insitu store"


class Arrival(NamedTuple):
    """What became of a sample."""

    id: int
    kept: bool
    fresh: bool  # False: it was kept already, under this id
    told: bool  # was its label not known before?


@dataclass(frozen=True)
class Shape:
    """What a store holds: bytes of each part of a record, and for how many classes."""

    latent: int
    raw: int = 0
    features: int = 0  # floats of a class mean
    classes: int = 1
    model: str = ""  # whose latents these are
    beside: int = 0  # bytes of a value that is kept with the records


class Store:
    """Holds the file. Made by `open_store`; not to be shared by threads, but by processes."""

    def __init__(self, path: Path | None, shape: Shape, quota: int, count: int | None, rule: str, seal: Seal):
        self.shape: Shape = shape
        self.quota: int = quota
        self.seal: Seal = seal
        self._mark = seal.mark if seal.locked else zlib.crc32
        record = shape.latent + seal.extra + (shape.raw + seal.extra if shape.raw else 0)
        beside = shape.beside + seal.extra if shape.beside else 0
        self.geometry = geometry(record, 4 * shape.features + seal.extra, shape.classes, beside)
        self.capacity: int = min(self.geometry.capacity(quota), count or 1 << 31)
        self.rule: str = rule
        self.path: Path | None = path
        self.lost: int = 0  # damaged rows that were found, and left out
        self.base: Database = Database(path, self.geometry.page, quota)
        try:
            self._check()
            self.base.distrust()
            with self.changing():
                self._shrink()
        except BaseException:
            self.close()
            raise

    def _check(self) -> None:
        """Is this store's content ours: this model's, sealed with this key?"""
        with self.base.transaction(durable=True):
            if self.base.one("select name from facts where name = ?", (ABOUT,)) is None:
                seal_rows(self.base, self._mark, self.seal.locked)
                self._write_fact(ABOUT, json.dumps(self._about()).encode())
                self._write_fact("seal", self.seal.seal(SEALED, "seal"))
                return
            self._compare_key(self.base.one("select value from facts where name = 'seal'"))
            seal_rows(self.base, self._mark, self.seal.locked)
            self._compare(self._fact(ABOUT))

    def belong(self, model: str) -> None:
        """From now on the records are this model's: one with the same frozen layers and another head."""
        self.shape = replace(self.shape, model=model)
        self._write_fact(ABOUT, json.dumps(self._about()).encode())

    def _about(self) -> dict:
        return {"latent": self.shape.latent, "raw": self.shape.raw, "model": self.shape.model}

    def _compare_key(self, sealed: bytes | None) -> None:
        if sealed == SEALED and self.seal.locked:
            raise DataError("is not encrypted, but a key was given", where=self.base.where, hint="no key")
        if sealed is None or (sealed != SEALED and len(sealed) <= len(SEALED)):
            raise told(sqlite3.DatabaseError("malformed: its seal"), self.base.where)
        if self.seal.open(sealed, "seal") != SEALED:
            what = "the key is wrong" if self.seal.locked else "is encrypted"
            raise DataError(what, where=self.base.where, hint="key=... as it was when the store was made")

    def _compare(self, found: bytes | None) -> None:
        if found is None:
            raise told(sqlite3.DatabaseError("malformed: what it holds"), self.base.where)
        about, mine = json.loads(found), self._about()
        if about != mine:
            other = next(k for k in mine if about.get(k) != mine[k])
            raise DataError(f"belongs to another model or has other options ({other}: {about.get(other)})",
                            where=self.base.where, hint="another folder for this learner")  # fmt: skip

    # transactions -----------------------------------------------------------------------------

    @contextmanager
    def changing(self, durable: bool = False) -> Iterator[None]:
        """All changes inside happen, or none; also those of the ledger."""
        if self.base.inside:
            yield
            return
        try:
            with self.base.transaction(durable) as foreign:
                if foreign:
                    self._read()
                yield
                self._flush()
        except BaseException:
            self.base.distrust()  # the ledger may be ahead of the file
            raise

    def refresh(self) -> None:
        """See what other processes have changed."""
        with self.base.telling():
            if not self.base.inside and self.base.changed_elsewhere():
                self._read()

    def _read(self) -> None:
        """The ledger as it is in the file; damaged rows are left out, and overwritten by the next change."""
        ledger = Ledger(self.capacity, self.rule)
        self.means: Means = Means()
        self._dirty: set[int] = set()
        self.slots: dict[int, int] = {}
        self.marks: dict[int, int] = {}
        self._by_mark, self._free = {}, []
        self._rows, self._blobs, self._last = {}, {}, 0
        self.raw_marks: dict[int, int | None] = {}
        rows = f"select slot, {SEALS['records'][1]}, seal from records order by id"
        for slot, *row, seal in self.base.link.execute(rows):
            self._last = max(self._last, self._key(slot))
            if seal != row_seal(self._mark, row):
                self._lose(slot)
            elif row[0]:
                self._restore(ledger, slot, *row)
            else:
                self._free.append(slot)
        heapify(self._free)
        ledger.next_id = max(int(self._fact("next_id") or b"1"), max(ledger.records, default=0) + 1)
        self.ledger = ledger
        self._read_classes()

    def _restore(self, ledger: Ledger, slot: int, id: int, label: int, guard: int, worth: int, uses: int, mark: int,
                 raw_mark: int | None) -> None:  # fmt: skip
        if id in ledger.records:
            raise told(sqlite3.DatabaseError("malformed: one record twice"), self.base.where)
        ledger.restore(Record(id, label, bool(guard), worth, uses))
        self._place(id, slot, mark, raw_mark)

    def _key(self, found: object) -> int:
        """The key of a row, which is a number unless the table itself is damaged."""
        if not isinstance(found, int):
            raise told(sqlite3.DatabaseError("malformed: a row without a number"), self.base.where)
        return found

    def _lose(self, slot: int) -> None:
        """A damaged row: its place is free again."""
        self.lost += 1
        self._empty(slot)
        self._free.append(slot)

    def _read_classes(self) -> None:
        for *row, seal in self.base.link.execute(f"select {SEALS['classes'][1]}, seal from classes").fetchall():
            if seal == row_seal(self._mark, row):
                self._restore_class(*row)
            else:
                self.lost += 1
                self._dirty.add(self._key(row[0]))
        labels = {k for group in (self.ledger.trainees, self.ledger.guards) for k in group.ids}
        for label in labels - set(self.ledger.trainees.seen) - set(self.ledger.guards.seen):
            self._count_again(label)

    def _restore_class(self, label: int, *numbers) -> None:
        *counted, seen, mean = numbers
        for counts, n in zip(self._counts(), counted):
            if n:
                counts[label] = n
        if seen:
            self.means.counts[label] = seen
            self.means.means[label] = np.frombuffer(self.seal.open(mean, f"mean {label}") or b"", np.float32)

    def _count_again(self, label: int) -> None:
        """The counts of a class whose row was lost: as if its records were all that it ever had."""
        ledger = self.ledger
        for group in (ledger.trainees, ledger.guards):
            group.seen[label] = len(group.ids.get(label, ()))
        if label != NONE:
            ledger.labelled[label] = ledger.trainees.seen[label] + ledger.guards.seen[label]
        self._dirty.add(label)

    def _counts(self) -> tuple[Counter[int], ...]:
        ledger = self.ledger
        return ledger.labelled, ledger.trainees.seen, ledger.guards.seen, ledger.levels, ledger.steps

    def _flush(self) -> None:
        """Write what changed."""
        self._write_records()
        for label in sorted(self._dirty):
            n = self.means.counts.get(label, 0)
            mean = self.seal.seal(self.means.means[label].tobytes(), f"mean {label}") if n else b""
            row = (label, *(counts[label] for counts in self._counts()), n, mean)
            row = (*row, row_seal(self._mark, row))
            self.base.link.execute("insert or replace into classes values (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        self._dirty.clear()
        self._write_fact("next_id", b"%d" % self.ledger.next_id)

    def _write_records(self) -> None:
        now, rows = time.time_ns() // 1_000_000, []
        for slot, id in self._rows.items():
            row = self._row(id)
            rows.append((slot, *row[:-1], now if id else 0, row[-1], row_seal(self._mark, row)))
        self.base.many("insert or replace into records values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        self.base.many("insert or replace into latents values (?, ?, ?)", [(s, *b) for s, b in self._blobs.items()])
        self._rows.clear()
        self._blobs.clear()

    def _row(self, id: int) -> tuple[int | None, ...]:
        """What is sealed of a record's row."""
        if not id:
            return FREE
        _, label, guard, worth, uses = self.ledger.records[id]
        return id, label, int(guard), worth, uses, self.marks[id], self.raw_marks[id]

    # facts ------------------------------------------------------------------------------------

    def fact(self, name: str) -> bytes | None:
        """A small piece of information kept with the records; None if there is none, or if it is damaged."""
        found = self._fact(name)
        return None if found is None else self.seal.open(found, name)

    def _fact(self, name: str) -> bytes | None:
        """As it is in the file."""
        row = self.base.link.execute("select value, seal from facts where name = ?", (name,)).fetchone()
        if row is not None and row[1] != row_seal(self._mark, (name, row[0])):
            self.lost += 1
            return None
        return row and row[0]

    def keep_fact(self, name: str, value: bytes) -> None:
        with self.changing():
            self._write_fact(name, self.seal.seal(value, name))

    def _write_fact(self, name: str, value: bytes) -> None:
        row = (name, value, row_seal(self._mark, (name, value)))
        self.base.link.execute("insert or replace into facts values (?, ?, ?)", row)

    # changes ----------------------------------------------------------------------------------

    def add(self, latents: Sequence[bytes], labels: Sequence[int] | None = None, worths: Sequence[int] | None = None,
            raws: Sequence[bytes] | None = None) -> list[Arrival]:  # fmt: skip
        """Samples arrive, in this order; all of them, or none if something fails."""
        count = len(latents)
        each = zip(latents, labels or [NONE] * count, worths or [0] * count, raws or [b""] * count)
        self._check_sizes(latents, raws)
        with self.changing():
            return [self._add(*one) for one in each]

    def _check_sizes(self, latents: Sequence[bytes], raws: Sequence[bytes] | None) -> None:
        given = {len(one) for one in latents} | {self.shape.latent}, {len(one) for one in raws or ()} | {self.shape.raw}
        if max(map(len, given)) > 1 or (self.shape.raw and latents and not raws):
            sizes = f"{self.shape.latent} bytes, and {self.shape.raw} of the raw sample"
            raise DataError(f"a record has {sizes}", where=self.base.where)

    def _add(self, latent: bytes, label: int, worth: int, raw: bytes) -> Arrival:
        mark = self._mark(latent)
        if mark in self._by_mark and (older := self._same(latent, label, mark)) is not None:
            told = label != NONE and self.ledger.records[older].label == NONE
            return Arrival(older, self.label(older, label) if told else True, False, told)
        record, dropped = self.ledger.observe(label, worth)
        id = record[0]
        self._dirty.add(label)
        if dropped == id:
            return Arrival(id, False, True, label != NONE)
        if dropped:
            self._release(dropped)
        slot = heappop(self._free) if self._free else self._new_slot()
        self._place(id, slot, mark, zlib.crc32(raw) if raw and not self.seal.locked else None)
        self._blobs[slot] = self._sealed(id, latent, raw) if self.seal.locked else (latent, raw or None)
        self._rows[slot] = id
        if len(self._rows) >= FLUSH:
            self._write_records()
        return Arrival(id, True, True, label != NONE)

    def _sealed(self, id: int, latent: bytes, raw: bytes) -> tuple[bytes, bytes | None]:
        return self.seal.seal(latent, f"latent {id}"), self.seal.seal(raw, f"raw {id}") if raw else None

    def _same(self, latent: bytes, label: int, mark: int) -> int | None:
        """The oldest record of this very sample whose label does not contradict."""
        for id in self._by_mark[mark]:
            own = self.ledger.records[id].label
            if (own == label or NONE in (own, label)) and self.fetch([id])[0] == latent:
                return id
        return None

    def label(self, id: int, label: int) -> bool:
        """A label for a kept record; returns whether it is still kept."""
        with self.changing():
            if id not in self.ledger.records:
                raise DataError(
                    f"there is no record {id}", where=self.base.where, hint="it may have given way to others"
                )
            self._dirty |= {label, self.ledger.records[id].label}
            _, dropped = self.ledger.label(id, label)
            if dropped:
                self._release(dropped)
            if dropped != id:
                self._rows[self.slots[id]] = id
            return dropped != id

    def drop(self, id: int) -> None:
        with self.changing():
            self.ledger.drop(id)
            self._release(id)

    def forget(self, label: int) -> list[int]:
        """Drop all records of a class, with its counts and mean; returns their ids."""
        with self.changing():
            ids = self.ledger.forget(label)
            for id in ids:
                self._release(id)
            self.means.forget(label)
            self._dirty.add(label)
        if not self.base.inside:
            self.base.settle()
        return ids

    def _shrink(self) -> None:
        """After a smaller quota: the largest class of a group that is too large loses its oldest."""
        before = len(self.ledger.records)
        for group in (self.ledger.trainees, self.ledger.guards):
            while group.count > group.room:
                largest = min(group.ids, key=lambda k: (-len(group.ids[k]), k))
                self.drop(group.ids[largest][0])
        if len(self.ledger.records) < before:
            self._close_ranks()

    def _close_ranks(self) -> None:
        """Move the records to the first slots, and give the others back."""
        self._write_records()
        count, link = len(self.slots), self.base.link
        holes = [slot for slot in sorted(self._free) if slot <= count]
        movers = sorted((slot, id) for id, slot in self.slots.items() if slot > count)
        for hole, (slot, _) in zip(holes, movers):
            for table in ("records", "latents"):
                link.execute(f"delete from {table} where slot = ?", (hole,))
                link.execute(f"update {table} set slot = ? where slot = ?", (hole, slot))
        for table in ("records", "latents"):
            link.execute(f"delete from {table} where slot > ?", (count,))
        self._read()

    def used(self, ids: Iterable[int]) -> None:
        """Lessons were taken from these: keep their uses, and the counts of their classes."""
        with self.changing():
            for id in ids:
                self._rows[self.slots[id]] = id
                self._dirty.add(self.ledger.records[id].label)

    def touch(self, *labels: int) -> None:
        """The mean or counts of these classes changed."""
        self._dirty |= set(labels)

    # slots ------------------------------------------------------------------------------------

    def _new_slot(self) -> int:
        self._last += 1
        return self._last

    def _place(self, id: int, slot: int, mark: int, raw_mark: int | None) -> None:
        self.slots[id], self.marks[id], self.raw_marks[id] = slot, mark, raw_mark
        if mark in self._by_mark:
            self._by_mark[mark].append(id)
        else:
            self._by_mark[mark] = [id]

    def _release(self, id: int) -> None:
        """A dropped record's place is overwritten: at once by a newcomer, or with zeros."""
        slot, mark = self.slots.pop(id), self.marks.pop(id)
        del self.raw_marks[id]
        self._by_mark[mark].remove(id)
        if not self._by_mark[mark]:
            del self._by_mark[mark]
        self._empty(slot)
        heappush(self._free, slot)

    def _empty(self, slot: int) -> None:
        zeros = bytes(self.shape.latent + self.seal.extra), bytes(self.shape.raw + self.seal.extra)
        self._rows[slot], self._blobs[slot] = 0, (zeros[0], zeros[1] if self.shape.raw else None)

    # questions --------------------------------------------------------------------------------

    def fetch(self, ids: Iterable[int], raw: bool = False) -> list[bytes | None]:
        """The latents of these records (or the raw samples); None for one that is damaged."""
        try:  # not `telling`: a context costs as much as a small query
            return [self._fetch(id, raw) for id in ids]
        except sqlite3.Error as e:
            raise told(e, self.base.where) from e

    def _fetch(self, id: int, raw: bool) -> bytes | None:
        slot = self.slots[id]
        if slot in self._blobs:
            found = self._blobs[slot][raw]
        else:
            row = self.base.link.execute(SELECT[raw], (slot,)).fetchone()
            found = row[0] if row and isinstance(row[0], bytes) else None  # a damaged page may have lost its rows
        if found is None or self.seal.locked:
            return None if found is None else self.seal.open(found, f"{'raw' if raw else 'latent'} {id}")
        return found if self._mark(found) == (self.raw_marks if raw else self.marks)[id] else None

    def __len__(self) -> int:
        return len(self.ledger.records)

    def file_bytes(self) -> int:
        """The size of the file, without its log."""
        return self.path.stat().st_size if self.path else self.base.page * self.base.number("pragma page_count")

    # the end ----------------------------------------------------------------------------------

    def erase(self) -> None:
        """Delete everything, so that it is not found in the file any more."""
        with self.changing(durable=True):
            for table in ("records", "latents", "classes", "facts"):
                self.base.link.execute(f"delete from {table}")
            self._read()
        self.base.settle(vacuum=True)
        self._check()

    def close(self) -> None:
        self.base.close()


def open_store(path: str | Path | None, shape: Shape | int, *, quota: int | str = QUOTA, count: int | None = None,
               rule: str = "balanced", key: bytes | None = None) -> Store:  # fmt: skip
    """The store in this file, made if there is none; in memory without a path.

    shape   of the records, or just the bytes of a latent
    quota   the largest size of the file in bytes; `count` is the largest number of records
    rule    what gives way: balanced, oldest, informative
    key     16, 24 or 32 bytes: everything but class numbers and counts is encrypted
    """
    shape = Shape(shape) if isinstance(shape, int) else shape
    size = byte_count(quota, "quota")
    if size is None:
        raise DataError("quota must be a number of bytes, not None", hint='262144 or "256K"')
    found = one_of(rule, "rule", RULES)
    assert found is not None
    return Store(Path(path) if path else None, shape, size, optional(count, "count", 1), found, Seal(key))
