"""One class more, and then more bouts: what the old classes lose, and how much of the new one is recognised.

    python -m bench.added                       draws 20 to 25: a table, bench/added.json
    python -m bench.added --draws 0-6           those that the rules were chosen on
    python -m bench.added --only watch          one kind of data: signals, watch, digits
    python -m bench.added --cost 0.02           the new class may take two of a hundred kept samples of the others

signals   made-up motion of three axes: walk, shake, turn; the new class, circle, is like walk (how much is drawn)
watch     six of seven exercises of nine wearers (a network without the seventh); the seventh by the tenth wearer
digits    nine of ten small digits; the tenth

Each draw trains a network (torch) on the old classes alone, with int8 and the head, the last two layers or everything
trainable. The store has 20, 100 or 200 samples of the old classes that the network was not trained on, or 64 of each
class that it was. 20 samples of the new class are labelled; then four bouts with no options.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import insitu
from bench.continual import say
from insitu.demo import digits
from insitu.demo.watch import WEARERS, joined, recordings
from insitu.reports.speed import machine
from insitu.terminal.table import table

ROOT = Path(__file__).parent.parent
DRAWS = "20-26"
SCHEMES = ("head", "last:2", "full")
KEPT = ("20", "100", "200", "fit")
NEW, EACH = 20, 64  # samples of the new class; of each old one that the network was trained on
SHOWN = (1, 2, 4)  # bouts
EPOCHS, BATCH, RATE = 20, 32, 0.005

Labelled = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Draw:
    """Old classes are 0 to classes - 1; the network is trained on `fit`, the store may have samples of `pool`."""

    classes: int
    fit: Labelled
    pool: Labelled
    test: Labelled
    new: np.ndarray
    new_test: np.ndarray
    channels: tuple[int, ...]
    kernel: tuple[int, int]


def signals(seed: int) -> Draw:
    rng = np.random.default_rng(1000 + seed)
    alike, t = rng.uniform(0.3, 0.8), 2 * np.pi * np.arange(64) / 25

    def one(k: int) -> np.ndarray:
        phase, f, a = rng.uniform(0, 2 * np.pi, 3), rng.normal(1.8, 0.2), rng.normal(1, 0.2)
        first, double = np.sin(f * t + phase[0]), np.sin(2 * f * t + phase[0])
        if k == 0:
            waves = [first, 0.6 * np.sin(f * t + phase[1]), double]
        elif k == 1:
            f = rng.normal(5, 0.6)
            waves = [1.5 * np.sin(f * t + p) for p in phase]
        elif k == 2:
            waves = [np.sin(0.5 * t + p) * rng.uniform(0.2, 1) for p in phase]
        else:
            waves = [first, (0.6 + 0.4 * alike) * np.cos(f * t + phase[0]), (1 - alike) * double]
        made = a * np.stack(waves)
        return (made + rng.normal(0, 0.45, made.shape)).astype(np.float32)

    def many(k: int, count: int) -> np.ndarray:
        return np.stack([one(k) for _ in range(count)])[:, :, None]

    def old(count: int) -> Labelled:
        order = np.random.default_rng(seed).permutation(3 * count)
        return np.concatenate([many(k, count) for k in range(3)])[order], np.repeat(np.arange(3), count)[order]

    return Draw(3, old(150), old(120), old(400), many(3, NEW), many(3, 400), (12, 16, 24), (1, 5))


def watch(seed: int) -> Draw:
    rng = np.random.default_rng(2000 + seed)
    new, person = int(rng.integers(7)), int(rng.integers(1, 11))

    def windows(wearers: list[int]) -> Labelled:
        w = joined([r.part(0) for n in wearers for r in recordings()[n]])
        return w.x.transpose(0, 3, 1, 2).copy(), last(w.y, new, 7)

    x, y = windows([n for n in WEARERS if n != person])
    order = rng.permutation(len(x))
    own, labels = windows([person])
    picked = rng.permutation(np.flatnonzero(labels == 6))
    return parted(x[order], y[order], 6, (0.5, 0.7), own[picked], (16, 24, 32), (1, 5))


def small_digits(seed: int) -> Draw:
    rng, d = np.random.default_rng(3000 + seed), digits()
    x, y = np.concatenate([d.x_train, d.x_test]), np.concatenate([d.y_train, d.y_test])
    y = last(y, int(rng.integers(10)), 10)
    order = rng.permutation(len(x))
    x, y = x[order], y[order]
    return parted(x, y, 9, (0.433, 0.618), x[y == 9], (16, 24), (3, 3))


def last(y: np.ndarray, new: int, count: int) -> np.ndarray:
    """Labels with the new class as the last one."""
    return np.argsort([k for k in range(count) if k != new] + [new])[y]


def parted(x: np.ndarray, y: np.ndarray, classes: int, parts: tuple[float, float], new: np.ndarray,
           channels: tuple[int, ...], kernel: tuple[int, int]) -> Draw:  # fmt: skip
    x, y = x[y < classes], y[y < classes]
    a, b = (int(len(x) * p) for p in parts)
    return Draw(classes, (x[:a], y[:a]), (x[a:b], y[a:b]), (x[b:], y[b:]), new[:NEW], new[NEW:], channels, kernel)


KINDS: dict[str, Callable[[int], Draw]] = {"signals": signals, "watch": watch, "digits": small_digits}


class Network(nn.Module):
    """Convolutions, each halving the size, and a linear head on the mean."""

    def __init__(self, draw: Draw):
        super().__init__()
        stride = (1, 2) if draw.kernel[0] == 1 else 2
        body: list[nn.Module] = []
        for i, o in zip((draw.fit[0].shape[1], *draw.channels), draw.channels):
            pad = (draw.kernel[0] // 2, draw.kernel[1] // 2)
            body += [nn.Conv2d(i, o, draw.kernel, stride, pad, bias=False), nn.BatchNorm2d(o), nn.ReLU()]
        self.body = nn.Sequential(*body)
        self.head = nn.Linear(draw.channels[-1], draw.classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x).mean((2, 3)))


def trained(draw: Draw, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    model, (x, y) = Network(draw), (torch.from_numpy(part) for part in draw.fit)
    optimizer, count = torch.optim.AdamW(model.parameters(), RATE, weight_decay=0.02), len(x) // BATCH
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, EPOCHS * count)
    for _ in range(EPOCHS):
        for chosen in torch.randperm(len(x))[: count * BATCH].split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[chosen]), y[chosen]).backward()
            optimizer.step()
            schedule.step()
    return model.eval()


def kept(draw: Draw, which: str) -> Labelled:
    """What the store begins with."""
    if which != "fit":
        return draw.pool[0][: int(which)], draw.pool[1][: int(which)]
    chosen = np.concatenate([np.flatnonzero(draw.fit[1] == k)[:EACH] for k in range(draw.classes)])
    return draw.fit[0][chosen], draw.fit[1][chosen]


def live(first: insitu.Learner, draw: Draw, which: str, cost: float = 0.0) -> dict:
    """Accuracy on the old and on the new class, in %: before, with 20 labels, and after each bout."""
    with first.on("host") as learner:

        def both() -> tuple[float, float]:
            old = (learner.predict(draw.test[0]).argmax(1) == draw.test[1]).mean()
            return 100 * float(old), 100 * float((learner.predict(draw.new_test).argmax(1) == draw.classes).mean())

        learner.keep(cost=cost)
        learner.observe(*kept(draw, which))
        found = [both()]
        learner.add_class("new")
        learner.observe(draw.new, ["new"] * NEW)
        found.append(both())
        told = []
        for _ in range(max(SHOWN)):
            told.append(learner.rehearse())
            found.append(both())
        return {"kept": which, "both": found, "rolled_back": sum(t.rolled_back for t in told)}


def run(kind: str, seed: int, cost: float = 0.0) -> list[dict]:
    draw, found = KINDS[kind](seed), []
    graph = insitu.load(trained(draw, seed), torch.zeros(1, *draw.fit[0].shape[1:]))
    names = [str(k) for k in range(draw.classes)]
    for scheme in SCHEMES:
        first = insitu.compile(graph, data=draw.fit[0][:100], scheme=scheme, classes=names, head_init="own",
                               max_classes=draw.classes + 1)  # fmt: skip
        found += [
            say({"kind": kind, "draw": seed, "scheme": scheme, **live(first, draw, which, cost)}) for which in KEPT
        ]
    return found


def show(runs: list[dict]) -> str:
    """Change of the old classes (the worst), and how much of the new one is recognised."""
    rows = []
    for kind in [*KINDS, "all"]:
        for which in KEPT:
            for head in (True, False):
                part = [r["both"] for r in runs if kind in (r["kind"], "all") and r["kept"] == which
                        and (r["scheme"] == "head") == head]  # fmt: skip
                if part:
                    rows.append((kind, which, "head" if head else "more", *_cells(np.array(part))))
    bouts = [f"after bout {n}" for n in SHOWN]
    return table(("", "kept", "trained", "old before", "20 labels", *bouts), rows)


def _cells(both: np.ndarray) -> list[str]:
    change, new = both[:, :, 0] - both[:, :1, 0], both[:, :, 1].mean(0)
    steps = [1, *(1 + n for n in SHOWN)]
    cells = [f"{change[:, i].mean():+.1f} ({change[:, i].min():+.1f}) / {new[i]:.0f}" for i in steps]
    return [f"{both[:, 0, 0].mean():.1f}", *cells]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", default=DRAWS, help="FIRST-END, END not included")
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument("--cost", type=float, default=0.0, help="of the others' samples, see Learner.keep")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "bench" / "added.json")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    kinds = [options.only] if options.only else list(KINDS)
    seeds = range(*map(int, options.draws.split("-")))
    runs = [one for seed in seeds for kind in kinds for one in run(kind, seed, options.cost)]
    print(show(runs))
    options.output.write_text(json.dumps({"about": machine(), "results": runs}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
