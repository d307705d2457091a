"""The life of a learner on this machine: it collects samples, learns from them in bouts, and survives power cuts.

    learner.keep("life")                      a folder: the store, and two banks for checkpoints
    id = learner.observe(x)                   what the sensor sees
    learner.label(id, "wave")                 a label that comes later
    learner.rehearse(seconds=5)               learn a little, with replay; guards decide whether it is taken over

rules.py says what is kept and learned, records.py keeps it, rehearsing.py learns, banks.py makes checkpoints and
resuming.py goes on from them. A checkpoint is a bank and then the store's own transaction that names it: a cut before
that leaves the old state and the old store, a cut after it the new ones.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from insitu.data import Samples, as_inputs
from insitu.data.arguments import byte_count, number, optional, whole
from insitu.deploy.folder import LIFE
from insitu.errors import DataError
from insitu.graph.classes import word
from insitu.learner.rows import class_number, forget_class, head_rows, rows_in_use, set_row
from insitu.learner.shown import as_text
from insitu.store import rehearsing
from insitu.store.banks import erase_banks, write_bank
from insitu.store.bout import Rehearsed
from insitu.store.class_rows import make_rows, rows_changed
from insitu.store.drift import Drift, group_means, worths
from insitu.store.lock import Lock
from insitu.store.mind import Mind
from insitu.store.pages import FEWEST
from insitu.store.power import Condition, checked
from insitu.store.record import LifeRecord
from insitu.store.records import QUOTA, Arrival, Shape, Store, open_store
from insitu.store.rehearsing import abandon, check_asked, shortest
from insitu.store.resuming import DRIFT, point_of, resume
from insitu.store.rules import NONE, TYPICAL, is_id, no_record, why_missing
from insitu.store.spread import Spread, spread_bytes
from insitu.store.statistics import life_rows, statistics
from insitu.store.typical import Newcomer, head_alone, spared
from insitu.store.verdict import note_missing
from insitu.training.head import UNUSED

if TYPE_CHECKING:
    from insitu.learner import Learner

WATTS = 4.0  # of a small Linux board that computes: energy is an estimate


class Life:
    """A learner with a store. Made by `Learner.keep`."""

    _spread_changed = False
    _begun = False  # and not closed
    _owing = False  # a checkpoint has failed
    newcomer: Newcomer | None = None  # the sample that arrives

    def __init__(self, learner: Learner, path: str | Path | None = None, *, quota: int | str = QUOTA,
                 count: int | None = None, rule: str = TYPICAL, key: bytes | None = None, raw: bool = False,
                 when: Condition | None = None, watts: float = WATTS, covariance: bool = False,
                 cost: float = 0.0):  # fmt: skip
        self.learner: Learner = learner
        self.when: Condition | None = checked(when)
        optional(count, "count", FEWEST)
        self.watts, self.cost = number(watts, "watts"), number(cost, "cost", 1)
        self.folder: Path | None = None if path is None else _folder(path)
        self._lock = Lock(self.folder / "lock") if self.folder else None
        try:
            self.mind: Mind = Mind(learner)
            beside = spread_bytes(self.mind.features, byte_count(quota, "quota") or 0) if covariance else 0
            shape = Shape(self.mind.latent_bytes, self.mind.raw_bytes if raw else 0, self.mind.features,
                          learner.classes, self.mind.model, beside)  # fmt: skip
            place = self.folder and self.folder / LIFE
            self.store: Store = _opened(place, shape, self.mind.older, quota=quota, count=count, rule=rule, key=key)
            self.drift_: Drift = Drift()
            self.used: set[int] = set()
            self.record: LifeRecord = LifeRecord()
            self.spread: Spread | None = Spread(self.mind.features) if beside else None
            if head_alone(self):
                self.store.choose(partial(spared, self))
            resume(self)
            self._begun = True
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return as_text("insitu.Life", life_rows(self) if self._begun else [("is", "closed")])

    @property
    def where(self) -> str:
        """Its place, for messages."""
        return str(self.folder or "store")

    def close(self) -> None:
        """End it here; what `fit` or `load` changed is saved first."""
        try:
            if self._begun:
                self.catch_up()
        finally:
            self._begun = False
            if hasattr(self, "store"):
                self.store.close()
            if self._lock:
                self._lock.release()

    # collecting -------------------------------------------------------------------------------

    def observe(self, x: Any, label: Any = None) -> int | list[int]:
        """Samples that the device sees, with or without labels; returns their ids (of one sample, its id)."""
        data = Samples(as_inputs(x if isinstance(x, tuple) else (x,), self.learner.graphs["predict"]))
        single = len(data) == 1 and (label is None or np.ndim(label) == 0)
        given = [label] * len(data) if label is None or np.ndim(label) == 0 else list(label)
        if len(given) != len(data):
            raise DataError(f"{len(data)} samples, but {len(given)} labels")
        if not len(data):
            return []
        ids = [a.id for a in self.observe_all(data, [self._number(one) for one in given])]
        return ids[0] if single else ids

    def observe_all(self, data: Samples, labels: list[int]) -> list[Arrival]:
        """Checked samples, with class numbers or NONE."""
        with self.learner._changing:
            raws = _bytes_of(data) if self.store.shape.raw else None
            return self.observe_latents(self.mind.encode(data.inputs), labels, raws)

    def observe_latents(
        self, latents: list[bytes], labels: list[int], raws: list[bytes] | None = None
    ) -> list[Arrival]:
        """The same, from outputs of the frozen layers."""
        self.catch_up()
        with self.learner._changing, self.store.changing():
            self.mind.follow()
            logits, features = self.mind.recall(latents)
            worth, sure = worths(logits)
            each = zip(latents, labels, worth.tolist(), raws or [None] * len(latents), features)
            found = [self._arrive(*one) for one in each]
            for groups, confidence in zip(group_means(self.mind.values(latents)), sure):
                self.drift_.see(groups, confidence)
            make_rows(self, {k for a, k in zip(found, labels) if a.told})
            self._remember()
        return found

    def _arrive(self, latent: bytes, label: int, worth: int, raw: bytes | None, features: np.ndarray) -> Arrival:
        """One sample; the mean of its class follows."""
        self.newcomer = Newcomer(label, features, self.store.means.after(label, features))
        (found,) = self.store.add([latent], [label], [worth], None if raw is None else [raw])
        if found.told:
            self._mean(label, features)
        return found

    def _number(self, label: Any) -> int:
        """The number of a class that is in use, or was added; NONE without a label."""
        if label is None:
            return NONE
        k, names = class_number(self.learner, label), self.learner.names
        if not (rows_in_use(self.learner)[k] or k in self.record.fresh or (k < len(names) and names[k])):
            raise DataError(f"class {k} is not in use", hint="add_class(name) takes a free row of the head")
        return k

    def word(self, k: int) -> str:
        """The name of class k."""
        return word(self.learner.names, k)

    def _mean(self, label: int, features: np.ndarray) -> None:
        before, after = self.store.means.see(label, features)
        if self.spread:
            self.spread.see(before, after)
            self._spread_changed = True
        self.store.touch(label)

    def label(self, id: int, label: Any) -> bool:
        """Tell the class of a kept sample; returns whether it is still kept. A label may be corrected."""
        k = self._number(label)
        if k == NONE:
            raise DataError("a label is a class, by name or number", where=f"record {id}")
        self.catch_up()
        with self.learner._changing, self.store.changing():
            if not is_id(id) or id not in self.store.ledger.records:
                hint = why_missing(id, self.store.ledger.next_id - 1)
                raise DataError(no_record(id), where=self.where, hint=hint)
            if self.store.ledger.records[id].label == k:
                return True
            if self.record.bout:
                self.record.bout.guards.pop(id, None)  # it was asked about another label
                self.record.bout.own.pop(id, None)
            (latent,) = self.store.fetch([id])
            if latent is None:
                self.damaged(id)
                return False
            self.mind.follow()
            features = self.mind.recall([latent])[1][0]
            self._mean(k, features)
            self.newcomer = Newcomer(k, features, self.store.means.means[k])
            kept = self.store.label(id, k)
            make_rows(self, {k})
            self._remember()
            return kept

    def asks(self, n: int = 1) -> list[int]:
        """The ids of kept samples whose label would help most."""
        return self.store.ledger.asks(whole(n, "how many"))

    def damaged(self, id: int) -> None:
        """A record whose bytes have changed is dropped."""
        self.record.damaged += 1
        self.store.drop(id)

    # classes ----------------------------------------------------------------------------------

    def add_class(self, name: str) -> int:
        """A class by name: it takes part from its first labelled samples on."""
        from insitu.learner.growing import add_class

        with self.learner._changing:
            if head_rows(self.learner) is None:
                raise DataError("only a float head can take another class", hint='insitu.compile(..., head="float")')
            self.catch_up()
            note_missing(self)
            wide = self.learner.classes
            row = add_class(self.learner, name)
            if self.learner.classes != wide:
                set_row(self.learner, row, np.zeros(1, np.float32), UNUSED)
                if self.record.bout:  # its trainee is a program with fewer rows
                    abandon(self)
                self.mind = Mind(self.learner)
            before = replace(self.record)
            self.record.fresh = [*self.record.fresh, row]
            try:
                with self.store.changing(durable=True):
                    self.store.belong(self.mind.model)
                    self.checkpoint()
            except BaseException:  # a full disk: what could not be saved is not there
                forget_class(self.learner, row)
                self.record = before
                self.mind.follow()
                raise
            return row

    def forget(self, name: Any) -> int:
        """Remove a class with its samples, guards, mean and counts; returns how many records were dropped."""
        with self.learner._changing:
            self.catch_up()
            state, names, record = self.learner.device.state(), self.learner.names, replace(self.record)
            row = forget_class(self.learner, name)
            try:
                with self.store.changing(durable=True):
                    dropped = self._forget(row)
            except BaseException:  # a full disk: the class is still there, with all of its samples
                self.learner.device.load_arrays(state)
                self.learner.rename(names)
                self.record = record
                self.mind.follow()
                raise
            self.checkpoint()  # in the other bank, too: neither has the class's row
            self.store.base.settle()
            return dropped

    def _forget(self, row: int) -> int:
        self.mind.follow()
        if self.record.bout:
            abandon(self)
        self.record.taught_elsewhere({row})
        dropped = len(self.store.forget(row))
        self.checkpoint()
        return dropped

    def forget_unlabelled(self) -> int:
        """Drop the samples without a label; returns how many they were."""
        with self.learner._changing:
            self.catch_up()
            dropped = len(self.store.forget(NONE))
            self.store.base.settle()
            return dropped

    # learning ---------------------------------------------------------------------------------

    def rehearse(self, steps: int | None = None, seconds: float | None = None, energy_mj: float | None = None,
                 rate: float | None = None, partial: bool = False,
                 instructions: int | None = None) -> Rehearsed:  # fmt: skip
        """Learn from the store: new samples first, the others in turn, all classes alike."""
        check_asked(steps, seconds, energy_mj, rate, instructions)
        if instructions is not None:
            raise DataError("instructions are counted on boards, not on this machine", hint="give seconds or energy_mj")
        with self.learner._changing:
            return rehearsing.rehearse(self, steps, rate, partial, shortest(seconds, energy_mj, self.watts))

    def learned(self, ids: list[int]) -> None:
        """These records were learned from."""
        self.used |= set(ids)
        self.record.steps += len(ids)
        known = self.learner.known
        self.learner.known = replace(known, samples=known.samples + len(ids))

    # saving -----------------------------------------------------------------------------------

    def _remember(self) -> None:
        """The life's own record, in the store."""
        self.record.names, self.record.known = list(self.learner.names), self.learner.known
        self.store.keep_fact("life", self.record.to_json())
        self.store.keep_fact(DRIFT, self.drift_.to_bytes())
        if self.spread and self._spread_changed:
            self.store.keep_fact("spread", self.spread.to_bytes())
            self._spread_changed = False

    def catch_up(self) -> None:
        """Save what `fit` or `load` changed, or what a full disk did not take."""
        with self.learner._changing:
            if self._owing or self.mind.behind:
                self.checkpoint()

    def checkpoint(self) -> None:
        """Save everything: when this returns, a power cut loses nothing of it."""
        with self.learner._changing:
            self._notice()
            self._owing, before = True, self.record.sequence
            self.record.sequence = before + 1 & 0xFFFFFFFF
            try:
                self._save()
            except BaseException:  # the next one must not overwrite the bank that the store names
                self.record.sequence = before
                raise
            self._owing = False
            self.used.clear()
            self.mind.follow()

    def _save(self) -> None:
        self.record.names, self.record.known = list(self.learner.names), self.learner.known
        if self.folder:
            write_bank(self.folder, point_of(self))
        with self.store.changing(durable=True):
            self.store.used(i for i in self.used if i in self.store.ledger.records)
            self._remember()

    def _notice(self) -> None:
        """What `fit` or `load` has changed: a bout that began before is over, and classes that were taught are no
        longer fresh, so that their rows do not follow their means again."""
        if self.mind.behind:
            taught = rows_changed(self)
            self.mind.follow()
            self.record.taught_elsewhere(taught)
            if self.record.bout:
                abandon(self)

    def erase(self) -> None:
        """Delete every sample, mean and checkpoint. What the learner has learned stays in its weights."""
        with self.learner._changing:
            self.store.erase()
            self.drift_, self.record = Drift(), LifeRecord(fresh=self.record.fresh)  # their rows are still to be made
            self.spread = self.spread and Spread(self.mind.features)
            self._spread_changed = True
            self.used.clear()
            if self.folder:
                erase_banks(self.folder)
            self.checkpoint()

    def export(self, path: str | Path) -> Path:
        """Write all records to an .npz: latents (and raw samples) as bytes, labels, names, ids, guards, worths."""
        from insitu.store.export import export

        return export(self, path)

    # looking ----------------------------------------------------------------------------------

    def drift(self) -> float:
        """How far the samples of now are from the first 64: above 0.5, collect labels for the new ones."""
        return self.drift_.value

    def statistics(self) -> dict[str, Any]:
        """What the life is like now."""
        return statistics(self)


def _opened(place: Path | None, shape: Shape, older: str, **options: Any) -> Store:
    """The store; one that has its model by the mark of older versions belongs to this one from now on."""
    try:
        return open_store(place, shape, **options)
    except DataError:
        if older == shape.model:
            raise
    store = open_store(place, replace(shape, model=older), **options)
    with store.changing(durable=True):
        store.belong(shape.model)
    return store


def _bytes_of(data: Samples) -> list[bytes]:
    """Each sample as it came."""
    return [b"".join(x[i].tobytes() for x in data.inputs) for i in range(len(data))]


def _folder(path: str | Path) -> Path:
    if not str(path):
        raise DataError("the folder has no name", hint="keep() lives in memory, without a folder")
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise DataError(f"cannot be made: {e.strerror or e}", where=str(path), hint="a folder for this life") from e
    if not os.access(folder, os.W_OK):
        raise DataError("cannot be written: it is read-only", where=str(path), hint="another folder")
    return folder
