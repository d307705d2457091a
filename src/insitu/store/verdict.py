"""What the guards said of a bout, class by class, in words; and what to say of a life that has too little to replay.

Whether a bout did harm is decided by rules.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from insitu.learner.growing import some
from insitu.learner.rows import head_rows, rows_in_use
from insitu.store.rules import FEWEST_GUARDS
from insitu.terminal.colour import say
from insitu.terminal.wording import either

if TYPE_CHECKING:
    from insitu.devices.living import Living
    from insitu.store.life import Life


@dataclass(frozen=True)
class Verdict:
    """Of each guard: was it right before the bout and after it, and the name of its class."""

    worse: bool
    before: Sequence[bool]
    after: Sequence[bool]
    classes: Sequence[str]
    unseen: str = ""  # what the guards could not see
    stays: str = ""  # of a row that was put back

    @property
    def lost(self) -> Counter[str]:
        return Counter(k for k, b, a in zip(self.classes, self.before, self.after) if b and not a)

    @property
    def won(self) -> Counter[str]:
        return Counter(k for k, b, a in zip(self.classes, self.before, self.after) if a and not b)

    @property
    def words(self) -> str:
        """Why the bout was rolled back, or what to know of one that was kept."""
        if self.worse:
            return harm(self.lost.total(), self.won.total(), by_class(self.lost), by_class(self.won))
        if len(self.after) < FEWEST_GUARDS:
            few = f"only {len(self.after)} guards: nothing can be judged yet"
            return "; ".join(filter(None, (few, self.stays)))
        went = f"guards that went wrong: {by_class(self.lost)}" if self.lost else ""
        return "; ".join(filter(None, (went, self.unseen, self.stays)))


def by_class(counts: Counter[str]) -> str:
    """The counts of the classes with most, with their names."""
    return some([f"{name} {count}" for name, count in sorted(counts.items(), key=lambda one: (-one[1], one[0]))])


def harm(lost: int, won: int, of_lost: str = "", of_won: str = "") -> str:
    """Why a bout was rolled back: so many guards went wrong, and so many went right, of these classes."""
    if not lost:
        return "what it learned was no longer finite"
    newer = ("; guards that had judged no bout before count only when they go wrong, and one class "
             "does not make up for others") if won >= lost else ""  # fmt: skip
    of_lost, of_won = (f" ({words})" if words else "" for words in (of_lost, of_won))
    return f"{lost} guard{'s' * (lost > 1)} went wrong{of_lost}, {won} went right{of_won}{newer}"


# too little to replay ---------------------------------------------------------------------------


def unseen_harm(life: Life, new: Sequence[int]) -> str:
    """What the guards cannot see of a bout that teaches a new class: harm to classes with hardly any of their own."""
    few = [life.word(k) for k in few_guards(life, new)]
    why = f"{some([life.word(k) for k in new])} could harm them unseen, so it learns alone"
    return f"fewer than {FEWEST_GUARDS} guards of {some(few)}: {why}; observe(x, label) more of them" if few else ""


def stays(life: Life, new: Sequence[int]) -> str:
    """Of a class whose row learned alone in vain."""
    return f"{some([life.word(k) for k in new])} stays as it was: it would recognise fewer of its own samples"


def few_guards(life: Life, new: Sequence[int]) -> list[int]:
    """Classes that were trained and have too few guards to see what a new one does to them."""
    guards, others = life.store.ledger.guards.ids, np.flatnonzero(rows_in_use(life.learner)).tolist()
    others = [k for k in others if new and k not in new and k not in life.record.fresh]
    return [k for k in others if len(guards.get(k, ())) < FEWEST_GUARDS]


def note_missing(life: Life) -> None:
    """Say of which classes there is nothing to replay, when another one is added to them."""
    kept = life.store.ledger.trainees.ids
    _say_missing([life.word(k) for k in _trained(life) if k not in kept])


def note_missing_on(board: Living) -> None:
    """The same of a board: it has the means of classes that were learned elsewhere, but no samples of them."""
    found = enumerate(board.class_statistics())
    _say_missing([c["name"] or str(k) for k, c in found if c["in_use"] and c["in_mean"] and not c["trainees"]])


def _say_missing(names: Sequence[str]) -> None:
    if names:
        why = "a model's file does not have what it was fitted to"
        show = either(shell="show it some of each with --data FILE", python="observe(x, label) some of each")
        how = f"{show}, 20 or more, else no bout can learn without unlearning them"
        say(f"note: no samples of {some(names)} are kept to replay ({why}): {how}")


def _trained(life: Life) -> list[int]:
    """Classes that were learned, here or elsewhere; none of a head that has learned nothing."""
    rows = head_rows(life.learner)
    if rows is None or not rows[0].any():
        return []
    return [k for k in np.flatnonzero(rows_in_use(life.learner)).tolist() if k not in life.record.fresh]
