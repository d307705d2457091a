"""A bout: a bounded run of lessons from the store, judged by the guards before the learner takes it over.

    begin     the guards are recalled, the rates are derived, the trainee starts from the learner's state
    some      a few lessons, chosen by the rules, at a rate that falls to zero; between them a bout can pause, be saved,
              and go on: the same bytes
    end       the guards are recalled again; a bout that did harm is dropped, and the next one learns at half the rate

The room that a young class leaves the others is taken back while it learns: a row that learns with it learns against
it, then leaves more, and after some bouts its class would be gone. A row that learned alone, and then recognises fewer
of the samples that are kept of its class than before, stays as it was.

rehearsing.py says when, and keeps the results.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from insitu.learner.feed import Feed, Source
from insitu.learner.few import derived_rates, given_rates
from insitu.learner.rates import Rates
from insitu.learner.rows import head_rows, rows_in_use
from insitu.store.class_rows import room
from insitu.store.mind import HEAD_ROWS, Answer
from insitu.store.rules import NONE, Guard, Ledger, is_worse
from insitu.store.verdict import Verdict, few_guards, stays, unseen_harm
from insitu.terminal.wording import option
from insitu.training.head import HEAD
from insitu.training.train import BODY_RATE

if TYPE_CHECKING:
    from insitu.store.life import Life

PASSES = 4  # how often a bout goes over the trainees, unless it is told how many steps
LEAST, MOST = 64, 4096  # steps of such a bout
CHUNK = 16  # lessons between two looks at the budget
PROBES = 64  # records to measure gains with, at most
FIRST_RATE = 2.0  # times the rate, at the first lesson: it falls to zero, so its mean is the rate (c/device/bout.c)
ALONE_RATE = 3.0  # times that, if a row of the head learns for the first time, alone: nothing else moves
YOUTH = 64  # labelled samples: with fewer, a class that was added leaves the others room after each bout
HANDICAP = 0.5  # of its bias while it learns: it must leave the others' samples this much more room


@dataclass
class Bout:
    """A bout that has begun."""

    steps: int  # planned
    rate: float  # of the next lesson
    share: float | None  # of the rate, for the layers before the head; None: there is one rate
    guards: dict[int, Answer]  # id -> what the network said of it before
    done: int = 0
    losses: list[float] = field(default_factory=list)  # sums of the lessons of each chunk
    rows: list[int] = field(default_factory=list)  # of the head, which alone are learned; none: all
    taught: list[int] = field(default_factory=list)  # classes that it has had lessons of
    lent: list[int] = field(default_factory=list)  # the young class, if its row learns without the room that it leaves
    own: dict[int, Answer] = field(default_factory=dict)  # of the class whose row learns alone, as `guards`
    room: float = 0.0  # what the new class leaves to the others in the end: its bias is so much lower

    @property
    def finished(self) -> bool:
        return self.done >= self.steps


@dataclass(frozen=True)
class Rehearsed:
    """What one call of `rehearse` did."""

    steps: int = 0
    finished: bool = True  # False: the bout goes on with the next call
    rolled_back: bool = False
    guards: int = 0
    before: float | None = None  # the share of the guards that was right before the bout
    after: float | None = None
    lost: int = 0  # guards that were right before and are wrong after
    loss: float | None = None  # the mean of this call's lessons
    seconds: float = 0.0
    energy_mj: float = 0.0  # an estimate
    note: str = ""  # why nothing, or less than asked for, was done

    def __str__(self) -> str:
        words = f"{self.steps} steps" + ("" if self.finished else ", the bout goes on")
        if self.before is not None and self.after is not None:
            words += f": {self.before:.1%} to {self.after:.1%} of {self.guards} guards"
        return words + (", rolled back" if self.rolled_back else "") + (f" ({self.note})" if self.note else "")


def obstacle(life: Life, partial: bool) -> str:
    """Why no bout can begin; "" if one can."""
    trainees = life.store.ledger.trainees.ids
    known = {k for k in trainees if k != NONE}
    if not known:
        return "no labelled samples to learn from"
    if life.store.ledger.trainees.count - len(trainees.get(NONE, ())) < life.mind.together:
        return f"fewer than {life.mind.together} labelled samples, which one update takes"
    absent = [life.word(k) for k, used in enumerate(rows_in_use(life.learner)) if used and k not in known]
    if absent and not partial:
        few = ", ".join(absent[:5]) + (", ..." if len(absent) > 5 else "")
        room, used = life.store.ledger.trainees.room, sum(rows_in_use(life.learner))
        if room < used:
            return f"no samples of {few}: the store has room for {room} to learn from, fewer than the {used} classes"
        return f"no samples of {few}: learning the others would unlearn them ({option(partial=True)} learns anyway)"
    return ""


def begin(life: Life, steps: int | None, rate: float | None) -> Bout:
    """The trainee starts from the learner's state."""
    ledger, mind = life.store.ledger, life.mind
    count = ledger.trainees.count - len(ledger.trainees.ids.get(NONE, ()))
    ledger.begin()
    mind.trainee.load_arrays(life.learner.device.state())
    rates = _rates(life, rate)
    if rates.body is not None:
        mind.trainee.load_arrays({BODY_RATE: np.array([rates.share], np.float32)})
    planned = int(np.clip(PASSES * count, LEAST, MOST)) if steps is None else steps
    planned = -(-planned // life.learner.batch) * life.learner.batch
    ids = ledger.guard_ids()
    answers = mind.answers(*_guards(life, ids))
    share = None if rates.body is None else rates.share
    rows = learns_alone(life)
    mine = samples_of(life, rows)
    own = dict(zip(mine, mind.answers(*_guards(life, mine))))
    lent = sorted(set(new_class(life, _labelled(ledger))) & young(life))
    shift_rows(life, lent, -np.float32(life.record.room))
    shift_rows(life, rows, HANDICAP)
    alone = np.float32(ALONE_RATE if set(rows) & set(life.record.fresh) else 1.0)
    pace = np.float32(life.record.pace * FIRST_RATE) * alone
    first = float(np.float32(rates.head) * pace)
    return Bout(planned, first, share, dict(zip(ids, answers)), rows=rows, taught=list(rows), lent=lent, own=own)


def _labelled(ledger: Ledger) -> list[int]:
    """Classes with samples to learn from."""
    return [k for k in ledger.trainees.ids if k != NONE]


def samples_of(life: Life, classes: list[int]) -> list[int]:
    """All that is kept of these classes."""
    groups = (life.store.ledger.trainees.ids, life.store.ledger.guards.ids)
    return sorted(i for ids in groups for k in classes for i in ids.get(k, ()))


def learns_alone(life: Life) -> list[int]:
    """The new class, if its row of the head alone is learned: in its first bout if only the head is trained; and if
    others have too few guards to see harm, until there is news of them.

    The rows of the others know samples that are guards now, and would unlearn them. Of several classes that were added
    none: then the others must learn to make room (docs/continual.md).
    """
    new = new_class(life, _labelled(life.store.ledger))
    first = bool(set(new) & set(life.record.fresh))
    blind = bool(few_guards(life, new)) and (first or not news_beside(life, new))
    return new if blind or (first and life.mind.head_alone) else []


def news_beside(life: Life, new: list[int]) -> bool:
    """Was a sample of another class kept after the oldest of this one?"""
    groups = (life.store.ledger.trainees.ids, life.store.ledger.guards.ids)
    since = min(ids[k][0] for ids in groups for k in new if k in ids)
    return any(found[-1] > since for ids in groups for k, found in ids.items() if k not in (NONE, *new))


def new_class(life: Life, taught: Iterable[int]) -> list[int]:
    """The only one of these classes that was added and has learned nothing yet, if there is one beside others; else the
    one that did so last, while it is young. A bout that was rolled back taught it nothing."""
    taught = set(taught)
    added = taught & set(life.record.fresh) or taught & young(life)
    return sorted(added) if len(added) == 1 and taught - added and head_rows(life.learner) else []


def young(life: Life) -> set[int]:
    """The class that was added last and taught, until it has as many labelled samples as a class of a fit."""
    k = life.record.young
    return {k} if life.store.ledger.labelled[k] < YOUTH else set()


def shift_rows(life: Life, rows: list[int], by: float | np.float32) -> None:
    """Add to the biases of these rows of the trainee."""
    if rows:
        bias = life.mind.trainee.state()[f"{HEAD}.bias"].copy()
        bias[rows] += np.float32(by)
        life.mind.trainee.load_arrays({f"{HEAD}.bias": bias})


def falling(rate: float, left: int, count: int) -> list[float]:
    """The rates of the next lessons, with so many left in the bout, and of the one after them: in a line, to zero.

    Float32, one after the other, as the C of a device computes them.
    """
    found = [np.float32(rate)]
    for n in range(left, left - count, -1):
        found.append(found[-1] * (np.float32(n - 1) / np.float32(n)))
    return [float(one) for one in found]


def _rates(life: Life, rate: float | None) -> Rates:
    """The rates as partial_fit derives them, from records of every class."""
    trainee = life.mind.trainee
    if rate is not None:
        return given_rates(life.learner, trainee, rate)
    by_class = [ids for k, ids in sorted(life.store.ledger.trainees.ids.items()) if k != NONE]
    turns = [ids[i] for i in range(max(map(len, by_class))) for ids in by_class if i < len(ids)]
    chosen = turns[: max(PROBES, life.mind.together)]
    found = {i: one for i, one in zip(chosen, life.store.fetch(chosen)) if one is not None}
    labels = np.array([life.store.ledger.records[i].label for i in found], np.int32)
    rows = tuple(a[:, None] for a in life.mind.arrays(list(found.values())))
    return derived_rates(life.learner, Feed(trainee, Source(rows), labels, cached=True))


def _guards(life: Life, ids: list[int]) -> tuple[list[bytes], list[int]]:
    """The latents and labels of guards; a damaged one is a sample of zeros, which is hardly ever right."""
    empty = bytes(life.mind.latent_bytes)
    labels = [life.store.ledger.records[i].label for i in ids]
    return [one or empty for one in life.store.fetch(ids)], labels


def some(life: Life, bout: Bout, count: int) -> None:
    """The next lessons of the bout."""
    ledger, ids, latents = life.store.ledger, [], []
    for _ in range(count):
        record = ledger.lesson()
        data = life.store.fetch([record.id])[0] if record else None
        if record and data is not None:
            ids.append(record.id)
            latents.append(data)
        elif record:
            life.damaged(record.id)
    whole = len(ids) // life.mind.together * life.mind.together
    labels = [ledger.records[i].label for i in ids]
    *rates, bout.rate = falling(bout.rate, bout.steps - bout.done, count)
    if whole:
        losses = life.mind.learn(latents[:whole], labels[:whole], rates, bout.rows)
        bout.losses.append(float(np.sum(losses, dtype=np.float64)))
    life.learned(ids)
    bout.taught = sorted({*bout.taught, *labels})
    bout.done += count


def end(life: Life, bout: Bout) -> Verdict:
    """Judge the bout."""
    ids = [i for i in bout.guards if i in life.store.ledger.records]
    shift_rows(life, bout.rows, -HANDICAP)
    leave_room(life, bout)
    after = life.mind.answers(*_guards(life, ids), life.mind.trainee)
    before = [bout.guards[i] for i in ids]
    broken = any(not np.isfinite(a).all() for a in life.mind.trainee.state().values() if a.dtype.kind == "f")
    kept = [life.store.ledger.records[i] for i in ids]
    votes = [Guard(b.right, a.right, r.uses > 0, b.sure, a.sure, r.label) for b, a, r in zip(before, after, kept)]
    worse = broken or is_worse(votes)
    faded = not worse and fades(life, bout)
    if faded:
        put_back(life, bout)
    right = ([v.before for v in votes], [v.before if faded else v.after for v in votes])
    unseen, stayed = unseen_harm(life, bout.rows), stays(life, bout.rows) if faded else ""
    return Verdict(worse, *right, [life.word(r.label) for r in kept], unseen, stayed)


def leave_room(life: Life, bout: Bout) -> None:
    """Lower the bias of the new class until it takes no kept sample from others."""
    new = bout.rows or new_class(life, bout.taught)
    bout.room = life.record.room
    shift_rows(life, [k for k in bout.lent if k not in new], bout.room)  # it had no lesson after all
    for k in new:  # one at most
        bout.room = float(room(life, k, life.mind.trainee))
        shift_rows(life, [k], bout.room)


def fades(life: Life, bout: Bout) -> bool:
    """Does a class whose row learned alone recognise fewer of its kept samples than before?"""
    ids = [i for i in bout.own if i in life.store.ledger.records]
    after = life.mind.answers(*_guards(life, ids), life.mind.trainee)
    return sum(a.right for a in after) < sum(bout.own[i].right for i in ids)


def put_back(life: Life, bout: Bout) -> None:
    """The rows that learned alone as they were before the bout."""
    bout.room = life.record.room if bout.lent else 0.0
    before, now = life.learner.device.state(), life.mind.trainee.state()
    made = {part: now[part].copy() for part in HEAD_ROWS}
    for part in HEAD_ROWS:
        made[part][bout.rows] = before[part][bout.rows]
    life.mind.trainee.load_arrays(made)


def result(bout: Bout, steps: int, judged: Verdict | None, **more) -> Rehearsed:
    """What to tell about this call."""
    loss = sum(bout.losses) / steps if steps else None
    found = Rehearsed(steps=steps, finished=judged is not None, loss=loss, **more)
    if judged is None:
        return found
    found = replace(found, rolled_back=judged.worse, guards=len(judged.after), lost=judged.lost.total())
    if judged.after:
        found = replace(found, before=float(np.mean(judged.before)), after=float(np.mean(judged.after)))
    return replace(found, note="; ".join(filter(None, (found.note, judged.words))))
