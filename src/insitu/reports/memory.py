"""The arena as a picture: where each value is, and when. Made from a plan; plans nothing itself."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from string import ascii_letters

from insitu.planner import Plan
from insitu.terminal.table import size, table

EMPTY = "."


@dataclass(frozen=True)
class Block:
    """Bytes of the arena that hold these values from step `first` to step `last`."""

    values: tuple[str, ...]
    type: str
    offset: int
    bytes: int
    first: int
    last: int


@dataclass(frozen=True)
class MemoryMap:
    steps: tuple[str, ...]  # the layer each step computes
    blocks: tuple[Block, ...]
    arena_bytes: int
    lower_bound_bytes: int
    peak_step: int

    def to_json(self) -> dict:
        return asdict(self)

    def to_text(self, width: int = 72, height: int = 12) -> str:
        """Steps go to the right, addresses go up; each block has a letter, explained below the map."""
        return "\n".join([self.headline(), "", *self._picture(width, height), "", self._legend()])

    def headline(self) -> str:
        peak = self.steps[self.peak_step] if self.steps else "-"
        return (
            f"arena {size(self.arena_bytes)}, lower bound {size(self.lower_bound_bytes)} in this order; "
            f"peak at step {self.peak_step} ({peak})"
        )

    def alive(self, step: int) -> tuple[Block, ...]:
        return tuple(b for b in self.blocks if b.first <= step <= b.last)

    def _picture(self, width: int, height: int) -> list[str]:
        columns = _columns(len(self.steps), width)
        margin = len(f"{self.arena_bytes:,}")
        lines = []
        for row in reversed(range(height)):
            top = f"{self.arena_bytes:,}" if row == height - 1 else ""
            lines.append(f"{top:>{margin}} |{''.join(self._cell(row, height, step) for step in columns)}")
        lines.append(f"{0:>{margin}} +{'-' * len(columns)}")
        last = max(len(self.steps) - 1, 0)
        return [*lines, f"{'':>{margin}}  step 0{f'{last}':>{max(len(columns) - 6, 1)}}"]

    def _cell(self, row: int, height: int, step: int) -> str:
        """The letter of the block that covers most of this band of addresses at this step."""
        low, high = (self.arena_bytes * r / height for r in (row, row + 1))
        covered = {i: _overlap(b, low, high) for i, b in enumerate(self.blocks) if b.first <= step <= b.last}
        best = max(covered, key=covered.__getitem__, default=None)
        return EMPTY if best is None or covered[best] <= 0 else _letter(best)

    def _legend(self) -> str:
        """The blocks alive at the peak, largest first: a list of all blocks would be as long as the program."""
        peak = sorted(self.alive(self.peak_step), key=lambda b: -b.bytes)
        letters = {b: _letter(i) for i, b in enumerate(self.blocks)}
        rows = [(letters[b], _name(b), b.type, b.bytes, b.offset, f"{b.first}-{b.last}") for b in peak]
        return table(("", "at the peak", "type", "bytes", "offset", "steps"), rows, widest=44)


def memory_map(plan: Plan) -> MemoryMap:
    steps = tuple(node.name for node in plan.graph.nodes)
    blocks = []
    for b in plan.buffers:
        value = plan.graph.values.get(b.names[-1])
        kind = _short_type(value.type) if value else ""
        for first, last, held in b.pieces:
            span = max(first, 0), min(last, len(steps) - 1)
            blocks.append(Block(b.names, kind, plan.offsets[b.names[0]], held, *span))
    blocks.sort(key=lambda b: (b.first, b.offset))
    return MemoryMap(steps, tuple(blocks), plan.arena_bytes, plan.lower_bound_bytes, plan.peak_step)


def _name(block: Block) -> str:
    return "scratch" if block.values[0].startswith("scratch ") else block.values[-1]


def _short_type(type) -> str:
    return str(type.with_dtype(type.dtype))


def _overlap(block: Block, low: float, high: float) -> float:
    return min(block.offset + block.bytes, high) - max(block.offset, low)


def _letter(index: int) -> str:
    return ascii_letters[index % len(ascii_letters)]


def _columns(steps: int, width: int) -> list[int]:
    """The step that each column shows: repeated if there are few steps, some left out if there are many."""
    if steps == 0:
        return []
    if steps > width:
        return [c * steps // width for c in range(width)]
    return [step for step in range(steps) for _ in range(min(width // steps, 6))]
