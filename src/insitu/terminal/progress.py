"""Progress on stderr: a bar for counted work, a line for a slow stage. On a terminal, below the cell of a notebook, or
as lines of a log if asked.

Within a bar, a stage or another bar uses the one that is already shown.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer

from insitu.terminal.colour import is_terminal
from insitu.terminal.lines import LINE_SECONDS, Lines
from insitu.terminal.notebook import Cell, in_notebook

Report = Callable[[str, int, int], None]  # (what is being done, how much is done, the total)
SLOW = 1.0  # seconds after which a stage is named


class Shown:
    """What is shown at the moment, and how often lines are printed where nobody watches; None: never."""

    report: Report | None = None
    every: float | None = None


@contextmanager
def speaking(every: float = LINE_SECONDS) -> Iterator[None]:
    """Within this block, progress is printed as lines if stderr is not a terminal: for programs, not for libraries."""
    before, Shown.every = Shown.every, every
    try:
        yield
    finally:
        Shown.every = before


@contextmanager
def bar(report: Report | None = None) -> Iterator[Report]:
    """Yields `report(words, done, total)`: the caller's own, a bar on a terminal or in a notebook, lines, or none."""
    if report is not None or Shown.report is not None:
        yield report or Shown.report or _nothing
    elif is_terminal(sys.stderr):
        with _drawn() as shown, _current(shown):
            yield shown
    elif in_notebook():
        with Cell() as cell, _current(cell):
            yield cell
    elif Shown.every is not None:
        with Lines(every=Shown.every) as lines, _current(lines):
            yield lines
    else:
        yield _nothing


def _nothing(words: str, done: int, total: int) -> None:
    """Shows nothing."""


@contextmanager
def _current(report: Report) -> Iterator[None]:
    Shown.report = report
    try:
        yield
    finally:
        Shown.report = None


@contextmanager
def _drawn() -> Iterator[Report]:
    """A bar; the time that passed goes on while a request takes long."""
    from rich import progress as rich
    from rich.console import Console

    words, spent, left = rich.TextColumn("{task.description}"), rich.TimeElapsedColumn(), rich.TimeRemainingColumn()
    columns = (rich.SpinnerColumn("line"), words, rich.BarColumn(), rich.MofNCompleteColumn(), spent, left)
    with rich.Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("", total=None)
        yield lambda words, done, total: shown.update(task, description=words, completed=done, total=total or None)


def stoppable(report: Report, check: Callable[[], None]) -> Report:
    """The same, and a place where the work may stop."""

    def both(words: str, done: int, total: int) -> None:
        report(words, done, total)
        check()

    return both


@contextmanager
def stage(words: str, after: float = SLOW) -> Iterator[None]:
    """Shows `words` once the block has taken `after` seconds; removes the line when the block ends."""
    if Shown.report is not None:
        Shown.report(words, 0, 0)
        yield
    elif is_terminal(sys.stderr):
        with _status(words, after):
            yield
    elif in_notebook():
        with Cell(words) as cell, _later(cell.start, after):
            yield
    elif Shown.every is not None:
        with Lines(words, Shown.every):
            yield
    else:
        yield


@contextmanager
def _status(words: str, after: float) -> Iterator[None]:
    from rich.console import Console

    status = Console(stderr=True).status(f"{words} ...", spinner="line")
    try:
        with _later(status.start, after):
            yield
    finally:
        status.stop()


@contextmanager
def _later(start: Callable[[], object], after: float) -> Iterator[None]:
    """Calls `start` if the block takes longer than `after` seconds."""
    timer = Timer(after, start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
