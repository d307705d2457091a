"""Where words go: results on stdout as text or JSON, progress on stderr and only where someone watches."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager


def show(arguments, text: str, data) -> None:
    """The result of a verb: `data` with --json, else `text`."""
    print(json.dumps(data, indent=2) if arguments.json else text)


@contextmanager
def progress(label: str):
    """Gives `report(done, total)`, a bar on stderr where that is a terminal and nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda done, total=None: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total=None: bar.update(task, completed=done, total=total)
