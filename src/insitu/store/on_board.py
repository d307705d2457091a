"""The life of a learner whose board keeps its own samples: the calls of `Life`, answered by the board.

The board stores, chooses guards, learns and rolls back (c/device). Here is what a caller adds: samples in any of the
usual forms, steps and a rate that were not given, and a result in the words of `rehearse`. The rate follows from
labelled samples that were shown in this session, because the board keeps only outputs of its frozen layers.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from insitu.data import Samples, as_inputs
from insitu.data.arguments import optional, whole
from insitu.devices.living import NONE, Living
from insitu.errors import DataError
from insitu.learner.feed import Feed, plain
from insitu.learner.few import derived_rates
from insitu.learner.rows import class_number
from insitu.store.bout import LEAST, MOST, PASSES, PROBES, Rehearsed
from insitu.store.budget import Budget
from insitu.store.export import export_board
from insitu.store.rehearsing import check_asked
from insitu.store.rules import is_id, no_record, why_missing
from insitu.store.verdict import harm, note_missing_on
from insitu.terminal.wording import option
from insitu.training.train import BODY_RATE

if TYPE_CHECKING:
    from insitu.learner import Learner


@dataclass
class Shown:
    """A sample that was shown to the board, and its class if that is known."""

    inputs: tuple[np.ndarray, ...]
    label: int = NONE


class BoardLife:
    """What a board keeps and learns by itself. `Learner.life`, if the learner runs on such a board."""

    def __init__(self, learner: Learner, board: Living):
        self.learner: Learner = learner
        self.board: Living = board
        self._shown: dict[int, Shown] = {}  # by id, no more than the board keeps

    def close(self) -> None:
        """The board goes on keeping what it has."""

    def catch_up(self) -> None:
        """The board saves itself (`checkpoint`)."""

    # collecting -------------------------------------------------------------------------------

    def observe(self, x: Any, label: Any = None) -> int | list[int]:
        """Samples that the board sees, with or without labels; returns their ids (of one sample, its id)."""
        data = Samples(as_inputs(x if isinstance(x, tuple) else (x,), self.learner.graphs["predict"]))
        one = label is None or np.ndim(label) == 0
        given = [label] * len(data) if label is None or one else list(label)
        if len(given) != len(data):
            raise DataError(f"{len(data)} samples, but {len(given)} labels")
        ids = [self._show(data.take(np.array([i])), given[i]) for i in range(len(data))]
        return ids[0] if one and len(ids) == 1 else ids

    def _show(self, data: Samples, label: Any) -> int:
        number = NONE if label is None else class_number(self.learner, label)
        id = self.board.observe(*data.inputs, label=number)
        known = self._shown.pop(id, Shown(data.inputs))  # seen again, it is the newest
        self._shown[id] = replace(known, label=known.label if number == NONE else number)
        if len(self._shown) > self.board.capacity:
            del self._shown[next(iter(self._shown))]
        return id

    def label(self, id: int, label: Any) -> bool:
        """Tell the class of a kept sample; returns whether it is still kept."""
        number = class_number(self.learner, label)
        if not is_id(id) or not any(r.id == id for r in self.board.records()):
            last = self.board.statistics()["next_id"] - 1
            raise DataError(no_record(id), where="store", hint=why_missing(id, last))
        self.board.label(id, number)
        if id in self._shown:
            self._shown[id].label = number
        return any(r.id == id for r in self.board.records())

    def asks(self, n: int = 1) -> list[int]:
        """The ids whose label would help most."""
        return self.board.asks(whole(n, "how many"))

    # classes ----------------------------------------------------------------------------------

    def add_class(self, name: str) -> int:
        """Take a free row of the head for a new class; returns its number."""
        note_missing_on(self.board)
        return self.board.add_class(name)

    def forget(self, name: str | int) -> int:
        """Drop a class and all its samples; returns how many they were."""
        number = self.board.number(name)
        dropped = self.board.forget(name)
        self._shown = {id: one for id, one in self._shown.items() if one.label != number}
        return dropped

    def forget_unlabelled(self) -> int:
        """Drop the samples without a label; returns how many they were."""
        self._shown = {id: one for id, one in self._shown.items() if one.label != NONE}
        return self.board.forget_unlabelled()

    def erase(self) -> None:
        """Delete everything, also from the board's flash: samples, checkpoints, added classes, what it has learned."""
        self._shown = {}
        self.board.erase()

    def export(self, path: str | Path) -> Path:
        """Write all records to an .npz: latents, labels, names, ids, guards, worths; as `Life.export` does."""
        return export_board(self.board, path)

    # learning ---------------------------------------------------------------------------------

    def rehearse(self, steps: int | None = None, seconds: float | None = None, energy_mj: float | None = None,
                 rate: float | None = None, partial: bool = False,
                 instructions: int | None = None) -> Rehearsed:  # fmt: skip
        """One bout on the board. A bout that is not finished within `seconds` goes on with the next call.

        `energy_mj` and `instructions` decide how many steps it has: an estimate (budget.py).
        """
        check_asked(steps, seconds, energy_mj, rate, instructions)
        with self.learner._changing:
            before, began = self.board.statistics(), time.monotonic()
            guards = sum(c["guards"] for c in self.board.class_statistics())
            budget = Budget.of(energy_mj, instructions, self.learner, guards)
            if not before["phase"]:
                self.board.begin(budget.steps(self._steps(steps)), self._rate(rate), partial)
            after = self.board.go_on(seconds)
            return budget.told(rehearsed(before, after, time.monotonic() - began))

    def _steps(self, steps: int | None) -> int:
        optional(steps, "steps", 1)
        count = sum(c["trainees"] for c in self.board.class_statistics())
        return int(np.clip(PASSES * count, LEAST, MOST)) if steps is None else steps

    def _rate(self, rate: float | None) -> float:
        """The head's rate, as partial_fit derives it; the share of it for other layers goes into the board's state."""
        if rate is not None:
            return rate
        told = [one for one in self._shown.values() if one.label != NONE][-PROBES:]
        if not told:
            what = "no labelled sample was shown to this board in this session, so no rate can be found"
            raise DataError(what, hint=f"give {option(rate=0.01)}")
        arrays = tuple(np.concatenate(a) for a in zip(*(one.inputs for one in told)))
        return rate_for(self.learner, Samples(arrays, np.array([one.label for one in told], np.int32)))

    # telling ----------------------------------------------------------------------------------

    def drift(self) -> float:
        """How far what is seen now is from the first 64 samples; from 0.5 on, collect labels."""
        return float(self.board.statistics()["drift"])

    def statistics(self) -> dict[str, Any]:
        """What the board counts, and its classes."""
        return {**self.board.statistics(), "classes": self.board.class_statistics()}

    def checkpoint(self) -> None:
        """Write a checkpoint: what was learned and counted survives the power."""
        self.board.checkpoint()


