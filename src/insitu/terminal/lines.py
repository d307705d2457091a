"""Progress where nobody watches (a log, a pipe): few lines, but never a long silence.

A line at the end of each epoch, but at most three per second; in a longer epoch, a line every half minute. If no
work is reported for that long, a line says what has been going on, and for how long: a slow request does not look
like a hang.
"""

from __future__ import annotations

from threading import Event, Thread
from time import monotonic

from insitu.terminal.colour import say

LINE_SECONDS = 30.0  # at most, between two lines
EPOCH_SECONDS, PHASE_SECONDS = 0.3, 5.0  # at least, before the line of an epoch, and of any other work


class Lines:
    """A report that prints lines; as a context, it also prints one if nothing is reported for a while."""

    def __init__(self, words: str = "", every: float = LINE_SECONDS):
        self.last, self.every = (words, 0, 0), every
        self.told: tuple[str, int, int] | None = None
        self.began = self.said = monotonic()
        self._ended, self._thread = Event(), Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Lines:
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._ended.set()
        self._thread.join()
        if _is_epoch(self.last[0]) and self._takes_long():
            self._end(self.last)

    def __call__(self, words: str, done: int, total: int) -> None:
        before, self.last = self.last, (words, done, total)
        quiet = monotonic() - self.said
        ended = _part(before[0]) != _part(words)
        if ended and (quiet >= _least(before[0]) or self._was_last(before)):
            self._end(before)
        elif quiet >= self.every:
            self._say(words, done, total)
        elif done == total and quiet >= _least(words):
            self._end(self.last)

    def _was_last(self, before: tuple[str, int, int]) -> bool:
        """Is this the last epoch of a training, and another work begins?"""
        return _is_epoch(before[0]) and (not _is_epoch(self.last[0]) or self.last[1] < before[1]) and self._takes_long()

    def _takes_long(self) -> bool:
        return monotonic() - self.began >= EPOCH_SECONDS

    def _end(self, last: tuple[str, int, int]) -> None:
        """The line of work that has ended, once."""
        if last[0] and last != self.told:
            self._say(*last)

    def _watch(self) -> None:
        while not self._ended.wait(max(0.01, self.said + self.every - monotonic())):
            if monotonic() - self.said >= self.every and self.last[0]:
                self._say(*self.last, since=f", {monotonic() - self.began:.0f} s so far")
            elif not self.last[0]:
                self.said = monotonic()

    def _say(self, words: str, done: int, total: int, since: str = "") -> None:
        self.said, self.told = monotonic(), (words, done, total)
        say(f"{words}{f' ({100 * done // total} %)' if total else ' ...'}{since}")


def _part(words: str) -> str:
    return words.partition(",")[0]


def _is_epoch(words: str) -> bool:
    return words.startswith("epoch ")


def _least(words: str) -> float:
    return EPOCH_SECONDS if _is_epoch(words) else PHASE_SECONDS
