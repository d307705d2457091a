"""What came of teaching: a learner, and how well it does on examples that it did not learn from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from insitu.data.samples import Samples
from insitu.deploy.estimate import estimated
from insitu.learner import Learner
from insitu.learner.history import History
from insitu.teach.material import Material
from insitu.terminal.table import duration, size, table, three

SHOWN = 12  # classes in a printed confusion matrix; with more, the worst confusions are listed


@dataclass(frozen=True, eq=False)
class Taught:
    """A learner, and how well it does on examples that it did not learn from."""

    learner: Learner
    material: Material
    network: str
    history: History
    test: Samples  # what it was tested on
    confusion: np.ndarray  # [true class, predicted class]: how many test examples
    notes: tuple[str, ...] = ()
    explained: float | None = None  # of a quantity: the share of its variance; None for classes
    error: float | None = None  # of a quantity: the usual one, the root of the mean squared error

    @property
    def accuracy(self) -> float:
        return float(np.trace(self.confusion) / max(self.confusion.sum(), 1))

    @property
    def score(self) -> float:
        """How good it is on the test: 1 is perfect."""
        return self.accuracy if self.explained is None else self.explained

    @property
    def tested(self) -> int:
        return len(self.test)

    def to_json(self) -> dict:
        return {
            "material": str(self.material), "kind": self.material.kind, "network": self.network,
            "classes": list(self.learner.names), "accuracy": self.accuracy, "tested": self.tested,
            "confusion": self.confusion.tolist(), "notes": list(self.notes), "training": str(self.history),
            "explained": self.explained, "error": self.error,
        }  # fmt: skip

    def __str__(self) -> str:
        lines = [f"learned   {self.material}", f"network   {self.network}", *self._board(),
                 f"training  {self.history}", *self._tests()]  # fmt: skip
        return "\n".join(lines + [f"note: {note}" for note in self.notes])

    def _board(self) -> list[str]:
        """What the program takes on the board that it was made for."""
        made = self.learner.deployed
        if made is None or made.limits.board is None:
            return []
        board, steps = made.limits.board, estimated(made.program.plans, made.limits.board.core)
        memory = " and ".join(
            f"{size(need)} of {size(most)} of {name}"
            for need, most, name in (
                (made.sram_bytes, board.sram.bytes, "SRAM"),
                (made.flash_bytes, board.flash.bytes, "flash"),
            )
        )
        time = duration(board.milliseconds(steps["predict"]))
        work = f"a prediction takes about {three(steps['predict'] / 1e6)} M instructions, {time}"
        return [f"board     {board.name}: {memory}; {work}"]

    def _tests(self) -> list[str]:
        if not self.tested:
            return ["test      none: every example here was learned from", ""]
        if self.explained is not None:
            how = f"explains {self.explained:.1%} of the variance, the usual error is {self.error:.4g}"
            return [f"test      {how}   {self.tested:,} examples that were not learned from"]
        counts = f"{int(np.trace(self.confusion)):,} of {self.tested:,}"
        return [
            f"test      {self.accuracy:.1%}   {counts} examples that were not learned from", "",
            confusion_text(self.confusion, self.learner.names),
        ]  # fmt: skip


def tested(learner: Learner, material: Material, network: str, history: History, test: Samples,
            notes: Iterable[str]) -> Taught:  # fmt: skip
    confusion = np.zeros((learner.classes, learner.classes), np.int64)
    if not len(test):
        return Taught(learner, material, network, history, test, confusion, tuple(notes))
    known = learner.samples(test, part="test")  # labels in the learner's own order
    assert known.labels is not None
    if learner.measure != "accuracy":
        squared, spread = learner.evaluate(known)[learner.measure], float(known.labels.var())
        explained = 1 - squared / spread if spread else 0.0
        return Taught(learner, material, network, history, known, confusion, tuple(notes), explained, squared**0.5)
    guesses = np.asarray(learner.predict(known)).reshape(len(known), -1).argmax(1)
    np.add.at(confusion, (known.labels, guesses), 1)
    return Taught(learner, material, network, history, known, confusion, tuple(notes))


def confusion_text(confusion: np.ndarray, names: tuple[str, ...]) -> str:
    """Rows are the true classes. With many classes, only the most frequent confusions."""
    if len(names) <= SHOWN:
        heads = ("", *(name[:14] for name in names), "right")
        rows = [
            (name, *map(int, row), _share(row[k], row.sum())) for k, (name, row) in enumerate(zip(names, confusion))
        ]
        return table(heads, rows)
    wrong = confusion * (1 - np.eye(len(names), dtype=np.int64))
    worst = np.dstack(np.unravel_index(np.argsort(-wrong, axis=None)[:SHOWN], wrong.shape))[0]
    rows = [(names[a], names[b], int(wrong[a, b])) for a, b in worst if wrong[a, b]]
    return table(("taken for something else", "as", "times"), rows)


def _share(right: int, total: int) -> str:
    return f"{100 * right / total:.0f} %" if total else "-"
