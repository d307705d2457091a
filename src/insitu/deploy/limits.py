"""What a program may take: the memory of a board, or less of it, and what it should take least of."""

from __future__ import annotations

from dataclasses import dataclass

from insitu.boards import Board, find_board
from insitu.errors import BoardError

PREFERENCES = ("memory", "speed")


@dataclass(frozen=True)
class Limits:
    """What a program may take: all the memory of a board, or less; and what it should take least of."""

    board: Board | None = None
    sram: int | None = None
    flash: int | None = None
    prefer: str = PREFERENCES[0]

    def has(self, memory: str) -> str:
        """How to say that there is so much: `stm32f746 has`, or `allowed are` where it is less than the board's."""
        whole = self.board and getattr(self.board, memory).bytes == getattr(self, memory)
        return f"{self.board.name} has" if self.board and whole else "there are"


def usual_gradients(board: Board | None) -> str:
    """The kind of gradients where none is asked for. On a microcontroller integers: less SRAM, in as much SRAM fewer
    instructions, with an FPU and without (docs/mcu.md); no accuracy was lost that could be seen (docs/gradients.md)."""
    return "s16" if board else "f32"


def limits_of(board: str | Board | None, sram: int | None, flash: int | None, prefer: str = "memory") -> Limits:
    """A board's memory, or as much of it as is allowed."""
    if prefer not in PREFERENCES:
        raise BoardError(f"prefer is {prefer!r}", hint=" or ".join(PREFERENCES))
    if board is None or board == "host":
        return Limits(None, sram, flash, prefer)
    found = find_board(board)
    for name, wanted, memory in (("sram", sram, found.sram), ("flash", flash, found.flash)):
        if wanted is not None and wanted > memory.bytes:
            raise BoardError(f"{found.name} has {memory.bytes:,} bytes of {name}, not {wanted:,}")
    return Limits(found, sram or found.sram.bytes, flash or found.flash.bytes, prefer)
