"""Unattended training loses nothing: lines if there is no terminal, a save every few minutes, and one at Ctrl-C."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from insitu.cli.output import say
from insitu.learner import Learner
from insitu.terminal.progress import Report, bar

LINE_SECONDS, EPOCH_SECONDS = 30.0, 5.0  # at most, and at least, between two lines
SAVE_SECONDS = 300.0  # between two saves


@contextmanager
def watched(learner: Learner, output: Path | None) -> Iterator[Report]:
    """A report for `fit`: a bar or lines, and the learner saved to `output` every few minutes."""
    lines, saver = Lines(), Saver(learner, output)
    with bar() as shown:
        show = shown if sys.stderr.isatty() else lines

        def report(words: str, done: int, total: int) -> None:
            show(words, done, total)
            saver()

        yield report


class Lines:
    """A line at the end of an epoch, and within a long one; none within a few seconds of the last."""

    def __init__(self):
        self.last, self.said = ("", 0, 0), monotonic()

    def __call__(self, words: str, done: int, total: int) -> None:
        before, quiet = self.last, monotonic() - self.said
        self.last = words, done, total
        if quiet >= LINE_SECONDS or (quiet >= EPOCH_SECONDS and done == total):
            self._say(words, done, total)
        elif quiet >= EPOCH_SECONDS and before[0] and _part(before[0]) != _part(words):
            self._say(*before)

    def _say(self, words: str, done: int, total: int) -> None:
        self.said = monotonic()
        say(f"{words} ({100 * done // max(total, 1)} %)")


def _part(words: str) -> str:
    return words.partition(",")[0]


class Saver:
    """Saves the learner in its state after the last complete epoch, every few minutes."""

    def __init__(self, learner: Learner, path: Path | None):
        self.learner, self.path, self.saved = learner, path, monotonic()

    def __call__(self) -> None:
        if self.path is not None and monotonic() - self.saved >= SAVE_SECONDS:
            self.learner.save(self.path)
            self.saved = monotonic()


def interrupted(learner: Learner, model: str, data: str, output: Path | None) -> int:
    """Keep what was learned before Ctrl-C, say how to continue; returns the exit status."""
    if output is None:
        say("interrupted; what was learned is lost: -o FILE would have kept it")
        return 130
    learner.save(output)
    whole = output.suffix == ".insitu"
    again = f"{output} --data {data} -o {output}" if whole else f"{model} --data {data} ... --resume {output}"
    say(f"interrupted; what was learned is in {output}\n  to go on: insitu train {again}")
    return 130
