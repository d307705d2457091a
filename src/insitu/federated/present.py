"""Who can take part in a round: all devices of the fleet, or those that are left.

Flower's strategies wait for a number of devices, for ever. A fleet waits like that for its first round only. Later it
waits for a while, and then goes on with those that are there: one that leaves must not stop the others. If it comes
back, it takes part again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

NUMBERS = ("min_train_nodes", "min_evaluate_nodes", "min_available_nodes")  # as Flower's strategies call them
SAMPLED = "num_sampled_clients"  # devices whose mean gets noise, as Flower's differential privacy calls it
PATIENCE, PAUSE = 60.0, 1.0  # seconds to wait for devices that were there before, and between two looks


def innermost(strategy: Strategy) -> Strategy:
    """The strategy inside wrappers: Flower's own, and ours."""
    while isinstance(inner := getattr(strategy, "strategy", None), Strategy):
        strategy = inner
    return strategy


@dataclass
class Present:
    """The numbers of devices that a strategy waits for, and what they were at first."""

    strategy: Strategy
    patience: float = PATIENCE
    wanted: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.strategy = innermost(self.strategy)
        self.wanted = {n: int(getattr(self.strategy, n)) for n in NUMBERS if hasattr(self.strategy, n)}

    def gather(self, grid: Grid) -> int:
        """Wait for the fleet, or for its rest, and let the strategy do with them. Returns how many there are."""
        most, end = max(self.wanted.values(), default=0), time.monotonic() + self.patience
        while (there := len(list(grid.get_node_ids()))) < most and (time.monotonic() < end or there == 0):
            time.sleep(min(PAUSE, self.patience))
        for name, number in self.wanted.items():
            setattr(self.strategy, name, min(number, max(1, there)))
        return there


def count_replies(strategy: Strategy, replies: int) -> None:
    """Noise for the mean of so many devices: with fewer of them, each one shows more in the mean."""
    if hasattr(strategy, SAMPLED) and getattr(strategy, "accountant", None) is None:  # that one refuses such a round
        setattr(strategy, SAMPLED, replies)
