"""One device of a fleet: a learner with its own samples. It takes a base, learns, and answers with a delta.

    member = Member(insitu.open("gesture.insitu"), x, y)
    answer = member.train(base, Task(epochs=2))           sealed bytes, and what was measured

What stays on the device: the samples, the personal layers, the last model, and what the coding of its last delta lost.
`kept` and `keep` put these into bytes, for engines that start a new process for every message. A base that comes a
second time means that the first answer was lost: what is kept goes back to where it was, and the answer is the same.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from insitu.data import Samples, read_held_out
from insitu.errors import DataError
from insitu.federated.account import Account, check_budget, question
from insitu.federated.best import Verdict, compared
from insitu.federated.catalogue import Catalogue, Program, catalogue_in, catalogue_of, check_personal, exchanged
from insitu.federated.checks import Limits, check_change
from insitu.federated.delta import HASH_BYTES, Sender, base_hash, unpack_base
from insitu.federated.own import Own, asked, go_on, start_of
from insitu.federated.privacy import Noise, private
from insitu.federated.units import Arrays, Unit, from_real, identity, to_real, units_of
from insitu.files import UNREADABLE, read_array
from insitu.learner import Learner
from insitu.learner.few import Known

KEPT = "kept"  # of a device that went on by itself: which model it keeps (own.py)
MOST_KEPT = 1 << 28  # bytes that a device keeps between rounds


@dataclass(frozen=True)
class Task:
    """What a device is asked to do in a round. Without a rate, it derives its own, as partial_fit does."""

    epochs: int = 1
    rate: float | None = None
    head_rate: float | None = None
    seed: int = 0
    pull: float = 0.0  # FedProx: after each epoch, this share of the way back to the base


USUAL = Task()


@dataclass(frozen=True, eq=False)
class Lesson:
    """What a device learned from a base, in real units, from how many samples."""

    base: Arrays
    learned: Arrays
    samples: int
    loss: float
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Answer:
    """A sealed delta, and measurements over the samples it was learned from."""

    delta: bytes
    samples: int
    loss: float
    left_out: tuple[str, ...] = ()  # boards of a gateway that did not take part, and why


class Member:
    """A learner with samples, and the part of a fleet's tensors that it trains."""

    def __init__(self, learner: Learner, x: Any, y: Any = None, *, test: Any = None, personal: Sequence[str] = (),
                 coding: str = "int8", noise: Noise | None = None, secure: float | None = None,
                 passes: int | None = None, budget: float | None = None):  # fmt: skip
        self.noise = noise  # that this device adds itself
        self.budget = budget  # the epsilon that its answers may be worth in all
        self.account = Account()
        self.passes = passes  # by itself after the last round, whatever the server says
        self.secure = secure  # it answers only under masks, with a change of at most this norm
        self.learner, self.data, self.test = learner, (x, y), test
        self._first = start_of(learner)
        check_personal(learner.graphs, personal)
        everything = units_of(learner.graphs)
        self.units: Program = exchanged(everything, personal)
        self.personal: tuple[Unit, ...] = tuple(u for u in everything if u not in self.units)
        self.sender = Sender(self.units, coding)
        self._own: Arrays = self._personal()
        self.held = b""  # the last model that came, packed: the next one may come as a difference from it
        self.told = ""  # what a fleet with several schemes exchanges, as its server said it
        self.asked = b""  # the base of the last answer
        self.revealed: list[bytes] = []  # bases whose sums this device helped to unmask
        self._before: tuple[Arrays, Arrays] = {}, {}  # the personal layers, and what was not sent, before it
        self.costs: dict[bytes, np.ndarray] = {}  # of each test under the fleet's best model and the last one (best.py)

    @property
    def catalogue(self) -> Catalogue:
        """What the fleet exchanges, as the server told it; without a word, what this device does."""
        return catalogue_in(self.told, self.units) if self.told else catalogue_of([self.units])

    def take(self, packed: bytes, catalogue: Catalogue) -> Arrays:
        """Load a base; the personal layers stay as they were. Returns this device's part of it."""
        base = catalogue.part(self.units, unpack_base(packed, catalogue.shapes))
        state = self.learner.device.state()
        self.learner.device.load_arrays({**from_real(self.units, base, state), **self._own})
        return to_real(self.units, self.learner.device.state())

    def train(self, packed: bytes, catalogue: Catalogue, task: Task = USUAL) -> Answer:
        """Learn, and answer with the sealed change."""
        if self.secure is not None:
            raise DataError(
                "this device answers only under masks", where="secure", hint="a server that asks for masked sums, too"
            )
        delta, found = self._drowned(packed, catalogue, task) if self.noise else self._plain(packed, catalogue, task)
        return Answer(delta, found.samples, found.loss, found.left_out)

    def _plain(self, packed: bytes, catalogue: Catalogue, task: Task) -> tuple[bytes, Lesson]:
        found = self.learn(packed, catalogue, task)
        return self.sender.delta(found.base, found.learned, base_hash(packed), found.samples), found

    def _drowned(self, packed: bytes, catalogue: Catalogue, task: Task) -> tuple[bytes, Lesson]:
        """With this device's noise; its number of samples is not told. The same question gets the same answer."""
        asked, left = question(packed, task), self.sender.left
        again = asked == self.account.asked
        if not again:
            check_budget(self.account, self.noise, self.budget)
        found = self.learn(packed, catalogue, task)
        if again:
            self.sender.left = left  # as it was after the first answer
        else:
            self.account = self.account.after(asked, self._noisy(found, packed))
        return self.account.delta, found

    @property
    def hides(self) -> bool:
        """Is a device's number of samples, and its loss, its own affair?"""
        return self.noise is not None or self.secure is not None

    def learn(self, packed: bytes, catalogue: Catalogue, task: Task = USUAL) -> Lesson:
        """Learn from this device's samples, starting from the base."""
        self._rewind(packed)
        base, losses = self.take(packed, catalogue), []
        own = to_real(self.personal, self.learner.device.state())
        for epoch in range(task.epochs):
            losses.append(self._epoch(task, epoch))
            self._pull(base, task.pull)
        state = self.learner.device.state()
        self._check(base, own, state)
        self._own, count = self._personal(), len(self.learner.samples(*self.data).inputs[0])
        return Lesson(base, to_real(self.units, state), count, float(np.mean(losses)) if losses else 0.0)

    def _check(self, base: Arrays, own: Arrays, state: Arrays) -> None:
        """Training that went astray is not sent and not kept: it would be in the personal layers, and in what the next
        deltas still have to send, for many rounds."""
        before, after = {**base, **own}, to_real((*self.units, *self.personal), state)
        check_change({name: a - before[name] for name, a in after.items()}, before, Limits())

    def _personal(self) -> Arrays:
        """The personal layers as they are now."""
        state = self.learner.device.state() if self.personal else {}
        return {name: state[name].copy() for name in names_of(self.personal, state)}

    def _rewind(self, packed: bytes) -> None:
        """Note what is kept before this base; go back to that if it came before."""
        if base_hash(packed) == self.asked:
            self._own, self.sender.left = self._before
        self.asked, self._before = base_hash(packed), (self._own, self.sender.left)

    def _noisy(self, found: Lesson, packed: bytes) -> bytes:
        """The sealed change with noise, for one sample."""
        assert self.noise is not None  # asked for by _drowned
        hidden = private({name: found.learned[name] - a for name, a in found.base.items()}, self.noise)
        noisy = {name: a + hidden[name] for name, a in found.base.items()}
        return self.sender.delta(found.base, noisy, base_hash(packed), 1)

    def _epoch(self, task: Task, epoch: int, data: Samples | None = None) -> float:
        given = self.data if data is None else (data, None)
        if task.rate is None:
            return self.learner.partial_fit(*given).loss[-1]
        rates = {"rate": task.rate, "head_rate": task.head_rate}
        found = self.learner.fit(*given, epochs=1, schedule="constant", warmup=0, seed=task.seed + epoch, **rates)
        return found.loss[-1]

    def _pull(self, base: Arrays, share: float) -> None:
        if share > 0:
            state = self.learner.device.state()
            now = to_real(self.units, state)
            back = {name: now[name] + share * (base[name] - now[name]) for name in now}
            self.learner.device.load_arrays(from_real(self.units, back, state))

    def evaluate(self, packed: bytes, catalogue: Catalogue) -> dict[str, float]:
        """How good a base is on this device's test samples, with its personal layers."""
        self.take(packed, catalogue)
        return self.measured()

    def judge(self, packed: bytes, catalogue: Catalogue, best: bytes) -> Verdict | None:
        """How much better a base is than the best one so far, on this device's tests; None if this device cannot tell.
        Without a best one, a base is noted to be compared with later ones."""
        if self.seen or self.personal:
            return None
        this = base_hash(packed)
        known, noted = (self.costs.get(each) if best else None for each in (best, this))
        if noted is None:
            self.take(packed, catalogue)
            test = self.learner.samples(*(self.data if self.test is None else self.test), part="test")
            noted = asked(self.learner, test).each
        self.costs = {this: noted, **({} if known is None else {best: known})}
        if best and (known is None or len(known) != len(noted)):
            return None
        return compared(noted, noted if known is None else known)

    def settle(self, packed: bytes, catalogue: Catalogue, task: Task = USUAL, passes: int | None = None,
               more: int = 0, last: bool = False) -> dict[str, float]:  # fmt: skip
        """Go on from a base alone (own.py): the learner then has the model that this device keeps, and the result says
        how good it is. Nothing of it is part of later rounds. last: after all rounds, so that what this device reaches
        without the fleet is tried, too."""
        self.take(packed, catalogue)
        known = self.learner.known
        found = self._gone_on(self.learner.samples(*self.data), task, passes, more, last)
        self.learner.known = known
        return {**self.measured(), KEPT: float(found.kept)}

    def _gone_on(self, data: Samples, task: Task, passes: int | None, more: int, last: bool = False) -> Own:
        given = self.data if self.test is None else self.test
        test = None if self.seen else self.learner.samples(*given, part="test")
        first = self._first if last else None
        return go_on(self.learner, data, lambda part, epoch: self._epoch(task, epoch, part), passes, more, test, first)

    def measured(self) -> dict[str, float]:
        """How good the learner's model is on this device's test samples."""
        return self.learner.evaluate(*(self.data if self.test is None else self.test))

    @property
    def seen(self) -> bool:
        """Is this device tested on the samples that it learns from?"""
        x = self.data[0]
        of_file = isinstance(x, str | Path) and read_held_out(x, self.learner.graphs["predict"]) is not None
        return self.test is None and not of_file

    # between messages -------------------------------------------------------------------------

    def kept(self) -> bytes:
        """What this device keeps between rounds: personal layers, what was not sent, and measured gains."""
        parts = {"own": self._own, "left": self.sender.left, "own-before": self._before[0],
                 "left-before": self._before[1]}  # fmt: skip
        buffer = io.BytesIO()
        arrays = {f"{kind}/{name}": a for kind, found in parts.items() for name, a in found.items()}
        arrays["held"] = np.frombuffer(self.held, np.uint8)
        arrays["told"] = np.frombuffer(self.told.encode(), np.uint8)
        arrays["asked"] = np.frombuffer(self.asked, np.uint8)
        arrays["revealed"] = np.frombuffer(b"".join(self.revealed), np.uint8)
        arrays |= {f"cost/{base.hex()}": a for base, a in self.costs.items()}
        arrays["units"] = np.array(identity((*self.units, *self.personal)))
        arrays["answers"] = np.array(self.account.answers)
        arrays["answered"] = np.frombuffer(self.account.asked + self.account.delta, np.uint8)
        np.savez(buffer, known=np.array(astuple(self.learner.known)), **arrays)  # type: ignore[arg-type]
        return buffer.getvalue()

    def keep(self, data: bytes) -> None:
        """Take back what `kept` returned; what belongs to another model or scheme is forgotten."""
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as z:
                if sum(i.file_size for i in z.infolist()) > MOST_KEPT:
                    raise DataError("unpacks to more than 256 MiB", where="kept")
                found = {name.removesuffix(".npy"): read_array(z.read(name)) for name in z.namelist()}
            self.account = Account(int(found.get("answers", 0)))  # what was told about the samples stays told
            if int(found["units"]) != identity((*self.units, *self.personal)):
                return
            answered = found["answered"].tobytes() if "answered" in found else b""
            self.account = Account(self.account.answers, answered[:32], answered[32:])
            head, body, *counts = found["known"].tolist()
            self.learner.known = Known(head, body, *map(int, counts))
            self.held = found["held"].tobytes()
            self.told = found["told"].tobytes().decode() if "told" in found else ""  # older files do not have it
            self.asked, self.revealed = found["asked"].tobytes(), _hashes(found["revealed"].tobytes())
        except UNREADABLE as e:
            raise DataError(f"is damaged: {e}", where="kept") from e
        self._own, self.sender.left = _under(found, "own"), _under(found, "left")
        self._before = _under(found, "own-before"), _under(found, "left-before")
        self.costs = {bytes.fromhex(name): a for name, a in _under(found, "cost").items()}


def _hashes(data: bytes) -> list[bytes]:
    return [data[at : at + HASH_BYTES] for at in range(0, len(data), HASH_BYTES)]


def _under(found: Arrays, kind: str) -> Arrays:
    return {name.removeprefix(f"{kind}/"): a for name, a in found.items() if name.startswith(f"{kind}/")}


def names_of(units: Sequence[Unit], state: Arrays) -> list[str]:
    """The persistent values of units, with what is stored beside them."""
    beside = [f"{u.value.name}{word}" for u in units for word in ("", ".residual", ".master", ".momentum", ".m", ".v",
                                                                 ".correction")]  # fmt: skip
    return [name for name in beside if name in state]
