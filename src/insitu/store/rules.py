"""The rules of a store: what is kept, what gives way, what guards, what is learned next. Integers only, no storage.

A Linux store (records.py) and the C of a microcontroller (c/device/rules.c) follow them, so one history of samples
keeps the same records on both. Ids are numbers from 1 up, in order of arrival. A label is a class number, or NONE.

* Guard: the n-th labelled sample of a class (n from 0, over the whole life) is a guard if n % 5 == 3. It is never
  trained on; its `uses` are the bouts that it judged. A sample that is labelled later counts when its label arrives. A
  corrected label counts no second time.
* Room: of `capacity` records, capacity // 5 (at least 1) are for guards, the others for trainees. A record competes
  within its own group only.
* Eviction: see `victim`. The counter of its random numbers is the newcomer's id.
* By the rule `typical`, the class that `balanced` chooses loses the trainee that it can spare best, if somebody tells
  which that is (Ledger.spare; typical.py), and if it has at most COMPARED of them.
* A sample that is kept already (equal bytes; the same label, or one of the two has none) takes no id: the older record
  stays, and takes the label if it had none.
* A label that comes later moves the record to the label's class: it counts as an arrival there. If it becomes a guard,
  it leaves the trainees and arrives at the guards, with its own id, and may be dropped there.
* Lessons: see `Ledger.lesson`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from numbers import Integral
from operator import attrgetter
from typing import NamedTuple, TypeGuard

from insitu.training.newcomer import WITNESSES

NONE = -1  # the label of a record that has none yet
EVICTION, RESERVOIR, WITNESS = 1, 2, 3  # streams of random numbers
GUARD_EVERY, GUARD_AT = 5, 3
MOST_USES = 0xFFFF
NEWEST, NEWEST_EVERY = 8, 3  # records of a class that get every third of its lessons
FEWEST_GUARDS = 4  # with fewer, no bout is judged
SURE = 255  # of a guard: the probability of its label is 1
LEAST_FALL = 10  # a tenth of a guard, on average: less is a change of confidence, not harm
SPARE = 1  # guards that a class wins beyond those that it loses itself count this often against losses of others
COMPARED = 64  # trainees of a class, the newcomer included, that are compared to find the one to spare
BALANCED, TYPICAL = "balanced", "typical"
RULES = (BALANCED, "oldest", "informative", TYPICAL)

U32 = 0xFFFFFFFF
WEYL = 0x9E3779B9


def draw(counter: int, stream: int) -> int:
    """The first number of ops/_random.py for this counter and stream."""
    return _mixed(_mixed((_mixed(counter & U32) + stream * WEYL) & U32))


def _mixed(h: int) -> int:
    h = (h ^ (h >> 16)) * 0x7FEB352D & U32
    h = (h ^ (h >> 15)) * 0x846CA68B & U32
    return h ^ (h >> 16)


def below(counter: int, stream: int, n: int) -> int:
    """A number from 0 to n - 1."""
    return draw(counter, stream) * n >> 32


def is_guard(n: int) -> bool:
    """Does the n-th labelled sample of a class guard?"""
    return n % GUARD_EVERY == GUARD_AT


def rooms(capacity: int) -> tuple[int, int]:
    """How many trainees and how many guards fit."""
    guards = max(capacity // GUARD_EVERY, 1)
    return capacity - guards, guards


class Guard(NamedTuple):
    """A guard's answers before and after a bout: was it right, and how probable (of SURE) was its label?"""

    before: bool
    after: bool
    older: bool  # had it judged a bout before?
    sure_before: int = 0
    sure_after: int = 0
    label: int = 0

    @property
    def lost(self) -> bool:
        return self.before and not self.after

    @property
    def won(self) -> bool:
        return self.after and not self.before


def is_worse(guards: Iterable[Guard]) -> bool:
    """Do the guards say that a bout did harm?

    b guards went wrong and c went right: b > c and (b - c)^2 > b + c is one standard deviation of their difference.
    In c, those of a class count up to one more than it lost itself: one class, most of all a new one, cannot pay for
    what many guards of others lose.
    Few guards see only much harm that way. So if b > c, their probabilities are asked, too: b and c are then the sums
    of all falls and of all rises, and the mean fall must be a tenth at least.
    With four older guards, only those count in c: wrong labels that came since the last bout are among the guards, too,
    and a bout that learns them gets those right.
    """
    found = list(guards)
    older = sum(g.older for g in found)
    praise = [g for g in found if g.older] if older >= FEWEST_GUARDS else found
    b, c = sum(g.lost for g in found), _paid(found, praise)
    fell = sum(max(g.sure_before - g.sure_after, 0) for g in found)
    rose = sum(max(g.sure_after - g.sure_before, 0) for g in praise)
    unsure = fell > rose and LEAST_FALL * (fell - rose) > SURE * len(praise)
    harm = (b - c) ** 2 > b + c or (unsure and (fell - rose) ** 2 > SURE * (fell + rose))
    return len(found) >= FEWEST_GUARDS and b > c and harm


