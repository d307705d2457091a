"""The limits of a program: the memory of a board, or less of it, and whether memory or speed matters more."""

from __future__ import annotations

from dataclasses import dataclass

from insitu.boards import Board, find_board
from insitu.codegen.life_layout import STORE_RULES
from insitu.data.arguments import number
from insitu.errors import BoardError
from insitu.terminal.wording import either, option

PREFERENCES = ("balance", "memory", "speed")


@dataclass(frozen=True)
class Limits:
    """How much memory a program may use: all of a board's, or less; and where it should save time instead of memory.

    `aims` are bytes of SRAM. The program takes the fewest instructions that fit the first of them or, if nothing fits
    that, the next. Without any, it takes the least memory.
    """

    board: Board | None = None
    sram: int | None = None
    flash: int | None = None
    prefer: str = "memory"
    aims: tuple[int, ...] = ()
    store: int | None = None  # bytes for samples that the program keeps itself; None: it keeps none
    store_rule: str = STORE_RULES[0]  # what gives way when that is full
    class_cost: float = 0.0  # the share of the others' kept samples that a class that was added may take

    def has(self, memory: str, amount: str) -> str:
        """`stm32f746 has 256 KB`, or `102 KB available` if the limit is less than the board's memory."""
        whole = self.board and getattr(self.board, memory).bytes == getattr(self, memory)
        return f"{self.board.name} has {amount}" if self.board and whole else f"{amount} available"


def usual_gradients(board: Board | None) -> str:
    """The default kind of gradients. On a microcontroller these are integers: they need less SRAM, or fewer
    instructions in the same SRAM, with and without an FPU (docs/mcu.md), at no measurable loss of accuracy
    (docs/gradients.md)."""
    return "s16" if board else "f32"


def limits_of(board: str | Board | None, sram: int | None, flash: int | None, prefer: str = PREFERENCES[0],
              store: int | None = None, store_rule: str | None = None,
              class_cost: float | None = None) -> Limits:  # fmt: skip
    """The limits for a board: all of its memory, or `sram` and `flash` bytes of it, `store` of them for samples."""
    _check_rule(store_rule, store)
    _check_cost(class_cost, store)
    if prefer not in PREFERENCES:
        raise BoardError(f"prefer is {prefer!r}, which is unknown", hint=", ".join(PREFERENCES))
    if board is None or board == "host":
        if store is not None:
            linux = either(shell="", python="; on Linux, learner.keep(...)")
            raise BoardError("a store in the program is for boards", hint=option(board="NAME") + linux)
        return Limits(None, sram, flash, prefer)
    found = find_board(board)
    for name, wanted, memory in (("sram", sram, found.sram), ("flash", flash, found.flash)):
        if wanted is not None and wanted > memory.bytes:
            raise BoardError(f"{found.name} has {memory.bytes:,} bytes of {name}, not {wanted:,}")
    whole = sram or found.sram.bytes
    rule = store_rule or STORE_RULES[0]
    return Limits(found, whole, flash or found.flash.bytes, prefer, aims_of(found, sram, prefer), store, rule,
                  class_cost or 0.0)  # fmt: skip


def _check_rule(rule: str | None, store: int | None) -> None:
    if rule is not None and rule not in STORE_RULES:
        raise BoardError(f"the rule of a store is {rule!r}, which is unknown", hint=", ".join(STORE_RULES))
    if rule is not None and store is None:
        raise BoardError("a rule says what gives way in a store, and there is none", hint=option(store="64K"))


def _check_cost(cost: float | None, store: int | None) -> None:
    if cost is not None:
        number(cost, "class_cost", 1)
    if cost is not None and store is None:
        raise BoardError("class_cost is a share of the samples in a store, and there is none", hint=option(store="64K"))


def aims_of(board: Board, sram: int | None, prefer: str) -> tuple[int, ...]:
    """The SRAM to use for speed: what was allowed, else half of the board's, because the application needs some too."""
    if prefer == "memory":
        return ()
    whole = sram or board.sram.bytes
    return (half_of(board), whole) if prefer == "balance" and not sram else (whole,)


def half_of(board: Board) -> int:
    return board.sram.bytes // 2
