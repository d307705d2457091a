"""One attempt at a run: the process of the server's app, tied to the `serve` that submitted it.

Flower's superlink starts the app in a process that outlives it. If the superlink dies, `serve` submits the run again,
and the old process must not write another round. Each attempt has a number; only the latest one is current. An app that
is no longer current, or whose `serve` is gone, ends itself. One that fails says why, so that `serve` need not guess.
"""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from insitu.files import write_whole

CURRENT = "current"  # the file with the number of the attempt that may write
SECONDS = 1.0  # between two looks


def submitted(home: Path, number: int) -> dict[str, Any]:
    """Make an attempt the current one; returns the settings that tell the app so."""
    write_whole(home / CURRENT, str(number).encode())
    return {"home": str(home), "attempt": number, "parent": os.getpid()}


@dataclass(frozen=True)
class Attempt:
    """The app's side of an attempt."""

    home: Path
    number: int
    parent: int

    @property
    def file(self) -> Path:
        return self.home / f"attempt-{self.number}.json"

    @property
    def current(self) -> bool:
        try:
            return int((self.home / CURRENT).read_text()) == self.number and alive(self.parent)
        except (OSError, ValueError):
            return False

    def begin(self) -> None:
        """Say that this process is at work, and end it as soon as nobody wants its result."""
        self.say()
        threading.Thread(target=self._watch, daemon=True).start()

    def say(self, error: str = "") -> None:
        write_whole(self.file, json.dumps({"pid": os.getpid(), "error": error}).encode())

    def _watch(self) -> None:
        while self.current:
            time.sleep(SECONDS)
        os._exit(1)


def attempt_of(given: dict[str, Any]) -> Attempt | None:
    """The attempt that the settings of a run speak of."""
    return Attempt(Path(given["home"]), int(given["attempt"]), int(given["parent"])) if "attempt" in given else None


@dataclass(frozen=True)
class Ended:
    """An attempt that will not go on: with its error, or because its process is gone."""

    error: str


def ended(home: Path, number: int) -> Ended | None:
    """Has this attempt ended without a result? None while it works, or has not begun."""
    try:
        found = json.loads((home / f"attempt-{number}.json").read_text())
    except (OSError, ValueError):
        return None
    if found["error"]:
        return Ended(str(found["error"]))
    return None if alive(int(found["pid"])) else Ended("")


def alive(pid: int) -> bool:
    """Is there a process with this number that has not ended?"""
    try:
        os.kill(pid, 0)
        return not Path(f"/proc/{pid}/stat").exists() or " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except PermissionError:
        return True
    except OSError:
        return False
