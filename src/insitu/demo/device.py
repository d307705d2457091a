"""Where the demo's program runs: as firmware on an emulated core, or on this machine if there is no emulator."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

from insitu.boards import Board, find_board
from insitu.firmware import Firmware
from insitu.learner import Learner

HOST = "host"
EMULATION = ("unicorn", "elftools", "ziglang")  # packages: a core, a reader of images, a compiler


@dataclass(frozen=True, eq=False)
class Opened:
    """A learner on a device. Without a board it is the host, and `note` says why."""

    learner: Learner
    words: str
    board: Board | None = None
    note: str = ""

    @property
    def firmware(self) -> Firmware | None:
        return self.learner.deployed.firmware if self.board and self.learner.deployed else None


def open_device(learner: Learner, board: str) -> Opened:
    """The learner's program as firmware on the emulated board; on the host if asked, or if no emulator is installed."""
    if board == HOST:
        return on_host(learner)
    note = missing_words(board)
    return on_host(learner, note) if note else on_emulator(learner, find_board(board))


def missing_words(board: str) -> str:
    """What is not installed, if this board cannot be emulated here; else empty."""
    missing = [name for name in EMULATION if not find_spec(name)]
    if board == HOST or not missing:
        return ""
    note = f"No {' and '.join(missing)} here: this ran on the host, not on an emulated {board}."
    return f'{note} To emulate: pip install "insitu[demo]"'


def on_emulator(learner: Learner, board: Board) -> Opened:
    words = f"{board.title}: its firmware on an emulated {board.core.title}"
    return Opened(learner.on("emulator", board=board), words, board)


def on_host(learner: Learner, note: str = "") -> Opened:
    return Opened(learner.on("host"), "this computer, as a shared library", note=note)
