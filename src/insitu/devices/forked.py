"""After a fork: the child has its parent's memory, but none of its other threads.

A lock that one of them held would stay locked, and a pool would wait for threads that are gone. So their owners make
them anew in the child. `multiprocessing` forks on Linux, and so do servers with several workers.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

OWNERS: WeakKeyDictionary[Any, Callable[[Any], None]] = WeakKeyDictionary()  # each with what makes its locks
Owning = TypeVar("Owning")


def each_process(owner: Owning, make: Callable[[Owning], None]) -> None:
    """Call `make(owner)` now, and again in every process that is forked off while the owner lives."""
    make(owner)
    OWNERS[owner] = make


def make_anew() -> None:
    for owner, make in list(OWNERS.items()):
        make(owner)


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=make_anew)
