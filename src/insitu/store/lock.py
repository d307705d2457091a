"""One process at a time: a lock on a file, which ends with the process that holds it."""

from __future__ import annotations

import os
from pathlib import Path

from insitu.errors import DataError


class Lock:
    """Held from its making to its release."""

    def __init__(self, path: Path):
        try:
            self._held: int | None = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as e:
            raise DataError(f"cannot be written: {e.strerror or e}", where=str(path.parent)) from e
        if not locked(self._held):
            owner = os.read(self._held, 20).decode(errors="replace").strip()
            os.close(self._held)
            what = f"another learner is using it (process {owner})" if owner else "another learner is using it"
            raise DataError(what, where=str(path.parent), hint="close that one first, or use another folder")
        os.truncate(self._held, 0)
        os.write(self._held, str(os.getpid()).encode())

    def release(self) -> None:
        if self._held is not None:
            os.close(self._held)
            self._held = None


def locked(held: int) -> bool:
    """Lock an open file until it is closed; False if another process has it."""
    try:
        import fcntl
    except ImportError:  # no such locks on this system
        return True
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        return False
