"""What the HTML page of a training run shows: plain data, from whatever device ran it. Draws nothing (html.py does)."""

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
    """Where a memory goes. The pieces are all of it: their sum is what was used."""

    pieces: tuple[Piece, ...]
    limit_bytes: int | None = None  # what the board has
    note: str = ""  # what is not counted, if anything

    @property
    def bytes(self) -> int:
        return sum(p.bytes for p in self.pieces)


@dataclass(frozen=True)
class LayerCost:
    """What one layer costs in one training step, in the report's unit."""

    layer: str
    forward: int = 0
    backward: int = 0
    update: int = 0

    @property
    def total(self) -> int:
        return self.forward + self.backward + self.update


@dataclass(frozen=True)
class Score:
    """A share of samples that were recognised, before and after training."""

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
    """Time and energy of one training step. Instructions are counted, cycles are not: `assumption` says the rest."""

    step_ms: float
    step_mj: float | None
    assumption: str


@dataclass(frozen=True)
class RunReport:
    title: str
    summary: str
    device: str  # what the program ran on
    scores: tuple[Score, ...]  # the first is the one that training was for
    sram: Memory
    flash: Memory
    arena: MemoryMap
    costs: tuple[LayerCost, ...]
    unit: str  # of the costs: "instructions" or "multiply-adds"
    step_instructions: int | None
    predict_instructions: int | None
    estimate: Estimate | None
    losses: tuple[float, ...]  # one a training step
    steps_an_epoch: int
    confusion: Confusion | None = None
    lowering: LoweringCost | None = None  # where something was done to need less memory, and counted
    facts: tuple[tuple[str, str], ...] = ()  # versions, settings: what somebody needs to do it again

    def to_json(self) -> dict:
        return asdict(self)


def estimate(instructions: int, board: Board) -> Estimate:
    """From a count of instructions to milliseconds and millijoules, at one instruction a cycle."""
    power = f"{board.mw_per_mhz:g} mW/MHz" if board.mw_per_mhz else "no published power"
    words = (
        "Time and energy are estimates: instructions are counted, cycles are not. Assumed are one instruction a "
        f"cycle, {board.clock_mhz:g} MHz and {power} ({board.title}); wait states and dual issue move it either way."
    )
    return Estimate(board.milliseconds(instructions), board.millijoules(instructions), words)


def confusion(labels: tuple[str, ...], actual, before, after) -> Confusion:
    """Counted from class numbers."""
    return Confusion(labels, _counts(len(labels), actual, before), _counts(len(labels), actual, after))


def _counts(size: int, actual, predicted) -> tuple[tuple[int, ...], ...]:
    table = [[0] * size for _ in range(size)]
    for a, p in zip(actual, predicted):
        table[int(a)][int(p)] += 1
    return tuple(map(tuple, table))
