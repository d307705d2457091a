"""A bout on a board within a budget of energy or instructions: how many steps that buys.

Estimates: instructions of each function as they were counted on an emulated core, and the power of the data sheet. What
a checkpoint takes is not among them. Nothing is measured while the board learns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from insitu.deploy.living import life_cost
from insitu.errors import BudgetError, DataError
from insitu.store.bout import Rehearsed
from insitu.terminal.wording import option

if TYPE_CHECKING:
    from insitu.boards import Board
    from insitu.learner import Learner


@dataclass(frozen=True)
class Costs:
    """Instructions of a step, and of asking the guards before and after the bout; None if they were not counted."""

    step: int | None
    judging: int
    board: Board | None

    @staticmethod
    def of(learner: Learner, guards: int) -> Costs:
        manifest, deployed = learner.site.manifest, learner.deployed
        board = manifest.board if manifest else deployed.limits.board if deployed else None
        found = _counts(learner)
        return Costs(found.get("learn"), 2 * guards * found.get("recall", 0), board)

    def millijoules(self, steps: int, judged: bool) -> float:
        """Of a bout, or of a part of one; 0 if it is not known."""
        if self.step is None or self.board is None:
            return 0.0
        return self.board.millijoules(steps * self.step + self.judging * judged) or 0.0


def _counts(learner: Learner) -> Mapping[str, int]:
    """Verb -> instructions: of the folder that it was opened from, or counted now (once: the counts are cached)."""
    if manifest := learner.site.manifest:
        names = {verb: f"{verb}_instructions" for verb in ("learn", "recall")}
        return {verb: manifest.figures[name] for verb, name in names.items() if name in manifest.figures}
    firmware = learner.deployed and learner.deployed.firmware
    return life_cost(firmware)[1] if firmware else {}


@dataclass(frozen=True)
class Budget:
    """Instructions that a bout may take; None: as many as it needs."""

    instructions: float | None = None
    words: str = ""
    costs: Costs | None = None

    @staticmethod
    def of(energy_mj: float | None, instructions: int | None, learner: Learner, guards: int) -> Budget:
        """The smaller of the two."""
        if energy_mj is None and instructions is None:
            return Budget()
        costs = Costs.of(learner, guards)
        found = [] if instructions is None else [Budget(instructions, f"{instructions:,} instructions", costs)]
        if energy_mj is not None:
            each = costs.board.millijoules(1) if costs.board else None
            if not each:
                raise DataError(
                    "the power of this board is not known", hint=f"give {option(steps='N')} or instructions"
                )
            found.append(Budget(energy_mj / each, f"{energy_mj:g} mJ", costs))
        return min(found, key=lambda one: one.instructions or 0)

    def steps(self, wanted: int) -> int:
        """How many of them it buys."""
        if self.instructions is None or self.costs is None:
            return wanted
        if self.costs.step is None:
            raise DataError("the instructions of this program were not counted", hint=f"give {option(steps='N')}")
        bought = int((self.instructions - self.costs.judging) // self.costs.step)
        if bought < 1:
            least = self.costs.judging + self.costs.step
            raise BudgetError(f"{self.words} are too little for one step and the guards (estimate)",
                              hint=f"instructions={least}")  # fmt: skip
        return min(wanted, bought)

    def told(self, done: Rehearsed) -> Rehearsed:
        """With the budget and the energy that it has taken."""
        if self.costs is None:
            return done
        spent = self.costs.millijoules(done.steps, done.before is not None)
        words = f"{self.words} for {done.steps} steps (estimate)"
        return replace(done, energy_mj=spent, note="; ".join(filter(None, (done.note, words))))
