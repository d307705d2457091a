"""What training a part of a network is expected to bring: one table, whoever filled it.

    blocks.9.pointwise1    bias 0.22    weight 1/8 0.56, 1/4 0.91, 1/2 1.48, 1 2.40

Gains are in any unit, as long as all have the same, and are added up: the gain of a scheme is the sum of its parts.
ladder.py fills a table from the structure of a network alone. Nothing here knows what a part costs (cost.py) or chooses
among parts (search.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from insitu.errors import SchemeError
from insitu.schemes.layers import Layer
from insitu.schemes.update import Scheme, Update, share_of

SHARES = tuple(Fraction(1, n) for n in (8, 4, 2, 1))


@dataclass(frozen=True)
class Gain:
    """What the bias of a layer brings, and each share of its weight; a share that is not listed is not offered."""

    bias: float = 0.0
    weight: Mapping[Fraction, float] | None = None

    @property
    def shares(self) -> Mapping[Fraction, float]:
        return self.weight or {}


@dataclass(frozen=True)
class Contribution:
    """Layer -> what its parts bring, in forward order."""

    source: str
    gains: Mapping[str, Gain]

    def of(self, scheme: Scheme) -> float:
        """The summed gain of a scheme; the gain of a share that is not in the table lies between its neighbours."""
        return sum(self._of(u) for u in scheme.updates)

    def _of(self, u: Update) -> float:
        gain = self.gains.get(u.layer, Gain())
        return gain.bias * u.bias + between(gain.shares, u.share)

    def to_json(self) -> str:
        rows = {
            name: {"bias": g.bias, "weight": {str(share): worth for share, worth in g.shares.items()}}
            for name, g in self.gains.items()
        }
        return json.dumps({"source": self.source, "gains": rows}, indent=1)


def read_contribution(text: str, layers: list[Layer], where: str = "contribution") -> Contribution:
    """A table that `to_json` wrote, for these layers."""
    try:
        found = json.loads(text)
        gains = {name: _gain(row) for name, row in found["gains"].items()}
        source = str(found["source"])
    except (ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError, RecursionError) as e:
        raise SchemeError(f"is not a table of contributions: {e}", where=where) from e
    unknown = [name for name in gains if name not in {layer.name for layer in layers}]
    if unknown:
        raise SchemeError(f'the model has no layer "{unknown[0]}"', where=where)
    return Contribution(source, gains)


def _gain(row: dict) -> Gain:
    return Gain(float(row["bias"]), {share_of(share): float(worth) for share, worth in row["weight"].items()})


def between(known: Mapping[Fraction, float], share: Fraction) -> float:
    """The gain of a share, on the line between its neighbours in the table; none for nothing."""
    points = [(Fraction(0), 0.0), *sorted(known.items())]
    for (a, low), (b, high) in pairwise(points):
        if share <= b:
            return low + (high - low) * float((share - a) / (b - a))
    return points[-1][1]
