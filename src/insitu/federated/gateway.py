"""A gateway: one member of a fleet that stands in for many boards, which cannot speak Flower's protocol themselves.

    Gateway(learner, [Board("left", opened, from_samples(learner, x, y)), Board("right", opened, from_store(40))])

In a round it loads the base into each board, lets the board learn from its own store (or from samples that the gateway
holds for it), reads what was learned, and answers with the mean change, weighted by samples. A board that is unplugged,
reset or faulty is left out of the round and tried again in the next one. What the coding of the answer loses is kept
here, on the boards' behalf.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from insitu.devices.device import Device, Updates, method_of
from insitu.devices.link import LinkDevice
from insitu.devices.living import Living
from insitu.errors import DataError, DeviceError, Error
from insitu.federated.catalogue import Catalogue
from insitu.federated.delta import unpack_base
from insitu.federated.member import Lesson, Member, Task
from insitu.federated.units import Arrays, from_real, to_real
from insitu.learner import Learner

Teaching = Callable[[Device, Task], tuple[int, float]]  # learns; returns how many samples it stands for, and their loss


@dataclass
class Board:
    """A board behind a gateway: how to reach it, and how it learns."""

    name: str
    open: Callable[[], Device]
    lesson: Teaching
    device: Device | None = None
    failures: list[str] = field(default_factory=list)

    def reached(self) -> Device:
        if self.device is None:
            self.device = self.open()
        return self.device

    def lost(self, why: Exception) -> None:
        """It did not answer: the next round begins with a new connection."""
        self.failures.append(str(why))
        try:
            if self.device is not None:
                self.device.close()
        except (Error, OSError):
            pass  # a line that is gone cannot be closed properly either
        self.device = None


def from_samples(learner: Learner, x: Any, y: Any = None) -> Teaching:
    """The gateway holds these samples for the board."""
    data = learner.samples(x, y)
    assert data.labels is not None  # checked by samples()
    arrays, total = (*data.inputs, data.labels), len(data)

    def learn(device: Device, task: Task) -> tuple[int, float]:
        batch = method_of(device.verbs).samples
        losses = []
        for epoch in range(task.epochs):
            order = np.random.default_rng((task.seed, epoch)).permutation(total)
            order = order[: len(order) // batch * batch]
            rates = [RATE if task.rate is None else task.rate] * (len(order) // batch)
            losses.append(device.train(Updates(arrays, order.tolist(), rates, batch)).losses.mean())
        return total, float(np.mean(losses))

    return learn


RATE = 0.01  # of a board that is given none


def from_store(steps: int) -> Teaching:
    """The board learns from the samples that it keeps itself: one bout of so many steps per epoch."""

    def learn(device: Device, task: Task) -> tuple[int, float]:
        if not isinstance(device, LinkDevice):
            raise DataError("only a board has a store of its own", where="gateway")
        life = Living(device)
        for _ in range(task.epochs):
            found = life.rehearse(steps, RATE if task.rate is None else task.rate)
        count = sum(c["trainees"] for c in life.class_statistics())
        if not count:
            raise DeviceError("keeps no labelled sample to learn from", where="store")
        return count, float(found["loss"])

    return learn


class Gateway(Member):
    """A member of a fleet that is several boards. All of them run the program of this learner."""

    def __init__(self, learner: Learner, boards: Sequence[Board], **options: Any):
        """Options are those of a member: test, personal, coding, noise."""
        super().__init__(learner, None, **options)
        self.boards = list(boards)

    def learn(self, packed: bytes, catalogue: Catalogue, task: Task = Task()) -> Lesson:  # noqa: B008
        self._rewind(packed)
        base = catalogue.part(self.units, unpack_base(packed, catalogue.shapes))
        found = [(answer, board) for board in self.boards if (answer := self._learned(board, base, task)) is not None]
        if not found:
            why = "; ".join(f"{b.name}: {b.failures[-1]}" for b in self.boards if b.failures)
            raise DeviceError(f"no board answered ({why})", where="gateway")
        counts = np.array([count for (_, count, _), _ in found], np.float64)
        shares, changes = counts / counts.sum(), [change for (change, _, _), _ in found]
        mean = {name: a + sum(s * c[name] for s, c in zip(shares, changes)) for name, a in base.items()}
        loss = float(np.average([loss for (_, _, loss), _ in found], weights=counts))
        missing = [b for b in self.boards if b not in [board for _, board in found]]
        return Lesson(base, mean, int(counts.sum()), loss, tuple(f"{b.name}: {b.failures[-1]}" for b in missing))

    def _learned(self, board: Board, base: Arrays, task: Task) -> tuple[Arrays, int, float] | None:
        """The change of one board, its samples and its loss; None if it cannot be reached."""
        try:
            device = board.reached()
            device.load_arrays(from_real(self.units, base, device.state()))
            before = to_real(self.units, device.state())  # the base as the board can hold it
            count, loss = board.lesson(device, task)
            after = to_real(self.units, device.state())
            return {name: after[name] - before[name] for name in after}, count, loss
        except (DeviceError, OSError) as e:
            board.lost(e)
            return None

    def evaluate(self, packed: bytes, catalogue: Catalogue, own: Task | None = None) -> dict[str, float]:
        if self.test is None:
            raise DataError("a gateway without test samples cannot evaluate", hint="test=(x, y)")
        if own is not None:
            raise DataError("boards behind a gateway learn in rounds only", hint="without --own")
        return super().evaluate(packed, catalogue)

    def close(self) -> None:
        for board in self.boards:
            if board.device is not None:
                board.device.close()
                board.device = None
