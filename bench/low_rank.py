"""Low-rank updates next to shares of weights: accuracy against the bytes of arena and state, in float.

    python -m bench.low_rank                 a table; two networks, two seeds

`y = W x + B (A x)`: W is frozen, A (rank x inputs, drawn) and B (outputs x rank, zeros) are trained, by an ordinary
scheme that names them. A 3x3 convolution gets a 3x3 A and a 1x1 B. Everything is trained by `fit(x, y)` with nothing
else, on samples of a task that the network was not made for: digits with inverted colours, or turned by 90 degrees.
"""

from __future__ import annotations

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
SEEDS, SAMPLES = (0, 1), 200


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


def turned(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.rot90(x, axes=(2, 3)))


# name -> (network, the layers before the head that are trained, how the task differs)
TASKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], Callable[[np.ndarray], np.ndarray]]] = {
    "CNN, inverted digits": (small_cnn, (3, 6), lambda x: 1 - x),
    "wide MLP, turned digits": (flat, (1, 3), turned),
}


def lines(name: str) -> list[tuple[str, ...]]:
    """One line per scheme: bytes and accuracy."""
    make, chosen, change = TASKS[name]
    data = digits()
    base = trained(make(), data.x_train, data.y_train, steps=150)
    found = [_line(name, "head", base, "head", data, change)]
    for share in SHARES:
        scheme = "".join(f"{at}  bias  weight {share}\n" for at in chosen)
        found.append(_line(name, f"{share} of two weights", base, scheme, data, change))
    for rank in RANKS:
        torch.manual_seed(rank)
        layers = [LowRank(layer, rank) if at in chosen else layer for at, layer in enumerate(base)]
        scheme = "".join(f"{at}.{part}  weight 1\n" for at in chosen for part in ("down", "up"))
        found.append(_line(name, f"rank {rank}", nn.Sequential(*layers).eval(), scheme, data, change))
    return found


def _line(task: str, what: str, model: nn.Module, scheme: str, data, change) -> tuple[str, ...]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scheme.txt"
        path.write_text(scheme)
        given = "head" if scheme == "head" else str(path)
        learner = insitu.compile(model, example=torch.zeros(1, 1, 8, 8), precision="float", scheme=given)
    start, info, reached = learner.device.state(), learner.info(), []
    for seed in SEEDS:
        learner.device.load_arrays(start)
        some = np.random.default_rng(seed).permutation(len(data.x_train))[:SAMPLES]
        learner.fit(change(data.x_train[some]), data.y_train[some], seed=seed)
        reached.append(100 * learner.evaluate(change(data.x_test), data.y_test)["accuracy"])
    print(task, what, reached, learner.history.found if learner.history else "", file=sys.stderr, flush=True)
    size = info["arena_bytes"] + info["state_bytes"]
    return task, what, f"{info['state_bytes']:,}", f"{size:,}", f"{np.mean(reached):.1f}"


def main() -> int:
    warnings.simplefilter("ignore")
    found = [line for name in TASKS for line in lines(name)]
    print(table(("task", "trained", "state, bytes", "arena and state, bytes", "right, in %"), found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
