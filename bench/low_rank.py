"""Low-rank updates next to shares of weights: accuracy against the bytes of arena and state, in float.

    python -m bench.low_rank                 a table; four networks, three seeds
    python -m bench.low_rank --only rank     a part of it
    python -m bench.low_rank --others        three more networks and tasks
    python -m bench.low_rank --tuned         the best of six rates, by other digits than those learned or tested

`y = W x + b + B (A x)`: W is frozen, A (rank x inputs, drawn) and B (outputs x rank, zeros) are trained
(insitu/schemes/low_rank.py). Everything learns a task that the network was not made for: digits with inverted colours,
or turned by 90 degrees. Without `--tuned`, each line is what `fit(x, y)` reaches with nothing else.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn

import insitu
from bench.default_tasks import dense, trained
from bench.low_rank_tasks import TASKS as OTHERS_TASKS
from bench.low_rank_tasks import Task
from insitu.demo.digits import digits
from insitu.terminal.table import table

COMPARED = ("head", "bias:2", "last:1", "lora:2", "lora:4", "auto")
RANKS = (2, 4, 8)
WORDS = ("head", "lora:4", "auto")
SHARES = ("1/8", "1/4", "1")
SEEDS, SAMPLES, OTHERS = (0, 1, 2), 200, 400  # digits to learn, and others to choose a rate by
RATES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)


def pointwise() -> nn.Module:
    """Depthwise convolutions, and 1x1 ones that mix their channels."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 48, 1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(48, 48, 3, padding=1, groups=48), nn.ReLU(), nn.Conv2d(48, 64, 1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip


def flat() -> nn.Module:
    """Wide dense layers."""
    return nn.Sequential(nn.Flatten(), *dense(64, 256, 256, 10))


def wide() -> nn.Module:
    """A wide last layer, and ten by ten numbers behind it for what is always trained."""
    return nn.Sequential(nn.Flatten(), *dense(64, 1024, 10), nn.Linear(10, 10))


