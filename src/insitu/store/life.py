"""The life of a learner on this machine: it collects samples, learns from them in bouts, and survives power cuts.

    learner.keep("life")                      a folder: the store, and two banks for checkpoints
    id = learner.observe(x)                   what the sensor sees
    learner.label(id, "wave")                 a label that comes later
    learner.rehearse(seconds=5)               learn a little, with replay; guards decide whether it is taken over

rules.py says what is kept and learned, records.py keeps it, bout.py learns, banks.py makes checkpoints. A checkpoint is
a bank and then the store's own transaction that names it: a cut before that leaves the old state and the old store, a
cut after it the new ones.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from insitu.data import Samples, as_inputs
from insitu.data.arguments import byte_count, number, optional
from insitu.errors import DataError, LearningWarning
from insitu.graph.classes import word
from insitu.learner.rows import class_number, forget_class, head_rows, rows_in_use, set_row, set_rows, untouched_rows
from insitu.store import bout as bouts
from insitu.store.banks import IN_A_BOUT, RESTING, SEALED, Checkpoint, erase_banks, read_banks, write_bank
from insitu.store.bout import CHUNK, Rehearsed
from insitu.store.drift import COLLECT, Drift, group_means, worths
from insitu.store.lock import Lock
from insitu.store.mind import Mind
from insitu.store.power import Condition, refusal
from insitu.store.record import LifeRecord, from_json
from insitu.store.records import QUOTA, Arrival, Shape, open_store
from insitu.store.rules import NONE
from insitu.store.spread import Spread, spread_bytes
from insitu.training.head import HEAD, UNUSED
from insitu.training.newcomer import Row, discriminant, row_from_mean

if TYPE_CHECKING:
    from insitu.learner import Learner

DRIFT = "drift of latents"  # a fact of the store; an older life has followed its features, and begins anew
WATTS = 4.0  # of a small Linux board that computes: energy is an estimate


class Life:
    """A learner with a store. Made by `Learner.keep`."""

    _spread_changed = False

    def __init__(self, learner: Learner, path: str | Path | None = None, *, quota: int | str = QUOTA,
                 count: int | None = None, rule: str = "balanced", key: bytes | None = None, raw: bool = False,
                 when: Condition | None = None, watts: float = WATTS, covariance: bool = False):  # fmt: skip
        self.learner, self.when, self.watts = learner, when, number(watts, "watts")
        self.folder = None if path is None else _folder(path)
        self._lock = Lock(self.folder / "lock") if self.folder else None
        try:
            self.mind = Mind(learner)
            beside = spread_bytes(self.mind.features, byte_count(quota, "quota") or 0) if covariance else 0
            shape = Shape(self.mind.latent_bytes, self.mind.raw_bytes if raw else 0, self.mind.features,
                          learner.classes, self.mind.model, beside)  # fmt: skip
            self.store = open_store(self.folder and self.folder / "store.db", shape, quota=quota, count=count,
                                    rule=rule, key=key)  # fmt: skip
            self.drift_, self._used, self.record = Drift(), set[int](), LifeRecord()
            self.spread = Spread(self.mind.features) if beside else None
            self._resume()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
        if self._lock:
            self._lock.release()

    # beginning --------------------------------------------------------------------------------

    def _resume(self) -> None:
        """Go on where the last process stopped; a new life begins with the learner as it is."""
        found = self.store.fact("life")
        points, broken = read_banks(self.folder) if self.folder else ([], 0)
        if found is None and not points and not broken:
            self._collect_lately()
            return self.checkpoint()
        if found is not None:
            self.record = from_json(found, self._where)
            self.drift_ = Drift.from_bytes(self.store.fact(DRIFT) or b"")
            self.spread = self.spread and Spread.from_bytes(self.mind.features, self.store.fact("spread"))
        return self._take(points, found is None, broken)

    @property
    def _where(self) -> str:
        return str(self.folder or "store")

    def _take(self, points: list[Checkpoint], alone: bool, broken: int) -> None:
        """The state of the checkpoint that belongs to the store; another one if that is damaged."""
        wanted = None if alone else self.record.sequence
        point = next((p for p in points if wanted in (None, p.sequence)), None)
        if point is None and points:
            point = points[-1]
            warnings.warn(
                f"{self._where}: a checkpoint is damaged; the other bank's is used", LearningWarning, stacklevel=5
            )
        if point is None:
            hint = "remove bank0 and bank1 to begin with the learner as it is; the samples stay"
            raise DataError(f"both checkpoints are damaged or missing ({broken} damaged)", where=self._where, hint=hint)
        self._load(point, alone)

    def _load(self, point: Checkpoint, alone: bool) -> None:
        layout = self.learner.program.state
        assert layout is not None  # a learner has a state
        if point.model != layout.model:
            raise DataError("belongs to another model or scheme", where=self._where, hint="another folder")
        payload = self.store.seal.open(point.payload, "bank") if point.kind & SEALED else point.payload
        if payload is None:
            raise DataError("the key is wrong", where=self._where, hint="key=... as it was when the life began")
        size = layout.bytes
        own = int.from_bytes(payload[size : size + 4], "little")
        own_end = size + 4 + own
        self.learner.device.load_arrays(layout.unpack(payload[:size]))
        if alone or point.sequence != self.record.sequence:
            self.record, sequence = from_json(payload[size + 4 : own_end], self._where), point.sequence
            self.record.sequence = sequence
        self.learner.known = self.record.known
        self._rename()
        if self.record.bout and point.kind & IN_A_BOUT:
            self.mind.trainee.load_arrays(layout.unpack(payload[own_end : own_end + size]))
        else:
            self.record.bout = None
        self._restore_rows()
        self.mind.follow()

    def _rename(self) -> None:
        if any(self.record.names) and len(self.record.names) == self.learner.classes:
            self.learner.rename(tuple(self.record.names))

    def _collect_lately(self) -> None:
        """A life that begins after `fit` begins with a few samples of each class it was fitted to, and one that begins
        after `add_class`, or with an untrained head, with classes whose rows are still to be made."""
        for k in untouched_rows(self.learner, all_of_them=self.spread is not None):
            set_row(self.learner, k, np.zeros(1, np.float32), UNUSED)
            self.record.fresh.append(k)
        if self.learner.lately is not None and self.learner.lately.labels is not None:
            self.observe_all(self.learner.lately, self.learner.lately.labels.tolist())
        for k, mean in self.learner.seen.means.items():
            if k not in self.store.means.means:
                self.store.means.take(k, mean, self.learner.seen.counts[k])
                self.store.touch(k)

    # collecting -------------------------------------------------------------------------------

    def observe(self, x: Any, label: Any = None) -> int | list[int]:
        """Samples that the device sees, with or without labels; returns their ids (of one sample, its id)."""
        data = Samples(as_inputs(x if isinstance(x, tuple) else (x,), self.learner.graphs["predict"]))
        single = len(data) == 1 and (label is None or np.ndim(label) == 0)
        given = [label] * len(data) if label is None or np.ndim(label) == 0 else list(label)
        if len(given) != len(data):
            raise DataError(f"{len(data)} samples, but {len(given)} labels")
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
        with self.learner._changing, self.store.changing():
            self.mind.follow()
            logits, features = self.mind.recall(latents)
            worth, sure = worths(logits)
            found = self.store.add(latents, labels, worth.tolist(), raws)
            for groups, confidence in zip(group_means(self.mind.values(latents)), sure):
                self.drift_.see(groups, confidence)
            told = {k for a, k, f in zip(found, labels, features) if a.told and self._mean(k, f)}
            self._make_rows(told)
            self._remember()
        return found

    def _number(self, label: Any) -> int:
        return NONE if label is None else class_number(self.learner, label if isinstance(label, str) else int(label))

    def word(self, k: int) -> str:
        return word(self.learner.names, k)

    def _mean(self, label: int, features: np.ndarray) -> bool:
        before, after = self.store.means.see(label, features)
        if self.spread:
            self.spread.see(before, after)
            self._spread_changed = True
        self.store.touch(label)
        return True

    def label(self, id: int, label: Any) -> bool:
        """Tell the class of a kept sample; returns whether it is still kept. A label may be corrected."""
        k = self._number(label)
        if k == NONE:
            raise DataError("a label is a class, by name or number", where=f"record {id}")
        with self.learner._changing, self.store.changing():
            if id not in self.store.ledger.records:
                raise DataError(f"there is no record {id}", where=self._where, hint="it gave way to others")
            if self.store.ledger.records[id].label == k:
                return True
            (latent,) = self.store.fetch([id])
            if latent is None:
                self.damaged(id)
                return False
            self.mind.follow()
            self._mean(k, self.mind.recall([latent])[1][0])
            kept = self.store.label(id, k)
            self._make_rows({k})
            self._remember()
            return kept

    def asks(self, n: int = 1) -> list[int]:
        """The ids of kept samples whose label would help most."""
        return self.store.ledger.asks(n)

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
            wide = self.learner.classes
            row = add_class(self.learner, name)
            if self.learner.classes != wide:
                set_row(self.learner, row, np.zeros(1, np.float32), UNUSED)
                self.mind = Mind(self.learner)
            self.record.fresh.append(row)
            with self.store.changing(durable=True):
                self.store.belong(self.mind.model)
                self.checkpoint()
            return row

    def forget(self, name: Any) -> int:
        """Remove a class with its samples, guards, mean and counts; returns how many records were dropped."""
        with self.learner._changing:
            row = forget_class(self.learner, name)
            if self.record.bout:
                self._abandon()
            self.record.fresh = [k for k in self.record.fresh if k != row]
            dropped = len(self.store.forget(row))
            self.checkpoint()
            self.checkpoint()  # in both banks: neither has the class's row
            self.store.base.settle()
            return dropped

    def _make_rows(self, told: set[int]) -> None:
        """Rows of classes that were added and have new labels: from their means, until they are trained."""
        if told & set(self.record.fresh) and not self._discriminate():
            for k, row in self._rows_apart(told):
                self._set_row(k, *row)
                self.store.keep_fact(f"row {k}", np.append(*row).astype(np.float32).tobytes())

    def _rows_apart(self, told: set[int]) -> Iterator[tuple[int, Row]]:
        """One after the other, beside all that are there, as a microcontroller does."""
        for k in sorted(told & set(self.record.fresh)):
            weight, bias = head_rows(self.learner) or (np.zeros(0), np.zeros(0))
            used, means = rows_in_use(self.learner), self.store.means.means
            old = [j for j in sorted(means) if j != k and used[j]]
            yield k, row_from_mean(means[k], [means[j] for j in old], [(weight[j], bias[j]) for j in old])

    @property
    def _trained(self) -> bool:
        """Does any class have a trained row? Such rows do not compare with those of a discriminant."""
        return bool(set(np.flatnonzero(rows_in_use(self.learner)).tolist()) - set(self.record.fresh))

    def _discriminate(self) -> bool:
        """All rows anew from the means and the covariance, which has changed for all; False if that is not the way."""
        means = self.store.means
        known = [k for k in sorted(self.record.fresh) if k in means.means]
        metric = self.spread and self.spread.metric(sum(means.counts.values()), len(means.counts))
        if metric is None or not known or self._trained:
            return False
        set_rows(self.learner, known, *discriminant([means.means[k] for k in known], metric))
        self.mind.follow()
        return True

    def _set_row(self, k: int, weight: np.ndarray, bias: np.float32) -> None:
        set_row(self.learner, k, weight, bias)
        if self.record.bout:
            state, now = self.mind.trainee.state(), self.learner.device.state()
            names = [n for n in state if n.split(".")[0] == HEAD and n in now and len(state[n]) > k]
            for name in names:
                state[name][k] = now[name][k]
            self.mind.trainee.load_arrays({name: state[name] for name in names})
        self.mind.follow()

    def _restore_rows(self) -> None:
        """Rows that were made since the last checkpoint."""
        if self._discriminate():
            return
        for k in sorted(self.record.fresh):
            row = self.store.fact(f"row {k}")
            if row is not None:
                values = np.frombuffer(row, np.float32)
                self._set_row(k, values[:-1], values[-1])

    # learning ---------------------------------------------------------------------------------

    def rehearse(self, steps: int | None = None, seconds: float | None = None, energy_mj: float | None = None,
                 rate: float | None = None, partial: bool = False) -> Rehearsed:  # fmt: skip
        """Learn from the store: new samples first, the others in turn, all classes alike."""
        optional(steps, "steps", 1)
        for value, name in ((seconds, "seconds"), (energy_mj, "energy_mj"), (rate, "the learning rate")):
            if value is not None:
                number(value, name)
        with self.learner._changing:
            self._check_base()
            if (why := refusal(self.when)) or (not self.record.bout and (why := bouts.obstacle(self, partial))):
                return Rehearsed(note=why, finished=self.record.bout is None)
            bout = self.record.bout or self._begin(steps, rate)
            return self._some(bout, _shortest(seconds, energy_mj, self.watts))

    def _begin(self, steps: int | None, rate: float | None) -> bouts.Bout:
        made = self.record.bout = bouts.begin(self, steps, rate)
        return made

    def _check_base(self) -> None:
        """A bout whose learner was changed meanwhile, by `fit` or `load`, is given up."""
        if self.mind.follow() and self.record.bout:
            self._abandon()

    def _abandon(self) -> None:
        self.record.bout, self.record.abandoned = None, self.record.abandoned + 1

    def _some(self, bout: bouts.Bout, limit: float) -> Rehearsed:
        """Lessons until the bout is finished or the time is over; then judge, and save."""
        start, cpu, first, why = time.monotonic(), time.process_time(), bout.done, ""
        bout.losses = []
        chunk = -(-CHUNK // self.learner.batch) * self.learner.batch
        while not bout.finished and not why:
            bouts.some(self, bout, min(chunk, bout.steps - bout.done))
            over = time.monotonic() - start >= limit
            why = "" if bout.finished else "out of time" if over else refusal(self.when)
        judged = self._end(bout) if bout.finished else None
        spent = 1000 * self.watts * (time.process_time() - cpu)
        self.record.energy_mj += spent
        self.checkpoint()
        return bouts.result(
            bout, bout.done - first, judged, seconds=time.monotonic() - start, energy_mj=spent, note=why
        )

    def _end(self, bout: bouts.Bout) -> tuple[bool, list[bool], list[bool]]:
        judged = worse, before, after = bouts.end(self, bout)
        record, self._used = self.record, self._used | set(self.store.ledger.judged(bout.guards))
        record.bout, record.bouts = None, record.bouts + 1
        record.rolled_back += worse
        record.pace = record.pace / 2 if worse else min(1.0, record.pace * 2)
        record.guard_before = float(np.mean(before)) if before else None
        record.guard_after = float(np.mean(before if worse else after)) if after else None
        if not worse:
            self.learner.device.load_arrays(self.mind.trainee.state())
        return judged

    def learned(self, ids: list[int], labels: list[int]) -> None:
        """These records were learned from."""
        self._used |= set(ids)
        self.record.steps += len(ids)
        self.record.fresh = [k for k in self.record.fresh if k not in labels]
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

    def checkpoint(self) -> None:
        """Save everything: when this returns, a power cut loses nothing of it."""
        with self.learner._changing:
            self.record.sequence = self.record.sequence + 1 & 0xFFFFFFFF
            self.record.names, self.record.known = list(self.learner.names), self.learner.known
            if self.folder:
                write_bank(self.folder, self._point())
            with self.store.changing(durable=True):
                self.store.used(i for i in self._used if i in self.store.ledger.records)
                self._remember()
            self._used.clear()
            self.mind.follow()

    def _point(self) -> Checkpoint:
        layout = self.learner.program.state
        assert layout is not None
        record = self.record.to_json()
        payload = layout.pack(self.learner.device.state()) + len(record).to_bytes(4, "little") + record
        kind = RESTING
        if self.record.bout:
            kind, payload = IN_A_BOUT, payload + layout.pack(self.mind.trainee.state())
        if self.store.seal.locked:
            kind, payload = kind | SEALED, self.store.seal.seal(payload, "bank")
        return Checkpoint(layout.model, self.record.sequence, payload, kind)

    def erase(self) -> None:
        """Delete every sample, mean and checkpoint. What the learner has learned stays in its weights."""
        with self.learner._changing:
            self.store.erase()
            self.drift_, self.record = Drift(), LifeRecord()
            self.spread = self.spread and Spread(self.mind.features)
            self._spread_changed = True
            self._used.clear()
            if self.folder:
                erase_banks(self.folder)
            self.checkpoint()

    def export(self, path: str | Path) -> Path:
        """Write all records to an .npz: latents (and raw samples) as bytes, labels, names, ids, guards, worths."""
        from insitu.store.export import export

        return export(self, path)

    # looking ----------------------------------------------------------------------------------

    def drift(self) -> float:
        """How far the samples of now are from the first 64: above 1, collect labels for the new ones."""
        return self.drift_.value

    def statistics(self) -> dict[str, Any]:
        """What the life is like now."""
        ledger, record = self.store.ledger, self.record
        labels = {k: 0 for k in range(self.learner.classes) if rows_in_use(self.learner)[k]}
        for r in ledger.records.values():
            if r.label != NONE:
                labels[r.label] = labels.get(r.label, 0) + 1
        return {
            "records": len(self.store), "capacity": self.store.capacity, "guards": ledger.guards.count,
            "unlabelled": len(ledger.trainees.ids.get(NONE, ())), "observed": ledger.next_id - 1,
            "classes": {self.word(k): n for k, n in sorted(labels.items())}, "file_bytes": self.store.file_bytes(),
            "quota_bytes": self.store.quota, "record_bytes": self.store.geometry.record,
            "bouts": record.bouts, "rolled_back": record.rolled_back, "abandoned": record.abandoned,
            "steps": record.steps, "in_a_bout": record.bout is not None, "guard_before": record.guard_before,
            "guard_after": record.guard_after, "drift": self.drift(), "confidence": self.drift_.confidence,
            "collect": self.drift() > COLLECT, "damaged": record.damaged, "energy_mj": record.energy_mj,
            "checkpoints": record.sequence,
        }  # fmt: skip


def _bytes_of(data: Samples) -> list[bytes]:
    """Each sample as it came."""
    return [b"".join(x[i].tobytes() for x in data.inputs) for i in range(len(data))]


def _folder(path: str | Path) -> Path:
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise DataError(f"cannot be made: {e.strerror or e}", where=str(path), hint="a folder for this life") from e
    if not os.access(folder, os.W_OK):
        raise DataError("cannot be written: it is read-only", where=str(path), hint="another folder")
    return folder


def _shortest(seconds: float | None, energy_mj: float | None, watts: float) -> float:
    """The seconds that a call may take."""
    energy = np.inf if energy_mj is None else energy_mj / max(1000 * watts, 1e-9)
    return float(min(np.inf if seconds is None else seconds, energy))
