"""Does a training program fit the memory it was given? If not: what does not, and the cheapest way out.

For a board everything is counted: the program is linked, stack, protocol and code included. Without a board it is the
arena and the state against SRAM, and the constants against flash. A way out is named only after it was tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from insitu.boards import Board, boards
from insitu.codegen import Program, emit_program
from insitu.deploy import Deployment, Limits, deploy
from insitu.errors import BudgetError, Error
from insitu.graph import Graph
from insitu.learner import Parts
from insitu.planner import Plan, plan
from insitu.training.layers import layers
from insitu.training.scheme import read_scheme

ENOUGH = 2  # ways out to name


def check_budget(parts: Parts, plans: Mapping[str, Plan], limits: Limits) -> Deployment | None:
    """Raise a BudgetError if the program needs more than the limits allow; for a board, what it takes there."""
    if limits.board is None and limits.sram is None and limits.flash is None:
        return None
    need = needed(parts.graphs() if limits.board else plans, limits)
    if not need.fits(limits):
        raise BudgetError(complaint(need, limits), hint=way_out(parts, limits, need))
    return need.deployment


def complaint(need: Need, limits: Limits) -> str:
    """What does not fit, and where the most of it is needed."""
    if limits.flash is not None and need.flash > limits.flash:
        what = "the program needs" if limits.board else "the constants take"
        return f"{what} {kb(need.flash)} of flash, {limits.has('flash')} {kb(limits.flash)}."
    assert limits.sram is not None
    return (
        f"one training step needs {kb(need.sram)} of SRAM, {limits.has('sram')} {kb(limits.sram)}.\n"
        f"{peak(need.program.plans)}\n  beside it {need.beside}"
    )


@dataclass(frozen=True, eq=False)
class Need:
    """What a program takes: SRAM, flash, and where the SRAM beside the arena goes."""

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
        return f"{state}, {kb(rest)} of stack and protocol" if rest else state


def needed(made: Mapping[str, Graph] | Mapping[str, Plan], limits: Limits) -> Need:
    """Graphs for a board are linked; without a board, plans are added up."""
    if limits.board:
        found = deploy(made, limits)  # type: ignore[arg-type]
        return Need(found.sram_bytes, found.flash_bytes, found.program, found)
    program = emit_program(made)  # type: ignore[arg-type]
    return Need(program.arena_bytes + program.state_bytes, program.const_bytes, program)


def way_out(parts: Parts, limits: Limits, need: Need) -> str:
    """The cheapest ways out, as options to give; each was tried."""
    found = [f"--scheme {name} (fits, {kb(bytes)})" for name, bytes in ways_out(parts, limits)]
    if found:
        return "   or   ".join(found)
    least = with_scheme(parts, "head", limits) or need
    least = least if least.sram + least.flash < need.sram + need.flash else need
    who = "even the head alone" if parts.head else "it"
    asked = f"{who} needs {kb(least.sram)} of SRAM and {kb(least.flash)} of flash"
    return f"{asked}; {more_memory(need, least, limits) or other_board(parts, limits, need)}"


def more_memory(need: Need, least: Need, limits: Limits) -> str:
    """More of the board's own memory, or of any where there is no board: for this scheme, else for the head."""
    whole = Limits(limits.board, limits.board.sram.bytes, limits.board.flash.bytes) if limits.board else Limits()
    where = f" ({limits.board.name} has that much)" if limits.board else ""
    for scheme, n in (("", need), ("--scheme head ", least)):
        if n.fits(whole):
            return scheme + amounts(n, limits, whole) + where
    return ""


def amounts(need: Need, limits: Limits, whole: Limits) -> str:
    """Options for the memory that is short, in whole kilobytes where there are as many."""
    words = []
    for name in ("sram", "flash"):
        bytes, most, all_of_it = getattr(need, name), getattr(limits, name), getattr(whole, name)
        if most is not None and bytes > most:
            up = -(-bytes // 1024)
            words.append(f"--{name} {f'{up}K' if all_of_it is None or up * 1024 <= all_of_it else bytes}")
    return " ".join(words)


def other_board(parts: Parts, limits: Limits, need: Need) -> str:
    """The smallest board that would do, after trying it."""
    for scheme in (None, "head"):
        for board in sorted(boards().values(), key=lambda b: (b.sram.bytes, b.flash.bytes)):
            whole = Limits(board, board.sram.bytes, board.flash.bytes)
            if not board.core.arm or (scheme is None and not need.fits(whole)) or limits.board is None:
                continue
            there = with_scheme(moved(parts, limits.board, board), scheme, whole)
            if there and there.fits(whole):
                more = amounts(there, limits, whole)
                return " ".join(filter(None, (f"--board {board.name}", scheme and f"--scheme {scheme}", more)))
    return "a smaller model: no board that insitu knows is large enough"


def moved(parts: Parts, old: Board, new: Board) -> Parts:
    """For another board; its own kind of gradients, unless another was asked for."""
    usual = {True: "f32", False: "s16"}
    if parts.recipe.grad != usual[old.core.fpu]:
        return parts
    return replace(parts, recipe=replace(parts.recipe, grad=usual[new.core.fpu]))


def peak(plans: Mapping[str, Plan]) -> str:
    """The step that needs most, and the largest value alive then."""
    worst = max(plans.values(), key=lambda p: p.arena_bytes)
    step = worst.peak_step
    alive = [b for b in worst.buffers if b.first <= step <= b.last]
    largest = max(alive, key=lambda b: b.bytes)
    kept = sum(b.bytes for b in alive if b.first < step)
    name = worst.graph.nodes[step].name
    what = "scratch" if largest.names[0].startswith("scratch ") else largest.names[-1]
    return (
        f"  peak at {name} (step {step}): {kb(worst.arena_bytes)} of arena, "
        f"{kb(kept)} of it kept from before; the largest is {what}, {kb(largest.bytes)}"
    )


def ways_out(parts: Parts, limits: Limits) -> list[tuple[str, int]]:
    """Smaller schemes that fit, the largest of each kind first: (name, bytes)."""
    found = []
    for kind in smaller(parts):
        for name in kind:
            need = with_scheme(parts, name, limits)
            if need and need.fits(limits):
                found.append((name, need.sram))
                break
        if len(found) == ENOUGH:
            break
    return found


def smaller(parts: Parts) -> Iterator[list[str]]:
    """Schemes below this one, kind by kind, each kind from large to small."""
    count = len([layer for layer in layers(parts.forward) if layer.name != parts.head])
    trained = min(len(parts.scheme.updates), count)
    halves = [n for n in (trained >> k for k in range(1, 8)) if n]
    if any(u.share or u.channels for u in parts.scheme.updates):
        yield [f"last:{n}" for n in halves]
        yield [f"bias:{n}" for n in (trained, *halves) if n]
    else:
        yield [f"bias:{n}" for n in halves]
    if parts.scheme.updates and parts.head:
        yield ["head"]


def with_scheme(parts: Parts, scheme: str | None, limits: Limits) -> Need | None:
    """What another scheme would take, or this one elsewhere; None where it cannot be compiled."""
    names = [layer for layer in layers(parts.forward) if layer.name != parts.head]
    try:
        changed = parts if scheme is None else replace(parts, scheme=read_scheme(scheme, names))
        graphs = changed.graphs()
        return needed(graphs if limits.board else {verb: plan(g) for verb, g in graphs.items()}, limits)
    except Error:
        return None


def kb(count: int) -> str:
    return f"{count:,} B" if count < 10_000 else f"{count / 1000:,.0f} KB"
