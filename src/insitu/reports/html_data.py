"""The data that the HTML page about a learner shows, on any device. Draws nothing (html.py does)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from insitu.boards import Board
from insitu.reports.memory import MemoryMap


@dataclass(frozen=True)
class Piece:
    """Some bytes of a memory and what they are for."""

    name: str
    bytes: int
    note: str = ""


@dataclass(frozen=True)
class Memory:
    """How a memory is used. The pieces are complete: their sum is the memory used."""

    pieces: tuple[Piece, ...]
    limit_bytes: int | None = None  # the board's memory
    note: str = ""  # what is not counted, if anything

    @property
    def bytes(self) -> int:
        return sum(p.bytes for p in self.pieces)


@dataclass(frozen=True)
class LayerCost:
    """The cost of one layer in one training step, in the report's unit."""

    layer: str
    forward: int = 0
    backward: int = 0
    update: int = 0

    @property
    def total(self) -> int:
        return self.forward + self.backward + self.update


@dataclass(frozen=True)
class Score:
    """How good the outputs are before and after training; None if that was not measured."""

    name: str  # of the samples
    before: float | None
    after: float | None
    samples: int
    measure: str = "accuracy"  # the share that is right; or "error", the mean squared error
    spread: float | None = None  # of an error: the variance of the targets, which is the error of their mean

    @property
    def explained(self) -> float | None:
        """The share of the targets' variance that the outputs explain."""
        return 1 - self.after / self.spread if self.spread and self.after is not None else None


@dataclass(frozen=True)
class Group:
    """The results for one class, or for one output of a regression."""

    name: str
    samples: int
    before: float | None
    after: float


@dataclass(frozen=True)
class Mistake:
    """How often samples of a class were taken for another one."""

    actual: str
    predicted: str
    count: int


@dataclass(frozen=True)
class Confusion:
    """counts[actual][predicted], before and after; `before` is empty if that was not measured."""

    labels: tuple[str, ...]
    before: tuple[tuple[int, ...], ...]
    after: tuple[tuple[int, ...], ...]
    on: str = ""  # the samples that were counted, if not those of the first score


@dataclass(frozen=True)
class Estimate:
    """Time and energy of one training step. Instructions are counted, cycles are not: see `assumption`."""

    step_ms: float
    step_mj: float | None
    assumption: str


@dataclass(frozen=True)
class Speed:
    """Milliseconds on this machine."""

    step_ms: float | None
    predict_ms: float


@dataclass(frozen=True)
class RunReport:
    """A learner, before or after training, on any device."""

    title: str
    summary: str
    device: str  # the device that the program ran on
    scores: tuple[Score, ...]  # the first is the one that training should improve
    sram: Memory
    flash: Memory
    arena: MemoryMap | None
    costs: tuple[LayerCost, ...]
    unit: str  # of the costs: "instructions" or "multiply-adds"
    step_instructions: int | None
    predict_instructions: int | None
    estimate: Estimate | None
    losses: tuple[float, ...]  # one per training step
    steps_an_epoch: int
    confusion: Confusion | None = None
    in_float: bool = False  # were these losses of a float network, before it became this program?
    lowering: Mapping[str, Any] | None = None  # LoweringCost.to_json(), if the peak was lowered and its cost counted
    facts: tuple[tuple[str, str], ...] = ()  # versions and settings, to reproduce the run
    speed: Speed | None = None
    epochs: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # loss, accuracy, ...: one number per epoch
    groups: tuple[Group, ...] = ()  # results by class or output, the worst first
    mistakes: tuple[Mistake, ...] = ()  # the most frequent first
    next: tuple[str, ...] = ()  # what to do next
    notes: tuple[str, ...] = ()  # warnings
    story: tuple[tuple[str, str], ...] = ()  # what happened, in order: when, and what
    room: str = ""  # without a board: which boards are probably large enough

    @property
    def fits(self) -> bool | None:
        """None if there is no limit."""
        limits = [(m.bytes, m.limit_bytes) for m in (self.sram, self.flash) if m.limit_bytes]
        return all(used <= most for used, most in limits) if limits else None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def estimate(instructions: int, board: Board) -> Estimate:
    """Milliseconds and millijoules for a number of instructions, at one instruction per cycle."""
    power = f"{board.mw_per_mhz:g} mW/MHz" if board.mw_per_mhz else "no published power"
    words = (
        "Time and energy are estimates: instructions are counted, cycles are not. They assume one instruction per "
        f"cycle, {board.clock_mhz:g} MHz and {power} ({board.title}); wait states make it slower, dual issue faster."
    )
    return Estimate(board.milliseconds(instructions), board.millijoules(instructions), words)


def confusion(labels: tuple[str, ...], actual, before, after) -> Confusion:
    """The confusion matrices, counted from class numbers; `before` may be None."""
    first = () if before is None else counts(len(labels), actual, before)
    return Confusion(labels, first, counts(len(labels), actual, after))


def counts(size: int, actual, predicted) -> tuple[tuple[int, ...], ...]:
    table = [[0] * size for _ in range(size)]
    for a, p in zip(actual, predicted):
        table[int(a)][int(p)] += 1
    return tuple(map(tuple, table))
