"""What a region would need as a loop over stripes of some height, without making it: bytes, and rough instructions.

Less scratch can be chosen per node: only the node's own turn then needs less (less_scratch.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from insitu.graph import Node, Value
from insitu.graph.loops import scratch_bytes
from insitu.planner.changes.less_scratch import LEVELS, at_level
from insitu.planner.changes.stripes.lines import Kept, kept_best
from insitu.planner.changes.stripes.loop import Emit, Known, call_on
from insitu.planner.changes.stripes.schedule import Pace, Schedule

CALL_COST = 500  # the cost of a call apart from its arithmetic, in units of a byte read
Levels = tuple[int, ...]  # of scratch, for each node: 0 is the usual call
Scratches = dict[tuple[Pace, int], int]  # bytes of scratch by level


@dataclass(frozen=True, eq=False)
class Sketch:
    schedule: Schedule
    weights: dict[str, int]  # node -> bytes of constants that each of its calls reads
    emit: Emit
    known: Known
    scratches: Scratches  # of this region and others

    @cached_property
    def kept(self) -> Kept:
        return kept_best(self.schedule, [self.scratch(i, self.levels(i)) for i in range(len(self.nodes))])

    @property
    def lines(self) -> tuple[int, ...]:
        """Bytes of line buffers in each turn."""
        return self.kept.lines

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self.schedule.region.nodes

    @cached_property
    def paces(self) -> tuple[Pace, ...]:
        return tuple(self.schedule.pace.values())

    def scratch(self, i: int, level: int) -> int:
        """Bytes of a node's scratch at a level."""
        key = self.paces[i], level
        if key not in self.scratches:
            node = at_level(self.nodes[i], level)
            calls = (call_on(node, sizes, self.emit, self.known) for sizes in self.paces[i].sizes)
            self.scratches[key] = max(map(scratch_bytes, calls))
        return self.scratches[key]

    def levels(self, i: int) -> int:
        """The tightest level that a node supports."""
        return LEVELS if self.nodes[i].op.asks("emit", "tight") else 0

    @cached_property
    def _under(self) -> dict[str, bool]:
        return {}

    def grows_over(self, source: Value) -> bool:
        """Can the result overwrite this input row by row?"""
        if source.name not in self._under:
            self._under[source.name] = self.schedule.grows_over(source)
        return self._under[source.name]

    def within(self, room: float) -> Levels | None:
        """The levels with which it needs at most this many bytes; None if impossible."""
        if max(self.lines) > room:
            return None
        found = []
        for i, lines in enumerate(self.lines):
            tries = range(self.levels(i) + 1)
            level = next((level for level in tries if lines + self.scratch(i, level) <= room), None)
            if level is None:
                return None
            found.append(level)
        return tuple(found)

    @property
    def least(self) -> int:
        """The fewest bytes that are possible."""
        return self.bytes(tuple(self.levels(i) for i in range(len(self.nodes))))

    def bytes(self, levels: Levels) -> int:
        return max(lines + self.scratch(i, levels[i]) for i, lines in enumerate(self.lines))

    def cost(self, levels: Levels) -> float:
        """Calls, weights read again per call and for less scratch, rows read again, rows moved."""
        again = 0.0
        for i, level in enumerate(levels):
            if level:
                times = self.scratch(i, 0) / self.scratch(i, level) - 1
                again += self.paces[i].calls * self.weights[self.nodes[i].name] * times
        return self._plain + again

    @cached_property
    def _plain(self) -> int:
        calls = sum(pace.calls * (CALL_COST + self.weights[pace.node.name]) for pace in self.paces)
        read = sum(pace.read_bytes for pace in self.paces)
        return calls + read + self.schedule.moved_bytes(self.kept.away)
