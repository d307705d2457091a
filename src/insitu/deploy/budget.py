"""Does a training program fit the memory it was given? If not: what does not fit, and the cheapest way out.

For a board everything is counted: the program is linked, with stack, protocol and code. Without a board, the arena and
the state count against SRAM and the constants against flash. A way out is suggested only after it was tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from insitu.boards import boards
from insitu.codegen import Program, emit_program
from insitu.deploy import Deployment, Limits, Programs, bare_sram, deploy, deploy_program, state_bytes
from insitu.deploy.stores import fitting_store
from insitu.errors import BudgetError, Error
from insitu.graph import Graph
from insitu.ops.linear import linear
from insitu.planner import Plan, plan
from insitu.planner.changes.stripes.arrive import can_arrive
from insitu.quantizer.fold import is_int8
from insitu.schemes.layers import layers
from insitu.schemes.low_rank import KIND as LOW_RANK
from insitu.schemes.scheme import read_scheme
from insitu.terminal.wording import layer_words, option
from insitu.training.integer_head import integer_head
from insitu.training.parts import Parts

ENOUGH = 2  # ways out to suggest
GRADIENTS = ("f32", "s16", "s8")  # from the largest to the smallest
TINY = 65_536  # bytes of SRAM: below, float gradients may need less than integers, whose kernels need more scratch


def check_budget(parts: Parts, graphs: Mapping[str, Graph], limits: Limits, hints: bool = True) -> Deployment | None:
    """Raise a BudgetError if the program needs more than the limits allow; for a board, return its deployment."""
    if limits.board is None and limits.sram is None and limits.flash is None:
        return None
    need = needed(graphs, limits)
    if not need.fits(limits):
        hint = (smaller_store(graphs, need, limits) or way_out(Tries.of(parts, need, limits), limits, need)) * hints
        raise BudgetError(complaint(need, limits), hint=hint)
    return need.deployment and replace(
        need.deployment, batch=parts.batch, loss=parts.recipe.loss, scheme=parts.scheme.name
    )


def smaller_store(graphs: Mapping[str, Graph], need: Need, limits: Limits) -> str:
    """The largest store with which the program fits; each was tried. Nothing if it does not fit without one either."""
    if limits.store is None or limits.board is None:
        return ""
    found = fitting_store(limits, need, lambda store: needed(graphs, replace(limits, store=store)))
    return f"{option(store=f'{found >> 10}K')} (fits)" if found else ""


def complaint(need: Need, limits: Limits) -> str:
    """What does not fit, and where most of the memory is needed."""
    if limits.flash is not None and need.flash > limits.flash:
        what = "the program needs" if limits.board else "the constants take"
        taken, most = apart(need.flash, limits.flash)
        return f"{what} {taken} of flash, {limits.has('flash', most)}."
    assert limits.sram is not None
    taken, most = apart(need.sram, limits.sram)
    return (
        f"one training step needs {taken} of SRAM, {limits.has('sram', most)}.\n"
        f"{peak(need.program.plans)}\n  plus {need.beside}"
    )


@dataclass(frozen=True, eq=False)
class Need:
    """The memory a program needs: SRAM, flash, and what else is in SRAM besides the arena."""

    sram: int
    flash: int
    program: Program
    deployment: Deployment | None = None

    def fits(self, limits: Limits) -> bool:
        return all(most is None or n <= most for n, most in ((self.sram, limits.sram), (self.flash, limits.flash)))

    @property
    def beside(self) -> str:
        state = f"{kb(self.program.state_bytes)} of trained parameters and other state"
        rest = self.sram - self.program.arena_bytes - self.program.state_bytes
        words = "stack, protocol and store" if self.program.life else "stack and protocol"
        return f"{state}, {kb(rest)} of {words}" if rest else state


def needed(graphs: Mapping[str, Graph], limits: Limits) -> Need:
    """The memory these graphs need: linked for a board, or the sum of arena and state without one."""
    if limits.board:
        return linked(deploy(graphs, limits))
    program = emit_program({verb: plan(g) for verb, g in graphs.items()})
    return Need(program.arena_bytes + program.state_bytes, program.const_bytes, program)


def linked(found: Deployment) -> Need:
    return Need(found.sram_bytes, found.flash_bytes, found.program, found)


@dataclass(frozen=True)
class Way:
    """Options that change the memory a program needs; None leaves an option unchanged."""

    scheme: str | None = None
    grad: str | None = None
    head: str | None = None
    rows: bool = False  # the image arrives row by row

    def __str__(self) -> str:
        return option(**self.settings)

    @property
    def settings(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value}


@dataclass(frozen=True, eq=False)
class Tries:
    """A program, and what has been planned for it with other options: each of these is planned once."""

    parts: Parts
    made: dict[Way, Programs] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)  # says what else the programs must do: keep samples

    @staticmethod
    def of(parts: Parts, need: Need, limits: Limits) -> Tries:
        planned = need.deployment and need.deployment.programs
        return Tries(parts, {Way(): planned} if planned else {}, limits)

    def programs(self, way: Way) -> Programs:
        if way not in self.made:
            self.made[way] = Programs.of(changed(self.parts, way).graphs(), self.limits)
        return self.made[way]


def way_out(tries: Tries, limits: Limits, need: Need) -> str:
    """The cheapest ways out, as options; each was tried."""
    found = [f"{way} (fits, {kb(bytes)})" for way, bytes in ways_out(tries, limits, need)]
    if found:
        return "   or   ".join(found)
    way, least = smallest(tries, limits, need)
    who = least_words(way) if tries.parts.head else "it"
    asked = f"{who} needs {kb(least.sram)} of SRAM and {kb(least.flash)} of flash"
    return f"{asked}; {more_memory(need, way, least, limits) or other_board(tries, limits, need)}"


def least_words(way: Way) -> str:
    others = {name: value for name, value in way.settings.items() if name != "scheme"}
    return f"even the head alone, with {option(**others)}," if others else "even the head alone"


def smallest(tries: Tries, limits: Limits, need: Need) -> tuple[Way, Need]:
    """The head alone, with the options that need least of what is short; or the original options, if they need no more
    than that."""
    whole = Limits(limits.board)  # no limits: the exact need, even if it does not fit
    heads = {way: tried(tries, way, whole, least=True) for way in only_head(tries.parts)}
    short = limits.sram is not None and need.sram > limits.sram
    ways = ((Way(), need), *((w, n) for w, n in heads.items() if n))
    return min(ways, key=lambda pair: (pair[1].sram * short, pair[1].flash))


def more_memory(need: Need, way: Way, least: Need, limits: Limits) -> str:
    """Options that allow more memory, up to the board's own: for the program as asked for, else for the smallest."""
    whole = Limits(limits.board, limits.board.sram.bytes, limits.board.flash.bytes) if limits.board else Limits()
    where = f" ({limits.board.name} has that much)" if limits.board else ""
    for options, n in ((Way(), need), (way, least)):
        if n.fits(whole):
            return option(**options.settings, **amounts(n, limits, whole)) + where
    return ""