class Attention(nn.Module):
    """Four heads of attention over tokens [1, count, width], and what came in."""

    def __init__(self, width: int):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        count, width = x.shape[1:]
        q, k, v = (f(x).reshape(-1, count, 4, width // 4).transpose(1, 2) for f in (self.q, self.k, self.v))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        return x + self.o(mixed.reshape(-1, count, width))


def tokens() -> nn.Module:
    """Each line of a digit is a token of 64 numbers."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(1, 2), nn.Linear(8, 64), nn.ReLU(), Attention(64), nn.Flatten(), nn.Linear(512, 10))


def turned(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.rot90(x, axes=(2, 3)))


# name -> (network, the layers that are trained or get factors, how the task differs)
TASKS: dict[str, tuple[Callable[[], nn.Module], tuple[str, ...], Callable[[np.ndarray], np.ndarray]]] = {
    "CNN, inverted digits": (pointwise, ("2", "7"), lambda x: 1 - x),
    "wide MLP, turned digits": (flat, ("1", "3"), turned),
    "attention, turned digits": (tokens, ("3.q", "3.v"), turned),
    "wide head, turned digits": (wide, ("3",), turned),
}


def lines(name: str, only: str, tuned: bool) -> list[tuple[str, ...]]:
    """One line per scheme whose name contains `only`: bytes and accuracy."""
    make, chosen, change = TASKS[name]
    data = digits()
    base = trained(make(), data.x_train, data.y_train, steps=150)
    wanted = [(what, scheme) for what, scheme in schemes(chosen).items() if only in f"{name} {what}"]
    return [_line(name, what, base, scheme, data, change, tuned) for what, scheme in wanted]


def schemes(chosen: tuple[str, ...]) -> dict[str, str]:
    """What is trained -> a scheme's name or its lines."""
    found = {word: word for word in WORDS}
    for share in SHARES:
        found[f"{share} of weights"] = "".join(f"{name}  bias  weight {share}\n" for name in chosen)
    for rank in RANKS:
        found[f"rank {rank}"] = "".join(f"{name}  rank {rank}\n" for name in chosen)
    return found


def _line(task: str, what: str, model: nn.Module, scheme: str, data, change, tuned: bool) -> tuple[str, ...]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scheme.txt"
        path.write_text(scheme)
        given = scheme if scheme in WORDS else str(path)
        learner = insitu.compile(model, example=torch.zeros(1, 1, 8, 8), precision="float", scheme=given)
    info, reached = learner.info(), [(_tuned if tuned else _usual)(learner, data, change, seed) for seed in SEEDS]
    print(task, what, reached, file=sys.stderr, flush=True)
    size = info["arena_bytes"] + info["state_bytes"]
    return task, what, f"{info['state_bytes']:,}", f"{size:,}", f"{np.mean([right for right, _ in reached]):.1f}"


def _usual(learner: insitu.Learner, data, change, seed: int) -> tuple[float, str]:
    """What is right in % after `fit(x, y)` with nothing else, and the rate that it found."""
    start, some = learner.device.state(), _some(data, seed)[:SAMPLES]
    history = learner.fit(change(data.x_train[some]), data.y_train[some], seed=seed)
    right = 100 * learner.evaluate(change(data.x_test), data.y_test)["accuracy"]
    learner.device.load_arrays(start)
    return float(right), str(history)


def _tuned(learner: insitu.Learner, data, change, seed: int) -> tuple[float, str]:
    """What is right in % after learning at the best of several rates, and that rate."""
    start, order = learner.device.state(), _some(data, seed)
    some, others = order[:SAMPLES], order[SAMPLES : SAMPLES + OTHERS]
    known, found = (change(data.x_train[others]), data.y_train[others]), {}
    for rate in RATES:
        learner.device.load_arrays(start)
        learner.fit(change(data.x_train[some]), data.y_train[some], seed=seed, rate=rate)
        test = learner.evaluate(change(data.x_test), data.y_test)["accuracy"]
        found[rate] = learner.evaluate(*known)["accuracy"], 100 * test
    learner.device.load_arrays(start)
    best = max(found, key=lambda rate: found[rate][0])
    return float(found[best][1]), f"rate {best}"


def _some(data, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(len(data.x_train))


def others(name: str) -> list[tuple[str, ...]]:
    """What `fit(x, y)` reaches with nothing else on a task of low_rank_tasks.py, from few samples and from all."""
    task, found = OTHERS_TASKS[name](), []
    for scheme in COMPARED:
        learner = insitu.compile(task.model, example=task.example, precision="float", scheme=scheme)
        info, start = learner.info(), learner.device.state()
        for count in (task.learned // 4, task.learned):
            reached = [_reached(learner, task, count, seed, start) for seed in SEEDS]
            print(name, scheme, count, reached, file=sys.stderr, flush=True)
            size = info["arena_bytes"] + info["state_bytes"]
            found.append((f"{name}, {count} samples", scheme, f"{info['state_bytes']:,}", f"{size:,}",
                          f"{np.mean(reached):.1f}"))  # fmt: skip
    return found


def _reached(learner: insitu.Learner, task: Task, count: int, seed: int, start) -> float:
    order = np.random.default_rng(seed).permutation(len(task.x))
    some, tested = order[:count], order[task.learned :]
    learner.device.load_arrays(start)
    learner.fit(task.x[some], task.y[some], seed=seed)
    return 100 * float(learner.evaluate(task.x[tested], task.y[tested])["accuracy"])


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="tasks and schemes whose name contains this")
    parser.add_argument("--tuned", action="store_true", help="the best of six rates, instead of fit's own")
    parser.add_argument("--others", action="store_true", help="the three tasks of low_rank_tasks.py")
    given = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    if given.others:
        found = [line for name in OTHERS_TASKS if given.only in name for line in others(name)]
    else:
        found = [line for name in TASKS for line in lines(name, given.only, given.tuned)]
    print(table(("task", "trained", "state, bytes", "arena and state, bytes", "right, in %"), found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
