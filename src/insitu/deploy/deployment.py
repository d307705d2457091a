"""A training program for a board: planned for a small machine, linked as firmware, and measured to the last byte."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from insitu.codegen import Program
from insitu.codegen.device import in_place
from insitu.codegen.life_layout import layout_of
from insitu.deploy.choices import Choice
from insitu.deploy.limits import Limits, half_of
from insitu.deploy.lowering import LoweringCost
from insitu.deploy.programs import UNLINKED_SRAM, Programs, bare_sram
from insitu.errors import BoardError, BudgetError
from insitu.firmware import Firmware, build_firmware
from insitu.graph import Graph
from insitu.planner.spent import spent
from insitu.terminal.progress import stage
from insitu.terminal.table import size
from insitu.terminal.wording import option

UNLINKED_FLASH = 65536  # where nothing is linked: an estimate of the code, from its size on a Cortex-M
IN_PLACE = "received in place (SRAM does not hold it twice)"  # a state, as reports say it


@dataclass(frozen=True, eq=False)
class Deployment:
    """A program and the memory it needs, with its firmware if it was linked.

    `firmware` is the image for the emulator, which everything is counted on; `flashable` the one for the board.
    """

    limits: Limits
    program: Program
    firmware: Firmware | None
    batch: int = 1  # samples per update it was planned for; a program that adds up gradients takes any number
    loss: str | None = None  # that it is trained with, where that is known
    scheme: str | None = None  # what it trains
    chosen: str = ""  # who chose that scheme, and why
    counts: Mapping[str, int] | None = None  # verb -> instructions, if they were counted (deploy/cost.py)
    cost: LoweringCost | None = None  # of lowering the peak, if that was done and counted
    programs: Programs | None = field(default=None, repr=False)  # this one and others of the same graphs
    life: Mapping[str, Any] | None = None  # what keeping a sample and a slice of a bout cost (deploy/living.py)
    choices: tuple[Choice, ...] = ()  # less memory or fewer instructions, if that was asked for (deploy/tradeoff.py)

    @cached_property
    def flashable(self) -> Firmware | None:
        """The image that talks through the board's own UART; None if insitu has no driver for that."""
        board = self.limits.board
        if not self.firmware or board is None or board.port is None:
            return None
        with stage(f"linking the image to flash for {board.name}"):
            made = build_firmware(self.program, board, port=board.port, compiler=self.firmware.compiler)
        check_fits(made, self.limits)
        return made

    @property
    def sram_bytes(self) -> int:
        if self.firmware:
            return self.firmware.sram_bytes
        return bare_sram(self.program) + UNLINKED_SRAM

    @property
    def flash_bytes(self) -> int:
        return self.firmware.flash_bytes if self.firmware else self.program.const_bytes + UNLINKED_FLASH

    @property
    def const_bytes(self) -> int:
        """Constants as linked, with the tables of the generated C."""
        return self.firmware.account.flash.get("constants", 0) if self.firmware else self.program.const_bytes

    @property
    def arena_lower_bound_bytes(self) -> int:
        return max(plan.lower_bound_bytes for plan in self.program.plans.values())

    @property
    def lowered(self) -> dict:
        """What was done to lower the peak, in the function that needs the most memory."""
        return lowered_by(self.program)

    @property
    def in_place(self) -> bool:
        """Is a new state received over the old one, because SRAM cannot hold two?"""
        return in_place(self.program)

    @property
    def fits(self) -> bool:
        return self.sram_bytes <= (self.limits.sram or 0) and self.flash_bytes <= (self.limits.flash or 0)

    @property
    def note(self) -> str:
        """A note if the program does not fit half of the board's SRAM and was allowed more; else empty."""
        board, aims = self.limits.board, self.limits.aims
        if board is None or len(aims) < 2 or self.sram_bytes <= aims[0]:
            return ""
        half, left = size(half_of(board)), size(board.sram.bytes - self.sram_bytes)
        return f"does not fit half of {board.name}'s SRAM ({half}): the application has {left}"

    def figures(self) -> dict[str, Any]:
        """The figures that reports and manifests show, in bytes."""
        found = {
            "board": self.limits.board.name if self.limits.board else None,
            "sram_bytes": self.sram_bytes, "flash_bytes": self.flash_bytes,
            "sram_budget_bytes": self.limits.sram, "flash_budget_bytes": self.limits.flash,
            "arena_bytes": self.program.arena_bytes, "state_bytes": self.program.state_bytes,
            "const_bytes": self.const_bytes, "arena_lower_bound_bytes": self.arena_lower_bound_bytes,
            "linked": self.firmware is not None, "lowered": self.lowered, "in_place": self.in_place,
            "prefer": self.limits.prefer, "note": self.note,
        }  # fmt: skip
        if self.firmware:
            found |= {"stack_bytes": self.firmware.stack.bytes, **self.firmware.account.to_json()}
        found |= {f"{verb}_instructions": count for verb, count in (self.counts or {}).items()}
        found |= {"life": {**layout.to_json(), **(self.life or {})}} if (layout := layout_of(self.program)) else {}
        found |= {"choices": [choice.to_json() for choice in self.choices]} if self.choices else {}
        return found | ({"lowering": self.cost.to_json()} if self.cost else {})


