"""`scheme="auto"`: the highest rung of the network's ladder that fits the memory there is.

The planner says what a rung needs. Rungs are nested, so the highest one is found by halving, in a handful of plans;
small networks reach the top, where everything is trained. Nothing is linked here: the budget check does that at the
end, and goes down a few rungs if stack and code turn out to be larger than usual. On a machine that sets no limit, the
work of an update decides too (work.py says how long a fit may take): a large network is not trained for many minutes
if nobody asked for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from insitu.deploy.limits import Limits, half_of
from insitu.deploy.programs import LINKED_SRAM, Programs, bare_sram, state_bytes
from insitu.errors import Error
from insitu.graph import Graph
from insitu.planner import plan
from insitu.planner.changes.looped import macs
from insitu.schemes.contribution import Contribution
from insitu.schemes.cost import bytes_of
from insitu.schemes.cost import state_bytes as trained_bytes
from insitu.schemes.ladder import climb, highest, rungs
from insitu.schemes.layers import Layer
from insitu.schemes.search import HEAD
from insitu.schemes.update import AUTO, Scheme
from insitu.terminal.table import size
from insitu.terminal.wording import option
from insitu.training.parts import Parts
from insitu.training.prefix import split

HOST = 262_144  # bytes of arena and state on a machine that sets no limit: what a microcontroller often has
HEADS = 1.5  # times what the head alone needs, if that is more
WORK = 200_000_000  # multiply-adds of an update from one sample here, about 10 ms, if nobody asked for more
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
    slow: bool = False  # the next rung would fit, but take longer than anybody asked for

    @property
    def note(self) -> str:
        """One line: what was chosen, and why."""
        if not self.scheme.updates:
            return f"scheme auto: only the head{self._slow or f' {self._why_not}'}"
        name = self.scheme.name.removeprefix(AUTO)
        what = "every layer" if name == "full" else described(self.scheme)
        where = self._slow if self.slow else "" if self.budget is None else f", within {size(self.budget)}"
        return f"scheme auto: {name} ({what}){where}; fit decides whether more than the head learns"

    @property
    def _slow(self) -> str:
        """What keeps it from training more, if that is time."""
        more = option(scheme=f"{AUTO}ladder")
        return f", within {WORK // 10**6} million multiply-adds per sample ({more} trains more)" if self.slow else ""

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


def choose(parts: Parts, found: list[Layer], limits: Limits, table: Contribution | None = None,
           work: int | None = None) -> Iterator[Chosen]:  # fmt: skip
    """The best rung for these limits; then lower ones, if the linked program turns out to be too large.

    `table` says what each part brings, if that was measured; what it does not list is not trained. `work` is the most
    multiply-adds that an update may take.
    """
    steps = rungs(found, table, bytes_of(parts.recipe))
    steps = steps[:-1] if table and steps[-1].layer == "full" else steps

    def rung(number: int) -> Scheme:
        return chosen(climb(found, number, steps, f"{table.source}:{number}" if table else ""))

    last, best, budget, slow = len(steps) - 1, 0, 0, set[int]()
    for budget in budgets(parts, limits):
        best = highest(last + 1, fitting(parts, found, limits, budget, rung, Time(work, slow))) or 0
        if best:
            break
    least = 0 if parts.head else 1  # without a head, something else must be trained
    for number in sorted({max(best - down, least) for down in DOWN}, reverse=True):
        here = None if number == last else budget
        yield Chosen(rung(number), number, last, here, table is not None, number == best and best + 1 in slow)


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


@dataclass(frozen=True, eq=False)
class Time:
    """The most multiply-adds of an update, and the rungs that take more although they fit."""

    most: int | None = None
    slow: set[int] = field(default_factory=set)

    def allows(self, number: int, graphs: Mapping[str, Graph]) -> bool:
        if self.most is None or step_macs(graphs) <= self.most:
            return True
        self.slow.add(number)
        return False


def step_macs(graphs: Mapping[str, Graph]) -> int:
    """The multiply-adds of an update per sample on this machine, where the outputs of frozen layers are kept."""
    cut = split(graphs, graphs["predict"].inputs)
    rest = cut.rest if cut else graphs
    learning = [g for verb, g in rest.items() if verb != "predict" and g.inputs and g.inputs[0].shape]
    return max(sum(map(macs, g.nodes)) // g.inputs[0].shape[0] for g in learning)


def fitting(parts: Parts, found: list[Layer], limits: Limits, budget: int, rung: Callable[[int], Scheme],
            time: Time) -> Callable[[int], bool]:  # fmt: skip
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
            fits = board_fits(graphs, limits, budget) if limits.board else host_bytes(graphs) <= budget
            return fits and time.allows(number, graphs)
        except Error:
            return False

    return fits


def board_fits(graphs, limits: Limits, budget: int) -> bool:
    """Lowered until it fits, or as far as possible: the planner may miss a goal that it reaches with a lower one."""
    programs = Programs(graphs)
    for enough in (programs.rooms(budget)[0], 0):
        program = programs.lowered_to(enough)
        if limits.flash is not None and program.const_bytes + CODE > limits.flash:
            return False
        if bare_sram(replace(program, in_place=True)) + LINKED_SRAM <= budget:
            return True
    return False
