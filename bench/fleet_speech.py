"""Spoken words on devices that hear few of them: what learning together brings if no two devices are alike.

    python -m bench.fleet_speech            three seeds, a table; some minutes

MLPerf Tiny's keyword network with a new head for seven words. Ten devices share 560 clips: each has its own mix of
words (Dirichlet, 0.2). Only the head learns; each device derives its own rate, and goes on by itself at the end as
`insitu fleet` does without options. All are tested on clips of other
speakers: with the words in the mix that the device hears, and with all seven alike. Needs kws-dscnn-int8 and speech7
in the zoo's cache. Nothing was tuned.
"""

from __future__ import annotations

import argparse
import copy
import sys

import numpy as np

from insitu.data import Samples
from insitu.demo.audio import LISTENING, MODEL
from insitu.demo.lesson import GRADIENTS
from insitu.demo.words import Words, labels, words
from insitu.federated.handout import base_of
from insitu.federated.member import Member, Task
from insitu.federated.rounds import Fleet
from insitu.federated.split import divided
from insitu.learner import Learner
from insitu.learner.few import Known
from insitu.learner.settle import usual_epochs
from insitu.pipeline import compile
from insitu.terminal.table import table
from insitu.training.train import Recipe

SEEDS, DEVICES, EACH, UNLIKE, ROUNDS = (0, 1, 2), 10, 80, 0.2, 10
WAYS = ("alone", "pooled", "fleet", "fleet + own")


def learner_of() -> Learner:
    return compile(f"zoo:{MODEL}", transform=LISTENING, classes=labels(), recipe=Recipe(grad=GRADIENTS))


def adapted(learner: Learner, data: Words, passes: int) -> Learner:
    for _ in range(passes):
        learner.partial_fit(data.x, data.y)
    return learner


def scores(learner: Learner, mix: np.ndarray, tests: Words) -> tuple[float, float]:
    """Accuracy with the words in this mix, and with all of them alike."""
    right = np.argmax(learner.predict(tests.x), -1) == tests.y
    each = np.array([right[tests.y == c].mean() for c in range(len(mix))])
    return 100 * float(each @ mix), 100 * float(each.mean())


def measure(start: Learner, seed: int) -> dict[str, list[tuple[float, float]]]:
    data, tests, count = words("train").few(EACH), words("test"), len(labels())
    parts = [np.concatenate(p) for p in divided(Samples((data.x,), data.y), DEVICES, seed, UNLIKE)]
    own = [Words(data.x[p], data.y[p]) for p in parts]
    fleet = Fleet([Member(copy.deepcopy(start), d.x, d.y) for d in own])
    for number in range(ROUNDS):
        fleet.round(Task(seed=1000 * number))
    shared, pooled = copy.deepcopy(start), adapted(copy.deepcopy(start), data, 2 * ROUNDS)
    packed = base_of(fleet.arrays, fleet.catalogue).packed
    Member(shared, data.x[:1], data.y[:1]).take(packed, fleet.catalogue)
    state, found = shared.device.save_state(), {way: [] for way in WAYS}
    for d in own:
        mix = np.bincount(d.y, minlength=count) / len(d)
        shared.device.load_state(state)
        shared.known = Known()
        made = adapted(copy.deepcopy(start), d, ROUNDS + usual_epochs(len(d))), pooled, shared
        for way, learner in zip(WAYS, made):
            found[way].append(scores(learner, mix, tests))
        shared.known = Known()
        Member(shared, d.x, d.y).settle(packed, fleet.catalogue)
        found["fleet + own"].append(scores(shared, mix, tests))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, help="this seed alone")
    seed, start = parser.parse_args().seed, learner_of()
    seeds = SEEDS if seed is None else (seed,)
    rows = {s: measure(start, s) for s in seeds}
    lines = [(way, *means(list(rows.values()), way), *(" ".join(means([rows[s]], way)) for s in seeds)) for way in WAYS]
    print(table(("", "the words that a device hears", "all seven words", *(f"seed {s}" for s in seeds)), lines))
    return 0


def means(rows: list[dict], way: str) -> list[str]:
    """With the words that a device hears, and with all of them."""
    return [f"{np.mean([pair[k] for row in rows for pair in row[way]]):.1f}" for k in (0, 1)]


if __name__ == "__main__":
    sys.exit(main())