def _paid(found: list[Guard], praise: list[Guard]) -> int:
    """The guards that count for a bout: those that went right, of each class at most one more than went wrong."""
    lost, won = Counter(g.label for g in found if g.lost), Counter(g.label for g in praise if g.won)
    return sum(min(count, lost[k] + SPARE) for k, count in won.items())


def is_witness(id: int, count: int) -> bool:
    """Is this one of the kept samples of trained classes, `count` in all, that a new row must not take?"""
    return below(id, WITNESS, count) < WITNESSES


def is_id(id: object) -> TypeGuard[int]:
    return isinstance(id, Integral) and not isinstance(id, bool)


def no_record(id: object) -> str:
    """What is wrong if there is no record with this id. A sample in its place is not shown: it may be long."""
    shown = f"there is no record {id}" if isinstance(id, int | float | str) else ""
    return shown or f"there is no record whose id is of type {type(id).__name__}"


def why_missing(id: object, last: int) -> str:
    """Why there is no record with this id; `last` is the newest that was given."""
    if is_id(id) and 0 < id <= last:
        return "it gave way to others"
    return f"ids are those that `observe` returned: 1 to {last} so far" if last else "nothing was observed yet"


# groups -----------------------------------------------------------------------------------------


class Record(NamedTuple):
    """What the rules know of a kept sample. A tuple: a large store makes many."""

    id: int
    label: int = NONE
    guard: bool = False
    worth: int = 0  # 0 to 255: how unsure the network was
    uses: int = 0  # how often it was learned from; of a guard: bouts that it judged


@dataclass
class Group:
    """Records that compete for the same room: ids by class in order, and how many of each class ever arrived."""

    room: int
    ids: dict[int, list[int]] = field(default_factory=dict)
    seen: Counter[int] = field(default_factory=Counter)
    count: int = 0

    def add(self, record: Record) -> None:
        """Ids mostly come in order; those that are labelled later do not."""
        id, label = record[:2]
        ids = self.ids.get(label)
        if ids is None:
            self.ids[label] = [id]
        elif ids[-1] < id:
            ids.append(id)
        else:
            insort(ids, id)
        self.count += 1

    def remove(self, record: Record) -> None:
        ids = self.ids[record.label]
        del ids[bisect_left(ids, record.id)]
        self.count -= 1
        if not ids:
            del self.ids[record.label]


def victim(rule: str, group: Group, newcomer: Record, records: dict[int, Record]) -> int:
    """The id that gives way in a full group; the newcomer's own if it is not kept. Its arrival is counted already.

    typical       as balanced; see Ledger.spare
    balanced      the largest class L (ties: the lowest number) loses a random record to a smaller class. A newcomer
                  of a largest class replaces a random record of its class with the probability kept / seen
    oldest        the lowest id
    informative   the lowest (worth, id), the newcomer included
    """
    if group.room < 1:
        return newcomer.id
    if rule == "oldest":
        return min(ids[0] for ids in group.ids.values())
    if rule == "informative":
        kept = (records[i] for ids in group.ids.values() for i in ids)
        return min((*kept, newcomer), key=attrgetter("worth", "id")).id
    own = group.ids.get(newcomer.label, [])
    largest = min(group.ids, key=lambda k: (-len(group.ids[k]), k))
    if len(own) < len(group.ids[largest]):
        return group.ids[largest][below(newcomer.id, EVICTION, len(group.ids[largest]))]
    r = below(newcomer.id, RESERVOIR, group.seen[newcomer.label])
    return own[r] if r < len(own) else newcomer.id


# the whole store --------------------------------------------------------------------------------


