"""Progress where nobody watches (a log, a pipe): few lines, but never a long silence.

A line at the end of an epoch and at most every half minute within one. If no work is reported for that long, a line
says what has been going on, and for how long: a slow request does not look like a hang.
"""

from __future__ import annotations

from threading import Event, Thread
from time import monotonic

from insitu.terminal.colour import say

LINE_SECONDS, EPOCH_SECONDS = 30.0, 5.0  # at most, and at least, between two lines


class Lines:
    """A report that prints lines; as a context, it also prints one if nothing is reported for a while."""

    def __init__(self, words: str = "", every: float = LINE_SECONDS):
        self.last, self.every = (words, 0, 0), every
        self.began = self.said = monotonic()
        self._ended, self._thread = Event(), Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Lines:
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._ended.set()
        self._thread.join()

    def __call__(self, words: str, done: int, total: int) -> None:
        before, quiet = self.last, monotonic() - self.said
        self.last = words, done, total
        if quiet >= self.every or (quiet >= EPOCH_SECONDS and done == total):
            self._say(words, done, total)
        elif quiet >= EPOCH_SECONDS and before[0] and _part(before[0]) != _part(words):
            self._say(*before)

    def _watch(self) -> None:
        while not self._ended.wait(max(0.01, self.said + self.every - monotonic())):
            if monotonic() - self.said >= self.every and self.last[0]:
                self._say(*self.last, since=f", {monotonic() - self.began:.0f} s so far")
            elif not self.last[0]:
                self.said = monotonic()

    def _say(self, words: str, done: int, total: int, since: str = "") -> None:
        self.said = monotonic()
        say(f"{words}{f' ({100 * done // total} %)' if total else ' ...'}{since}")


def _part(words: str) -> str:
    return words.partition(",")[0]
