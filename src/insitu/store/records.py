"""A store of records on this machine: latents with labels, within a quota, kept by the rules.

    store = open_store("life/store.db", 2560, quota="16M")
    arrivals = store.add(latents, labels, worths)
    store.fetch([arrival.id for arrival in arrivals])

rules.py says what is kept and what gives way, database.py has the file, slots.py a record's place in it. Every change
is one transaction. Nothing here knows a network or learns.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from insitu.data.arguments import byte_count, one_of, optional
from insitu.errors import DataError
from insitu.store.database import Database, told
from insitu.store.drift import Means
from insitu.store.facts import Facts
from insitu.store.pages import geometry
from insitu.store.rules import NONE, RULES, Ledger
from insitu.store.sealing import Seal
from insitu.store.slots import Slots
from insitu.store.trust import SEALED, Trust

QUOTA = "64M"


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
        record = shape.latent + seal.extra + (shape.raw + seal.extra if shape.raw else 0)
        beside = shape.beside + seal.extra if shape.beside else 0
        self.geometry = geometry(record, 4 * shape.features + seal.extra, shape.classes, beside)
        self.capacity: int = min(self.geometry.capacity(quota), count or 1 << 31)
        self.rule: str = rule
        self.path: Path | None = path
        self.spare: Callable[[int, list[int]], int] | None = None  # of the ledger; set with `choose`
        self.base: Database = Database(path, self.geometry.page, quota)
        self.trust: Trust = Trust(seal, self.base.where)
        self.facts: Facts = Facts(self.base, seal, self.trust)
        try:
            self._claim()
            self.base.distrust()
            with self.changing():
                self._shrink()
        except BaseException:
            self.close()
            raise

    def _claim(self) -> None:
        with self.base.transaction(durable=True):
            self.facts.claim(self._about())

    def belong(self, model: str) -> None:
        """From now on the records are this model's: one with the same frozen layers and another head."""
        self.shape = replace(self.shape, model=model)
        self.facts.belong(self._about())

    def _about(self) -> dict[str, Any]:
        return {"latent": self.shape.latent, "raw": self.shape.raw, "model": self.shape.model}

    def choose(self, spare: Callable[[int, list[int]], int]) -> None:
        """Ask this function which trainee of a class gives way (rules.py)."""
        self.spare = self.ledger.spare = spare

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
            with suppress(DataError):  # if it cannot be read either, the next change tries again
                self.refresh()
            raise

    def refresh(self) -> None:
        """See what other processes have changed."""
        with self.base.telling():
            if not self.base.inside and self.base.changed_elsewhere():
                self._read()

    def _read(self) -> None:
        """The ledger as it is in the file."""
        ledger = Ledger(self.capacity, self.rule, spare=self.spare)
        self.means: Means = Means()
        self._dirty: set[int] = set()
        self.slots: Slots = Slots(self.base, self.seal, self.trust, self.shape.latent, self.shape.raw)
        for record in self.slots.read():
            ledger.restore(record)
        ledger.next_id = max(int(self.facts.read("next_id") or b"1"), max(ledger.records, default=0) + 1)
        self.ledger = ledger
        self._read_classes()

    def _read_classes(self) -> None:
        for *row, seal in self.base.link.execute(f"select {SEALED['classes'][1]}, seal from classes").fetchall():
            if self.trust.holds(row, seal):
                self._restore_class(*row)
            else:
                self._dirty.add(self.trust.key(row[0]))
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
        self.slots.write(self.ledger.records)
        for label in sorted(self._dirty):
            n = self.means.counts.get(label, 0)
            mean = self.seal.seal(self.means.means[label].tobytes(), f"mean {label}") if n else b""
            row = (label, *(counts[label] for counts in self._counts()), n, mean)
            row = (*row, self.trust.number(row))
            self.base.link.execute("insert or replace into classes values (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        self._dirty.clear()
        self.facts.write("next_id", b"%d" % self.ledger.next_id)

    # facts ------------------------------------------------------------------------------------

    def fact(self, name: str) -> bytes | None:
        """A small piece of information kept with the records; None if there is none, or if it is damaged."""
        with self.base.telling():
            return self.facts.opened(name)

    def keep_fact(self, name: str, value: bytes) -> None:
        with self.changing():
            self.facts.keep(name, value)

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
        mark = self.trust.mark(latent)
        if (older := self._same(latent, label, mark)) is not None:
            told = label != NONE and self.ledger.records[older].label == NONE
            return Arrival(older, self.label(older, label) if told else True, False, told)
        record, dropped = self.ledger.observe(label, worth)
        id = record[0]
        self._dirty.add(label)
        if dropped == id:
            return Arrival(id, False, True, label != NONE)
        if dropped:
            self.slots.release(dropped)
        self.slots.put(id, latent, raw, mark)
        if self.slots.crowded:
            self.slots.write(self.ledger.records)
        return Arrival(id, True, True, label != NONE)

    def _same(self, latent: bytes, label: int, mark: int) -> int | None:
        """The oldest record of this very sample whose label does not contradict."""
        for id in self.slots.alike(mark):
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
                self.slots.release(dropped)
            if dropped != id:
                self.slots.touch(id)
            return dropped != id

    def drop(self, id: int) -> None:
        with self.changing():
            self.ledger.drop(id)
            self.slots.release(id)

    def forget(self, label: int) -> list[int]:
        """Drop all records of a class, with its counts and mean; returns their ids."""
        with self.changing():
            ids = self.ledger.forget(label)
            for id in ids:
                self.slots.release(id)
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
            self.slots.write(self.ledger.records)
            self.slots.close_ranks()
            self._read()

    def used(self, ids: Iterable[int]) -> None:
        """Lessons were taken from these: keep their uses, and the counts of their classes."""
        with self.changing():
            for id in ids:
                self.slots.touch(id)
                self._dirty.add(self.ledger.records[id].label)

    def touch(self, *labels: int) -> None:
        """The mean or counts of these classes changed."""
        self._dirty |= set(labels)

    # questions --------------------------------------------------------------------------------

    def fetch(self, ids: Iterable[int], raw: bool = False) -> list[bytes | None]:
        """The latents of these records (or the raw samples); None for one that is damaged."""
        try:  # not `telling`: a context costs as much as a small query
            return [self.slots.fetch(id, raw) for id in ids]
        except sqlite3.Error as e:
            raise told(e, self.base.where) from e

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
        self._claim()

    def close(self) -> None:
        self.base.close()


def open_store(path: str | Path | None, shape: Shape | int, *, quota: int | str = QUOTA, count: int | None = None,
               rule: str = "balanced", key: bytes | None = None) -> Store:  # fmt: skip
    """The store in this file, made if there is none; in memory without a path.

    shape   of the records, or just the bytes of a latent
    quota   the largest size of the file in bytes; `count` is the largest number of records
    rule    what gives way: balanced, oldest, informative, typical
    key     16, 24 or 32 bytes: everything but class numbers and counts is encrypted
    """
    shape = Shape(shape) if isinstance(shape, int) else shape
    size = byte_count(quota, "quota")
    if size is None:
        raise DataError("quota must be a number of bytes, not None", hint='262144 or "256K"')
    found = one_of(rule, "rule", RULES)
    assert found is not None
    return Store(Path(path) if path else None, shape, size, optional(count, "count", 1), found, Seal(key))
