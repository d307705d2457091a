"""Where a life goes on: from its checkpoints and its store, or from the learner as it is if it begins now.

A checkpoint holds the learner's state, the life's own record, and in a bout the trainee's state. banks.py writes and
reads them as bytes, life.py says when.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from insitu.codegen.state import StateLayout
from insitu.errors import DataError
from insitu.learner.rows import set_row, untouched_rows
from insitu.store.banks import IN_A_BOUT, RESTING, SEALED, Checkpoint, read_banks
from insitu.store.class_rows import restore_rows
from insitu.store.drift import Drift
from insitu.store.mind import Mind
from insitu.store.record import from_json
from insitu.store.rules import NONE
from insitu.store.spread import Spread
from insitu.terminal.warned import warn
from insitu.training.head import UNUSED

if TYPE_CHECKING:
    from insitu.store.life import Life

DRIFT = "drift of latents"  # a fact of the store; an older life has followed its features, and begins anew


def resume(life: Life) -> None:
    """Go on where the last process stopped; a new life begins with the learner as it is."""
    found = life.store.fact("life")
    points, broken = read_banks(life.folder) if life.folder else ([], 0)
    if found is None and not points and not broken:
        _collect_lately(life)
        life.checkpoint()
        return
    if found is not None:
        life.record = from_json(found, life.where)
        _grow(life)
        life.drift_ = Drift.from_bytes(life.store.fact(DRIFT) or b"")
        life.spread = life.spread and Spread.from_bytes(life.mind.features, life.store.fact("spread"))
    _load(life, _chosen(life, points, found is None, broken), found is None)
    if life.store.trust.lost:
        _repair(life)


def _grow(life: Life) -> None:
    """A learner that had grown beyond the room it was compiled with grows again; names and rows come with the rest."""
    from insitu.learner.growing import add_class

    wide = len(life.record.names)
    if life.learner.classes >= wide:
        return
    words = (f"class {n}" for n in count() if f"class {n}" not in life.learner.names)
    while life.learner.classes < wide:
        add_class(life.learner, next(words))
    life.mind = Mind(life.learner)


def _collect_lately(life: Life) -> None:
    """A life that begins after `fit` begins with a few samples of each class it was fitted to, and one that begins
    after `add_class`, or with an untrained head, with classes whose rows are still to be made."""
    learner, means = life.learner, life.store.means
    for k in untouched_rows(learner, all_of_them=life.spread is not None):
        set_row(learner, k, np.zeros(1, np.float32), UNUSED)
        life.record.fresh.append(k)
    if learner.lately is not None and learner.lately.labels is not None:
        life.observe_all(learner.lately, learner.lately.labels.tolist())
    for k, mean in learner.seen.means.items():
        if k not in means.means:
            means.take(k, mean, learner.seen.counts[k])
            life.store.touch(k)


def _chosen(life: Life, points: list[Checkpoint], alone: bool, broken: int) -> Checkpoint:
    """The checkpoint that belongs to the store; another one if that is damaged."""
    wanted = None if alone else life.record.sequence
    point = next((p for p in points if wanted in (None, p.sequence)), None)
    if point is None and points:
        point = points[-1]
        words = f"{life.where}: a checkpoint is damaged; the other bank's is used"
        warn(words)
    if point is None:
        hint = "remove bank0 and bank1 to begin with the learner as it is; the samples stay"
        raise DataError(f"both checkpoints are damaged or missing ({broken} damaged)", where=life.where, hint=hint)
    return point


def _load(life: Life, point: Checkpoint, alone: bool) -> None:
    """The learner's state, the record and a bout's trainee as they were at this checkpoint."""
    layout, payload = _layout(life), _opened(life, point)
    size = layout.bytes
    own_end = size + 4 + int.from_bytes(payload[size : size + 4], "little")
    life.learner.device.load_arrays(layout.unpack(payload[:size]))
    if alone or point.sequence != life.record.sequence:
        life.record = from_json(payload[size + 4 : own_end], life.where)
        life.record.sequence = point.sequence
    life.learner.known = life.record.known
    _rename(life)
    if life.record.bout and point.kind & IN_A_BOUT:
        life.mind.trainee.load_arrays(layout.unpack(payload[own_end : own_end + size]))
    else:
        life.record.bout = None
    restore_rows(life)
    life.mind.follow()


def _repair(life: Life) -> None:
    """Damaged rows of the store are gone: say so, and make the means of classes again whose rows are among them."""
    words = f"{life.where}: {life.store.trust.lost} rows of the store are damaged and were left out"
    warn(words)
    life.record.damaged += life.store.trust.lost
    life.store.trust.lost = 0
    with life.store.changing():
        for k in {r.label for r in life.store.ledger.records.values()} - {NONE, *life.store.means.means}:
            _mean_again(life, k)
        life._remember()


def _mean_again(life: Life, k: int) -> None:
    """The mean of a class from the samples that are kept of it."""
    ids = [id for id, record in life.store.ledger.records.items() if record.label == k]
    latents = [one for one in life.store.fetch(ids) if one is not None]
    for features in life.mind.recall(latents)[1] if latents else ():
        life.store.means.see(k, features)
    life.store.touch(k)


def _layout(life: Life) -> StateLayout:
    layout = life.learner.program.state
    assert layout is not None  # a learner has a state
    return layout


def _opened(life: Life, point: Checkpoint) -> bytes:
    """The checkpoint's content; a DataError if it belongs to another model or key."""
    if point.model != _layout(life).model:
        raise DataError("belongs to another model or scheme", where=life.where, hint="another folder")
    payload = life.store.seal.open(point.payload, "bank") if point.kind & SEALED else point.payload
    if payload is None:
        raise DataError("the key is wrong", where=life.where, hint="key=... as it was when the life began")
    return payload


def _rename(life: Life) -> None:
    if any(life.record.names) and len(life.record.names) == life.learner.classes:
        life.learner.rename(tuple(life.record.names))


def point_of(life: Life) -> Checkpoint:
    """A checkpoint of the life as it is now."""
    layout, record = _layout(life), life.record.to_json()
    payload = layout.pack(life.learner.device.state()) + len(record).to_bytes(4, "little") + record
    kind = RESTING
    if life.record.bout:
        kind, payload = IN_A_BOUT, payload + layout.pack(life.mind.trainee.state())
    if life.store.seal.locked:
        kind, payload = kind | SEALED, life.store.seal.seal(payload, "bank")
    return Checkpoint(layout.model, life.record.sequence, payload, kind)
