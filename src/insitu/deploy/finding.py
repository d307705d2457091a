"""The best schemes of a network within a budget, from little memory to all of it: planned, then linked for a board.

schemes/search.py chooses; this file tells it what a scheme really needs. In the loop a program is planned only until it
fits its budget, with a usual stack, and nothing is linked. The schemes that are kept are then made as `compile --sram`
makes them, so their figures are exact; one that turns out not to fit is replaced by the next best.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from insitu.deploy.auto import CODE, HOST, host_bytes
from insitu.deploy.budget import Need as Linked
from insitu.deploy.budget import amounts, kb
from insitu.deploy.deployment import deploy
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
from insitu.schemes.search import HEAD, Found, Model, Need, Search, not_beaten
from insitu.schemes.update import Scheme
from insitu.terminal.progress import bar
from insitu.terminal.wording import option
from insitu.training.parts import Parts

SMALL = 10_000  # bytes: programs below are named in bytes
POINTS = 4  # budgets between the head's need and all that is allowed
AGAIN = 3  # times that a budget is searched, if linking shows that its scheme does not fit


@dataclass(frozen=True)
class Point:
    """A scheme of the front: its score, and what it needs. Figures of linked programs are exact."""

    scheme: Scheme
    score: float
    sram_bytes: int
    flash_bytes: int
    step_instructions: int | None = None
    linked: bool = False
    budget_bytes: int | None = None  # of SRAM, that the program was made for; None: there is no board

    def to_json(self) -> dict:
        return {**vars(self), "scheme": self.scheme.name, "updates": len(self.scheme.updates)}

    @property
    def found(self) -> Found:
        return Found(self.scheme, self.score, Need(self.sram_bytes))


def find(parts: Parts, layers: list[Layer], limits: Limits, table: Contribution, instructions: int = 0,
         points: int = POINTS) -> list[Point]:  # fmt: skip
    """The front, from the head to the best scheme within the limits; a BudgetError if not even the head fits."""
    planned = 0
    with bar() as report:

        def measure(scheme: Scheme, budget: Need) -> Need | None:
            nonlocal planned
            planned += 1
            report(f"planning {len(scheme.updates)} trained layers", planned, max(planned + 1, 3 * points))
            return measured(replace(parts, scheme=scheme), limits, budget)

        model = Model(layers, table, bytes_of(parts.recipe))
        searching = Search(model, measure, floor_of(parts, limits))
        budgets = budgets_of(searching, limits, instructions, points)
        made = [point_of(searching, budget, parts, limits) for budget in budgets]
    if limits.sram and made[0].sram_bytes > limits.sram:  # a few bytes more than a usual program
        raise _impossible(Need(made[0].sram_bytes, made[0].flash_bytes), limits, instructions)
    kept = not_beaten([p.found for p in made])
    return named([next(p for p in made if p.found == f) for f in kept])


def point_of(searching: Search, budget: Need, parts: Parts, limits: Limits) -> Point:
    """The best scheme that fits a budget, linked if the board can be linked for."""
    less = 0  # bytes that stack and code need beyond a usual program's
    for _ in range(AGAIN):
        found = searching.best(replace(budget, sram=budget.sram - less))
        if found is None or not found.scheme.updates:
            break
        point = linked(parts, found, limits, budget)
        if point.sram_bytes <= budget.sram:
            return point
        less += point.sram_bytes - budget.sram
    return linked(parts, Found(HEAD, 0.0, searching.head or Need(0)), limits, budget)


def named(points: list[Point]) -> list[Point]:
    """The points with the names of their files: what they need, in bytes if thousands would not tell them apart."""
    sizes = [p.sram_bytes for p in points if p.scheme.updates]
    small = len({size // 1000 for size in sizes}) < len(sizes) or min(sizes, default=SMALL) < SMALL
    return [replace(p, scheme=replace(p.scheme, name=_name(p, small))) for p in points]


def _name(point: Point, small: bool) -> str:
    size = f"{point.sram_bytes}b" if small else f"{point.sram_bytes // 1000}kb"
    return size if point.scheme.updates else "head"


def whole_of(searching: Search, most: int) -> int:
    """The SRAM of everything that there is to choose, if that is less than `most`."""
    model = searching.model
    whole = {(part.at, part.share > 0): k for k, part in enumerate(model.parts)}  # of each weight, the largest share
    if not whole or model.bytes([*whole.values()], searching.floor) >= most:  # no need to plan that
        return most
    need = searching.measure(model.scheme([*whole.values()]), Need(most))
    return most if need is None else min(most, need.sram)


def budgets_of(searching: Search, limits: Limits, instructions: int, points: int) -> list[Need]:
    """Steps from what the head needs to all that is allowed, or that everything needs if that is less."""
    flash, head = limits.flash or 0, searching.head
    most = limits.sram or (max(2 * head.sram, HOST) if head else 0)
    if head is None or not head.within(Need(most, flash, instructions)):
        raise _impossible(head, limits, instructions)
    most = max(head.sram, whole_of(searching, most))
    return [Need(head.sram + (most - head.sram) * k // points, flash, instructions) for k in range(points + 1)]


def _impossible(head: Need | None, limits: Limits, instructions: int) -> BudgetError:
    if head is None:
        return BudgetError("nothing of this model can be trained", hint="insitu check MODEL says why")
    needs = f"{kb(head.sram)} of SRAM and {kb(head.flash)} of flash"
    if instructions and head.instructions > instructions:
        return BudgetError(f"even the head alone takes about {head.instructions:,} instructions per step",
                           hint=option(instructions=head.instructions))  # fmt: skip
    board = limits.board
    whole = Limits(board, board.sram.bytes, board.flash.bytes) if board else Limits()
    need = Linked(head.sram, head.flash, None)  # type: ignore[arg-type]
    hint = option(**amounts(need, limits, whole)) if need.fits(whole) else "a larger board or a smaller model"
    return BudgetError(f"even the head alone needs {needs}", hint=hint)


# what a scheme needs ----------------------------------------------------------------------------


def measured(parts: Parts, limits: Limits, budget: Need) -> Need | None:
    """The memory of a program that is planned only until it fits the budget, or the least that the planner reaches,
    and about how many instructions a step takes; None if it cannot be trained."""
    try:
        graphs = parts.graphs()
        if limits.board is None:
            return Need(host_bytes(graphs), constants(graphs))
        programs = Programs(graphs)
        program = replace(programs.lowered_to(programs.rooms(budget.sram)[0]), in_place=True)
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


def linked(parts: Parts, found: Found, limits: Limits, budget: Need) -> Point:
    """A point of the front, made as `compile` makes it with this budget as `sram`."""
    if limits.board is None:
        return Point(found.scheme, found.gain, found.need.sram, found.need.flash)
    allowed = replace(limits, sram=budget.sram, aims=(budget.sram,), prefer="balance")
    done = deploy(replace(parts, scheme=found.scheme).graphs(), allowed)
    steps = _step(estimated(done.program.plans, limits.board.core))
    return Point(found.scheme, found.gain, done.sram_bytes, done.flash_bytes, steps, done.firmware is not None,
                 max(budget.sram, done.sram_bytes))  # fmt: skip
