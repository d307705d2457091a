"""Power cuts on an emulated board: at each operation of its flash, clean and torn, and what the next start finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from insitu.devices.emulator import EmulatorDevice
from insitu.devices.flash import AFTER, BEFORE, TORN, Nor, PowerCut
from insitu.devices.living import Living

from .living import RATE, alive, points

Found = tuple[bytes, tuple]  # a state, and the samples kept
WAYS = ((TORN, 1), (BEFORE, 0), (TORN, 0), (TORN, 2))


@dataclass(eq=False)
class Bench:
    """A board whose flash can be set back to an earlier moment."""

    device: EmulatorDevice
    life: Living

    @staticmethod
    def started(*arguments: str) -> Bench:
        return Bench(*alive(*arguments))

    @property
    def nor(self) -> Nor:
        assert self.device.core.nor is not None
        return self.device.core.nor

    def flash(self) -> tuple[bytes, np.ndarray]:
        return self.device.core.peek(self.nor.origin, self.nor.bytes), self.nor.written.copy()

    def start_with(self, flash: tuple[bytes, np.ndarray]) -> None:
        self.device.core.uc.mem_write(self.nor.origin, flash[0])
        self.nor.written = flash[1].copy()
        self.device.restart()

    def found(self) -> Found:
        kept = tuple((r.id, r.label, r.guard) for r in self.life.records())
        return self.device.save_state(), kept

    def operations(self, act: Callable[[Living], object]) -> int:
        """How often an act changes the flash."""
        before = self.nor.operations
        act(self.life)
        return self.nor.operations - before

    def goes_on(self) -> Found:
        """After one more bout."""
        self.life.rehearse(5, RATE, partial=True)
        return self.found()


def prepared(samples: int, *arguments: str, bout: int = 8) -> Bench:
    """A board that has seen some samples and learned, with a checkpoint of that."""
    bench = Bench.started(*arguments)
    x, y = points(samples)
    for i in range(samples):
        bench.life.observe(x[i], label=int(y[i]) if i % 3 else -1)
    if bout:
        bench.life.rehearse(bout, RATE, partial=True)
    bench.life.checkpoint()
    return bench


def cuts(bench: Bench, act: Callable[[Living], object], every: int) -> Iterator[tuple[int, str, Found]]:
    """Cut the act at every n-th of its operations and at the last ones, clean and torn; what is found then."""
    start = bench.flash()
    bench.start_with(start)
    total = bench.operations(act)
    for at in range(total):
        if at % every and at < total - 4:
            continue
        for when, seed in (*WAYS[:2], *(((AFTER, 0),) if at == total - 1 else ())):
            bench.start_with(start)
            bench.nor.cut(at, when, seed)
            try:
                act(bench.life)
                raise AssertionError(f"operation {at} was not reached")
            except PowerCut:
                bench.device.restart()
            yield at, when, bench.found()


def all_cuts(bench: Bench, act: Callable[[Living], object]) -> Iterator[tuple[int, str, Found]]:
    """The same at every operation, torn in several ways; the act is done once, and watched."""
    bench.start_with(bench.flash())
    bench.nor.watch = watched = []
    act(bench.life)
    bench.nor.watch = None
    for at, operation in enumerate(watched):
        for when, seed in (*WAYS, *(((AFTER, 0),) if at == len(watched) - 1 else ())):
            data = operation.cut(bench.nor, when, seed)
            bench.nor.load(bench.device.core.uc, data)
            bench.device.restart()
            yield at, when, bench.found()
