"""What a life is like now, in numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from insitu.learner.rows import rows_in_use
from insitu.store.drift import COLLECT
from insitu.store.rules import NONE

if TYPE_CHECKING:
    from insitu.store.life import Life


def statistics(life: Life) -> dict[str, Any]:
    """Samples by class, guards, bouts, drift, bytes."""
    store, record, drift = life.store, life.record, life.drift_
    ledger = store.ledger
    return {
        "records": len(store), "capacity": store.capacity, "guards": ledger.guards.count,
        "unlabelled": len(ledger.trainees.ids.get(NONE, ())), "observed": ledger.next_id - 1,
        "classes": {life.word(k): n for k, n in sorted(_labelled(life).items())}, "file_bytes": store.file_bytes(),
        "quota_bytes": store.quota, "record_bytes": store.geometry.record,
        "bouts": record.bouts, "rolled_back": record.rolled_back, "abandoned": record.abandoned,
        "steps": record.steps, "in_a_bout": record.bout is not None, "guard_before": record.guard_before,
        "guard_after": record.guard_after, "drift": drift.value, "confidence": drift.confidence,
        "collect": drift.value > COLLECT, "damaged": record.damaged, "energy_mj": record.energy_mj,
        "checkpoints": record.sequence,
    }  # fmt: skip


def life_rows(life: Life) -> list[tuple[str, str]]:
    """A life's description, line by line."""
    now = statistics(life)
    by_class = ", ".join(f"{name} {n}" for name, n in now["classes"].items())
    collect = ": collect labels" if now["collect"] else ""
    return [
        ("of", life.learner.graphs["predict"].name),
        ("in", str(life.folder or "memory")),
        ("samples", f"{now['records']:,} of at most {now['capacity']:,}; {now['unlabelled']:,} without a label"),
        ("classes", by_class),
        ("guards", f"{now['guards']:,}"),
        ("bouts", f"{now['bouts']:,}, {now['rolled_back']:,} of them undone"),
        ("drift", f"{now['drift']:.2f}{collect}"),
    ]


def _labelled(life: Life) -> dict[int, int]:
    """Class -> its samples."""
    used = rows_in_use(life.learner)
    found = {k: 0 for k in range(life.learner.classes) if used[k]}
    for r in life.store.ledger.records.values():
        if r.label != NONE:
            found[r.label] = found.get(r.label, 0) + 1
    return found
