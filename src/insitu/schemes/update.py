"""What a training step updates, as data: the lines of a scheme. scheme.py reads and checks them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from fractions import Fraction

AUTO = "auto:"  # how names of schemes begin that nobody asked for
SHARE = re.compile(r"\d{1,9}/\d{1,9}|\d{1,9}(\.\d{0,9})?|\.\d{1,9}")


@dataclass(frozen=True)
class Update:
    """What is updated of one layer."""

    layer: str
    bias: bool = True
    share: Fraction = Fraction(0)  # share of the input channels; 1 is the whole weight
    channels: tuple[int, ...] = ()  # these channels instead of a share
    rank: int = 0  # instead of the weight, factors of a product that is added to it (low_rank.py)

    def __str__(self) -> str:
        words = [f"{self.layer:<28}", "bias" if self.bias else "    "]
        if self.channels:
            words.append("weight " + ",".join(map(str, self.channels)) + ("," if len(self.channels) == 1 else ""))
        elif self.share:
            words.append(f"weight {self.share}")
        elif self.rank:
            words.append(f"rank {self.rank}")
        return "  ".join(words).rstrip()


def share_of(text: str) -> Fraction:
    """A share in a file, such as 1/4 or 0.25. Without exponents: Fraction("1e99999999") computes for minutes."""
    if not SHARE.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not a share")
    return Fraction(text)


@dataclass(frozen=True)
class Scheme:
    name: str
    updates: tuple[Update, ...]  # if empty, only the head is trained
    lower: tuple[Scheme, ...] = ()  # parts of it that the same program can train instead, chosen at run time

    @property
    def rests(self) -> bool:
        """Was it chosen by the compiler? Then only the head learns until a fit finds a rate for the other layers."""
        return self.name.startswith(AUTO)

    def __str__(self) -> str:
        return "\n".join([f"# scheme {self.name}; the head is always trained", *map(str, self.updates)]) + "\n"

    def to_json(self) -> str:
        rows = [
            {"layer": u.layer, "bias": u.bias, "share": str(u.share), "channels": list(u.channels),
             **({"rank": u.rank} if u.rank else {})}
            for u in self.updates
        ]  # fmt: skip
        lower = {"lower": [json.loads(low.to_json()) for low in self.lower]} if self.lower else {}
        return json.dumps({"name": self.name, "updates": rows, **lower}, indent=1)

    @property
    def verb(self) -> str:
        """The function that makes a step of this scheme, where it is one of several."""
        return "train_step_" + re.sub(r"\W", "_", self.name, flags=re.ASCII)

    def trains(self, layer: str, kind: str) -> bool:
        """Does it train the weight or the bias of this layer?"""
        u = next((u for u in self.updates if u.layer == layer), None)
        return u is not None and (u.bias if kind == "bias" else bool(u.share or u.channels or u.rank))
