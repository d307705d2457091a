"""Networks that know photos already: one line each, the most accurate first. A board gets the first that fits it.

The order was measured: a classifier on the features of twenty kinds of flowers, ten photos each
(bench/backbones.py). EfficientNet-Lite0 comes with a Python package, so nothing is downloaded; without its last four
blocks it is as accurate on such tasks, at a third of the weights. mcunet-5fps and mbv2-w0.35 are used if they are in
the cache (`insitu zoo get`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from insitu.errors import DataError
from insitu.graph import Graph
from insitu.importers import load
from insitu.importers.checkpoint.efficientnet import MEAN, STD, read_efficientnet
from insitu.preprocess import Transform
from insitu.zoo import ENTRIES, find, state_of

EFFICIENTNET = "efficientnet-lite0"


@dataclass(frozen=True)
class Backbone:
    """A network for photos, without its classifier."""

    name: str
    entry: str  # of the zoo
    make: Callable[[], Graph]  # takes u8 pixels
    head_after: str | None  # where the new classifier goes; None: in place of its own

    @property
    def here(self) -> bool:
        return state_of(ENTRIES[self.entry]) == "here"


def _efficientnet(blocks: int, size: int) -> Backbone:
    def make() -> Graph:
        return Transform(MEAN, STD).applied_to(read_efficientnet(find(EFFICIENTNET), size, blocks))

    return Backbone(f"{EFFICIENTNET}, {blocks} of 16 blocks, {size}x{size}", EFFICIENTNET, make, "pool")


def _checkpoint(name: str) -> Backbone:
    def make() -> Graph:
        graph = load(find(name))
        return Transform.raw(graph).applied_to(graph)

    return Backbone(f"{name}, 128x128", name, make, None)


BACKBONES = (
    _efficientnet(16, 160), _efficientnet(12, 128), _efficientnet(12, 96), _checkpoint("mcunet-5fps"),
    _checkpoint("mbv2-w0.35"), _efficientnet(11, 128), _efficientnet(9, 128), _efficientnet(9, 96),
    _efficientnet(6, 96), _efficientnet(4, 64),
)  # fmt: skip


def backbones(wanted: str | None) -> Iterator[Backbone]:
    """Those that are here, or those of one name; an error that says how to get one if there is none."""
    chosen = [b for b in BACKBONES if wanted in (None, b.name, b.entry)]
    if not chosen:
        raise DataError(f"there is no backbone {wanted!r}", hint=", ".join(dict.fromkeys(b.entry for b in BACKBONES)))
    found = [b for b in chosen if b.here]
    if not found:
        raise DataError("no network that knows photos is here", hint='pip install "insitu[teach]"')
    yield from found
