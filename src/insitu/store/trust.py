"""A number in each row of a store tells whether the row is as it was written: a CRC-32, or with a key a MAC.

A row whose number does not fit is damaged, and nothing in it counts: not the label either. Stores of format 1 had no
such numbers; `seal_rows` adds them. Latents have numbers of their own, their marks, which are among what is sealed.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable

from insitu.store.database import FORMAT, Database

Mark = Callable[[bytes], int]

# table -> the key of its rows, and what is sealed; a row's time is for people, and its slot may change
SEALED = {
    "records": ("slot", "id, label, guard, worth, uses, mark, raw_mark"),
    "classes": ("label", "label, labelled, trainees, guards, level, steps, seen, mean"),
    "facts": ("name", "name, value"),
}
ADDED = ("records add column raw_mark integer", "records add column seal integer", "classes add column seal integer",
         "facts add column seal integer")  # fmt: skip


def row_seal(mark: Mark, values: Iterable[object]) -> int:
    """The number of a row with these values."""
    return mark(repr([zlib.crc32(v) if isinstance(v, bytes) else v for v in values]).encode())


def seal_rows(base: Database, mark: Mark, locked: bool) -> None:
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
        seals = [(row_seal(mark, values), name) for name, *values in rows]
        base.many(f"update {table} set seal = ? where {key} = ?", seals)
    base.link.execute(f"pragma user_version = {FORMAT}")
