"""The largest store that still fits: found by a few trials, because a checkpoint grows with the samples that are kept.

Nothing here plans or links (budget.py does that for each trial).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from insitu.deploy.limits import Limits
from insitu.errors import Error

TRIALS = 3  # near the size that should fit


class Takes(Protocol):
    """What a program takes."""

    @property
    def sram(self) -> int: ...
    @property
    def flash(self) -> int: ...


def fitting_store(limits: Limits, need: Takes, tried: Callable[[int], Takes]) -> int:
    """Bytes of a store that fits, in whole kilobytes and pages; 0 if none does."""
    assert limits.store is not None
    try:
        half = limits.store // 2
        store = _crossing(limits, (half, tried(half)), (limits.store, need))
        for _ in range(TRIALS):
            if store <= 0 or _fits(tried(store), limits):
                return max(store, 0)
            store -= _step(limits)
    except Error:  # too small to hold a few samples
        pass
    return 0


def _crossing(limits: Limits, low: tuple[int, Takes], high: tuple[int, Takes]) -> int:
    """The store at which the first memory is full, if what it takes grows in proportion."""
    found = [high[0]]
    for name in ("sram", "flash"):
        a, b, most = getattr(low[1], name), getattr(high[1], name), getattr(limits, name)
        if most is not None and b > most:
            found.append(low[0] + (most - a) * (high[0] - low[0]) // max(b - a, 1))
    return min(found) // _step(limits) * _step(limits)


def _fits(need: Takes, limits: Limits) -> bool:
    return all(most is None or n <= most for n, most in ((need.sram, limits.sram), (need.flash, limits.flash)))


def _step(limits: Limits) -> int:
    """A store's size in whole kilobytes, and in whole pages of flash."""
    pages = limits.board.pages if limits.board else None
    return max(1024, pages.bytes if pages else 0)
