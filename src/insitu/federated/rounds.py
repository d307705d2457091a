"""Rounds without any engine: hand out a base, let members learn, check their deltas, average them.

This is the plain meaning of a federated round, in numpy; what runs through Flower (strategy.py) must come to the same
model. A tensor is averaged over the members who trained it, weighted by their samples within limits (checks.py); what
nobody trained stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from insitu.errors import DataError
from insitu.federated.catalogue import Catalogue, Program, catalogue_of, first_arrays
from insitu.federated.checks import Limits, Reply, checked_reply, evened, strayed
from insitu.federated.handout import Handout
from insitu.federated.member import Member, Task
from insitu.federated.units import Arrays, identity


@dataclass(frozen=True)
class Round:
    """What happened in a round."""

    number: int
    replies: int
    dropped: tuple[str, ...] = ()  # why
    bytes_up: int = 0
    bytes_down: int = 0
    loss: float = 0.0


@dataclass
class Fleet:
    """Members that learn together, in this process."""

    members: Sequence[Member]
    limits: Limits = field(default_factory=Limits)
    rounds: list[Round] = field(default_factory=list)
    coding: str = "int8"  # of what is handed out

    def __post_init__(self) -> None:
        self.catalogue = catalogue_of(m.units for m in self.members)
        programs = [(m.units, m.learner.graphs, m.learner.device.state()) for m in self.members]
        self.arrays = first_arrays(self.catalogue, programs)
        self.programs = programs_of(m.units for m in self.members)
        self.handout = Handout(self.catalogue, self.coding)

    def round(self, task: Task = Task(), chosen: Sequence[int] | None = None) -> Round:  # noqa: B008
        """One round with these members, or all of them."""
        base, chosen = self.handout.next(self.arrays), range(len(self.members)) if chosen is None else chosen
        members, down = [self.members[i] for i in chosen], sum(len(self.handout.blob_for(i)) for i in chosen)
        answers = [m.train(base.packed, self.catalogue, task) for m in members]
        replies, dropped = [], []
        for a in answers:
            try:
                replies.append(checked_reply(a.delta, self.programs, base.id, base.arrays, self.limits))
            except DataError as e:
                dropped.append(str(e))
        why = strayed(replies, base.arrays, self.limits)
        dropped += filter(None, why)
        replies = evened([r for r, w in zip(replies, why) if not w], self.limits)
        for i in chosen:
            self.handout.has(i)
        ahead = self.handout.ahead()
        self.arrays = {n: a + ahead[n] for n, a in averaged(base.arrays, replies, self.catalogue).items()}
        up = sum(len(a.delta) for a in answers)
        loss = float(np.average([a.loss for a in answers], weights=[a.samples for a in answers]))
        self.rounds.append(Round(len(self.rounds) + 1, len(replies), tuple(dropped), up, down, loss))
        return self.rounds[-1]


def programs_of(units: Iterable[Program]) -> dict[int, Program]:
    """Identity -> program."""
    return {identity(u): u for u in units}


def averaged(base: Arrays, replies: Sequence[Reply], catalogue: Catalogue) -> Arrays:
    """Each number moves by the mean change of those who trained it, weighted by their samples."""
    total = {name: np.zeros(a.shape, np.float64) for name, a in base.items()}
    weight = {name: np.zeros(a.shape, np.float64) for name, a in base.items()}
    for r in replies:
        change, mask = catalogue.whole(r.units, r.change), catalogue.mask(r.units)
        for name in base:
            total[name] += r.samples * change[name]
            weight[name] += r.samples * mask[name]
    return {n: (base[n] + np.divide(total[n], weight[n], out=np.zeros_like(total[n]), where=weight[n] > 0)
                ).astype(np.float32) for n in base}  # fmt: skip


def middle(base: Arrays, replies: Sequence[Reply], catalogue: Catalogue) -> Arrays:
    """Each number moves by the median change of those who trained it, each of whom counts the same."""
    changes = [(catalogue.whole(r.units, r.change), catalogue.mask(r.units)) for r in replies]
    found: Arrays = {}
    for name, a in base.items():
        known = np.stack([np.where(mask[name], change[name], np.nan) for change, mask in changes])
        trained = ~np.isnan(known).all(0)
        moved = np.nanmedian(np.where(trained, known, 0), 0)
        found[name] = (a + moved).astype(np.float32)
    return found
