"""A map of bytes that remembers what was last written to each: the basis of every replay."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np

FREE = 0  # nothing that may be read


class ByteMap:
    """One tag per byte; a writer sets it, a reader must find it."""

    def __init__(self, size: int):
        self.tags = np.full(size, FREE, np.int64)

    def area(self, start: int, size: int) -> slice | None:
        """These bytes; None if they are not all on the map."""
        return slice(start, start + size) if start >= 0 and start + size <= self.tags.size else None

    def write(self, area: slice, tags: int | np.ndarray) -> None:
        self.tags[area] = tags

    def clear(self, area: slice) -> None:
        self.tags[area] = FREE

    def copy(self, to: slice, source: slice) -> None:
        self.tags[to] = self.tags[source].copy()

    def wrong(self, area: slice, tags: int | np.ndarray) -> np.ndarray:
        """For each byte of an area: is something else there?"""
        return self.tags[area] != tags

    def keep(self, tags: Iterable[int]) -> None:
        """Clear everything except bytes with one of these tags, or the negative of one."""
        self.tags[~np.isin(np.abs(self.tags), list(tags))] = FREE


def overlap(a: slice, b: slice) -> bool:
    return a.start < b.stop and b.start < a.stop


def any_overlap(areas: Iterable[slice]) -> bool:
    """Do two of these share a byte? Empty ones share none."""
    there = sorted((a.start, a.stop) for a in areas if a.stop > a.start)
    return any(end > start for (_, end), (start, _) in pairwise(there))
