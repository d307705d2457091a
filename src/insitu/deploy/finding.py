"""The best schemes of a network within a budget, from little memory to all of it: planned, then linked for a board.

schemes/search.py chooses; this file tells it what a scheme really needs. The head alone is linked first: it says
whether anything fits at all, and how much code there is. In the loop a program is planned only until it fits its
budget, with a usual stack and the head's code, and nothing is linked. The schemes that are kept are then made as
`compile --sram` makes them, so their figures are exact; one that turns out not to fit is replaced by the next best.
Instructions of a small program are counted too, and estimates in the loop are scaled to the count of the head; those
of a large one are estimates. Energy follows from them, so it is always an estimate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from insitu.boards import Board
from insitu.codegen import Program, emit_program
from insitu.deploy.auto import HOST
from insitu.deploy.budget import Need as Linked
from insitu.deploy.budget import amounts
from insitu.deploy.deployment import Deployment, deploy, deploy_program
from insitu.deploy.estimate import estimated
from insitu.deploy.limits import Limits
from insitu.deploy.lowering import STEPS
from insitu.deploy.programs import LINKED_SRAM, Programs, bare_sram
from insitu.deploy.tradeoff import counted_if_small
from insitu.errors import BoardError, BudgetError, Error
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
PLANS = 10  # of a budget, about, for the progress bar
AGAIN = 3  # times that a budget is searched, if linking shows that its scheme does not fit


@dataclass(frozen=True)
class Point:
    """A scheme of the front: its score, and what it needs. Figures of linked programs are exact."""

    scheme: Scheme
    score: float
    sram_bytes: int
    flash_bytes: int
    step_instructions: int | None = None  # estimated, unless they are counted
    step_millijoules: float | None = None  # estimated, where the board's profile says what it takes
    linked: bool = False
    counted: bool = False  # instructions, exactly
    budget_bytes: int | None = None  # of SRAM, that the program was made for; None: there is no board

    def to_json(self) -> dict:
        return {**vars(self), "scheme": self.scheme.name, "updates": len(self.scheme.updates)}

    @property
    def found(self) -> Found:
        return Found(self.scheme, self.score, self.need)

    @property
    def need(self) -> Need:
        return Need(self.sram_bytes, self.flash_bytes, self.step_instructions or 0)


def find(parts: Parts, layers: list[Layer], limits: Limits, table: Contribution, step: StepLimit | None = None,
         points: int = POINTS, alone: Parts | None = None) -> list[Point]:  # fmt: skip
    """The front, from the head to the best scheme within the limits; a BudgetError if not even the head fits.

    `alone` is the network whose head alone is trained, if its numbers are not those of `parts`.
    """
    planned, step, alone = 0, step or StepLimit(), alone or parts
    most = Need(limits.sram or 0, limits.flash or 0, step.instructions_on(limits.board))
    head = head_of(alone, limits, most)
    with bar() as report:

        def measure(scheme: Scheme, budget: Need) -> Need | None:
            nonlocal planned
            if head is None or not scheme.updates:
                return head and head.need
            planned += 1
            report(f"planning {len(scheme.updates)} trained layers", planned, max(planned + 1, PLANS * points))
            return measured(replace(parts, scheme=scheme), limits, budget, head)

        if head is None or not head.need.within(most):
            raise impossible(head, limits, step)
        searching = Search(Model(layers, table, bytes_of(parts.recipe)), measure, head.floor)
        budgets = budgets_of(searching, head.need, most, points)
        made = [point for budget in budgets if (point := point_of(searching, budget, parts, limits, alone))]
    kept = not_beaten([p.found for p in made])
    return named([next(p for p in made if p.found == f) for f in kept])


def point_of(searching: Search, budget: Need, parts: Parts, limits: Limits, alone: Parts) -> Point | None:
    """The best scheme that fits a budget, linked if the board can be linked for; None if no program of it does."""
    left = budget  # without what stack and code need beyond an estimate
    for _ in range(AGAIN):
        found = searching.best(left)
        if found is None or not found.scheme.updates:
            break
        point = linked(parts, found, limits, budget)
        if point.need.within(budget):
            return point
        left = budget.less(point.need, found.need)
    head = linked(alone, Found(HEAD, 0.0, searching.head or Need(0)), limits, budget)
    return head if head.need.within(budget) else None


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
    if not model.everything or model.bytes(model.everything, searching.floor) >= most:  # no need to plan that
        return most
    need = searching.measure(model.scheme(model.everything), Need(most))
    return most if need is None else min(most, need.sram)


def budgets_of(searching: Search, head: Need, most: Need, points: int) -> list[Need]:
    """Steps from what the head needs to all that is allowed, or that everything needs if that is less."""
    allowed = most.sram or max(2 * head.sram, HOST)
    top = max(head.sram, whole_of(searching, allowed))
    return [replace(most, sram=head.sram + (top - head.sram) * k // points) for k in range(points + 1)]


# what a scheme needs ----------------------------------------------------------------------------


def measured(parts: Parts, limits: Limits, budget: Need, head: Head) -> Need | None:
    """The memory of a program that is planned only until it fits the budget, or the least that the planner reaches,
    and about how many instructions a step takes; None if it cannot be trained."""
    try:
        graphs = parts.graphs()
        if limits.board is None:
            return here(graphs)[0]
        programs = Programs(graphs)
        program = replace(programs.lowered_to(programs.rooms(budget.sram)[0]), in_place=True)
        steps = round(steps_of(program, limits.board) * head.dearer)
        return Need(bare_sram(program) + LINKED_SRAM, program.const_bytes + head.code, steps)
    except Error:
        return None


def here(graphs: Mapping[str, Graph]) -> tuple[Need, int]:
    """What a program needs on this machine, as `compile` says it, and its arena."""
    program = emit_program({verb: plan(g) for verb, g in graphs.items()})
    return Need(program.arena_bytes + program.state_bytes, program.const_bytes), program.arena_bytes


def steps_of(program: Program, board: Board) -> int:
    """About how many instructions a step takes."""
    return _of_a_step(estimated(program.plans, board.core))


def _of_a_step(counts: Mapping[str, int]) -> int:
    return next((counts[verb] for verb in STEPS if verb in counts), 0)


def linked(parts: Parts, found: Found, limits: Limits, budget: Need) -> Point:
    """A point of the front, made as `compile` makes it with this budget as `sram`."""
    if limits.board is None:
        return Point(found.scheme, found.gain, found.need.sram, found.need.flash)
    done = deploy(replace(parts, scheme=found.scheme).graphs(), quickest(limits, budget.sram))
    counted = _of_a_step(counted_if_small(done))
    steps = counted or steps_of(done.program, limits.board)
    return Point(found.scheme, found.gain, done.sram_bytes, done.flash_bytes, steps, limits.board.millijoules(steps),
                 done.firmware is not None, counted > 0, max(budget.sram, done.sram_bytes))  # fmt: skip


def quickest(limits: Limits, sram: int | None) -> Limits:
    """As `compile --sram` has it: the fewest instructions within so many bytes."""
    return replace(limits, sram=sram, aims=(sram,) if sram else (), prefer="balance")


# the head alone: the least that there is --------------------------------------------------------


@dataclass(frozen=True)
class Head:
    """The head alone: what it needs, how much of its SRAM is the arena, and how much of its flash is code; and how many
    instructions it takes for each that was estimated."""

    need: Need
    floor: int
    code: int = 0
    dearer: float = 1.0

    @staticmethod
    def of(made: Deployment, floor: int) -> Head:
        assert made.limits.board is not None
        about = steps_of(made.program, made.limits.board)
        steps = _of_a_step(counted_if_small(made)) or about
        need = Need(made.sram_bytes, made.flash_bytes, steps)
        return Head(need, floor, made.flash_bytes - made.program.const_bytes, steps / about)


def head_of(parts: Parts, limits: Limits, most: Need) -> Head | None:
    """The head in the least memory, linked for a board; if that does not fit, with the fewest instructions, which needs
    less flash too. None if it cannot be trained."""
    try:
        graphs = replace(parts, scheme=HEAD).graphs()
        if limits.board is None:
            return Head(*here(graphs))
        program = Programs(graphs).least
        least = Head.of(deploy_program(program, limits), program.arena_bytes)
        if least.need.within(most):
            return least
        quick = Head.of(deploy(graphs, quickest(limits, limits.sram)), program.arena_bytes)
        return quick if quick.need.within(most) or quick.need.within(replace(most, instructions=0)) else least
    except Error:
        return None


def impossible(head: Head | None, limits: Limits, step: StepLimit) -> BudgetError:
    """What the head alone needs, and options that are enough for it."""
    if head is None:
        return BudgetError("nothing of this model can be trained", hint="insitu check MODEL says why")
    need, board = head.need, limits.board
    if Need(need.sram, need.flash).within(Need(limits.sram or 0, limits.flash or 0)):
        return step.impossible(need.instructions, board)
    whole = Limits(board, board.sram.bytes, board.flash.bytes) if board else Limits()
    wanted = Linked(need.sram, need.flash, None)  # type: ignore[arg-type]
    hint = option(**amounts(wanted, limits, whole)) if wanted.fits(whole) else "a larger board or a smaller model"
    return BudgetError(f"even the head alone needs {need.sram:,} B of SRAM and {need.flash:,} B of flash", hint=hint)


# what a step may take ---------------------------------------------------------------------------


@dataclass(frozen=True)
class StepLimit:
    """The most instructions of a step, or the most energy; 0: no limit. Both are estimated, for a board alone."""

    instructions: int = 0
    millijoules: float = 0.0

    def instructions_on(self, board: Board | None) -> int:
        """The limit in instructions; energy becomes instructions by the board's profile."""
        if not self.instructions and not self.millijoules:
            return 0
        if board is None:
            raise BoardError("what a step takes is estimated for a board", hint=option(board="NAME"))
        each = board.millijoules(1)
        if self.millijoules and each is None:
            hint = f"{option(instructions='N')}, or mw_per_mhz in a profile of your own"
            raise BoardError("its data sheet does not say what it takes while it runs", where=board.name, hint=hint)
        energy = [max(1, int(self.millijoules / each * (1 + 1e-9)))] if self.millijoules and each else []
        return min(filter(None, [self.instructions, *energy]))

    def impossible(self, steps: int, board: Board | None) -> BudgetError:
        energy = board and board.millijoules(steps)
        about = f", {energy:.3g} mJ by estimate" if energy else ""
        short: dict[str, int | str] = {"instructions": steps} if self.instructions and steps > self.instructions else {}
        if self.millijoules and energy and energy > self.millijoules:
            short["millijoules"] = f"{energy * 1.01:.3g}"
        return BudgetError(f"even the head alone takes about {steps:,} instructions per step{about}",
                           hint=option(**short))  # fmt: skip
