"""The best schemes of a network within a budget, from little memory to all of it: planned, then linked for a board.

schemes/search.py chooses; this file tells it what a scheme really needs. In the loop that is the least arena that the
planner reaches, the state and a usual stack; the schemes that are kept are linked, so their figures are exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from insitu.deploy.auto import CODE, host_bytes
from insitu.deploy.budget import Need as Linked
from insitu.deploy.budget import amounts, kb
from insitu.deploy.deployment import deploy_program
from insitu.deploy.estimate import estimated
from insitu.deploy.limits import Limits
from insitu.deploy.lowering import STEPS
from insitu.deploy.programs import LINKED_SRAM, Programs, bare_sram
from insitu.errors import BudgetError, Error
from insitu.graph import Graph
from insitu.planner import plan
from insitu.schemes.contribution import Contribution
from insitu.schemes.cost import bytes_of
from insitu.schemes.layers import Layer
from insitu.schemes.search import HEAD, Found, Model, Need, Search
from insitu.schemes.update import Scheme
from insitu.terminal.progress import bar
from insitu.training.parts import Parts

POINTS = 4  # budgets between the head's need and all that is allowed


@dataclass(frozen=True)
class Point:
    """A scheme of the front: its score, and what it needs. Figures of linked programs are exact."""

    scheme: Scheme
    score: float
    sram_bytes: int
    flash_bytes: int
    step_instructions: int | None = None
    linked: bool = False

    def to_json(self) -> dict:
        return {**vars(self), "scheme": self.scheme.name, "updates": len(self.scheme.updates)}


def find(parts: Parts, layers: list[Layer], limits: Limits, table: Contribution, instructions: int = 0,
         points: int = POINTS) -> list[Point]:  # fmt: skip
    """The front, from the head to the best scheme within the limits; a BudgetError if not even the head fits."""
    known: dict[Scheme, Need | None] = {}
    with bar() as report:

        def measure(scheme: Scheme) -> Need | None:
            if scheme not in known:
                report(
                    f"planning {len(scheme.updates)} trained layers", len(known), max(len(known) + 1, 2 * points + 1)
                )
                known[scheme] = measured(replace(parts, scheme=scheme), limits)
            return known[scheme]

        budgets = budgets_of(measure(HEAD), limits, instructions, points)
        model = Model(layers, table, bytes_of(parts.recipe))
        found = Search(model, measure, floor_of(parts, limits)).front(budgets)
        return [made(parts, f, limits) for f in found]


def budgets_of(head: Need | None, limits: Limits, instructions: int, points: int) -> list[Need]:
    """Steps from what the head needs to all that is allowed."""
    flash = limits.flash or 0
    most = limits.sram or (2 * head.sram if head else 0)
    if head is None or not head.within(Need(most, flash, instructions)):
        raise _impossible(head, limits, instructions)
    return [Need(head.sram + (most - head.sram) * k // points, flash, instructions) for k in range(points + 1)]


def _impossible(head: Need | None, limits: Limits, instructions: int) -> BudgetError:
    if head is None:
        return BudgetError("nothing of this model can be trained", hint="insitu check MODEL says why")
    needs = f"{kb(head.sram)} of SRAM and {kb(head.flash)} of flash"
    if instructions and head.instructions > instructions:
        return BudgetError(f"even the head alone takes about {head.instructions:,} instructions per step",
                           hint=f"--instructions {head.instructions}")  # fmt: skip
    board = limits.board
    whole = Limits(board, board.sram.bytes, board.flash.bytes) if board else Limits()
    need = Linked(head.sram, head.flash, None)  # type: ignore[arg-type]
    hint = amounts(need, limits, whole) if need.fits(whole) else "a larger board or a smaller model"
    return BudgetError(f"even the head alone needs {needs}", hint=hint)


# what a scheme needs ----------------------------------------------------------------------------


def measured(parts: Parts, limits: Limits) -> Need | None:
    """The least memory that the planner reaches, and about how many instructions; None if it cannot be trained."""
    try:
        graphs = parts.graphs()
        if limits.board is None:
            return Need(host_bytes(graphs), constants(graphs))
        program = Programs(graphs).least
        steps = _step(estimated(program.plans, limits.board.core))
        return Need(bare_sram(program) + LINKED_SRAM, program.const_bytes + CODE, steps)
    except Error:
        return None


def constants(graphs: Mapping[str, Graph]) -> int:
    return sum({name: array.nbytes for g in graphs.values() for name, array in g.constants.items()}.values())


def _step(counts: Mapping[str, int]) -> int:
    return next(counts[verb] for verb in STEPS if verb in counts)


def floor_of(parts: Parts, limits: Limits) -> int:
    """The arena if only the head is trained: the forward pass needs it anyhow."""
    graphs = replace(parts, scheme=HEAD).graphs()
    if limits.board is None:
        return max(plan(g).arena_bytes for g in graphs.values())
    return Programs(graphs).least.arena_bytes


def made(parts: Parts, found: Found, limits: Limits) -> Point:
    """A point of the front, linked if the board can be linked for."""
    name = f"{found.need.sram // 1000}kb" if found.scheme.updates else "head"
    scheme = replace(found.scheme, name=name)
    if limits.board is None:
        return Point(scheme, found.gain, found.need.sram, found.need.flash)
    program = Programs(replace(parts, scheme=scheme).graphs()).least
    done = deploy_program(program, limits)
    return Point(scheme, found.gain, done.sram_bytes, done.flash_bytes, found.need.instructions,
                 done.firmware is not None)  # fmt: skip
