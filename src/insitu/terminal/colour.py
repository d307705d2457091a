"""Red and yellow on a terminal, plain text everywhere else. Colour only repeats what the words say."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO

RED, YELLOW, PLAIN = "\x1b[31m", "\x1b[33m", "\x1b[0m"
NOTES = ("note:", "warning:")


def is_terminal(stream: TextIO | None) -> bool:
    """Is this a terminal? A process need not have the stream at all: a daemon, or a program with windows only."""
    return stream is not None and not stream.closed and stream.isatty()


def has_colour(stream: TextIO | None) -> bool:
    """Is this a terminal that shows colours, and does its user want them (NO_COLOR is empty)?"""
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def painted(words: str, colour: str, stream: TextIO | None) -> str:
    """The words in this colour; unchanged if the stream has none."""
    return f"{colour}{words}{PLAIN}" if has_colour(stream) else words


def error_text(message: str, stream: TextIO | None) -> str:
    """An error with its first line in red: what is wrong. The lines below say where, and what to do."""
    first, newline, rest = message.partition("\n")
    return painted(first, RED, stream) + newline + rest


def say(words: str) -> None:
    """A line on stderr; notes and warnings in yellow. If nobody can read it, the work goes on without it."""
    noted = words.lower().startswith(NOTES)
    tell(painted(words, YELLOW, sys.stderr) if noted else words)


def tell(words: str) -> None:
    """A line on stderr as it is, if there is one: a full disk or a closed pipe ends no training."""
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            print(words, file=sys.stderr, flush=True)
