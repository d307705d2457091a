"""Does a training program fit the memory it was given? If not: what does not, and the cheapest way out.

For a board everything is counted: the program is linked, stack, protocol and code included. Without a board it is the
arena and the state against SRAM, and the constants against flash. A way out is named only after it was tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from insitu.boards import boards
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
    if limits.flash is not None and need.flash > limits.flash:
        raise BudgetError(
            f"{'the program needs' if limits.board else 'the constants take'} {kb(need.flash)} of flash, "
            f"{limits.has('flash')} {kb(limits.flash)}.",
            hint=more_memory(need, limits),
        )
    if limits.sram is not None and need.sram > limits.sram:
        raise BudgetError(
            f"one training step needs {kb(need.sram)} of SRAM, {limits.has('sram')} {kb(limits.sram)}.\n"
            f"{peak(need.program.plans)}\n  beside it {need.beside}",
            hint=ways_text(parts, limits) or f"{even_the_head(parts, limits, need)}; {more_memory(need, limits)}",
        )
    return need.deployment


@dataclass(frozen=True, eq=False)
class Need:
    """What a program takes: SRAM, flash, and where the SRAM beside the arena goes."""

    sram: int
    flash: int
    program: Program
    deployment: Deployment | None = None

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


def ways_text(parts: Parts, limits: Limits) -> str:
    return "   or   ".join(f"--scheme {name} (fits, {kb(bytes)})" for name, bytes in ways_out(parts, limits))


def even_the_head(parts: Parts, limits: Limits, need: Need) -> str:
    least = with_scheme(parts, "head", limits)
    return f"even the head alone needs {kb(least.sram if least else need.sram)}"


def more_memory(need: Need, limits: Limits) -> str:
    """Boards that would do."""
    if limits.board is None:
        return "more memory"
    if need.sram <= limits.board.sram.bytes and need.flash <= limits.board.flash.bytes:
        return (
            " ".join(
                f"--{what} {-(-bytes // 1024)}K"
                for what, bytes, most in (("sram", need.sram, limits.sram), ("flash", need.flash, limits.flash))
                if bytes > (most or 0)
            )
            + f" ({limits.board.name} has that much)"
        )
    fit = [b for b in boards().values() if b.sram.bytes >= need.sram and b.flash.bytes >= need.flash and b.core.arm]
    return (
        f"--board {min(fit, key=lambda b: b.sram.bytes).name}"
        if fit
        else "a smaller model: no board that insitu knows is large enough"
    )


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
            if need and need.sram <= (limits.sram or 0) and (limits.flash is None or need.flash <= limits.flash):
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


def with_scheme(parts: Parts, scheme: str, limits: Limits) -> Need | None:
    """What another scheme would take; None where it cannot be compiled."""
    names = [layer for layer in layers(parts.forward) if layer.name != parts.head]
    try:
        graphs = replace(parts, scheme=read_scheme(scheme, names)).graphs()
        return needed(graphs if limits.board else {verb: plan(g) for verb, g in graphs.items()}, limits)
    except Error:
        return None


def kb(count: int) -> str:
    return f"{count:,} B" if count < 10_000 else f"{count / 1000:,.0f} KB"
