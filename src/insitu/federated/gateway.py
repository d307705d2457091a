"""A gateway: one member of a fleet that stands in for many boards, which cannot speak Flower's protocol themselves.

    Gateway(learner, [with_samples("left", opened, learner, x, y), Board("right", opened, from_store(40))])

In a round it loads the base into each board, lets the board learn from its own store (or from samples that the gateway
holds for it), reads what was learned, and answers with the mean change, weighted by samples. A board that is unplugged,
reset or faulty is left out of the round and tried again in the next one. What the coding of the answer loses is kept
here, on the boards' behalf. After the last round each board gets the fleet's model, or what suits it better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from insitu.data import Samples
from insitu.devices.device import Device, Updates, method_of
from insitu.devices.link import LinkDevice
from insitu.devices.living import Living
from insitu.errors import DataError, DeviceError, Error
from insitu.federated.catalogue import Catalogue
from insitu.federated.checks import Limits, Reply, check_change, strayed, weights
from insitu.federated.delta import unpack_base
from insitu.federated.member import KEPT, USUAL, Lesson, Member, Task
from insitu.federated.own import Own
from insitu.federated.units import Arrays, from_real, to_real
from insitu.learner import Learner
from insitu.learner.seen import usual_rate
from insitu.training.train import BODY_RATE

BOUTS = 10  # of a board by itself after the last round
STEP_SECONDS = 60.0  # that one step of a board may take: one that hangs must not cost the others the round
Learned = tuple[Arrays, int, float]  # the change of a board, its samples, its loss
Teaching = Callable[[Device, Task], tuple[int, float]]  # learns; returns how many samples it stands for, and their loss


@dataclass
class Board:
    """A board behind a gateway: how to reach it, and how it learns."""

    name: str
    open: Callable[[], Device]
    lesson: Teaching
    samples: Samples | None = None  # that the gateway holds for it
    device: Device | None = None
    failures: list[str] = field(default_factory=list)

    def reached(self) -> Device:
        if self.device is None:
            self.device = self.open()
        if isinstance(self.device, LinkDevice):
            self.device.run_timeout = min(self.device.run_timeout, STEP_SECONDS)
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


def with_samples(name: str, opened: Callable[[], Device], learner: Learner, x: Any, y: Any = None) -> Board:
    """A board for which the gateway holds these samples."""
    data = learner.samples(x, y)
    return Board(name, opened, from_samples(learner, data), data)


def from_samples(learner: Learner, x: Any, y: Any = None) -> Teaching:
    """The gateway holds these samples for the board. Without a rate, it derives one from them as `partial_fit` does."""
    data = learner.samples(x, y)
    assert data.labels is not None  # checked by samples()
    arrays, total = (*data.inputs, data.labels), len(data)

    def learn(device: Device, task: Task) -> tuple[int, float]:
        batch, rate = method_of(device.verbs).samples, task.rate
        losses, rate = [], derived_rate(learner, data, device) if rate is None else rate
        for epoch in range(task.epochs):
            order = np.random.default_rng((task.seed, epoch)).permutation(total)
            order = order[: len(order) // batch * batch]
            rates = [rate] * (len(order) // batch)
            losses.append(device.train(Updates(arrays, order.tolist(), rates, batch)).losses.mean())
        return total, float(np.mean(losses))

    return learn


def derived_rate(learner: Learner, data: Samples, device: Device) -> float:
    """The rate of a board's head for these samples, found by the same program on this computer; the share of it for
    other layers goes into the board's state."""
    learner.device.load_arrays(device.state())
    found = learner.partial_fit(data)
    if BODY_RATE in device.state():
        device.load_arrays({BODY_RATE: learner.device.state()[BODY_RATE]})
    return found.head_rate


RATE = 0.01  # of a board that learns from its own store, if nobody knows anything about its samples


def from_store(steps: int, learner: Learner | None = None) -> Teaching:
    """The board learns from the samples that it keeps itself: one bout of so many steps per epoch.

    Nobody else has these samples: without a rate, it follows from the features of what this learner learned before.
    """

    def learn(device: Device, task: Task) -> tuple[int, float]:
        if not isinstance(device, LinkDevice):
            raise DataError("only a board has a store of its own", where="gateway")
        life, rate = Living(device), task.rate
        rate = (learner and usual_rate(learner)) or RATE if rate is None else rate
        for _ in range(task.epochs):
            found = life.rehearse(steps, rate)
        count = sum(c["trainees"] for c in life.class_statistics())
        if not count:
            raise DeviceError("keeps no labelled sample to learn from", where="store")
        return count, float(found["loss"])

    return learn


