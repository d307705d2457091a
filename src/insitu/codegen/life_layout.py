"""The sizes and places of a living program: how many samples fit, how large a checkpoint is, where both are.

`Life` is what was asked for and where the flash is; `Layout` what follows from that and the program. Nothing is decided
at run time. life.py writes the files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from insitu.boards import Pages
from insitu.errors import BudgetError, GraphError
from insitu.graph import Graph, Value
from insitu.terminal.wording import option
from insitu.training.head import HEAD
from insitu.training.living import LEARN, RECALL
from insitu.training.newcomer import may_take

if TYPE_CHECKING:
    from insitu.codegen.program import Program

# bytes of the structs in c/device/rules.h and life.h
RECORD, CLASS, PAST, NOW, SEGMENT, SLOT_HEAD, BANK_HEAD = 12, 60, 256, 176, 12, 16, 28
WORD, LATE = 4, 8  # the mark of a row; the end of a checkpoint
MOST_PAGES = 16  # of a segment
LEAST_SEGMENTS = 4  # one is always empty, one is for what was dropped
MOST_RECORDS = 16_384
STORE_RULES = ("balanced", "oldest", "informative", "typical")  # what gives way when a store is full: store/rules.py


@dataclass(frozen=True)
class LifeClass:
    """What is known of a class before the first day: the mean of its features, and of how many samples it is."""

    number: int
    count: int
    mean: tuple[float, ...]


@dataclass(frozen=True)
class Life:
    """What a living program was asked to keep, and where."""

    model: str  # identifies the training program: states of both are the same
    store_bytes: int
    pages: Pages | None = None  # of the flash that holds samples and checkpoints; None: samples in SRAM, no checkpoints
    flash_end: int = 0  # the first address behind them
    first: tuple[LifeClass, ...] = ()  # classes that were learned elsewhere
    rule: str = STORE_RULES[0]  # what gives way when the store is full
    cost: float = 0.0  # the share of the others' kept samples that a class that was added may take


@dataclass(frozen=True, eq=False)
class Layout:
    """The sizes and places of a living program."""

    life: Life
    latents: tuple[Value, ...]
    state_bytes: int
    classes: int
    features: int  # that the head reads; 0 without a float head
    alone: bool = False  # is nothing but the head trained?

    @cached_property
    def offsets(self) -> dict[str, int]:
        """Latent -> its offset in a record."""
        found, at = {}, 0
        for v in self.latents:
            found[v.name] = at
            at += -(-v.type.bytes // 4) * 4
        return found

    @property
    def latent_bytes(self) -> int:
        return sum(-(-v.type.bytes // 4) * 4 for v in self.latents)

    @property
    def word(self) -> int:
        return self.life.pages.word if self.life.pages else 4

    @property
    def slot_bytes(self) -> int:
        """A sample in the store, with what belongs to it."""
        return _up(self.latent_bytes, self.word) + SLOT_HEAD + self.word if self.life.pages else 4 + self.latent_bytes

    @cached_property
    def segment_pages(self) -> int:
        """Pages that are erased together: as few as hold the most samples."""
        if not self.life.pages:
            return 0
        return max(range(1, MOST_PAGES + 1), key=lambda pages: (self._fitting(pages), -pages))

    def _fitting(self, pages: int) -> int:
        assert self.life.pages
        segments = self.life.store_bytes // (pages * self.life.pages.bytes)
        return (segments - 2) * self._slots(pages) if segments >= LEAST_SEGMENTS else 0

    def _slots(self, pages: int) -> int:
        assert self.life.pages
        return (pages * self.life.pages.bytes - SLOT_HEAD - self.word) // self.slot_bytes

    @property
    def segment_bytes(self) -> int:
        return self.segment_pages * self.life.pages.bytes if self.life.pages else 0

    @property
    def segment_slots(self) -> int:
        return self._slots(self.segment_pages) if self.life.pages else 0

    @property
    def segments(self) -> int:
        return self.life.store_bytes // self.segment_bytes if self.life.pages else 0

    @property
    def capacity(self) -> int:
        """How many samples fit. In SRAM there is one slot more, for a newcomer."""
        if self.life.pages:
            return min(self._fitting(self.segment_pages), MOST_RECORDS)
        return min(self.life.store_bytes // self.slot_bytes - 1, MOST_RECORDS)

    @property
    def compares(self) -> bool:
        """Are samples of a class compared, to find the one that it can spare (c/device/typical.c)?"""
        return self.alone and self.features > 0 and self.life.rule == "typical"

    @property
    def spared(self) -> int:
        """How many kept samples are remembered while a new row is tried, to let it take all but the last of them."""
        return may_take(self.life.cost, self.capacity + 1) + 1 if self.life.cost and self.features else 0

    @property
    def sram_bytes(self) -> int:
        """What a life takes beside arena and state, within some words."""
        kept = (RECORD + 1) * (self.capacity + 1) + (SEGMENT * self.segments if self.life.pages else 0)
        known = PAST + NOW + self.classes * (CLASS + 4 * self.features) + self.latent_bytes
        known += WORD * self.classes if self.features else 0  # marks of rows
        known += 8 * self.features + self.latent_bytes if self.compares else 0
        known += 8 * self.spared
        store = 0 if self.life.pages else self.slot_bytes * (self.capacity + 1) + self.state_bytes
        return kept + known + store

    @property
    def bank_bytes(self) -> int:
        """A checkpoint's place, in whole pages."""
        if not self.life.pages:
            return 0
        life = PAST + self.classes * (CLASS + 4 * self.features) + RECORD * (self.capacity + 1) + LATE
        return _up(_up(BANK_HEAD, self.word) + self.state_bytes + life, self.life.pages.bytes)

    @property
    def store_flash(self) -> int:
        return self.segments * self.segment_bytes

    @property
    def flash_bytes(self) -> int:
        """The end of the flash that the program must not reach."""
        return self.store_flash + 2 * self.bank_bytes

    @property
    def origin(self) -> int:
        return self.life.flash_end - self.flash_bytes

    def check(self) -> None:
        """Raise an error if not even a few samples fit."""
        if self.capacity < 5:
            least = LEAST_SEGMENTS * (self.life.pages.bytes if self.life.pages else 0)
            least = max(least, 8 * self.slot_bytes) if self.life.pages else 6 * self.slot_bytes
            what = f"a store of {self.life.store_bytes:,} bytes holds {max(self.capacity, 0)} samples"
            raise BudgetError(
                f"{what}; each takes {self.slot_bytes:,} bytes", hint=option(store=f"{-(-least // 1024)}K")
            )

    def to_json(self) -> dict:
        """What a client needs to know, and what reports show."""
        return {
            "capacity": self.capacity, "classes": self.classes, "features": self.features,
            "latent_bytes": self.latent_bytes, "slot_bytes": self.slot_bytes, "store_bytes": self.life.store_bytes,
            "in": "flash" if self.life.pages else "SRAM", "segments": self.segments,
            "segment_pages": self.segment_pages, "bank_bytes": self.bank_bytes,
            "origin": self.origin if self.life.pages else None, "flash_bytes": self.flash_bytes,
            "page_bytes": self.life.pages.bytes if self.life.pages else 0, "word_bytes": self.word,
        }  # fmt: skip


def _up(bytes: int, unit: int) -> int:
    return -(-bytes // unit) * unit


def layout_of(program: Program) -> Layout | None:
    """The layout of a living program; None for any other."""
    if program.life is None:
        return None
    return layout_from({verb: plan.graph for verb, plan in program.plans.items()}, program.life, program.state_bytes)


def layout_from(graphs: Mapping[str, Graph], life: Life, state_bytes: int) -> Layout:
    """The same from the graphs, before anything is planned."""
    outputs, *features = graphs[RECALL].outputs
    learn = graphs[LEARN]
    count = len(learn.inputs) - 2  # then the label and the rate
    if learn.inputs[-2].name != "labels":
        raise GraphError("a program with a store learns classes", hint="the loss cross_entropy")
    width = features[0].type.size if features else 0
    alone = set(graphs["predict"].state) == {f"{HEAD}.weight", f"{HEAD}.bias"}
    return Layout(life, learn.inputs[:count], state_bytes, outputs.shape[-1], width, alone)