def amounts(need: Need, limits: Limits, whole: Limits) -> dict[str, str | int]:
    """Options for the memory that is short, rounded up to whole kilobytes if the board has that many."""
    found: dict[str, str | int] = {}
    for name in ("sram", "flash"):
        bytes, most, all_of_it = getattr(need, name), getattr(limits, name), getattr(whole, name)
        if most is not None and bytes > most:
            up = -(-bytes // 1024)
            found[name] = f"{up}K" if all_of_it is None or up * 1024 <= all_of_it else bytes
    return found


def other_board(tries: Tries, limits: Limits, need: Need) -> str:
    """The smallest board that is large enough; each was tried."""
    for way in (Way(), *only_head(tries.parts)[:1]):
        for board in sorted(boards().values(), key=lambda b: (b.sram.bytes, b.flash.bytes)):
            whole = Limits(board, board.sram.bytes, board.flash.bytes)
            if not board.core.linked or (way == Way() and not need.fits(whole)) or limits.board is None:
                continue
            there = tried(tries, way, whole)
            if there and there.fits(whole):
                return option(board=board.name, **way.settings, **amounts(there, limits, whole))
    return "use a smaller model: no board that insitu knows is large enough"


def peak(plans: Mapping[str, Plan]) -> str:
    """The step that needs the most memory, and the largest value alive at that step."""
    worst = max(plans.values(), key=lambda p: p.arena_bytes)
    step = worst.peak_step
    alive = [b for b in worst.buffers if b.first <= step <= b.last]
    largest = max(alive, key=lambda b: b.bytes)
    kept = sum(b.bytes for b in alive if b.first < step)
    name = worst.graph.nodes[step].name
    what = "scratch" if largest.names[0].startswith("scratch ") else largest.names[-1]
    return (
        f"  peak at {layer_words(name)} (step {step}): {kb(worst.arena_bytes)} of arena, "
        f"{kb(kept)} of it kept from earlier steps; the largest value is {layer_words(what)}, {kb(largest.bytes)}"
    )


def ways_out(tries: Tries, limits: Limits, need: Need) -> list[tuple[Way, int]]:
    """Options that fit, with the bytes they need: first those that train as much, then those that train less."""
    parts = tries.parts
    short = limits.sram is not None and need.sram > limits.sram  # gradients and images are in SRAM
    kinds = coarser_gradients(parts) if short else []
    by_rows = [False, True] if short and takes_rows(parts) else [False]
    ways = [*coarser(parts, kinds, by_rows), *(finer(parts) if short and need.sram < TINY else [])]
    same = first_that_fits(tries, sorted(ways, key=lambda way: (way.head is not None, way.rows)), limits)
    grads = [None] if same else [None, *kinds[:1]]
    found = [same]
    for kind in smaller(parts):
        if len(list(filter(None, found))) < ENOUGH:
            rows = by_rows[:1] if same else by_rows
            ways = [Way(name, grad, rows=r) for name in kind for r in rows for grad in grads]
            found.append(first_that_fits(tries, ways, limits))
    if not any(found):
        found.append(first_that_fits(tries, only_head(parts), limits))
    return list(filter(None, found))


def first_that_fits(tries: Tries, ways: Iterable[Way], limits: Limits) -> tuple[Way, int] | None:
    for way in ways:
        need = tried(tries, way, limits)
        if need and need.fits(limits):
            return way, need.sram
    return None


def coarser(parts: Parts, grads: list[str], by_rows: Sequence[bool] = (False,)) -> list[Way]:
    """The same scheme in less memory, cheapest first. Integer gradients cost no measurable accuracy
    (docs/gradients.md), rows must be delivered by the user's program, and an int8 head costs accuracy."""
    heads = [None, *(["int8"] if has_float_head(parts) else [])]
    return [Way(grad=g, head=h, rows=r) for h in heads for r in by_rows for g in (None, *grads) if g or h or r]


def takes_rows(parts: Parts) -> bool:
    """Is its image held as a whole, and could it arrive row by row? The trained layers may still forbid that."""
    image = parts.forward.inputs[0]
    return not parts.recipe.rows and can_arrive(replace(parts.forward, by_rows=image.name))


def coarser_gradients(parts: Parts) -> list[str]:
    """Kinds of gradients that need less memory than this program's; a float program has only one kind."""
    if not is_int8(parts.forward) or not parts.scheme.updates:
        return []
    return list(GRADIENTS[GRADIENTS.index(parts.recipe.grad or "f32") + 1 :])


def finer(parts: Parts) -> list[Way]:
    """Float gradients, instead of integers."""
    integers = is_int8(parts.forward) and parts.scheme.updates and (parts.recipe.grad or GRADIENTS[0]) != GRADIENTS[0]
    return [Way(grad=GRADIENTS[0])] if integers else []


def has_float_head(parts: Parts) -> bool:
    node = parts.forward.producer.get(parts.head or "")
    return node is not None and node.op is linear and is_int8(parts.forward)


def smaller(parts: Parts) -> Iterator[list[str]]:
    """Smaller schemes, kind by kind, each kind from large to small; the head alone comes last."""
    count = len([layer for layer in layers(parts.forward) if layer.name != parts.head])
    trained = min(len(parts.scheme.updates), count)
    halves = [n for n in (trained >> k for k in range(1, 8)) if n]
    rank = max((u.rank for u in parts.scheme.updates), default=0)
    if rank:
        yield [f"{LOW_RANK}:{rank >> k}" for k in range(1, 8) if rank >> k]
    elif any(u.share or u.channels for u in parts.scheme.updates):
        yield [f"last:{n}" for n in halves]
        yield [f"bias:{n}" for n in (trained, *halves) if n]
    else:
        yield [f"bias:{n}" for n in halves]
    if parts.scheme.updates and parts.head:
        yield ["head"]


def only_head(parts: Parts) -> list[Way]:
    """The least that can be trained: the head, in float and in int8."""
    if not parts.head:
        return []
    heads = [None, *(["int8"] if has_float_head(parts) else [])]
    return [Way("head", head=h, rows=r) for r in ([False, True] if takes_rows(parts) else [False]) for h in heads]


def tried(tries: Tries, way: Way, limits: Limits, least: bool = False) -> Need | None:
    """What these options would need (`least`: if SRAM were short); None if they do not fit or cannot be compiled."""
    try:
        programs = tries.programs(way)
        if way.rows and not all(can_arrive(g) for g in programs.graphs.values() if g.by_rows):
            return None
        if limits.board is None:
            return needed(programs.graphs, limits)
        if least:
            return linked(deploy_program(programs.least, limits))
        return fitting(programs, replace(limits, aims=()))
    except Error:
        return None


def fitting(programs: Programs, limits: Limits) -> Need | None:
    """The first of these programs that fits. Linking is slow, so what is too large without stack is not linked."""
    if limits.sram is not None and state_bytes(programs.graphs) >= limits.sram:
        return None
    for program, _ in programs.attempts(limits):
        need = Need(bare_sram(program), program.const_bytes, program)
        need = linked(deploy_program(program, limits)) if need.fits(limits) else need
        if need.fits(limits):
            return need
        if limits.flash is not None and need.flash > limits.flash:
            break  # the others have at least as much code
    return None


def changed(parts: Parts, way: Way) -> Parts:
    """The same program with other options."""
    forward = integer_head(parts.forward) if way.head else parts.forward
    names = [layer for layer in layers(forward) if layer.name != parts.head]
    scheme = read_scheme(way.scheme, names) if way.scheme else parts.scheme
    recipe = replace(parts.recipe, grad=way.grad or parts.recipe.grad, rows=way.rows or parts.recipe.rows)
    return replace(parts, forward=forward, scheme=scheme, recipe=recipe)


def apart(need: int, most: int) -> tuple[str, str]:
    """Both in words; to the byte if thousands would not tell them apart."""
    return (kb(need), kb(most)) if kb(need) != kb(most) else (f"{need:,} B", f"{most:,} B")


def kb(count: int) -> str:
    return f"{count:,} B" if count < 10_000 else f"{count / 1000:,.0f} KB"
