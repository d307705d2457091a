"""What a training step updates, as data: the lines of a scheme. scheme.py reads and checks them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Update:
    """What is updated of one layer."""

    layer: str
    bias: bool = True
    share: Fraction = Fraction(0)  # share of the input channels; 1 is the whole weight
    channels: tuple[int, ...] = ()  # these channels instead of a share

    def __str__(self) -> str:
        words = [f"{self.layer:<28}", "bias" if self.bias else "    "]
        if self.channels:
            words.append("weight " + ",".join(map(str, self.channels)) + ("," if len(self.channels) == 1 else ""))
        elif self.share:
            words.append(f"weight {self.share}")
        return "  ".join(words).rstrip()


@dataclass(frozen=True)
class Scheme:
    name: str
    updates: tuple[Update, ...]  # if empty, only the head is trained

    def __str__(self) -> str:
        return "\n".join([f"# scheme {self.name}; the head is always trained", *map(str, self.updates)]) + "\n"

    def to_json(self) -> str:
        rows = [
            {"layer": u.layer, "bias": u.bias, "share": str(u.share), "channels": list(u.channels)}
            for u in self.updates
        ]
        return json.dumps({"name": self.name, "updates": rows}, indent=1)
