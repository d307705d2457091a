"""Progress on stderr, if it is a terminal: a bar for counted work, a line for a slow stage."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer

Report = Callable[[str, int, int], None]  # (what is being done, how much is done, the total)
SLOW = 1.0  # seconds after which a stage is named


@contextmanager
def bar(report: Report | None = None):
    """Yields `report(words, done, total)`: the caller's own, a bar if stderr is a terminal, or a no-op."""
    if report is not None or not sys.stderr.isatty():
        yield report or (lambda words, done, total: None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("", total=None)
        yield lambda words, done, total: shown.update(task, description=words, completed=done, total=total)


def stoppable(report: Report, check: Callable[[], None]) -> Report:
    """The same, and a place where the work may stop."""

    def both(words: str, done: int, total: int) -> None:
        report(words, done, total)
        check()

    return both


@contextmanager
def stage(words: str, after: float = SLOW) -> Iterator[None]:
    """Shows `words` once the block has taken `after` seconds; removes the line when the block ends."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    status = Console(stderr=True).status(f"{words} ...", spinner="line")
    timer = Timer(after, status.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        status.stop()
