"""Rows of the head for classes that were added and not yet trained: made from the means of their samples.

With a covariance (spread.py) and no trained row, all rows are a discriminant of the means; else each new row is made
beside those that are there, as a microcontroller does (training/newcomer.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from insitu.learner.rows import head_rows, rows_in_use, set_row, set_rows
from insitu.store.rules import is_witness
from insitu.training.head import HEAD
from insitu.training.newcomer import WITNESSES, Row, discriminant, may_take, row_from_mean

if TYPE_CHECKING:
    from insitu.devices.host import HostDevice
    from insitu.store.life import Life

MARGIN = np.float32(32)  # over their number: by which each kept sample must keep its class; 1/16 if there are many
FEWEST = 16  # of fewer samples, as of so many


def make_rows(life: Life, told: set[int]) -> None:
    """Rows of classes that were added and have new labels: from their means, until they are trained."""
    if told & life.record.following and not _discriminate(life):
        for k, row in _rows_apart(life, told):
            _set_row(life, k, *row)
            bias = row[1] + room(life, k)
            _set_row(life, k, row[0], bias)
            life.store.keep_fact(f"row {k}", np.append(row[0], bias).astype(np.float32).tobytes())


def restore_rows(life: Life) -> None:
    """Rows that were made since the last checkpoint."""
    if _discriminate(life):
        return
    for k in sorted(life.record.following):
        row = life.store.fact(f"row {k}")
        if row is not None:
            values = np.frombuffer(row, np.float32)
            _set_row(life, k, values[:-1], values[-1])


def _rows_apart(life: Life, told: set[int]) -> Iterator[tuple[int, Row]]:
    """One after the other, beside all that are there."""
    for k in sorted(told & life.record.following):
        weight, bias = head_rows(life.learner) or (np.zeros(0), np.zeros(0))
        used, means = rows_in_use(life.learner), life.store.means.means
        old = [j for j in sorted(means) if j != k and used[j]]
        yield k, row_from_mean(means[k], [means[j] for j in old], [(weight[j], bias[j]) for j in old])


def rows_changed(life: Life) -> set[int]:
    """Classes in use whose rows are others than when the life last looked."""
    now, then, used = head_rows(life.learner), life.mind.recaller.state(), rows_in_use(life.learner)
    if now is None:
        return set()
    changed = [(a != then[f"{HEAD}.{part}"]).reshape(len(used), -1).any(1) for a, part in zip(now, ("weight", "bias"))]
    return set(np.flatnonzero((changed[0] | changed[1]) & used).tolist())


def _trained(life: Life) -> bool:
    """Does any class have a trained row? Such rows do not compare with those of a discriminant."""
    return bool(set(np.flatnonzero(rows_in_use(life.learner)).tolist()) - life.record.following)


def room(life: Life, new: int, device: HostDevice | None = None) -> np.float32:
    """What to add to the bias of a new row, so that it takes no kept sample from a class that was trained.

    Only samples count that are right without it. Of fewer samples, each must be further ahead of the new row: they say
    less of those that are not kept. With a cost, it may take that share of them (`may_take`).
    """
    trained = sorted(set(np.flatnonzero(rows_in_use(life.learner)).tolist()) - {new, *life.record.fresh})
    kept = _kept(life, trained)
    ids = [i for i in kept if is_witness(i, len(kept))]
    found = [(i, latent) for i, latent in zip(ids, life.store.fetch(ids)) if latent is not None]
    if not found:
        return np.float32(0)
    logits = life.mind.recall([latent for _, latent in found], device)[0]
    labels = np.array([life.store.ledger.records[i].label for i, _ in found])
    right = np.array(trained)[logits[:, trained].argmax(1)] == labels
    ahead = logits[np.arange(len(labels)), labels] - logits[:, new]
    spare = ahead - MARGIN / np.float32(min(max(len(kept), FEWEST), WITNESSES))
    least = np.sort(spare[right & (spare < 0) & np.isfinite(spare)])
    lost = may_take(life.cost, len(kept))
    return least[lost] if lost < len(least) else np.float32(0)


def _kept(life: Life, trained: list[int]) -> list[int]:
    ledger = life.store.ledger
    return sorted(i for group in (ledger.trainees, ledger.guards) for k in trained for i in group.ids.get(k, ()))


def _discriminate(life: Life) -> bool:
    """All rows anew from the means and the covariance, which has changed for all; False if that is not the way."""
    means = life.store.means
    known = [k for k in sorted(life.record.following) if k in means.means]
    metric = life.spread and life.spread.metric(sum(means.counts.values()), len(means.counts))
    if metric is None or not known or _trained(life):
        return False
    set_rows(life.learner, known, *discriminant([means.means[k] for k in known], metric))
    life.mind.follow()
    return True


def _set_row(life: Life, k: int, weight: np.ndarray, bias: np.float32) -> None:
    """In the learner, and in a bout that has begun."""
    set_row(life.learner, k, weight, bias)
    if life.record.bout:
        state, now = life.mind.trainee.state(), life.learner.device.state()
        names = [n for n in state if n.split(".")[0] == HEAD and n in now and len(state[n]) > k]
        for name in names:
            state[name][k] = now[name][k]
        life.mind.trainee.load_arrays({name: state[name] for name in names})
    life.mind.follow()