@dataclass
class Ledger:
    """What is kept, by the rules. Each method says which record was dropped, so that a store can follow."""

    capacity: int
    rule: str = "balanced"
    next_id: int = 1
    records: dict[int, Record] = field(default_factory=dict)
    labelled: Counter[int] = field(default_factory=Counter)  # class -> samples labelled, over the whole life
    levels: Counter[int] = field(default_factory=Counter)  # class -> uses of its last lesson: a newcomer starts there
    steps: Counter[int] = field(default_factory=Counter)  # class -> steps of the running bout

    # class, its trainees and perhaps the newcomer -> the one of them that the class can spare best
    spare: Callable[[int, list[int]], int] | None = None

    def __post_init__(self) -> None:
        trainees, guards = rooms(self.capacity)
        self.trainees: Group = Group(trainees)
        self.guards: Group = Group(guards)
        self._heaps: dict[int, list[tuple[int, int]]] | None = None

    def group(self, guard: bool) -> Group:
        return self.guards if guard else self.trainees

    # changes ------------------------------------------------------------------------------------

    def restore(self, record: Record) -> None:
        """Take back a record that is in the store; its arrival is not counted again."""
        self.records[record.id] = record
        self.group(record.guard).add(record)
        self._heaps = None

    def observe(self, label: int = NONE, worth: int = 0) -> tuple[Record, int]:
        """A new sample arrives. Returns its record, and the id that was dropped: 0 for none, its own if not kept."""
        record = Record(self.next_id, label, self._guards(label), worth)
        self.next_id += 1
        return self._arrive(record)

    def label(self, id: int, label: int) -> tuple[Record, int]:
        """A label for a kept record: its first one, or a correction. Returns the same as `observe`."""
        was = self.records[id]
        if was.label == label:
            return was, 0
        guard = self._guards(label) if was.label == NONE else was.guard
        self.drop(id)
        return self._arrive(was._replace(label=label, guard=guard))

    def _guards(self, label: int) -> bool:
        """Count one more labelled sample of this class: does it guard?"""
        if label == NONE:
            return False
        n = self.labelled.get(label, 0)
        self.labelled[label] = n + 1
        return is_guard(n)

    def _arrive(self, record: Record) -> tuple[Record, int]:
        id, label, guard, _, uses = record
        group, dropped = self.guards if guard else self.trainees, 0
        group.seen[label] = group.seen.get(label, 0) + 1
        if group.count >= group.room:
            dropped = self._spared(record, victim(self.rule, group, record, self.records))
            if dropped == id:
                return record, dropped
            self.drop(dropped)
        level = 0 if guard else self.levels.get(label, 0)
        record = record if level == uses else record._replace(uses=level)
        self.records[id] = record
        group.add(record)
        self._heaps = None
        return record, dropped

    def _spared(self, newcomer: Record, chosen: int) -> int:
        """The trainee of the chosen one's class that gives way."""
        label = newcomer.label if chosen == newcomer.id else self.records[chosen].label
        if self.spare is None or self.rule != TYPICAL or newcomer.guard or label == NONE:
            return chosen
        among = [*self.trainees.ids.get(label, ()), *([newcomer.id] if newcomer.label == label else ())]
        return self.spare(label, among) if 1 < len(among) <= COMPARED else chosen

    def drop(self, id: int) -> None:
        record = self.records.pop(id)
        self.group(record.guard).remove(record)
        self._heaps = None

    def forget(self, label: int) -> list[int]:
        """Drop every record of a class, and its counts; returns their ids."""
        ids = sorted(i for group in (self.trainees, self.guards) for i in group.ids.get(label, ()))
        for id in ids:
            self.drop(id)
        for counts in (self.trainees.seen, self.guards.seen, self.labelled, self.levels, self.steps):
            counts.pop(label, None)
        return ids

    # questions ----------------------------------------------------------------------------------

    def guard_ids(self) -> list[int]:
        """Of all guards, in order."""
        return sorted(i for ids in self.guards.ids.values() for i in ids)

    def asks(self, n: int) -> list[int]:
        """The records whose label would help most: without a label, the highest worth first, then the lowest id."""
        waiting = (self.records[i] for i in self.trainees.ids.get(NONE, ()))
        return [r.id for r in sorted(waiting, key=lambda r: (-r.worth, r.id))[:n]]

    def begin(self) -> None:
        """A new bout: every class has had no step."""
        self.steps.clear()

    def judged(self, ids: Iterable[int]) -> list[int]:
        """A bout is over that these guards have judged; returns those that are still kept."""
        kept = [i for i in ids if i in self.records and self.records[i].guard]
        for id in kept:
            record = self.records[id]
            self.records[id] = record._replace(uses=min(record.uses + 1, MOST_USES))
        return kept

    def lesson(self) -> Record | None:
        """The record to learn next, counted as used; None without labelled trainees.

        Of the class with the fewest steps in this bout (ties: the lowest number), it is the one with the fewest uses
        (ties: the newest); in every third step of a class, of its newest eight alone. So what is new gets a third of
        the lessons, and everything is replayed in turn. A newcomer starts level with the class's last replayed record.
        """
        if self._heaps is None:
            self._heaps = self._by_uses()
        if not self._heaps:
            return None
        label = min(self._heaps, key=lambda k: (self.steps[k], k))
        new = self.steps[label] % NEWEST_EVERY == NEWEST_EVERY - 1
        record = self._of_newest(label) if new else self._replayed(label)
        self.steps[label] += 1
        record = self.records[record.id] = record._replace(uses=min(record.uses + 1, MOST_USES))
        heappush(self._heaps[label], (record.uses, -record.id))
        return record

    def _of_newest(self, label: int) -> Record:
        newest = (self.records[i] for i in self.trainees.ids[label][-NEWEST:])
        return min(newest, key=lambda r: (r.uses, -r.id))

    def _replayed(self, label: int) -> Record:
        """Entries of a heap whose record was used since are old."""
        assert self._heaps is not None
        while True:
            uses, id = heappop(self._heaps[label])
            if self.records[-id].uses == uses:
                self.levels[label] = uses
                return self.records[-id]

    def _by_uses(self) -> dict[int, list[tuple[int, int]]]:
        found = {}
        for label, ids in self.trainees.ids.items():
            if label != NONE:
                found[label] = [(self.records[i].uses, -i) for i in ids]
                heapify(found[label])
        return found
