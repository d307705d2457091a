"""The arenas of one device, and who may run when.

Calls that only read the device's state run side by side, each in an arena of its own; a call that changes the state
runs alone. Arenas are made when needed, and reused. Locks are only taken by `with`, never by a function of ours that
Ctrl-C could interrupt between taking a lock and remembering it: nothing here stays locked. host.py decides what runs in
an arena.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from insitu.devices.forked import each_process

ARENA_ALIGN = 64
Made = TypeVar("Made")
Job = Callable[[np.ndarray], Made]  # takes the arena it may use


class Arena:
    def __init__(self, bytes: int):
        self.memory: np.ndarray = aligned(bytes)
        self.lock = Lock()


class Arenas:
    """Jobs must not ask for a turn themselves."""

    def __init__(self, bytes: int):
        self.bytes: int = bytes
        self.first: Arena = Arena(bytes)
        self._all, self._free = [self.first], [self.first]
        each_process(self, Arenas._unlocked)

    def _unlocked(self) -> None:
        self._door = Lock()  # held while the state changes: readers who come later cannot delay a change
        for arena in self._all:
            arena.lock = Lock()

    def share(self, job: Job[Made]) -> Made:
        """Run a job that does not change the state, side by side with others of its kind."""
        with self._door:
            arena = self._free.pop() if self._free else self._another()
        try:
            with arena.lock:
                return job(arena.memory)
        finally:
            self._free.append(arena)

    def share_several(self, count: int, job: Callable[[list[np.ndarray]], Made]) -> Made:
        """The same for a job that uses several arenas, in threads of its own."""
        with self._door:
            taken = [self._free.pop() if self._free else self._another() for _ in range(count)]
        try:
            return holding([arena.lock for arena in taken], lambda: job([arena.memory for arena in taken]))
        finally:
            self._free.extend(taken)

    def share_first(self, job: Job[Made]) -> Made:
        """The same in the first arena, even if others wait for it: for jobs that continue an earlier one."""
        with self._door:
            pass
        with self.first.lock:
            return job(self.first.memory)

    def alone(self, job: Job[Made]) -> Made:
        """Run a job that changes the state: in the first arena, when no other job runs."""
        with self._door:
            return holding([arena.lock for arena in self._all], lambda: job(self.first.memory))

    def fill(self, content: Any) -> None:
        """Overwrite everything that earlier calls left with this byte, or these bytes."""

        def everywhere(_) -> None:
            for arena in self._all:
                arena.memory[:] = content

        self.alone(everywhere)

    def _another(self) -> Arena:
        arena = Arena(self.bytes)
        self._all.append(arena)
        return arena


def holding(locks: Sequence[Lock], job: Callable[[], Made]) -> Made:
    """Run a job with all of these locks held."""
    if not locks:
        return job()
    with locks[0]:
        return holding(locks[1:], job)


def aligned(size: int) -> np.ndarray:
    """Zeroed bytes, aligned for every kernel."""
    raw = np.zeros(size + ARENA_ALIGN, np.uint8)
    start = -raw.ctypes.data % ARENA_ALIGN
    return raw[start : start + max(size, 1)]
