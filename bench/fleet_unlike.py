"""Fleets of unlike devices: where rounds do harm, does a fleet go back to the right model?

    python -m bench.fleet_unlike            five kinds of fleets, a table; some minutes

Each kind has ten draws (digits: six). A network that knows other people (or few digits) is handed to devices that are
more or less unlike each other; they learn together, with a fifth of their samples held out as `insitu fleet` does
without options. Compared on other samples of the same devices, which nobody chose by: the network before, that of the
last round, the one that the fleet ends with (insitu/federated/best.py), and what each device keeps at last (own.py).

People are simulated: movements of four kinds, seen by a sensor that each wears turned, at another pace and strength.
One standard error is the rule of `fit`. That every round is asked, and not the first and the last alone, was chosen
with other draws of such people.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

import insitu
from insitu.federated.best import does_harm, together
from insitu.federated.checks import Limits
from insitu.federated.handout import Base, base_of
from insitu.federated.member import Member, Task
from insitu.federated.rounds import Fleet
from insitu.federated.split import divided, kept_apart
from insitu.learner import Learner
from insitu.terminal.table import table

Data = tuple[np.ndarray, np.ndarray]
KINDS, LONG, AXES = 4, 64, 3  # of movements; readings in a window
WINDOWS, OTHERS = (60, 120, 80), 400  # of each person in the fleet; and to report on
WAYS = ("before", "last round", "fleet", "own")


# people -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Person:
    """How somebody's movements look to their sensor."""

    turned: np.ndarray
    pace: float
    strength: float
    offset: np.ndarray

    def windows(self, count: int, rng: np.random.Generator) -> Data:
        kind, at = rng.integers(0, KINDS, count), np.arange(LONG)
        x = [self.turned @ _movement(k, self.pace, at, rng) * self.strength for k in kind]
        noise = rng.normal(0, 0.5, (count, AXES, LONG))
        return (np.stack(x) + noise + self.offset[:, None]).astype(np.float32), kind


def _movement(kind: int, pace: float, at: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    angle = 4 * np.pi * (1 + 0.6 * kind) * pace * at / LONG + rng.uniform(0, 2 * np.pi)
    start = angle[0]
    return np.stack([np.sin(angle), (0.4 + 0.3 * (kind % 2)) * np.cos(angle), 0.3 * np.sin(2 * angle - start)])


def person(rng: np.random.Generator, unlike: float = 1.0) -> Person:
    turned, _ = np.linalg.qr(np.eye(AXES) + unlike * rng.normal(0, 0.35, (AXES, AXES)))
    return Person(turned * np.sign(np.diag(turned)), float(np.exp(unlike * rng.normal(0, 0.12))),
                  float(np.exp(unlike * rng.normal(0, 0.25))), unlike * rng.normal(0, 0.3, AXES))  # fmt: skip


def people(seed: int, unlike: float) -> tuple[Learner, list[Data], list[Data]]:
    """A network that knows four people, three others with their windows, and other windows of these."""
    rng = np.random.default_rng(seed)
    known = [person(rng).windows(150, rng) for _ in range(4)]
    net = nn.Sequential(nn.Conv1d(AXES, 12, 5, padding=2), nn.ReLU(), nn.MaxPool1d(2), nn.Conv1d(12, 24, 5, padding=2),
                        nn.ReLU(), nn.AvgPool1d(8), nn.Flatten(), nn.Linear(96, 32), nn.ReLU(),
                        nn.Linear(32, KINDS))  # fmt: skip
    x, y = (np.concatenate(parts) for parts in zip(*known))
    trained(net, x, y, seed)
    fleet = [person(rng, unlike) for _ in WINDOWS]
    data = [each.windows(count, rng) for each, count in zip(fleet, WINDOWS)]
    learner = insitu.compile(net.eval(), example=torch.zeros(1, AXES, LONG), data=data[0][0])
    return learner, data, [each.windows(OTHERS, rng) for each in fleet]


def trained(net: nn.Module, x: np.ndarray, y: np.ndarray, seed: int, epochs: int = 15) -> None:
    torch.manual_seed(seed)
    for layer in net.modules():
        if hasattr(layer, "reset_parameters"):
            layer.reset_parameters()  # type: ignore[operator]
    torch.set_num_threads(1)
    optimizer, inputs, labels = torch.optim.Adam(net.parameters(), 1e-3), torch.tensor(x), torch.tensor(y)
    for _ in range(epochs):
        for i in torch.randperm(len(x)).split(32):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(inputs[i]), labels[i]).backward()
            optimizer.step()


# digits -----------------------------------------------------------------------------------------


