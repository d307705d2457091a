"""A process that does not outlive the one that started it, however that one ends: also after `kill -9`.

A small watcher waits at a pipe whose other end the parent holds. If the pipe ends without a word, the parent is gone,
and the watcher ends the whole session of the process. Nothing here restarts anything (serving.py).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

WATCH = """
import os, signal, sys, time
if not sys.stdin.buffer.read(1):
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(int(sys.argv[1]), how)
        except OSError:
            break
        time.sleep(5)
"""
NOWHERE = subprocess.DEVNULL
RELEASED = b"."  # the parent stops its process itself


class Guarded(subprocess.Popen):
    """A process in a session of its own, with a watcher."""

    def __init__(self, command: Sequence[str], **options: Any):
        super().__init__(command, start_new_session=True, **options)
        watch = [sys.executable, "-I", "-S", "-c", WATCH, str(self.pid)]
        self._watcher = subprocess.Popen(watch, start_new_session=True, stdin=subprocess.PIPE, stdout=NOWHERE,
                                         stderr=NOWHERE)  # fmt: skip

    def stop(self) -> None:
        """End it and everything that it started."""
        for how in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.pid, how)
                self.wait(10)
            except ProcessLookupError:
                break
            except subprocess.TimeoutExpired:
                continue
        self._release()

    def _release(self) -> None:
        assert self._watcher.stdin is not None  # a pipe
        with suppress(OSError, ValueError):  # the watcher was killed, or released before
            self._watcher.stdin.write(RELEASED)
            self._watcher.stdin.close()
        self._watcher.wait(10)
