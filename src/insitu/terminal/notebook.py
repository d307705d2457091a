"""Progress in a notebook: one line below the cell, replaced as work goes on and removed at its end.

Nothing here imports IPython unless a kernel runs this program. What is shown, and when, is progress.py.
"""

from __future__ import annotations

import sys
from threading import Lock
from time import monotonic

SECONDS = 0.2  # at least, between two changes of the line
WIDTH = 20  # characters of the bar


def in_notebook() -> bool:
    """Does a Jupyter kernel run this? IPython in a terminal has a terminal, and a script that imports it neither."""
    found = sys.modules.get("IPython")
    shell = found.get_ipython() if found and hasattr(found, "get_ipython") else None
    return getattr(shell, "kernel", None) is not None


class Cell:
    """A report that shows one line, once the work has taken `after` seconds."""

    def __init__(self, words: str = "", after: float = 0.5):
        self.words, self.began, self.next = words, monotonic(), monotonic() + after
        self._handle, self._lock, self._ended = None, Lock(), False

    def __enter__(self) -> Cell:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._ended = True
            if self._handle is not None:
                self._show("")

    def __call__(self, words: str, done: int, total: int) -> None:
        with self._lock:
            if monotonic() >= self.next and not self._ended:
                self._show(f"{words}{_bar(done, total)}, {monotonic() - self.began:.0f} s")
                self.next = monotonic() + SECONDS

    def start(self) -> None:
        """Show the words of a stage now."""
        self.next = 0.0
        self(self.words, 0, 0)

    def _show(self, line: str) -> None:
        from IPython.display import display  # pyright: ignore[reportMissingImports]  # a notebook brings it

        shown = {"text/plain": line}
        if self._handle is None:
            self._handle = display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)


def _bar(done: int, total: int) -> str:
    """`  [#####...............]  25 %`"""
    if not total:
        return " ..."
    full = WIDTH * min(done, total) // total
    return f"  [{'#' * full}{'.' * (WIDTH - full)}]  {100 * done // total} %"
