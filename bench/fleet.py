"""What learning together brings: watches of six wearers, few labels each, with the generated C doing the training.

    python -m bench.fleet                 a table, bench/fleet.json, docs/fleet.svg; some minutes
    python -m bench.fleet --quick         one seed, one amount of labels

For each seed the ten wearers are divided into two whose recordings made the base network, six who form the fleet, and
two who stay outside; over three seeds no wearer is outside twice. A fleet wearer labels the first 1, 2 or 4 windows
of each of their 14 recordings; all are tested on windows that share no reading with those. Compared are: the base as
it is; each watch alone; one network trained on all labels together (pooled: the data leave the watches); the fleet's
model; and what each watch keeps after it went on from the fleet's model by itself, as `insitu fleet` does without
options (insitu/federated/own.py), with no test windows to choose by and with some: then the early half of the windows
that it is tested on chooses and the late half is reported, and vice versa. No rate is set: each device derives its own
(`partial_fit`). All but the fleet's plain model get the same number of passes over their samples. The number of rounds
and the sizes of the groups were set after runs with other draws of roles, and fixed rates, from the same ten wearers.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

import insitu
from insitu.demo.watch import LEARNED, WEARERS, Windows, joined, recordings
from insitu.federated.handout import base_of
from insitu.federated.member import Member, Task
from insitu.federated.rounds import Fleet
from insitu.learner import Learner
from insitu.learner.few import Known
from insitu.learner.settle import usual_epochs
from insitu.reports.speed import machine
from insitu.terminal.table import table

ROOT = Path(__file__).parent.parent
SEEDS, LABELS = (0, 1, 2), (1, 2, 4)
ROUNDS = 20  # of the fleet
EPOCHS = (1, 3)  # passes in each round
BASE, OUTSIDE = 2, 2  # wearers
WAYS = ("base", "alone", "pooled", "fleet", "fleet + own", "own by tests")


@dataclass(frozen=True)
class Roles:
    """Who made the base, who is in the fleet, who is outside."""

    base: tuple[int, ...]
    fleet: tuple[int, ...]
    outside: tuple[int, ...]


def roles(seed: int) -> Roles:
    order = [int(n) for n in np.roll(np.random.default_rng(7).permutation(WEARERS), OUTSIDE * seed)]
    return Roles(tuple(order[OUTSIDE : OUTSIDE + BASE]), tuple(order[OUTSIDE + BASE :]), tuple(order[:OUTSIDE]))


def labelled(number: int, windows: int) -> Windows:
    return joined([r.part(0, windows) for r in recordings()[number]])


def tests(number: int) -> Windows:
    """The same windows whatever was labelled."""
    return joined([r.part(LEARNED + 1) for r in recordings()[number]])


def halves(number: int) -> tuple[Windows, Windows]:
    """Test windows of the first half of each recording's, and of the second one."""
    parts = [r.part(LEARNED + 1) for r in recordings()[number]]
    early = [[np.arange(len(p)) < len(p) // 2, np.arange(len(p)) >= len(p) // 2] for p in parts]
    first, second = ([Windows(p.x[m[k]], p.y[m[k]], p.arm[m[k]]) for p, m in zip(parts, early)] for k in (0, 1))
    return joined(first), joined(second)


@cache
def base_file(seed: int, scheme: str = "full") -> bytes:
    """A learner whose network has seen only the base wearers."""
    import torch

    sys.path.insert(0, str(ROOT / "scripts"))
    from train_watch import Watch, fit

    from insitu.learner.file import learner_bytes

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    model, data = Watch(), joined([r.part(0) for n in roles(seed).base for r in recordings()[n]])
    fit(model, data)
    learner = insitu.compile(model.eval(), example=torch.zeros(1, 1, 128, 6), data=data.x[:: len(data) // 200],
                             scheme=scheme)  # fmt: skip
    return learner_bytes(learner)


def opened(seed: int) -> Learner:
    from insitu.learner.file import open_learner

    return open_learner(base_file(seed))


def score(learner: Learner, number: int) -> float:
    data = tests(number)
    return 100 * learner.evaluate(data.x, data.y)["accuracy"]


def adapted(learner: Learner, data: Windows, passes: int) -> Learner:
    for _ in range(passes):
        learner.partial_fit(data.x, data.y)
    return learner


def fleet_of(seed: int, windows: int, coding: str = "int8", personal: tuple[str, ...] = ()) -> Fleet:
    found = [(labelled(n, windows), tests(n)) for n in roles(seed).fleet]
    return Fleet([Member(opened(seed), d.x, d.y, test=(t.x, t.y), coding=coding, personal=personal) for d, t in found])


def taught(seed: int, windows: int, coding: str, epochs: int) -> tuple[Fleet, Learner]:
    """The fleet after its rounds, and a learner with its model."""
    fleet = fleet_of(seed, windows, coding)
    for number in range(ROUNDS):
        fleet.round(Task(epochs, seed=1000 * number))
    carrier = Member(opened(seed), tests(roles(seed).base[0]).x[:1], [0])
    carrier.take(base_of(fleet.arrays, fleet.catalogue).packed, fleet.catalogue)
    return fleet, carrier.learner


def chosen(seed: int, number: int, windows: int, fleet: Fleet) -> tuple[float, list[int]]:
    """What a watch keeps that asks tests (own.py): its score on those that it did not ask, and its two choices."""
    data, (early, late) = labelled(number, windows), halves(number)
    packed, right, kept = base_of(fleet.arrays, fleet.catalogue).packed, 0.0, []
    for asks, told in ((early, late), (late, early)):
        watch = Member(opened(seed), data.x, data.y, test=(asks.x, asks.y))
        kept.append(int(watch.settle(packed, fleet.catalogue, last=True)["kept"]))
        right += len(told) * watch.learner.evaluate(told.x, told.y)["accuracy"]
    return 100 * right / (len(early) + len(late)), kept


def measure(seed: int, windows: int, coding: str = "int8", epochs: int = 1) -> dict:
    who, start = roles(seed), opened(seed)
    fleet, shared = taught(seed, windows, coding, epochs)
    packed = base_of(fleet.arrays, fleet.catalogue).packed
    own = usual_epochs(len(labelled(who.fleet[0], windows)))  # passes of a watch by itself; all label as many
    passes = ROUNDS * epochs + own
    pooled = adapted(opened(seed), joined([labelled(n, windows) for n in who.fleet]), passes)
    found, kept = {way: [] for way in WAYS}, []
    for n in who.fleet:
        data = labelled(n, windows)
        watch = Member(shared, data.x, data.y)  # it goes on with no test to go back by: those here are for the table
        watch.take(packed, fleet.catalogue)
        shared.known = Known()
        alone, together = score(adapted(opened(seed), data, passes), n), score(shared, n)
        watch.settle(packed, fleet.catalogue)
        by_tests, choices = chosen(seed, n, windows, fleet)
        kept += choices
        scores = score(start, n), alone, score(pooled, n), together, score(shared, n), by_tests
        for way, value in zip(WAYS, scores):
            found[way].append(value)
    watch.take(packed, fleet.catalogue)
    outside = {"base": [score(start, n) for n in who.outside], "pooled": [score(pooled, n) for n in who.outside],
               "fleet": [score(shared, n) for n in who.outside]}  # fmt: skip
    up = sum(r.bytes_up for r in fleet.rounds) / len(fleet.rounds) / len(who.fleet)
    about = {
        "seed": seed,
        "windows": windows,
        "coding": coding,
        "epochs": epochs,
        "own": own,
        "who": vars(who),
        "kept": kept,
    }
    size = 4 * sum(a.size for a in fleet.arrays.values())
    return {**about, "inside": found, "outside": outside, "bytes_up": up, "float_bytes": size}


def mean(rows: list[dict], part: str, way: str) -> float:
    return float(np.mean([value for row in rows for value in row[part][way]]))


def shown(rows: list[dict]) -> str:
    lines = []
    for epochs, windows in sorted({(row["epochs"], row["windows"]) for row in rows}):
        some = [row for row in rows if (row["epochs"], row["windows"]) == (epochs, windows)]
        inside = [f"{mean(some, 'inside', way):.1f}" for way in WAYS]
        outside = [f"{mean(some, 'outside', way):.1f}" for way in ("base", "pooled", "fleet")]
        lines.append((str(epochs), str(windows), *inside, *outside))
    return table(("passes", "windows", *WAYS, "outside: base", "pooled", "fleet"), lines)


def codings_of(seeds: Sequence[int]) -> list[dict]:
    """Other codings of what watches send: two windows, one pass in each round."""
    return [measure(seed, 2, coding) for coding in ("4bit", "2bit", "ternary") for seed in seeds]


def shown_codings(rows: list[dict]) -> str:
    """All codings with two windows and one pass in each round."""
    some, lines = [row for row in rows if row["windows"] == 2 and row["epochs"] == 1], []
    for coding in dict.fromkeys(row["coding"] for row in some):
        mine = [row for row in some if row["coding"] == coding]
        inside = [f"{mean(mine, 'inside', way):.1f}" for way in ("fleet", "fleet + own", "own by tests")]
        up, size = (float(np.mean([row[name] for row in mine])) for name in ("bytes_up", "float_bytes"))
        lines.append((coding, *inside, f"{mean(mine, 'outside', 'fleet'):.1f}", f"{up:.0f}", f"{size / up:.0f}"))
    return table(("coding", "fleet", "fleet + own", "own by tests", "outside", "bytes up", "times fewer"), lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one seed, one window per recording")
    parser.add_argument("--seed", type=int, help="this seed alone")
    parser.add_argument("--epochs", type=int, help="this many passes in each round alone")
    options = parser.parse_args()
    seeds = (options.seed,) if options.seed is not None else SEEDS[:1] if options.quick else SEEDS
    epochs = (options.epochs,) if options.epochs else EPOCHS[:1] if options.quick else EPOCHS
    labels = LABELS[:1] if options.quick else LABELS
    rows = [measure(seed, n, epochs=e) for seed in seeds for e in epochs for n in labels]
    print(shown(rows), flush=True)
    codings = [] if options.quick or options.epochs else codings_of(seeds)
    if codings:
        print(shown_codings(rows + codings))
    (ROOT / "bench" / "fleet.json").write_text(json.dumps({"machine": machine(), "rows": rows + codings}, indent=1))
    if len(labels) > 1:
        from bench.fleet_plot import plot

        (ROOT / "docs" / "fleet.svg").write_text(plot(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
