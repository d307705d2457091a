"""Networks that know photos or words already: one line each, the most accurate first. A board gets the first that fits.

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
from insitu.preprocess import Audio, Transform
from insitu.zoo import ENTRIES, find, state_of

EFFICIENTNET = "efficientnet-lite0"
WORDS = "kws-dscnn-int8"
NEW = "new"  # no backbone: a new network learns from nothing


@dataclass(frozen=True)
class Backbone:
    """A network for photos or sounds, without its classifier."""

    name: str
    entry: str  # of the zoo
    make: Callable[[], Graph]  # takes u8 pixels or int16 sound
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


def _words() -> Backbone:
    """MLPerf Tiny's DS-CNN heard loud clips: a microphone's are amplified."""
    return Backbone(f"{WORDS}, MFCC of a second", WORDS, lambda: Audio(gain=4.0).applied_to(load(find(WORDS))), None)


BACKBONES = (
    _efficientnet(16, 160), _efficientnet(12, 128), _efficientnet(12, 96), _checkpoint("mcunet-5fps"),
    _checkpoint("mbv2-w0.35"), _efficientnet(11, 128), _efficientnet(9, 128), _efficientnet(9, 96),
    _efficientnet(6, 96), _efficientnet(4, 64),
)  # fmt: skip


LISTENERS = (_words(),)


def backbones(wanted: str | None, sounds: bool = False) -> Iterator[Backbone]:
    """Those that are here, or those of one name. None for photos is an error that says how to get one; for sounds, a
    new network can learn from nothing."""
    known = () if wanted == NEW else LISTENERS if sounds else BACKBONES
    chosen = [b for b in known if wanted in (None, b.name, b.entry)]
    if known and not chosen:
        names = (NEW, *dict.fromkeys(b.entry for b in known))
        raise DataError(f"there is no backbone {wanted!r}", hint=", ".join(names))
    found = [b for b in chosen if b.here]
    if known and not found and (wanted or not sounds):
        hint = f"insitu zoo get {WORDS}" if sounds else 'pip install "insitu[teach]"'
        raise DataError(f"no network that knows {'words' if sounds else 'photos'} is here", hint=hint)
    yield from found
