"""How many samples to hand to a device at once: few enough to show progress, enough to make Python's overhead small.

A board takes a second for an update, a small network on the host microseconds. The first parts show which it is, unless
the device says so. No result depends on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

PART_SECONDS = 0.1
MOST = 1 << 14  # samples
MOST_GROWTH = 16  # from one part to the next
QUICK = 256  # samples of the first part, if the device says that it is quick
MOST_BYTES = 32 << 20  # if samples are made on demand


class Pace:
    """Cuts samples into parts that take about a tenth of a second each."""

    def __init__(self, sample_bytes: int = 0, batch: int = 1, quick: bool = False):
        self.batch = batch
        most = min(MOST, MOST_BYTES // sample_bytes) if sample_bytes else MOST
        self.most = max(most // batch, 1)
        self.updates = min(max(QUICK // batch, 1), self.most) if quick else 1

    def parts(self, count: int) -> Iterator[range]:
        """Whole updates, one part after the other; the time between two parts sets the size of the next."""
        at = 0
        while at < count:
            part, start = range(at, min(at + self.updates * self.batch, count)), perf_counter()
            yield part
            at = part.stop
            self._adapt(perf_counter() - start)

    def _adapt(self, seconds: float) -> None:
        wanted = self.updates * min(max(PART_SECONDS / max(seconds, 1e-9), 0.5), MOST_GROWTH)
        self.updates = min(max(int(wanted), 1), self.most)
