"""Where each record of a store stands in its file, and what waits to be written there.

A record has a slot: one row in the table of its numbers, one in that of its bytes. When it gives way, its slot is
overwritten, at once by a newcomer or with zeros, so the file does not grow and nothing that was dropped stays in it.
Nothing here chooses what is kept (rules.py) or begins a transaction (records.py).
"""

from __future__ import annotations

import sqlite3
import time
import zlib
from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heappush

from insitu.store.database import Database, told
from insitu.store.rules import NONE, Record
from insitu.store.sealing import Seal
from insitu.store.trust import SEALED, Trust

FLUSH = 4096  # records that wait for one write
FREE = (0, NONE, 0, 0, 0, 0, None)  # the numbers of a slot without a record
SELECT = ("select latent from latents where slot = ?", "select raw from latents where slot = ?")
TABLES = ("records", "latents")


class Slots:
    """The slots of one store, of records with so many bytes of a latent and of a raw sample."""

    def __init__(self, base: Database, seal: Seal, trust: Trust, latent: int, raw: int):
        self.base, self.seal, self.trust = base, seal, trust
        zeros = bytes(latent + seal.extra), bytes(raw + seal.extra) if raw else None
        self._zeros: tuple[bytes, bytes | None] = zeros
        self.of: dict[int, int] = {}  # by the record's id, as are the marks
        self._marks: dict[int, int] = {}
        self._raw_marks: dict[int, int | None] = {}
        self._alike: dict[int, list[int]] = {}  # the ids of each mark, oldest first
        self._free: list[int] = []
        self._last = 0
        self._rows: dict[int, int] = {}  # slots to be written, and the id of the record there; 0 for none
        self._blobs: dict[int, tuple[bytes, bytes | None]] = {}

    # reading ----------------------------------------------------------------------------------

    def read(self) -> Iterator[Record]:
        """The records of the file; damaged rows are left out, and overwritten by the next change."""
        rows = f"select slot, {SEALED['records'][1]}, seal from records order by id"
        for slot, *row, seal in self.base.link.execute(rows):
            self._last = max(self._last, self.trust.key(slot))
            if not self.trust.holds(row, seal):
                self._empty(slot)
                self._free.append(slot)
            elif row[0]:
                yield self._restored(slot, *row)
            else:
                self._free.append(slot)
        heapify(self._free)

    def _restored(self, slot: int, id: int, label: int, guard: int, worth: int, uses: int, mark: int,
                  raw_mark: int | None) -> Record:  # fmt: skip
        if id in self.of:
            raise told(sqlite3.DatabaseError("malformed: one record twice"), self.base.where)
        self._place(id, slot, mark, raw_mark)
        return Record(id, label, bool(guard), worth, uses)

    def alike(self, mark: int) -> list[int]:
        """Records that may be of the very same sample, oldest first."""
        return self._alike.get(mark, [])

    def fetch(self, id: int, raw: bool) -> bytes | None:
        """The latent of a record, or its raw sample; None if it is damaged."""
        slot = self.of[id]
        if slot in self._blobs:
            found = self._blobs[slot][raw]
        else:
            row = self.base.link.execute(SELECT[raw], (slot,)).fetchone()
            found = row[0] if row and isinstance(row[0], bytes) else None  # a damaged page may have lost its rows
        if found is None or self.seal.locked:
            return None if found is None else self.seal.open(found, f"{'raw' if raw else 'latent'} {id}")
        return found if self.trust.mark(found) == (self._raw_marks if raw else self._marks)[id] else None

    # changes ----------------------------------------------------------------------------------

    def put(self, id: int, latent: bytes, raw: bytes, mark: int) -> None:
        """A new record, in the first free slot."""
        if self._free:
            slot = heappop(self._free)
        else:
            slot = self._last = self._last + 1
        self._place(id, slot, mark, zlib.crc32(raw) if raw and not self.seal.locked else None)
        self._blobs[slot] = self._sealed(id, latent, raw) if self.seal.locked else (latent, raw or None)
        self._rows[slot] = id

    def touch(self, id: int) -> None:
        """The numbers of a record changed."""
        self._rows[self.of[id]] = id

    def release(self, id: int) -> None:
        """A dropped record's slot is free."""
        slot, mark = self.of.pop(id), self._marks.pop(id)
        del self._raw_marks[id]
        self._alike[mark].remove(id)
        if not self._alike[mark]:
            del self._alike[mark]
        self._empty(slot)
        heappush(self._free, slot)

    def _sealed(self, id: int, latent: bytes, raw: bytes) -> tuple[bytes, bytes | None]:
        return self.seal.seal(latent, f"latent {id}"), self.seal.seal(raw, f"raw {id}") if raw else None

    def _place(self, id: int, slot: int, mark: int, raw_mark: int | None) -> None:
        self.of[id], self._marks[id], self._raw_marks[id] = slot, mark, raw_mark
        if mark in self._alike:
            self._alike[mark].append(id)
        else:
            self._alike[mark] = [id]

    def _empty(self, slot: int) -> None:
        self._rows[slot], self._blobs[slot] = 0, self._zeros

    # writing ----------------------------------------------------------------------------------

    @property
    def crowded(self) -> bool:
        """Is it time to write?"""
        return len(self._rows) >= FLUSH

    def write(self, records: Mapping[int, Record]) -> None:
        """All that waits."""
        now, rows = time.time_ns() // 1_000_000, []
        for slot, id in self._rows.items():
            row = self._row(records[id]) if id else FREE
            rows.append((slot, *row[:-1], now if id else 0, row[-1], self.trust.number(row)))
        self.base.many("insert or replace into records values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        self.base.many("insert or replace into latents values (?, ?, ?)", [(s, *b) for s, b in self._blobs.items()])
        self._rows.clear()
        self._blobs.clear()

    def _row(self, record: Record) -> tuple[int | None, ...]:
        """What is sealed of a record's row."""
        id, label, guard, worth, uses = record
        return id, label, int(guard), worth, uses, self._marks[id], self._raw_marks[id]

    def close_ranks(self) -> None:
        """Move the records to the first slots of the file, and give the others back. Then it must be read again."""
        count, link = len(self.of), self.base.link
        holes = [slot for slot in sorted(self._free) if slot <= count]
        movers = sorted(slot for slot in self.of.values() if slot > count)
        for hole, slot in zip(holes, movers):
            for table in TABLES:
                link.execute(f"delete from {table} where slot = ?", (hole,))
                link.execute(f"update {table} set slot = ? where slot = ?", (hole, slot))
        for table in TABLES:
            link.execute(f"delete from {table} where slot > ?", (count,))
