"""What `insitu teach` taught a learner: with which choices, and from which examples. It is part of the learner's file.

An example is known by 64-bit marks of its name and of its contents, so that one that was learned is never tested on:
not with another seed or share, not in another folder, and not when others of its class are gone. Nothing here chooses
what is tested (teach/material.py).
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from insitu.errors import DataError, ModelError
from insitu.terminal.wording import either

MARKS = ("learned", "tested")
WORD, NUMBER = (str, type(None)), (int, type(None))
# field -> the types that it may have in a file
KINDS: dict[str, tuple[type, ...]] = {
    "kind": (str,), "network": (str,), "board": (str,), "sram": NUMBER, "flash": NUMBER, "backbone": WORD,
    "share": (float,), "seed": (int,), "window": (int,), "finished": (bool,),
}  # fmt: skip
NEW_NETWORK = "a new network for "  # how a network's name begins that had learned nothing before
LONGEST = 500  # of a word
LARGEST = 1 << 62


def _none() -> np.ndarray:
    return np.zeros(0, np.uint64)


@dataclass(frozen=True, eq=False)
class Lesson:
    """The choices and the examples of all lessons that a learner had."""

    kind: str = ""  # photos, recordings or table
    network: str = ""
    board: str = "host"
    sram: int | None = None
    flash: int | None = None
    backbone: str | None = None
    share: float = 0.2
    seed: int = 0
    window: int = 0  # readings of a recording that are looked at together
    finished: bool = True  # False: a float network that was interrupted, and is to become int8
    learned: np.ndarray = field(default_factory=_none)
    tested: np.ndarray = field(default_factory=_none)

    @property
    def from_nothing(self) -> bool:
        """Did a new network learn all of it in float, before it was compiled to int8?"""
        return self.finished and self.network.startswith(NEW_NETWORK)

    @property
    def marks(self) -> dict[str, np.ndarray]:
        return {name: getattr(self, name) for name in MARKS}

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name not in MARKS}

    def place(self, marks: np.ndarray, test: np.ndarray) -> np.ndarray:
        """Which examples [examples, marks] are tested on: `test`, except those that had their place before."""
        learned, tested = (np.isin(marks, known).any(1) for known in (self.learned, self.tested))
        return (test | tested) & ~learned

    def after(self, marks: np.ndarray, test: np.ndarray) -> Lesson:
        """The lesson with these examples, too."""
        learned = np.union1d(self.learned, marks[~test])
        return replace(self, learned=learned, tested=np.setdiff1d(np.union1d(self.tested, marks[test]), learned))

    def agreed(self, given: dict[str, Any]) -> Lesson:
        """This lesson, if none of the given options would change it; None stands for an option that is not given."""
        changed = next((n for n, value in given.items() if value is not None and value != getattr(self, n)), None)
        if changed is None:
            return self
        name = either(shell=f"--{'test-share' if changed == 'share' else changed}", python=changed)
        now = f"with {name} {was}" if (was := getattr(self, changed)) is not None else "without it"
        shell = (
            "leave it out, or --again learns anew with it; insitu compile FILE --board NAME -o DIR keeps the network"
        )
        hint = either(shell=shell, python="leave it out, or leave out go_on to learn anew with it")
        raise DataError(f"{name} cannot be changed: this learner was taught {now}", hint=hint)


def mark(text: str | bytes) -> int:
    """A 64-bit mark of a name or of contents."""
    data = text.encode(errors="surrogateescape") if isinstance(text, str) else text
    return int.from_bytes(hashlib.sha256(data).digest()[:8], "big")


def read_lesson(found: Any, marks: dict[str, np.ndarray], where: str) -> Lesson:
    """The lesson of a file, every field checked."""
    if not isinstance(found, dict) or set(found) - set(KINDS):
        raise ModelError("says what this insitu does not know", where=where)
    for name, value in found.items():
        wrong = type(value) not in KINDS[name] or (isinstance(value, str) and len(value) > LONGEST)
        if wrong or (isinstance(value, int | float) and not 0 <= value < LARGEST):
            raise ModelError(f"{name} is {value!r:.40}", where=where)
    for name, array in marks.items():
        if array.dtype != np.uint64 or array.ndim != 1:
            raise ModelError(f"{name} is {array.dtype}{array.shape}, not a list of marks", where=where)
    return Lesson(**found, learned=marks["learned"], tested=marks["tested"])
