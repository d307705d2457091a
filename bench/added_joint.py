"""How far is an added class from what its features allow? The lives of bench/added.py that train the head alone.

    python -m bench.added_joint                 draws 20 to 25: a table

After the bouts, the head's rows are compared with a logistic regression that sees all kept latents and the 20 samples
of the new class at once (balanced over classes, features standardised, C = 1). Both get the best bias of the new class,
chosen with the test samples, so that only the directions of the rows count: how much of the new class is recognised if
the old ones lose at most one point (half a point, two points)?
"""

from __future__ import annotations

import argparse
import sys
import warnings
from typing import NamedTuple

import numpy as np
import torch

import insitu
from bench.added import DRAWS, KEPT, KINDS, NEW, Draw, kept, trained
from insitu.data.taking import as_samples
from insitu.terminal.table import table

LOSSES = (0.5, 1.0, 2.0)
BOUTS = (1, 4)


class Seen(NamedTuple):
    """Logits of the test samples: of the old classes, and of the new one."""

    old: np.ndarray
    new: np.ndarray


def recognised(seen: Seen, labels: np.ndarray, before: float) -> list[float]:
    """The share of the new class, in %, for each loss of the old ones, with the best bias that there is."""
    n, own = seen.old.shape[1] - 1, np.arange(len(labels))
    right = seen.old[:, :n].argmax(1) == labels
    ahead = np.sort((seen.old[own, labels] - seen.old[:, n])[right])
    gained = seen.new[:, n] - seen.new[:, :n].max(1)
    found = []
    for loss in LOSSES:
        lost = int(np.floor(len(ahead) - (before - loss / 100) * len(labels) + 1e-9))
        found.append(100 * float((gained > -ahead[lost]).mean()) if 0 <= lost < len(ahead) else 0.0)
    return found


def joint(x: np.ndarray, y: np.ndarray, old: np.ndarray, new: np.ndarray) -> Seen:
    """A logistic regression on all features at once."""
    from sklearn.linear_model import LogisticRegression

    mean, scale = x.mean(0), x.std(0) + 1e-6
    model = LogisticRegression(max_iter=1000, class_weight="balanced").fit((x - mean) / scale, y)
    return Seen(*(model.decision_function((part - mean) / scale) for part in (old, new)))


def live(learner: insitu.Learner, draw: Draw, which: str) -> dict[str, list[float]]:
    """What is recognised after some bouts, and by joint training on what the store has."""
    life = learner.keep()
    learner.observe(*kept(draw, which))

    def recall(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return life.mind.recall(life.mind.encode(as_samples(x, learner.graphs["predict"]).inputs))

    labels, found = draw.test[1], {}
    before = float((recall(draw.test[0])[0].argmax(1) == labels).mean())
    learner.add_class("new")
    learner.observe(draw.new, ["new"] * NEW)
    for n in range(1, max(BOUTS) + 1):
        learner.rehearse()
        seen = Seen(recall(draw.test[0])[0], recall(draw.new_test)[0])
        found[f"bout {n}"] = recognised(seen, labels, before)
    records = life.store.ledger.records
    features = life.mind.recall([one or b"" for one in life.store.fetch(list(records))])[1]
    known = np.array([r.label for r in records.values()])
    parts = [recall(x)[1] for x in (draw.test[0], draw.new_test)]
    if len(set(known.tolist())) == draw.classes + 1:
        found["joint"] = recognised(joint(features, known, *parts), labels, before)
    return found


def run(kind: str, seed: int) -> list[tuple[str, str, dict[str, list[float]]]]:
    draw = KINDS[kind](seed)
    graph = insitu.load(trained(draw, seed), torch.zeros(1, *draw.fit[0].shape[1:]))
    first = insitu.compile(graph, data=draw.fit[0][:100], scheme="head", head_init="own", max_classes=draw.classes + 1,
                           classes=[str(k) for k in range(draw.classes)])  # fmt: skip
    found = []
    for which in KEPT:
        with first.on("host") as learner:
            found.append((kind, which, live(learner, draw, which)))
    return found


def show(runs: list[tuple[str, str, dict[str, list[float]]]]) -> str:
    rows, names = [], [*(f"bout {n}" for n in BOUTS), "joint"]
    for kind in [*KINDS, "all"]:
        for which in KEPT:
            part = [f for k, w, f in runs if w == which and kind in (k, "all") and "joint" in f]
            if part:
                means = [np.mean([f[name] for f in part], 0) for name in names]
                rows.append((kind, which, str(len(part)), *(" ".join(f"{v:.0f}" for v in m) for m in means)))
    return table(("", "kept", "lives", *names), rows)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", default=DRAWS, help="FIRST-END, END not included")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    seeds = range(*map(int, options.draws.split("-")))
    print(show([one for seed in seeds for kind in KINDS for one in run(kind, seed)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
