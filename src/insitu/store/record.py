"""What a life remembers beside its records and the learner's state: counts, names, a bout that was interrupted.

It is saved with every change, as JSON, in the store; and with every checkpoint in its bank.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, fields

from insitu.errors import DataError
from insitu.learner.few import Known
from insitu.store.bout import Bout
from insitu.store.mind import Answer
from insitu.store.rules import NONE

ANSWERS = "guards", "own"  # of a bout: what the network said of samples before it


@dataclass
class LifeRecord:
    """Counts over the whole life."""

    sequence: int = 0  # of the checkpoint that belongs to the store's content
    bouts: int = 0
    rolled_back: int = 0
    abandoned: int = 0
    steps: int = 0
    damaged: int = 0
    energy_mj: float = 0.0
    pace: float = 1.0  # of the derived rates: halved when a bout was rolled back
    guard_before: float | None = None  # of the last bout
    guard_after: float | None = None
    fresh: list[int] = field(default_factory=list)  # classes that were added, and learned by no bout that was kept
    young: int = NONE  # the class that was added last, and learned
    room: float = 0.0  # what its row left to the others after its last bout: by so much its bias is lower
    names: list[str] = field(default_factory=list)
    known: Known = field(default_factory=Known)
    bout: Bout | None = None

    @property
    def following(self) -> set[int]:
        """Classes whose rows follow their means now: those that are fresh and not being learned by a bout."""
        return set(self.fresh) - set(self.bout.taught if self.bout else ())

    def taught_elsewhere(self, classes: set[int]) -> None:
        """These classes are new no more."""
        self.fresh = [k for k in self.fresh if k not in classes]
        self.young = NONE if self.young in classes else self.young

    def to_json(self) -> bytes:
        """Written with every sample: nothing is copied for it, as asdict would."""
        found = {**vars(self), "known": vars(self.known)}
        if self.bout:
            answers = {name: list(getattr(self.bout, name).items()) for name in ANSWERS}
            found["bout"] = {**vars(self.bout), **answers}
        return json.dumps(found).encode()


def _answers(found: Iterable[tuple[int, bool | list]]) -> dict[int, Answer]:
    return {int(i): _answer(a) for i, a in found}


def _answer(found: bool | list) -> Answer:
    """Bouts that began with an older version know only who was right."""
    return Answer(*found) if isinstance(found, list) else Answer(bool(found), 0)


def from_json(data: bytes, where: str) -> LifeRecord:
    """The record; a DataError if it is damaged."""
    try:
        found = json.loads(data)
        bout = found.get("bout")
        known = {f.name for f in fields(LifeRecord)}
        made = LifeRecord(**{k: v for k, v in found.items() if k in known})
        made.known = Known(**found["known"])
        made.bout = Bout(**{**bout, **{name: _answers(bout.get(name, ())) for name in ANSWERS}}) if bout else None
        return made
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as e:
        raise DataError(f"what it remembers is damaged ({type(e).__name__}: {str(e)[:80]})", where=where) from e
