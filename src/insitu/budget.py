"""Does a training program fit the memory it was given? If not: what does not, and the cheapest way out.

Counted are the arena and the state against SRAM, the constants against flash; code and stack are not known here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from insitu.codegen import emit_program
from insitu.errors import BudgetError, Error
from insitu.learner import Parts
from insitu.planner import Plan, plan
from insitu.training.layers import layers
from insitu.training.scheme import read_scheme

ENOUGH = 2  # ways out to name


def check_budget(parts: Parts, plans: Mapping[str, Plan], limits: Mapping[str, int | None]) -> None:
    """Raise a BudgetError if the program needs more than the limits allow."""
    sram, flash = limits.get("sram"), limits.get("flash")
    if sram is None and flash is None:
        return
    program = emit_program(plans)
    if flash is not None and program.const_bytes > flash:
        raise BudgetError(f"the constants take {kb(program.const_bytes)} of flash, there are {kb(flash)}")
    need = program.arena_bytes + program.state_bytes
    if sram is not None and need > sram:
        ways = "   or   ".join(f"--scheme {name} (fits, {kb(bytes)})" for name, bytes in ways_out(parts, sram))
        raise BudgetError(
            f"one training step needs {kb(need)} of SRAM, there are {kb(sram)}.\n{peak(plans)}\n"
            f"  beside it {kb(program.state_bytes)} of trained parameters and other state",
            hint=ways or f"more SRAM: even the head alone needs {kb(needed(parts, 'head') or need)}",
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


def ways_out(parts: Parts, sram: int) -> list[tuple[str, int]]:
    """Smaller schemes that fit, the largest of each kind first: (name, bytes)."""
    found = []
    for kind in smaller(parts):
        for name in kind:
            bytes = needed(parts, name)
            if bytes is not None and bytes <= sram:
                found.append((name, bytes))
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


def needed(parts: Parts, scheme: str) -> int | None:
    """Bytes of SRAM with another scheme; None where it cannot be compiled."""
    names = [layer for layer in layers(parts.forward) if layer.name != parts.head]
    try:
        graphs = replace(parts, scheme=read_scheme(scheme, names)).graphs()
        program = emit_program({verb: plan(g) for verb, g in graphs.items()})
    except Error:
        return None
    return program.arena_bytes + program.state_bytes


def kb(count: int) -> str:
    return f"{count:,} B" if count < 10_000 else f"{count / 1000:,.0f} KB"
