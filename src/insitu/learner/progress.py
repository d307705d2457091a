"""A progress bar on stderr, only where someone watches."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import contextmanager

Report = Callable[[str, int, int], None]  # what is being done, how much of it, of how much


@contextmanager
def bar(report: Report | None = None):
    """Gives `report(words, done, total)`: the caller's own, a bar if stderr is a terminal, or nothing."""
    if report is not None or not sys.stderr.isatty():
        yield report or (lambda words, done, total: None)
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("", total=None)
        yield lambda words, done, total: shown.update(task, description=words, completed=done, total=total)
