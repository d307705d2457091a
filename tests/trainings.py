"""Verbs such as `insitu train` as real processes that start quickly: a server that imported everything forks them.

Nothing here imports torch: the server would have to, too.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from insitu.cli import main, watching
from insitu.learner import file, settling  # noqa: F401  # imported once, in the server

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([__name__])


def _train(verb: str, words: list[str], said: Path, save_seconds: float, most_bytes: int | None) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stderr = said.open("w", buffering=1)
    os.dup2(sys.stderr.fileno(), 1)
    watching.SAVE_SECONDS = save_seconds
    if most_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
    try:
        print("begins", file=sys.stderr)
        status = main([verb, *words])
    except KeyboardInterrupt:  # before or after `main`: Python itself would end in the same way
        status = 130
    os._exit(status)


class Training:
    """A running `insitu train`, or another verb. By default it saves as often as it can."""

    def __init__(self, words: list, said: Path, save_seconds: float = 0.0, most_bytes: int | None = None,
                 verb: str = "train"):  # fmt: skip
        self.said, arguments = said, (verb, [str(word) for word in words], said, save_seconds, most_bytes)
        said.unlink(missing_ok=True)
        self.process = FORKS.Process(target=_train, args=arguments, daemon=True)
        self.process.start()
        self.until_said("begins")

    def text(self) -> str:
        return self.said.read_text() if self.said.exists() else ""

    def until_said(self, word: str) -> None:
        self.until(lambda: word in self.text())

    def until(self, seen: Callable[[], object], seconds: float = 60.0) -> None:
        """Wait for something to be seen, or for the end of the process."""
        end = time.monotonic() + seconds
        while not seen() and self.process.is_alive():
            assert time.monotonic() < end, f"waited for {seconds} s: {self.text()}"
            time.sleep(0.0005)

    def stop(self, number: int) -> int:
        """Send a signal; returns the exit status."""
        assert self.process.pid is not None
        os.kill(self.process.pid, number)
        return self.end()

    def end(self) -> int:
        self.process.join(60)
        assert self.process.exitcode is not None, f"still running: {self.text()}"
        return self.process.exitcode
