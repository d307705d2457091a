"""What a server notes about its rounds: bytes, replies, who took part, and what was dropped. Nothing here is averaged.

Devices also say things about themselves, which end on a terminal and on a page: `said` makes that short and harmless.
"""

from __future__ import annotations

from dataclasses import dataclass, field

MOST_SAID = 200  # characters of what a device says about itself
MOST_LINES = 100  # boards of which a gateway says something
DOWN, UP = 0, 1


@dataclass(frozen=True)
class Dropped:
    """A reply that was not averaged."""

    round: int
    node: int
    why: str


@dataclass
class Traffic:
    """Bytes of payload, and replies, of one round."""

    round: int
    down: int = 0
    up: int = 0
    replies: int = 0
    loss: float = 0.0
    who: list[dict] = field(default_factory=list)  # node, program, samples, and what a gateway had to leave out
    each: dict[str, list[int]] = field(default_factory=dict)  # node -> bytes to it, and from it

    def count(self, node: int, way: int, length: int) -> None:
        """So many bytes went this way."""
        self.each.setdefault(str(node), [0, 0])[way] += length
        if way == DOWN:
            self.down += length
        else:
            self.up += length


def said(words: object, most: int = MOST_SAID) -> str:
    """A device's words without control characters, and not too many of them."""
    return "".join(c if c.isprintable() else " " for c in str(words)[:most])