def digits(seed: int, devices: int, unlike: float, known: int = 200, shared: int = 500
           ) -> tuple[Learner, list[Data], list[Data]]:  # fmt: skip
    """A network that knows 200 digits, devices with unlike mixes of 500 others, and the rest in each device's mix."""
    from sklearn.datasets import load_digits

    rng = np.random.default_rng(seed)
    x, y = (np.asarray(a) for a in load_digits(return_X_y=True))
    order = rng.permutation(len(y))
    x, y = (x[order] / 16).astype(np.float32), y[order]
    net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    trained(net, x[:known], y[:known], seed, 60)
    learner = insitu.compile(net.eval(), example=torch.zeros(1, 64), data=x[:known])
    mine, rest = slice(known, known + shared), slice(known + shared, None)
    parts = [np.concatenate(p) for p in divided(learner.samples(x[mine], y[mine]), devices, seed, unlike)]
    data = [(x[mine][p], y[mine][p]) for p in parts]
    return learner, data, [_in_mix(x[rest], y[rest], labels, rng) for _, labels in data]


def _in_mix(x: np.ndarray, y: np.ndarray, labels: np.ndarray, rng: np.random.Generator, count: int = 200) -> Data:
    weight = (np.bincount(labels, minlength=10) / np.bincount(y, minlength=10))[y]
    chosen = rng.choice(len(y), count, p=weight / weight.sum())
    return x[chosen], y[chosen]


# fleets -----------------------------------------------------------------------------------------


def member(learner: Learner, data: Data) -> Member:
    learner = copy.deepcopy(learner)
    found = learner.samples(*data)
    learn, test = kept_apart(found)
    return Member(learner, found.take(learn), test=(found.take(test), None))


def taught(fleet: Fleet, rounds: int, epochs: int) -> tuple[Base, Base, Base, int]:
    """The models before, after the last round, and that the fleet ends with; and the round of that one."""
    first = best = base_of(fleet.arrays, fleet.catalogue)
    _judged(fleet, first, b"")
    last, at, harm = first, 0, False
    for number in range(1, rounds + 1):
        fleet.round(Task(epochs, seed=1000 * number))
        last = base_of(fleet.arrays, fleet.catalogue)
        found = _judged(fleet, last, best.id)
        harm = does_harm(found, Limits())
        if number < rounds and together(found, Limits())[0] > 0:
            best, at = last, number
    return first, last, best if harm else last, at if harm else rounds


def _judged(fleet: Fleet, base: Base, best: bytes) -> list:
    found = [m.judge(base.packed, fleet.catalogue, best) for m in fleet.members]
    return [each for each in found if each]


def measure(learner: Learner, data: Sequence[Data], others: Sequence[Data], rounds: int, epochs: int) -> dict:
    """Way -> the accuracy of each device on its other samples; and whether the fleet went back."""
    fleet = Fleet([member(learner, d) for d in data])
    *models, at = taught(fleet, rounds, epochs)
    found = {way: [_score(m, base, fleet, d) for m, d in zip(fleet.members, others)]
             for way, base in zip(WAYS, models)}  # fmt: skip
    for m in fleet.members:
        m.settle(models[-1].packed, fleet.catalogue, last=True)
    found["own"] = [100 * m.learner.evaluate(*d)["accuracy"] for m, d in zip(fleet.members, others)]
    return {**found, "back": at < rounds}


def _score(m: Member, base: Base, fleet: Fleet, data: Data) -> float:
    m.take(base.packed, fleet.catalogue)
    return 100 * m.learner.evaluate(*data)["accuracy"]


FLEETS = {
    "3 people, little unlike, 3 rounds": (lambda s: people(20 + s, 0.5), range(10), 3, 1),
    "3 people, unlike, 3 rounds of 5 passes": (lambda s: people(40 + s, 1.0), range(10), 3, 5),
    "3 people, very unlike, 3 rounds": (lambda s: people(s, 1.6), range(10), 3, 1),
    "10 devices, unlike mixes of digits (0.3), 5 rounds": (lambda s: digits(s, 10, 0.3), range(6), 5, 1),
    "5 devices, few digits each (0.1), 5 rounds": (lambda s: digits(s, 5, 0.1), range(6), 5, 1),
}


def line(name: str, rows: list[dict]) -> tuple[str, ...]:
    means = [f"{np.mean([np.mean(r[way]) for r in rows]):.1f}" for way in WAYS]
    worse = [sum(np.mean(r[way]) < np.mean(r["before"]) - 1 for r in rows) for way in ("last round", "fleet")]
    return name, *means, f"{sum(r['back'] for r in rows)} of {len(rows)}", f"{worse[0]}, {worse[1]}"


def main() -> int:
    lines = []
    for name, (made, seeds, rounds, epochs) in FLEETS.items():
        lines.append(line(name, [measure(*made(seed), rounds, epochs) for seed in seeds]))
        print(lines[-1], file=sys.stderr, flush=True)
    print(table(("fleet", *WAYS, "went back", "a point below before: last, fleet"), lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
