"""`scheme="auto"`: the highest rung of the network's ladder that fits the memory there is.

The planner says what a rung needs. Rungs are nested, so the highest one is found by halving, in a handful of plans;
small networks reach the top, where everything is trained. Nothing is linked here: the budget check does that at the
end, and goes down a few rungs if stack and code turn out to be larger than usual.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from insitu.deploy.limits import Limits, half_of
from insitu.deploy.programs import LINKED_SRAM, Programs, bare_sram, state_bytes
from insitu.errors import Error
from insitu.planner import plan
from insitu.schemes.contribution import Contribution
from insitu.schemes.cost import bytes_of
from insitu.schemes.cost import state_bytes as trained_bytes
from insitu.schemes.ladder import climb, highest, rungs
from insitu.schemes.layers import Layer
from insitu.schemes.search import HEAD
from insitu.schemes.update import AUTO, Scheme
from insitu.terminal.table import size
from insitu.training.parts import Parts

HOST = 262_144  # bytes of arena and state on a machine that sets no limit: what a microcontroller often has
HEADS = 1.5  # times what the head alone needs, if that is more
DOWN = (0, 1, 2, 4, 8, 1 << 30)  # rungs to go down if linking shows that a program is too large
CODE = 40_000  # bytes of flash for code, protocol and tables on a Cortex-M, before anything is linked


@dataclass(frozen=True)
class Chosen:
    """A rung, and the memory that decided."""

    scheme: Scheme
    number: int
    last: int
    budget: int | None = None  # bytes of SRAM; None: it did not matter
    measured: bool = False  # is the ladder made of what was measured?

    @property
    def note(self) -> str:
        """One line: what was chosen, and why."""
        if not self.scheme.updates:
            return f"scheme auto: only the head {self._why_not}"
        name = self.scheme.name.removeprefix(AUTO)
        what = "every layer" if name == "full" else described(self.scheme)
        where = "" if self.budget is None else f", within {size(self.budget)}"
        return f"scheme auto: {name} ({what}){where}; fit decides whether more than the head learns"

    @property
    def _why_not(self) -> str:
        """Why nothing but the head is trained."""
        if self.budget:
            return f"can be trained within {size(self.budget)}"
        return "is trained: none of the other layers brought more" if self.measured else "has anything to train"


def described(scheme: Scheme) -> str:
    """`the head, 14 biases and 6 weights`"""
    biases, weights = sum(u.bias for u in scheme.updates), sum(u.share > 0 for u in scheme.updates)
    counted = [f"{n} {one if n == 1 else more}" for n, one, more in
               ((biases, "bias", "biases"), (weights, "weight", "weights")) if n]  # fmt: skip
    words = ["the head", *counted]
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def choose(parts: Parts, found: list[Layer], limits: Limits, table: Contribution | None = None) -> Iterator[Chosen]:
    """The best rung for these limits; then lower ones, if the linked program turns out to be too large.

    `table` says what each part brings, if that was measured; what it does not list is not trained.
    """
    steps = rungs(found, table, bytes_of(parts.recipe))
    steps = steps[:-1] if table and steps[-1].layer == "full" else steps

    def rung(number: int) -> Scheme:
        return chosen(climb(found, number, steps, f"{table.source}:{number}" if table else ""))

    last, best, budget = len(steps) - 1, 0, 0
    for budget in budgets(parts, limits):
        best = highest(last + 1, fitting(parts, found, limits, budget, rung)) or 0
        if best:
            break
    least = 0 if parts.head else 1  # without a head, something else must be trained
    for number in sorted({max(best - down, least) for down in DOWN}, reverse=True):
        yield Chosen(rung(number), number, last, None if number == last else budget, table is not None)


def chosen(scheme: Scheme) -> Scheme:
    """The scheme with a name that says that nobody asked for it; the head alone needs none."""
    return replace(scheme, name=f"{AUTO}{scheme.name}") if scheme.updates else scheme


def budgets(parts: Parts, limits: Limits) -> Iterator[int]:
    """Bytes of SRAM to fit: what was asked for; of a board half, or all of it if nothing but the head fits the half."""
    if limits.board and not limits.aims and limits.sram == limits.board.sram.bytes:  # the least memory is preferred
        yield from (half_of(limits.board), limits.board.sram.bytes)
    elif limits.aims or limits.sram:
        yield from limits.aims or (limits.sram or 0,)
    elif not parts.head:
        yield HOST
    else:
        yield max(HOST, int(HEADS * host_bytes(replace(parts, scheme=HEAD).graphs())))


def host_bytes(graphs) -> int:
    """The largest arena and the state, as planned for this machine."""
    return max(plan(g).arena_bytes for g in graphs.values()) + state_bytes(graphs)


def fitting(parts: Parts, found: list[Layer], limits: Limits, budget: int,
            rung: Callable[[int], Scheme]) -> Callable[[int], bool]:  # fmt: skip
    """Does a rung fit, by its plan? One that cannot be trained does not. The head is not asked: it is all there is."""
    each = bytes_of(parts.recipe)

    def fits(number: int) -> bool:
        if number == 0:
            return True
        if trained_bytes(rung(number), found, each) >= budget:  # no need to plan that
            return False
        try:
            graphs = replace(parts, scheme=rung(number)).graphs()
            if state_bytes(graphs) >= budget:
                return False
            return board_fits(graphs, limits, budget) if limits.board else host_bytes(graphs) <= budget
        except Error:
            return False

    return fits


def board_fits(graphs, limits: Limits, budget: int) -> bool:
    programs = Programs(graphs)
    program = replace(programs.lowered_to(programs.rooms(budget)[0]), in_place=True)
    flash = limits.flash is None or program.const_bytes + CODE <= limits.flash
    return flash and bare_sram(program) + LINKED_SRAM <= budget
