"""One call of `rehearse`: a bout begins or goes on, until it is finished or the time is over; then it is judged.

bout.py has the bout itself.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from insitu.data.arguments import number, optional
from insitu.store import bout as bouts
from insitu.store.bout import CHUNK, Bout, Rehearsed
from insitu.store.power import refusal
from insitu.store.rules import NONE
from insitu.store.verdict import Verdict

if TYPE_CHECKING:
    from insitu.store.life import Life


def rehearse(life: Life, steps: int | None, rate: float | None, partial: bool, limit: Limit) -> Rehearsed:
    """Learn as long as this limit allows."""
    life.catch_up()
    life.store.refresh()
    if (why := refusal(life.when)) or (not life.record.bout and (why := bouts.obstacle(life, partial))):
        return Rehearsed(note=why, finished=life.record.bout is None)
    bout = life.record.bout or bouts.begin(life, steps, rate)
    life.record.bout = bout
    return _some(life, bout, limit)


class Limit(NamedTuple):
    """The seconds that a call may take, and what to say if they are over."""

    seconds: float = np.inf
    note: str = ""


def check_asked(steps: int | None, seconds: float | None, energy_mj: float | None, rate: float | None,
                instructions: int | None = None) -> None:  # fmt: skip
    optional(steps, "steps", 1)
    optional(instructions, "instructions", 1)
    for value, name in ((seconds, "seconds"), (energy_mj, "energy_mj"), (rate, "the learning rate")):
        if value is not None:
            number(value, name)


def shortest(seconds: float | None, energy_mj: float | None, watts: float) -> Limit:
    """The budget that ends first."""
    found = [Limit()]
    if seconds is not None:
        found.append(Limit(float(seconds), f"out of time: {seconds:g} s"))
    if energy_mj is not None:
        found.append(Limit(energy_mj / max(1000 * watts, 1e-9), f"out of energy: {energy_mj:g} mJ (estimate)"))
    return min(found, key=lambda limit: limit.seconds)


def abandon(life: Life) -> None:
    life.record.bout, life.record.abandoned = None, life.record.abandoned + 1


def _some(life: Life, bout: Bout, limit: Limit) -> Rehearsed:
    """Lessons until the bout is finished or the time is over; then judge, and save."""
    start, cpu, first, why = time.monotonic(), time.process_time(), bout.done, ""
    bout.losses = []
    chunk = -(-CHUNK // life.learner.batch) * life.learner.batch
    while not bout.finished and not why:
        bouts.some(life, bout, min(chunk, bout.steps - bout.done))
        over = time.monotonic() - start >= limit.seconds
        why = "" if bout.finished else limit.note if over else refusal(life.when)
    judged = _end(life, bout) if bout.finished else None
    spent = 1000 * life.watts * (time.process_time() - cpu)
    life.record.energy_mj += spent
    life.checkpoint()
    seconds = time.monotonic() - start
    return bouts.result(bout, bout.done - first, judged, seconds=seconds, energy_mj=spent, note=why)


def _end(life: Life, bout: Bout) -> Verdict:
    """Take over a finished bout, or drop it."""
    judged, record = bouts.end(life, bout), life.record
    worse, before, after = judged.worse, judged.before, judged.after
    life.used |= set(life.store.ledger.judged(bout.guards))
    record.bout, record.bouts = None, record.bouts + 1
    record.rolled_back += worse
    record.pace = record.pace / 2 if worse else min(1.0, record.pace * 2)
    record.guard_before = float(np.mean(before)) if before else None
    record.guard_after = float(np.mean(before if worse else after)) if after else None
    if not worse:
        life.learner.device.load_arrays(life.mind.trainee.state())
        life.mind.follow()
        record.room = bout.room
        if set(record.fresh) & set(bout.taught):
            record.young = next(iter(bout.rows or bouts.new_class(life, bout.taught)), NONE)
        record.fresh = [k for k in record.fresh if k not in bout.taught]
    return judged
