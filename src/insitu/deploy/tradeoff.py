"""The trade-off between memory and speed of a deployment: its graphs are also planned for less memory, and for speed.

By default nothing more is linked: memory follows from the plans and from the stack, protocol and code of the linked
program, and instructions are estimated (estimate.py). A small program that was linked is run, and the estimates of the
others are scaled to its exact count: alone they were off by 28 % on average in 29 small programs, scaled by 9 %. If
instructions are counted, all three programs are linked and run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from insitu.codegen import Program
from insitu.deploy import Deployment, Limits, Programs, bare_sram, deploy_program, limits_of
from insitu.deploy.choices import NAMES, Choice
from insitu.deploy.cost import count
from insitu.deploy.estimate import estimated
from insitu.deploy.remembered import remembered
from insitu.errors import BoardError, ToolError

SOON = 10_000_000  # instructions, as estimated: counted within about a second
PREFERRED: dict[str, str] = dict(zip(NAMES, ("memory", "balance", "speed")))


def with_choices(deployed: Deployment, counted: bool = False) -> Deployment:
    """The deployment with the smallest, the default and the fastest program beside it; `counted`: run all of them."""
    return found_choices(deployed, counted) if counted else remembered(deployed, found_choices)


def found_choices(deployed: Deployment, counted: bool = False) -> Deployment:
    programs, board = deployed.programs, deployed.limits.board
    if programs is None or board is None:
        return deployed
    made = {name: chosen_program(deployed, programs, wanted(deployed.limits, name)) for name in NAMES}
    if counted and deployed.firmware:
        return replace(deployed, choices=tuple(counted_choice(deployed, name, p) for name, p in made.items()))
    known = counted_if_small(deployed)
    return replace(deployed, choices=tuple(estimated_choice(deployed, name, p, known) for name, p in made.items()))


def counted_if_small(deployed: Deployment) -> dict[str, int]:
    """The exact instructions of the linked program, if they are soon counted; else nothing."""
    board = deployed.limits.board
    if deployed.counts:
        return dict(deployed.counts)
    if deployed.firmware is None or board is None or sum(estimated(deployed.program.plans, board.core).values()) > SOON:
        return {}
    try:
        return _sums(count(deployed.firmware))
    except (BoardError, ToolError):  # this board cannot be emulated, or not here
        return {}


def wanted(limits: Limits, name: str) -> Limits:
    """The limits that make this choice: the fastest may use all of the board."""
    assert limits.board is not None
    given = limits.sram if limits.sram != limits.board.sram.bytes and name != "fastest" else None
    return limits_of(limits.board, given, limits.flash, PREFERRED[name])


def flags(limits: Limits, name: str) -> str:
    """The options of a command that make this choice."""
    asked = wanted(limits, name)
    assert asked.board is not None
    limited = limits.sram != asked.board.sram.bytes  # else the whole board is what is allowed anyway
    allowed = [f"--sram {asked.sram}"] if limited else []
    return " ".join([*([f"--prefer {asked.prefer}"] if name != "default" else []), *allowed])


def chosen_program(deployed: Deployment, programs: Programs, limits: Limits) -> Program:
    """The program that `deploy` would choose for these limits, with the stack and protocol of this one."""
    if limits == deployed.limits:
        return deployed.program
    rest = deployed.sram_bytes - bare_sram(deployed.program)
    fitting = (p for p, sram in programs.attempts(limits) if sram is None or bare_sram(p) + rest <= sram)
    return next(fitting, deployed.program)


def estimated_choice(deployed: Deployment, name: str, program: Program, known: Mapping[str, int]) -> Choice:
    board, now = deployed.limits.board, deployed.program
    assert board is not None
    sram = deployed.sram_bytes - bare_sram(now) + bare_sram(program)
    flash = deployed.flash_bytes - now.const_bytes + program.const_bytes
    this = is_this(deployed, name)
    same = program is now
    guessed, here = (estimated(p.plans, board.core) for p in (program, now))
    counts = {verb: round(n * known[verb] / here[verb]) if known.get(verb) and here.get(verb) else n
              for verb, n in guessed.items()}  # fmt: skip
    return Choice(name, flags(deployed.limits, name), sram, flash, counts, linked=same and bool(deployed.firmware),
                  counted=same and bool(known), chosen=this)  # fmt: skip


def counted_choice(deployed: Deployment, name: str, program: Program) -> Choice:
    same = program is deployed.program
    made = deployed if same else deploy_program(program, deployed.limits)
    assert made.firmware is not None
    counts = deployed.counts if same and deployed.counts else _sums(count(made.firmware))
    return Choice(name, flags(deployed.limits, name), made.sram_bytes, made.flash_bytes, counts, True, True,
                  is_this(deployed, name))  # fmt: skip


def is_this(deployed: Deployment, name: str) -> bool:
    return PREFERRED[name] == deployed.limits.prefer


def _sums(layers: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    return {verb: sum(each.values()) for verb, each in layers.items()}
