"""The programs that the same graphs make for a small machine, from the fewest instructions to the least memory.

Programs differ in how far the peak of their arena is lowered, which costs instructions, and in how a state is received:
it waits in the arena until it has been checked, or overwrites the old one (*in place*) if that is what decides whether
the program fits, or if the least memory is wanted and much is saved. All of them learn the same bytes. Each is planned
on demand, and once. Nothing is linked here (deployment.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from insitu.codegen import Program, emit_program
from insitu.codegen.device import device_arena_bytes, staged_bytes
from insitu.codegen.life_layout import Life, layout_from
from insitu.codegen.program import fingerprint_of
from insitu.deploy.limits import Limits
from insitu.graph import Graph
from insitu.planner import Made, plan_all
from insitu.planner.spent import spent, spent_text
from insitu.terminal.progress import stage
from insitu.training.living import living

# where nothing is linked: an estimate of stack and protocol, from their size on a Cortex-M
UNLINKED_SRAM = 4096
LINKED_SRAM = 2048  # stack and protocol of a small program on a Cortex-M
LEAST_SRAM = 1024  # no program has less
PLACED = 0.95  # at least this share of an arena is alive at its peak: the rest is gaps (planner/place/placer.py)
PAYS = 0.1  # of SRAM: worth receiving a state in place, where a state that is cut off half way is lost
UNLIMITED = 1 << 40

Attempt = tuple[Program, int | None]  # a program, and the bytes of SRAM it has to fit


@dataclass(frozen=True, eq=False)
class Programs:
    """The programs of these graphs."""

    graphs: Mapping[str, Graph]
    known: dict[int, Program] = field(default_factory=dict)  # bytes of arena that were low enough -> program
    made: Made = field(default_factory=Made)
    life: Life | None = None  # of programs that keep their own samples

    @staticmethod
    def of(graphs: Mapping[str, Graph], limits: Limits) -> Programs:
        """The programs of these training graphs; with a store, they collect samples and learn from them."""
        if limits.store is None or limits.board is None:
            return Programs(graphs)
        board = limits.board
        end = board.flash.origin + (limits.flash or board.flash.bytes)
        end -= end % board.pages.bytes if board.pages else 0
        life = Life(fingerprint_of(graphs.values()), limits.store, board.pages, end if board.pages else 0,
                    rule=limits.store_rule, cost=limits.class_cost)  # fmt: skip
        return Programs(living(graphs), life=life)

    @cached_property
    def state_bytes(self) -> int:
        return state_bytes(self.graphs)

    @cached_property
    def life_bytes(self) -> int:
        """What a life takes beside arena and state."""
        return layout_from(self.graphs, self.life, self.state_bytes).sram_bytes if self.life else 0

    @property
    def floor(self) -> int:
        """An arena smaller than the state, which waits there, would cost instructions and save nothing."""
        return int(self.state_bytes * PLACED)

    @property
    def smallest(self) -> Program:
        """The least memory with room to receive a state."""
        return self.lowered_to(self.floor)

    @property
    def fastest(self) -> Program:
        """Nothing is lowered."""
        return self.lowered_to(UNLIMITED)

    @property
    def least(self) -> Program:
        """The least memory of all."""
        return replace(self.lowered_to(0), in_place=True)

    @property
    def in_place_pays(self) -> bool:
        """Does it save much SRAM to hold the state once? Else the old one is better kept until the new one is whole."""
        staged = self.smallest
        doubled = staged.arena_bytes < staged_bytes(staged)
        return doubled and bare_sram(self.least) <= (1 - PAYS) * bare_sram(staged)

    def lowered_to(self, enough: int) -> Program:
        """The program whose arena is lowered until it takes this many bytes, or as far as possible."""
        same = (program for low, program in self.known.items() if _same(program, low, enough))
        found = next(same, None)
        if found is None:
            with stage("planning memory"):
                found = emit_program(plan_all(self.graphs, "mcu", enough, self.made), life=self.life)
        self.known[enough] = found
        return found

    def attempts(self, limits: Limits) -> Iterator[Attempt]:
        """Programs to try in this order, and the SRAM that each has to fit."""
        if limits.prefer == "memory" and limits.sram is not None and self.in_place_pays:
            yield self.least, limits.sram
            return
        for aim in limits.aims:
            yield from ((program, aim) for program in self.quick(aim))
            yield from self.careful(aim)
        if limits.sram not in limits.aims:
            yield from self.careful(limits.sram)

    def careful(self, sram: int | None) -> Iterator[Attempt]:
        """Programs with room for a second state, if that much SRAM holds two; then those that need none."""
        two = self.holds_two(sram)
        if two:
            yield self.smallest, sram
        yield from ((replace(p, in_place=True), sram) for p in self.overwriting(sram, tried=two))

    def quick(self, sram: int) -> Iterator[Program]:
        """Programs lowered only until they fit, with room for a second state."""
        for enough in self.rooms(sram):
            if enough > self.floor:
                yield self.lowered_to(enough)

    def overwriting(self, sram: int | None, tried: bool) -> Iterator[Program]:
        """Programs that need less if they receive a state in place, the one already planned first; `tried`: was that
        one tried with room for a second state?"""
        planned = self.known.get(self.floor)
        if planned and (not tried or planned.arena_bytes < staged_bytes(planned)):
            yield planned
        before = planned
        for enough in (*(self.rooms(sram) if sram else ()), 0):
            if enough < self.floor or not planned:
                found = self.lowered_to(max(enough, 0))
                if before is None or found.arena_bytes < before.arena_bytes:
                    before = found
                    yield found

    def rooms(self, sram: int) -> tuple[int, int]:
        """Bytes for the arena: if everything can also be placed there, and with some to spare."""
        left = sram - self.state_bytes - self.life_bytes
        return max(left - LINKED_SRAM, 0), int(max(left - UNLINKED_SRAM, 0) * PLACED)

    def holds_two(self, sram: int | None) -> bool:
        """Can this much SRAM hold two states?"""
        return sram is None or 2 * self.state_bytes + LEAST_SRAM <= sram


def _same(program: Program, low: int, enough: int) -> bool:
    """Would planning for `enough` give this program, which was planned for `low` bytes?"""
    if low == enough:
        return True
    if enough < low:  # nothing found to lower it further; but the last word, 0, is planned: it may find a few bytes
        return enough > 0 and longest(program).lower_bound_bytes > low
    return not any(spent_text(spent(plan)) for plan in program.plans.values())  # nothing was lowered


def longest(program: Program):
    """The plan of the function with the most steps: the others need no more memory."""
    return max(program.plans.values(), key=lambda plan: len(plan.nodes))


def state_bytes(graphs: Mapping[str, Graph]) -> int:
    """Bytes of all persistent state."""
    lasting = {v.name: v.type.bytes for g in graphs.values() for v in g.values.values() if v.name in g.state}
    return sum(lasting.values())


def bare_sram(program: Program) -> int:
    """SRAM without stack and protocol: if even that is too much, the program need not be linked."""
    return device_arena_bytes(program) + program.state_bytes
