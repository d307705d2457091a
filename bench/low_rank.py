"""Low-rank updates next to shares of weights: accuracy against the bytes of arena and state, in float.

    python -m bench.low_rank                 a table; four networks, two seeds
    python -m bench.low_rank --only rank     a part of it

`y = W x + B (A x)`: W is frozen, A (rank x inputs, drawn) and B (outputs x rank, zeros) are trained, by an ordinary
scheme that names them. A 3x3 convolution gets a 3x3 A and a 1x1 B. Everything learns a task that the network was not
made for: digits with inverted colours, or turned by 90 degrees. Each line gets the best of six rates, one for all its
layers, by other digits than those learned or tested.
"""

from __future__ import annotations

import argparse
import copy
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import insitu
from bench.default_tasks import dense, small_cnn, trained
from insitu.demo.digits import digits
from insitu.terminal.table import table

RANKS = (1, 2, 4, 8, 16)
SHARES = ("1/8", "1/4", "1/2", "1")
SEEDS, SAMPLES, OTHERS = (0, 1), 200, 400  # digits to learn, and others to choose a rate by
RATES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)


class LowRank(nn.Module):
    """A layer with a correction of low rank beside it."""

    def __init__(self, base: Any, rank: int):
        super().__init__()
        self.base = base
        if isinstance(base, nn.Linear):
            self.down, self.up = (
                nn.Linear(base.in_features, rank, bias=False),
                nn.Linear(rank, base.out_features, bias=False),
            )
        else:
            self.down = nn.Conv2d(base.in_channels, rank, base.kernel_size, base.stride, base.padding, bias=False)
            self.up = nn.Conv2d(rank, base.out_channels, 1, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


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
    "CNN, inverted digits": (small_cnn, ("3", "6"), lambda x: 1 - x),
    "wide MLP, turned digits": (flat, ("1", "3"), turned),
    "attention, turned digits": (tokens, ("3.q", "3.v"), turned),
    "wide head, turned digits": (wide, ("3",), turned),
}


def lines(name: str, only: str = "") -> list[tuple[str, ...]]:
    """One line per scheme whose name contains `only`: bytes and accuracy."""
    make, chosen, change = TASKS[name]
    data = digits()
    base = trained(make(), data.x_train, data.y_train, steps=150)
    wanted = [(what, *made) for what, made in programs(base, chosen).items() if only in f"{name} {what}"]
    return [_line(name, what, model, scheme, data, change) for what, model, scheme in wanted]


def programs(base: Any, chosen: tuple[str, ...]) -> dict[str, tuple[nn.Module, str]]:
    """What is trained -> the network, its scheme."""
    found: dict[str, tuple[nn.Module, str]] = {"head": (base, "head")}
    for share in SHARES:
        found[f"{share} of weights"] = base, "".join(f"{name}  bias  weight {share}\n" for name in chosen)
    for rank in RANKS:
        torch.manual_seed(rank)
        scheme = "".join(f"{name}.{part}  weight 1\n" for name in chosen for part in ("down", "up"))
        found[f"rank {rank}"] = with_factors(base, chosen, rank), scheme
    return found


def with_factors(base: Any, chosen: tuple[str, ...], rank: int) -> nn.Module:
    """The network with a correction of low rank beside each of these layers."""
    model = copy.deepcopy(base)
    for name in chosen:
        model.set_submodule(name, LowRank(model.get_submodule(name), rank))
    return model.eval()


def _line(task: str, what: str, model: nn.Module, scheme: str, data, change) -> tuple[str, ...]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scheme.txt"
        path.write_text(scheme)
        given = "head" if scheme == "head" else str(path)
        learner = insitu.compile(model, example=torch.zeros(1, 1, 8, 8), precision="float", scheme=given)
    info, reached = learner.info(), [_tuned(learner, data, change, seed) for seed in SEEDS]
    print(task, what, reached, file=sys.stderr, flush=True)
    size = info["arena_bytes"] + info["state_bytes"]
    return task, what, f"{info['state_bytes']:,}", f"{size:,}", f"{np.mean([right for right, _ in reached]):.1f}"


def _tuned(learner: insitu.Learner, data, change, seed: int) -> tuple[float, float]:
    """What is right in % after learning at the best rate, and that rate."""
    start, order = learner.device.state(), np.random.default_rng(seed).permutation(len(data.x_train))
    some, others = order[:SAMPLES], order[SAMPLES : SAMPLES + OTHERS]
    known, found = (change(data.x_train[others]), data.y_train[others]), {}
    for rate in RATES:
        learner.device.load_arrays(start)
        learner.fit(change(data.x_train[some]), data.y_train[some], seed=seed, rate=rate)
        test = learner.evaluate(change(data.x_test), data.y_test)["accuracy"]
        found[rate] = learner.evaluate(*known)["accuracy"], 100 * test
    learner.device.load_arrays(start)
    best = max(found, key=lambda rate: found[rate][0])
    return float(found[best][1]), best


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="tasks and schemes whose name contains this")
    only = parser.parse_args(argv).only
    warnings.simplefilter("ignore")
    found = [line for name in TASKS for line in lines(name, only)]
    print(table(("task", "trained", "state, bytes", "arena and state, bytes", "right, in %"), found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
