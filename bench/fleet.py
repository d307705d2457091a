"""What learning together brings: watches of five wearers, few labels each, with the generated C doing the training.

    python -m bench.fleet                 a table, bench/fleet.json; some minutes
    python -m bench.fleet --quick         one seed, one amount of labels

For each seed the ten wearers are drawn into three whose recordings made the base network, five who form the fleet, and
two who stay outside. A fleet wearer labels the first 1, 2 or 4 windows of each of their 14 recordings; all are tested
on windows that share no reading with those. Compared are: the base as it is; each watch alone; one network trained on
all labels together (pooled: the data leave the watches); the fleet's model; and the fleet's model that each watch then
adapts to its wearer. Rate, epochs and rounds were set beforehand and not tuned.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

import insitu
from insitu.demo.watch import LEARNED, WEARERS, Windows, joined, recordings
from insitu.federated.member import Member, Task
from insitu.federated.rounds import Fleet, base_of
from insitu.learner import Learner
from insitu.reports.speed import machine
from insitu.terminal.table import table

ROOT = Path(__file__).parent.parent
SEEDS, LABELS = (0, 1, 2), (1, 2, 4)
ROUNDS, LOCAL, RATE, ALONE = 10, 2, 0.005, 20  # rounds, epochs in each, rate, epochs of a watch alone
WAYS = ("base", "alone", "pooled", "fleet", "fleet + own")


@dataclass(frozen=True)
class Roles:
    """Who made the base, who is in the fleet, who is outside."""

    base: tuple[int, ...]
    fleet: tuple[int, ...]
    outside: tuple[int, ...]


def roles(seed: int) -> Roles:
    order = [int(n) for n in np.random.default_rng(seed).permutation(WEARERS)]
    return Roles(tuple(order[:3]), tuple(order[3:8]), tuple(order[8:]))


def labelled(number: int, windows: int) -> Windows:
    return joined([r.part(0, windows) for r in recordings()[number]])


def tests(number: int) -> Windows:
    """The same windows whatever was labelled."""
    return joined([r.part(LEARNED + 1) for r in recordings()[number]])


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


def adapted(learner: Learner, data: Windows, epochs: int = ALONE, rate: float = RATE) -> Learner:
    learner.fit(data.x, data.y, epochs=epochs, rate=rate)
    return learner


def fleet_of(seed: int, windows: int, coding: str = "int8", personal: tuple[str, ...] = ()) -> Fleet:
    found = [(labelled(n, windows), tests(n)) for n in roles(seed).fleet]
    return Fleet([Member(opened(seed), d.x, d.y, test=(t.x, t.y), coding=coding, personal=personal) for d, t in found])


def taught(seed: int, windows: int, coding: str = "int8", rounds: int = ROUNDS) -> tuple[Fleet, Learner]:
    """The fleet after its rounds, and a learner with its model."""
    fleet = fleet_of(seed, windows, coding)
    for number in range(rounds):
        fleet.round(Task(epochs=LOCAL, rate=RATE, seed=1000 * number))
    carrier = Member(opened(seed), tests(roles(seed).base[0]).x[:1], [0])
    carrier.take(base_of(fleet.arrays, fleet.catalogue).packed, fleet.catalogue)
    return fleet, carrier.learner


def measure(seed: int, windows: int, coding: str = "int8") -> dict:
    who, start = roles(seed), opened(seed)
    fleet, shared = taught(seed, windows, coding)
    state = shared.device.save_state()
    pooled = adapted(opened(seed), joined([labelled(n, windows) for n in who.fleet]))
    found = {way: [] for way in WAYS}
    for n in who.fleet:
        data = labelled(n, windows)
        shared.device.load_state(state)
        scores = (score(start, n), score(adapted(opened(seed), data), n), score(pooled, n), score(shared, n),
                  score(adapted(shared, data), n))  # fmt: skip
        for way, value in zip(WAYS, scores):
            found[way].append(value)
    shared.device.load_state(state)
    outside = {"base": [score(start, n) for n in who.outside], "pooled": [score(pooled, n) for n in who.outside],
               "fleet": [score(shared, n) for n in who.outside]}  # fmt: skip
    up = sum(r.bytes_up for r in fleet.rounds) / len(fleet.rounds) / len(who.fleet)
    return {"seed": seed, "windows": windows, "coding": coding, "inside": found, "outside": outside,
            "bytes_up": up, "float_bytes": 4 * sum(a.size for a in fleet.arrays.values())}  # fmt: skip


def mean(rows: list[dict], part: str, way: str) -> float:
    return float(np.mean([value for row in rows for value in row[part][way]]))


def shown(rows: list[dict]) -> str:
    lines = []
    for windows in sorted({row["windows"] for row in rows}):
        some = [row for row in rows if row["windows"] == windows]
        inside = [f"{mean(some, 'inside', way):.1f}" for way in WAYS]
        outside = [f"{mean(some, 'outside', way):.1f}" for way in ("base", "fleet")]
        lines.append((str(windows), *inside, *outside))
    return table(("windows", *WAYS, "outside: base", "fleet"), lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one seed, one window per recording")
    parser.add_argument("--seed", type=int, help="this seed alone")
    options = parser.parse_args()
    seeds = (options.seed,) if options.seed is not None else SEEDS[:1] if options.quick else SEEDS
    rows = [measure(seed, windows) for seed in seeds for windows in (LABELS[:1] if options.quick else LABELS)]
    print(shown(rows))
    codings = [measure(seeds[0], 2, coding) for coding in ("4bit", "2bit", "ternary")]
    for row in codings:
        share = row["float_bytes"] / row["bytes_up"]
        fleet, own = (mean([row], "inside", way) for way in ("fleet", "fleet + own"))
        bytes_up = f"{row['bytes_up']:.0f} bytes up, {share:.0f} times fewer than float32"
        print(f"{row['coding']:8} fleet {fleet:.1f}, with own {own:.1f}, {bytes_up}")
    (ROOT / "bench" / "fleet.json").write_text(json.dumps({"machine": machine(), "rows": rows + codings}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