class Gateway(Member):
    """A member of a fleet that is several boards. All of them run the program of this learner."""

    def __init__(self, learner: Learner, boards: Sequence[Board], *, learned: bool = False, **options: Any):
        """Options are those of a member: test, personal, coding, noise. learned: the test samples are the boards'."""
        super().__init__(learner, None, **options)
        self.boards, self.learned = list(boards), learned

    def learn(self, packed: bytes, catalogue: Catalogue, task: Task = Task()) -> Lesson:  # noqa: B008
        self._rewind(packed)
        base = catalogue.part(self.units, unpack_base(packed, catalogue.shapes))
        found = [(answer, board) for board in self.boards if (answer := self._learned(board, base, task)) is not None]
        found = self._near(found, base)
        if not found:
            why = "; ".join(f"{b.name}: {b.failures[-1]}" for b in self.boards if b.failures)
            raise DeviceError(f"no board answered ({why})", where="gateway")
        counts = np.array(weights([count for (_, count, _), _ in found], Limits()), np.float64)
        shares, changes = counts / counts.sum(), [change for (change, _, _), _ in found]
        mean = {name: a + sum(s * c[name] for s, c in zip(shares, changes)) for name, a in base.items()}
        loss = float(np.average([loss for (_, _, loss), _ in found], weights=counts))
        missing = [b for b in self.boards if b not in [board for _, board in found]]
        return Lesson(base, mean, int(counts.sum()), loss, tuple(f"{b.name}: {b.failures[-1]}" for b in missing))

    def _near(self, found: list[tuple[Learned, Board]], base: Arrays) -> list[tuple[Learned, Board]]:
        """Those that did not learn far more than most: one board whose sensor broke must not be most of the mean."""
        why = strayed([Reply(change, self.units, count) for (change, count, _), _ in found], base, Limits())
        for (_, board), words in zip(found, why):
            board.failures += [words] if words else []
        return [pair for pair, words in zip(found, why) if not words]

    def _learned(self, board: Board, base: Arrays, task: Task) -> Learned | None:
        """The change of one board, its samples and its loss; None if it cannot be reached."""
        try:
            device = board.reached()
            device.load_arrays(from_real(self.units, base, device.state()))
            before = to_real(self.units, device.state())  # the base as the board can hold it
            count, loss = board.lesson(device, task)
            after = to_real(self.units, device.state())
            change = {name: after[name] - before[name] for name in after}
            check_change(change, base, Limits())  # one board must not spoil the answer for the others
            return change, count, loss
        except (DeviceError, DataError, OSError) as e:
            board.lost(e)
            return None

    def evaluate(self, packed: bytes, catalogue: Catalogue) -> dict[str, float]:
        """On the gateway's test samples; {} if it has none."""
        self.take(packed, catalogue)
        return self.measured()

    def settle(self, packed: bytes, catalogue: Catalogue, task: Task = USUAL, passes: int | None = None,
               more: int = 0, last: bool = False) -> dict[str, float]:  # fmt: skip
        """Each board ends with the model that suits it best.

        For a board whose samples it holds, the gateway finds that model with the same program (own.py). A board with a
        store of its own goes on for as many bouts as passes, or BOUTS, and takes back those that do harm.
        """
        found = []
        for board in self.boards:
            try:
                own = self._settled(board, packed, catalogue, task, passes, more, last)
                found.append({**self.measured(), KEPT: float(own.kept)})
            except (DeviceError, OSError) as e:
                board.lost(e)
        if not found or self.test is None:
            return {}
        return {name: float(np.mean([each[name] for each in found])) for name in found[0]}

    def _settled(self, board: Board, packed: bytes, catalogue: Catalogue, task: Task, passes: int | None,
                 more: int, last: bool) -> Own:  # fmt: skip
        """Leave the best model on a board and on the learner here; returns what speaks for it."""
        device = board.reached()
        self.take(packed, catalogue)
        self._hand_over(self.learner.device, device)
        if board.samples is not None:
            found = self._gone_on(board.samples, task, passes, more, last)
            self._hand_over(self.learner.device, device)
            return found
        bouts = BOUTS if passes is None else passes
        if bouts:
            board.lesson(device, replace(task, epochs=bouts))
        self._hand_over(device, self.learner.device)
        return Own(bouts)

    def _hand_over(self, source: Device, target: Device) -> None:
        """What is trained, from one device to another with the same program."""
        target.load_arrays(from_real(self.units, to_real(self.units, source.state()), target.state()))

    def measured(self) -> dict[str, float]:
        return super().measured() if self.test is not None else {}

    @property
    def seen(self) -> bool:
        """Has the gateway no test samples but those that its boards learn from?"""
        return self.learned or self.test is None

    def close(self) -> None:
        for board in self.boards:
            if board.device is not None:
                board.device.close()
                board.device = None
