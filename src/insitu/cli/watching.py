"""Unattended training loses nothing: lines if there is no terminal, a save every few minutes, and one at Ctrl-C.

A result that cannot be written where it should be is kept in the system's temporary folder.
"""

from __future__ import annotations

import shlex
import shutil
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic

from insitu.cli.again import again
from insitu.cli.output import say
from insitu.cli.reopen import OWN
from insitu.errors import DataError
from insitu.learner import Learner
from insitu.terminal.progress import Report, bar

SAVE_SECONDS = 300.0  # between two saves
INTERRUPTED = 130  # the exit status of a program that Ctrl-C has stopped


@contextmanager
def watched(learner: Learner, output: Path | None) -> Iterator[Report]:
    """A report for `fit`: a bar or lines, and the learner saved to `output` every few minutes."""
    saver = Saver(learner, output)
    with bar() as show:

        def report(words: str, done: int, total: int) -> None:
            show(words, done, total)
            saver()

        yield report


class Saver:
    """Saves the learner in its state after the last complete epoch, every few minutes."""

    def __init__(self, learner: Learner, path: Path | None):
        self.learner, self.path, self.saved = learner, path, monotonic()

    def __call__(self) -> None:
        if self.path is not None and monotonic() - self.saved >= SAVE_SECONDS:
            self.saved = monotonic()
            try:
                self.learner.save(self.path)
            except DataError as e:  # a full disk may have room again later; training goes on
                say(f"note: not saved yet: {e}")


def interrupted(learner: Learner, output: Path | None, option: str, go_on: Callable[[], str]) -> int:
    """Keep what was learned before Ctrl-C, say how to continue; returns the exit status."""
    if output is None:
        say(f"interrupted; what was learned is lost: {option} FILE would have kept it")
        return INTERRUPTED
    kept_by(learner.save, output)
    return told(output, go_on())


def kept_by(write: Callable[[Path], Path], path: Path) -> Path:
    """The file that `write` wrote. If it cannot be written, the system's temporary folder keeps what was learned, and
    the error says so."""
    try:
        return write(path)
    except DataError as e:
        place = _elsewhere(write, path.name)
        if place is None:
            raise
        hint = f"{shlex.join(['mv', str(place), str(path)])}, when there is room"
        raise DataError(f"{e.what}\n  what was learned is in {place}", where=e.where, hint=hint) from e


def _elsewhere(write: Callable[[Path], Path], name: str) -> Path | None:
    """A file of this name in a new temporary folder; None if that cannot be written either."""
    with suppress(OSError):
        folder = Path(tempfile.mkdtemp(prefix="insitu-"))
        with suppress(DataError):
            return write(folder / name)
        shutil.rmtree(folder, ignore_errors=True)
    return None


def told(output: Path, go_on: str) -> int:
    """Say where what was learned is kept; returns the exit status."""
    say(f"interrupted; what was learned is in {output}\n  to go on: {go_on}")
    return INTERRUPTED


def unbegun() -> int:
    """Nothing was learned before Ctrl-C, and no file has changed; returns the exit status."""
    say("interrupted; nothing was learned yet, and no file has changed: the same command begins again")
    return INTERRUPTED


def continued(arguments: Namespace) -> str:
    """The command that goes on: a learner's file has the options that made it; a state needs all of them again."""
    if arguments.output.suffix == ".insitu":
        without = {*OWN, "resume", "start_epoch"}
        return again(arguments.parser, arguments.words, model=str(arguments.output), without=without)
    without, more = {"resume", "start_epoch"}, shlex.join(["--resume", str(arguments.output)])
    return again(arguments.parser, arguments.words, model=arguments.model, without=without, more=more)
