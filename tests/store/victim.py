"""A process that lives in a folder until it is killed: observes, rehearses, adds a class; always the same life.

    python -m tests.store.victim LEARNER FOLDER STEPS

Everything it does is a function of what its life has seen so far, so a life that was cut goes on exactly like one that
was not. When it has lived STEPS steps it prints a digest of its state and its records. It imports no framework.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import numpy as np

import insitu

CLASSES, WIDTH = 4, 6
ROOM, ADDED = 40, 30  # samples that are kept; that were seen when a class is added


def points(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points whose class is the largest of their first four coordinates."""
    x = np.random.default_rng(seed).normal(size=(count, WIDTH)).astype(np.float32)
    return x, x[:, :CLASSES].argmax(1)


def live(one: insitu.Learner, folder: Path, steps: int) -> insitu.Learner:
    """Live until this many samples were observed. A bout comes after every tenth, and goes on after a cut."""
    (x, y), (first, labels) = points(steps + 1, 0), points(40, 1)
    life = one.keep(folder, count=ROOM)
    while (seen := life.store.ledger.next_id - 1) < 2 * CLASSES:  # every class has samples from the start
        k = seen // 2  # a sample that was shown before a cut is not shown again: drift counts what is seen
        one.observe(first[labels == k][:2], [k, k])
    while (seen := life.store.ledger.next_id - 1) < steps:
        if life.record.bout or (seen % 10 == 0 and life.record.bouts < seen // 10):
            one.rehearse(steps=48, seconds=0.0)  # many pauses: checkpoints in the middle of a bout
        elif seen >= ADDED and "new" not in one.names:
            one.add_class("new")
        else:
            label = CLASSES if seen >= ADDED and seen % 2 else int(y[seen])
            one.observe(x[seen], label if seen % 3 else None)
    while life.record.bout:
        one.rehearse(seconds=0.0)
    return one


def digest(one: insitu.Learner) -> str:
    """Of everything that must be the same."""
    ledger, store = one.life.store.ledger, one.life.store
    counts = [sorted(c.items()) for c in (ledger.labelled, ledger.levels, ledger.trainees.seen, ledger.guards.seen)]
    latents = [latent or b"damaged" for latent in store.fetch(sorted(ledger.records))]
    means = [store.means.means[k].tobytes() for k in sorted(store.means.means)]
    rows = repr([tuple(r) for r in sorted(ledger.records.values())]) + repr(counts)
    rows += repr((one.life.record.fresh, one.life.record.young))
    parts = (one.device.save_state(), rows.encode(), one.life.drift_.to_bytes(), *means, *latents)
    return hashlib.sha256(b"".join(parts)).hexdigest()


if __name__ == "__main__":
    print("born", flush=True)
    print(digest(live(insitu.open(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))), flush=True)
