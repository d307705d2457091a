"""The rules of a store in C (c/device/rules.c) do what the Python ones do, over random histories."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from insitu.store.rules import NONE, RULES, Guard, Ledger, Record, below, draw, is_worse, rooms
from insitu.toolchain.compiler import FLAGS, STRICT, compile_c
from insitu.toolchain.sources import C_FOLDER

CLASSES, GUARD = 4, 1


class CRecord(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint32), ("label", ctypes.c_int16), ("uses", ctypes.c_uint16),
                ("slot", ctypes.c_uint16), ("worth", ctypes.c_uint8), ("flags", ctypes.c_uint8)]  # fmt: skip


class CClass(ctypes.Structure):
    _fields_ = [("labelled", ctypes.c_uint32), ("seen", ctypes.c_uint32 * 2), ("level", ctypes.c_uint32),
                ("steps", ctypes.c_uint32), ("count", ctypes.c_uint32), ("fresh", ctypes.c_uint32),
                ("name", ctypes.c_char * 32)]  # fmt: skip


@cache
def library() -> ctypes.CDLL:
    import tempfile

    folder = Path(tempfile.mkdtemp())
    path = folder / "rules.so"
    source = C_FOLDER / "device" / "rules.c"
    compile_c([*FLAGS, *STRICT, "-shared", "-I", str(C_FOLDER), str(source), "-o", str(path)])
    found = ctypes.CDLL(str(path))
    found.rules_draw.restype = found.rules_below.restype = ctypes.c_uint32
    return found


class InC:
    """The same life as a Ledger's, kept by the C rules the way c/device/life.c calls them."""

    def __init__(self, capacity: int, rule: str):
        self.rule, self.capacity, self.next_id = RULES.index(rule), capacity, 1
        self.records: list[CRecord] = []
        self.classes, self.unlabelled = (CClass * CLASSES)(), 0

    def array(self):
        return (CRecord * max(len(self.records), 1))(*self.records)

    def guards(self, label: int) -> int:
        return library().rules_guards(ctypes.byref(self.classes[label])) if label != NONE else 0

    def observe(self, label: int, worth: int) -> int:
        record = CRecord(self.next_id, label, 0, 0, worth, self.guards(label))
        self.next_id += 1
        return self.arrive(record)

    def label(self, id: int, label: int) -> int:
        i = next(i for i, r in enumerate(self.records) if r.id == id)
        was = self.records.pop(i)
        flags = self.guards(label) if was.label == NONE else was.flags
        return self.arrive(CRecord(id, label, 0, 0, was.worth, flags))

    def arrive(self, record: CRecord) -> int:
        guard = record.flags & GUARD
        seen = self.seen(record.label, guard)
        room = library().rules_room(self.capacity, guard)
        n = len(self.records)
        found = library().rules_victim(self.rule, self.array(), n, room, ctypes.byref(record), seen)
        if found == n:
            return record.id
        dropped = self.records.pop(found).id if found >= 0 else 0
        record.uses = 0 if guard or record.label == NONE else self.classes[record.label].level
        self.records = sorted([*self.records, record], key=lambda r: r.id)
        return dropped

    def seen(self, label: int, guard: int) -> int:
        if label == NONE:
            self.unlabelled += 1
            return self.unlabelled
        self.classes[label].seen[guard] += 1
        return self.classes[label].seen[guard]

    def lesson(self) -> int:
        array = self.array()
        found = library().rules_lesson(array, len(self.records), self.classes, CLASSES)
        self.records = list(array)[: len(self.records)]
        return self.records[found].id if found >= 0 else 0

    def kept(self) -> list[Record]:
        return [Record(r.id, r.label, bool(r.flags & GUARD), r.worth, r.uses) for r in self.records]


def test_random_numbers_are_the_same():
    for counter in (0, 1, 77, 2**31, 2**32 - 1):
        assert library().rules_draw(ctypes.c_uint32(counter), 2) == draw(counter, 2)
        assert library().rules_below(ctypes.c_uint32(counter), 1, 1000) == below(counter, 1, 1000)


def test_the_rooms_are_the_same():
    for capacity in range(1, 60):
        assert tuple(library().rules_room(capacity, g) for g in (0, 1)) == rooms(capacity)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("capacity", [1, 2, 7, 40])
@pytest.mark.parametrize("seed", range(6))
def test_the_same_records_are_kept_and_learned(rule: str, capacity: int, seed: int):
    rng, ledger, c = np.random.default_rng(seed), Ledger(capacity, rule), InC(capacity, rule)
    for step in range(300):
        waiting, what = ledger.asks(3), rng.random()
        if waiting and what < 0.25:
            label = int(rng.integers(CLASSES))
            assert c.label(waiting[-1], label) == ledger.label(waiting[-1], label)[1]
        elif what < 0.7:
            label, worth = int(rng.integers(NONE, CLASSES)), int(rng.integers(256))
            assert c.observe(label, worth) == ledger.observe(label, worth)[1]
        else:
            found = ledger.lesson()
            assert c.lesson() == (found.id if found else 0)
        assert c.kept() == [ledger.records[i] for i in sorted(ledger.records)], step


class Votes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int32) for name in ("guards", "older", "right", "lost", "won", "fell", "rose",
                                                    "rose_older", "paid", "paid_older")]  # fmt: skip


class Own(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int32) for name in ("lost", "won", "won_older")]


def judged_in_c(guards: list[Guard]) -> bool:
    votes = Votes()
    for i, g in enumerate(guards):
        same = [other for other in guards[:i] if other.label == g.label]
        own = Own(sum(o.lost for o in same), sum(o.won for o in same), sum(o.won and o.older for o in same))
        answers = (g.older, g.before, g.after, g.sure_before, g.sure_after)
        library().rules_vote(ctypes.byref(votes), ctypes.byref(own), *answers)
    assert (votes.guards, votes.right) == (len(guards), sum(g.after for g in guards))
    return bool(library().rules_worse(ctypes.byref(votes)))


def test_bouts_are_judged_the_same():
    for lost in range(8):
        for won in range(8):
            for same in (0, 1, 5):
                before = [True] * lost + [False] * won + [True] * same
                after = [False] * lost + [True] * won + [True] * same
                for every in (1, 2, 9):
                    for classes in (1, 3):
                        guards = [Guard(b, a, i % every == 0, label=i % classes)
                                  for i, (b, a) in enumerate(zip(before, after))]  # fmt: skip
                        assert judged_in_c(guards) == is_worse(guards)


def test_bouts_are_judged_the_same_by_probabilities():
    rng, said = np.random.default_rng(0), []
    for _ in range(3000):
        count, fall = int(rng.choice([3, 4, 10, 30, 3000], p=[0.2, 0.25, 0.3, 0.24, 0.01])), int(rng.integers(0, 120))
        sure = rng.integers(100, 256, count)
        after = np.clip(sure - rng.integers(-20, fall + 1, count), 0, 255)
        rows = zip(sure > 110, after > 100, rng.random(count) < 0.7, sure, after, rng.integers(3, size=count))
        guards = [Guard(bool(b), bool(a), bool(o), *map(int, more)) for b, a, o, *more in rows]
        said.append(is_worse(guards))
        assert judged_in_c(guards) == said[-1]
    assert 300 < sum(said) < 2700