def check_fits(firmware: Firmware, limits: Limits) -> None:
    """The driver of a UART takes a few hundred bytes more of flash than the emulator's port."""
    for memory, need, most in (
        ("SRAM", firmware.sram_bytes, limits.sram),
        ("flash", firmware.flash_bytes, limits.flash),
    ):
        if most is not None and need > most:
            what = f"with the driver of its UART, the firmware needs {need:,} bytes of {memory}, {most:,} are allowed"
            raise BudgetError(what, where=firmware.board.name, hint=option(**{memory.lower(): need}))


def lowered_by(program: Program) -> dict:
    """What was done to lower the peak, in the function that needs the most memory (if equal, the longer one)."""
    return spent(max(program.plans.values(), key=lambda plan: (plan.arena_bytes, len(plan.nodes))))


def deploy(graphs: Mapping[str, Graph], limits: Limits, *, port: str = "emulator", flags: tuple[str, ...] = (),
           compiler: str = "zig") -> Deployment:  # fmt: skip
    """Plan, emit and link these graphs for the board of `limits`: the first program that fits, or the smallest."""
    programs, found, program = Programs.of(graphs, limits), None, None
    for program, sram in programs.attempts(limits):
        if found is None or found.program is not program:
            fits = sram is None or bare_sram(program) <= sram
            found = deploy_program(program, limits, port, flags, compiler) if fits else None
        if found and (sram is None or found.sram_bytes <= sram):
            return replace(found, programs=programs)
    assert program is not None  # there is at least one
    return replace(found or deploy_program(program, limits, port, flags, compiler), programs=programs)


def board_programs(graphs: Mapping[str, Graph], limits: Limits | None = None) -> Iterator[Program]:
    """The programs that `deploy` tries, in this order."""
    limits = limits or Limits()
    return (program for program, _ in Programs.of(graphs, limits).attempts(limits))


def deploy_program(program: Program, limits: Limits, port: str = "emulator", flags: tuple[str, ...] = (),
                   compiler: str = "zig") -> Deployment:  # fmt: skip
    """Link a program for the board of `limits`."""
    if limits.board is None:
        raise BoardError("nothing is linked for the host", hint="insitu boards lists the boards")
    linked = limits.board.core.linked
    with stage(f"compiling and linking for {limits.board.name}"):
        firmware = build_firmware(program, limits.board, port=port, flags=flags, compiler=compiler) if linked else None
    return Deployment(limits, program, firmware)


def starting_from(graphs: Mapping[str, Graph], state: Mapping[str, np.ndarray]) -> dict[str, Graph]:
    """The same graphs with another initial state, for example a learned one."""
    return {verb: replace(g, state={name: state[name] for name in g.state}) for verb, g in graphs.items()}
