"""The data that the HTML page of a training run shows, from any device. Draws nothing (html.py does)."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from insitu.boards import Board
from insitu.deploy.lowering import LoweringCost
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
    """The share of samples that were classified correctly, before and after training."""

    name: str
    before: float
    after: float
    samples: int


@dataclass(frozen=True)
class Confusion:
    """counts[actual][predicted], before and after."""

    labels: tuple[str, ...]
    before: tuple[tuple[int, ...], ...]
    after: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Estimate:
    """Time and energy of one training step. Instructions are counted, cycles are not: see `assumption`."""

    step_ms: float
    step_mj: float | None
    assumption: str


@dataclass(frozen=True)
class RunReport:
    title: str
    summary: str
    device: str  # the device that the program ran on
    scores: tuple[Score, ...]  # the first is the one that training should improve
    sram: Memory
    flash: Memory
    arena: MemoryMap
    costs: tuple[LayerCost, ...]
    unit: str  # of the costs: "instructions" or "multiply-adds"
    step_instructions: int | None
    predict_instructions: int | None
    estimate: Estimate | None
    losses: tuple[float, ...]  # one per training step
    steps_an_epoch: int
    confusion: Confusion | None = None
    lowering: LoweringCost | None = None  # if the peak was lowered and its cost counted
    facts: tuple[tuple[str, str], ...] = ()  # versions and settings, to reproduce the run

    def to_json(self) -> dict:
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
    """The confusion matrices, counted from class numbers."""
    return Confusion(labels, _counts(len(labels), actual, before), _counts(len(labels), actual, after))


def _counts(size: int, actual, predicted) -> tuple[tuple[int, ...], ...]:
    table = [[0] * size for _ in range(size)]
    for a, p in zip(actual, predicted):
        table[int(a)][int(p)] += 1
    return tuple(map(tuple, table))