def rate_for(learner: Learner, data: Samples) -> float:
    """The rate of a board's head for samples like these, the last of them; the share of it for other layers goes into
    the board's state."""
    some, device = data.take(np.arange(len(data))[-PROBES:]), learner.device
    assert some.labels is not None  # checked by samples()
    found = derived_rates(learner, Feed(device, plain(some.inputs), some.labels))
    if found.body is not None:
        device.load_arrays({BODY_RATE: np.array([found.share], np.float32)})
    return found.head


def rehearsed(before: dict[str, Any], after: dict[str, Any], seconds: float) -> Rehearsed:
    """What a bout came to, from the board's counts before and after it. `right` is of the state that was kept."""
    undone, guards = after["undone"] > before["undone"], after["guards"]
    done = Rehearsed(after["steps"] - before["steps"], not after["phase"], undone, guards, seconds=seconds)
    if after["phase"] or after["bouts"] == before["bouts"]:
        return done
    kept, change = after["right"], after["won"] - after["lost"]
    was, now = (kept, kept + change) if undone else (kept - change, kept)
    shares = {"before": was / guards, "after": now / guards} if guards else {}
    note = harm(after["lost"], after["won"]) if undone else ""
    return replace(done, **shares, lost=after["lost"], loss=float(after["loss"]), note=note)
