"""A number in each row of a store tells whether the row is as it was written: a CRC-32, or with a key a MAC.

A row whose number does not fit is damaged, and nothing in it counts: not the label either. Stores of format 1 had no
such numbers; `seal_rows` adds them. Latents have numbers of their own, their marks, which are among what is sealed:
equal samples are found by them. Without a key they also prove a latent; with one, its encryption does.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Iterable

from insitu.store.database import FORMAT, Database, told
from insitu.store.sealing import Seal

Mark = Callable[[bytes], int]

# table -> the key of its rows, and what is sealed; a row's time is for people, and its slot may change
SEALED = {
    "records": ("slot", "id, label, guard, worth, uses, mark, raw_mark"),
    "classes": ("label", "label, labelled, trainees, guards, level, steps, seen, mean"),
    "facts": ("name", "name, value"),
}
ADDED = ("records add column raw_mark integer", "records add column seal integer", "classes add column seal integer",
         "facts add column seal integer")  # fmt: skip


class Trust:
    """Tells damaged rows, and counts them."""

    def __init__(self, seal: Seal, where: str):
        self.mark: Mark = seal.likeness if seal.locked else zlib.crc32
        self._proof: Mark = seal.mark if seal.locked else zlib.crc32
        self.where = where
        self.lost: int = 0  # damaged rows that were found, and left out

    def number(self, values: Iterable[object]) -> int:
        """The number of a row with these values."""
        return self._proof(repr([zlib.crc32(v) if isinstance(v, bytes) else v for v in values]).encode())

    def holds(self, values: Iterable[object], number: object) -> bool:
        """Is a row as it was written?"""
        held = number == self.number(values)
        self.lost += not held
        return held

    def key(self, found: object) -> int:
        """The key of a row, which is a number unless the table itself is damaged."""
        if not isinstance(found, int):
            raise told(sqlite3.DatabaseError("malformed: a row without a number"), self.where)
        return found


def seal_rows(base: Database, trust: Trust, locked: bool) -> None:
    """Make a store of format 1 one of today's, in the running transaction."""
    if base.number("pragma user_version") == FORMAT:
        return
    for words in ADDED:
        base.link.execute(f"alter table {words}")
    if not locked:  # what is encrypted proves itself
        raws = base.link.execute("select raw, slot from latents where raw is not null").fetchall()
        base.many("update records set raw_mark = ? where slot = ?", [(zlib.crc32(raw), slot) for raw, slot in raws])
    for table, (key, columns) in SEALED.items():
        rows = base.link.execute(f"select {key}, {columns} from {table}").fetchall()
        seals = [(trust.number(values), name) for name, *values in rows]
        base.many(f"update {table} set seal = ? where {key} = ?", seals)
    base.link.execute(f"pragma user_version = {FORMAT}")
