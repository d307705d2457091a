"""A watch that lives, for the demo: on an emulated board, or as a process on this machine. Both follow the same rules.

A watch observes, is told labels, learns in bouts, takes a class by name, and loses its power. Nothing here decides what
happens when (week.py).
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from insitu.devices.emulator import EmulatorDevice
from insitu.devices.flash import TORN, PowerCut
from insitu.devices.living import PHASES, Living
from insitu.learner import Learner

LEARNING, SAVING = PHASES.index("learning"), 5  # phases of a bout; the checkpoint after it
SAVES = [i for i, words in enumerate(PHASES) if words == "saving"]
CUT_AFTER = 40  # operations of the flash in that checkpoint


@dataclass(frozen=True)
class Bout:
    """What a bout came to."""

    losses: tuple[float, ...]
    guards: int
    right: int  # of them, after it
    lost: int
    undone: bool


class Wrist(Protocol):
    """A watch on its wearer's wrist."""

    def observe(self, x: np.ndarray, label: int | None = None) -> int: ...

    def label(self, id: int, label: int) -> None: ...

    def asks(self, n: int) -> list[int]: ...

    def bout(self, steps: int, rate: float) -> Bout: ...

    def cut(self, steps: int, rate: float) -> str:
        """The power fails in the middle of a bout; what the watch knows when it is back."""
        ...

    def add_class(self, name: str) -> int: ...

    def drift(self) -> float: ...

    def state(self) -> bytes: ...


# on a board -------------------------------------------------------------------------------------


class BoardWrist:
    """The firmware of a living program, on an emulated core."""

    def __init__(self, learner: Learner):
        assert isinstance(learner.device, EmulatorDevice)
        self.device = learner.device
        self.life = Living(self.device)
        self.asks, self.add_class = self.life.asks, self.life.add_class

    def observe(self, x: np.ndarray, label: int | None = None) -> int:
        return self.life.observe(x, label=-1 if label is None else label)

    def label(self, id: int, label: int) -> None:
        if any(r.id == id for r in self.life.records()):  # else it gave way to others
            self.life.label(id, label)

    def drift(self) -> float:
        return float(self.life.statistics()["drift"])

    def state(self) -> bytes:
        return self.device.save_state()

    def bout(self, steps: int, rate: float) -> Bout:
        undone = self.life.statistics()["undone"]
        self.life.slices(0, steps, rate, told=False)
        losses = self._until(idle=0)
        found = self.life.statistics()
        return Bout(losses, found["guards"], found["right"], found["lost"], found["undone"] > undone)

    def _until(self, idle: int) -> tuple[float, ...]:
        """Slices until this phase; the losses of the lessons."""
        losses, found = [], self.life.statistics()
        while found["phase"] not in (0, idle):
            learning, steps = found["phase"] == LEARNING, found["steps"]
            self.life.slices(4 if found["phase"] in SAVES else 1, told=False)  # no lesson is missed: guards come first
            found = self.life.statistics()
            losses += [found["loss"]] if learning and found["steps"] > steps else []
        return tuple(losses)

    def cut(self, steps: int, rate: float) -> str:
        nor = self.device.core.nor
        if nor is None:
            return "no power cut: this board's samples are in SRAM"
        self.life.slices(0, steps, rate, told=False)
        self._until(SAVING)
        nor.cut(CUT_AFTER, TORN)
        try:
            self._until(0)
        except PowerCut:
            self.device.restart()
        return f"power cut, a word of flash half programmed; back with {self._kept()}"

    def _kept(self) -> str:
        found = self.life.statistics()
        return f"all {found['kept']} samples, it learns again" if found["continued"] else "nothing: this is a bug"


# on this machine --------------------------------------------------------------------------------


class HostWrist:
    """The same rules on this machine, in a folder."""

    def __init__(self, learner: Learner):
        self.learner, self.place = learner, tempfile.TemporaryDirectory()
        self._open()

    def _open(self) -> None:
        self.life = self.learner.keep(Path(self.place.name) / "life")

    def observe(self, x: np.ndarray, label: int | None = None) -> int:
        found = self.life.observe(x[None], label)
        assert isinstance(found, int)
        return found

    def label(self, id: int, label: int) -> None:
        if id in self.life.store.ledger.records:
            self.life.label(id, label)

    def asks(self, n: int) -> list[int]:
        return self.life.asks(n)

    def add_class(self, name: str) -> int:
        return self.life.add_class(name)

    def drift(self) -> float:
        return self.life.drift()

    def state(self) -> bytes:
        return self.learner.device.save_state()

    def bout(self, steps: int, rate: float) -> Bout:
        found = self.life.rehearse(steps, rate=rate)
        share = found.before if found.rolled_back else found.after
        right = round((share or 0) * found.guards)
        losses = () if found.loss is None else (found.loss,) * found.steps
        return Bout(losses, found.guards, right, found.lost, found.rolled_back)

    def cut(self, steps: int, rate: float) -> str:
        self.life.rehearse(steps, seconds=0, rate=rate)
        self.learner.close_life()
        self._open()
        return f"the process ends in the middle of a bout; back with all {len(self.life.store)} samples, it goes on"
