"""What training on a board took: losses, instructions by function and layer, memory, and estimates, as text and JSON.

This file only runs a program to count one prediction; learner/ trains, devices/ count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from insitu.boards import Board
from insitu.deploy import IN_PLACE
from insitu.deploy.choices import as_counted
from insitu.deploy.lowering import lowering_rows, lowering_table
from insitu.devices.device import Arrays
from insitu.devices.qemu import WHOLE
from insitu.devices.rungs import RungCounter
from insitu.errors import BoardError
from insitu.learner import History, Learner
from insitu.planner.spent import spent_text
from insitu.terminal.table import pairs, size, table
from insitu.terminal.wording import option

LAYERS = 8  # of the most expensive, shown as text
OTHERS = "these were counted on a random sample when it was compiled; another sample takes a little more or less"


@dataclass(frozen=True, eq=False)
class BoardRun:
    """A run on a board."""

    name: str
    board: Board
    figures: Mapping  # bytes, from Deployment.figures
    history: History
    before: float | None = None  # accuracy on test samples, if the data have any
    after: float | None = None
    layers: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # verb -> layer -> instructions of one call
    stack_used: int | None = None
    counters: Mapping[str, int] = field(default_factory=dict)

    @property
    def instructions(self) -> dict[str, int]:
        """Verb -> instructions of one call, in the order in which `insitu run` shows them."""
        order = ("train_step", "accumulate", "apply", "predict")
        return {verb: sum(self.layers[verb].values()) for verb in order if verb in self.layers}

    @property
    def update_instructions(self) -> int | None:
        """Of one update with all its samples."""
        if "apply" in self.instructions:
            return self.history.batch * self.instructions["accumulate"] + self.instructions["apply"]
        return self.instructions.get("train_step")

    def to_json(self) -> dict:
        figures, board = self.figures, self.board
        step = self.update_instructions
        return {
            "model": self.name, "board": board.name, "steps": self.history.updates, "batch": self.history.batch,
            "loss": self.history.loss, "accuracy": self.history.accuracy, "error": self.history.error,
            "accuracy_before": self.before, "accuracy_after": self.after,
            **{f"{verb}_instructions": count for verb, count in self.instructions.items()},
            "step_ms": step and board.milliseconds(step), "step_mj": step and board.millijoules(step),
            "stack_used_bytes": self.stack_used,
            **{k: figures.get(k) for k in ("sram_bytes", "flash_bytes", "stack_bytes", "arena_bytes", "state_bytes",
                                           "const_bytes", "sram", "flash", "lowered", "lowering", "choices",
                                           "in_place")},
            "counters": self.counters, "layers": self.layers,
        }  # fmt: skip

    def to_text(self) -> str:
        figures, board = self.figures, self.board
        rows = [(f"epoch {i + 1}", words) for i, words in enumerate(_epochs(self.history))]
        if self.after is not None:
            rows.append(("test samples", f"{self.before:.1%} before, {self.after:.1%} after"))
        rows += [(verb, self._cost(verb)) for verb in self.instructions]
        used = f", {self.stack_used:,} B used" if self.stack_used else ""
        rows += [
            ("SRAM", f"{size(figures['sram_bytes'])}: arena {size(figures['arena_bytes'])}, state "
                     f"{size(figures['state_bytes'])}, stack {size(figures.get('stack_bytes') or 0)}{used}"),
            *([("state", IN_PLACE)] if figures.get("in_place") else []),
            ("flash", f"{size(figures['flash_bytes'])}: constants {size(figures['const_bytes'])}"),
            *lowering_rows(spent_text(figures.get("lowered") or {}), figures.get("lowering")),
            *([("", OTHERS)] if figures.get("lowering") else []),
            ("board", f"{board.title}, {board.core.title} at {board.clock_mhz:g} MHz"),
        ]  # fmt: skip
        return "\n\n".join(filter(None, [pairs(rows), *self._layers(), lowering_table(figures.get("lowering"))]))

    def _cost(self, verb: str) -> str:
        count, board = self.instructions[verb], self.board
        energy = board.millijoules(count)
        line = " and those of the protocol" if WHOLE in self.layers[verb] else ""
        which = "" if verb == "predict" else " in the call that took most"
        words = f"{count:,} instructions{line}{which}, about {board.milliseconds(count):.1f} ms at one per cycle"
        return words if energy is None else f"{words}, {energy:.2f} mJ"

    def _layers(self) -> list[str]:
        named = next((self.layers[verb] for verb in ("train_step", "accumulate", "predict") if verb in self.layers), {})
        most = sorted(named.items(), key=lambda item: -item[1])[:LAYERS]
        total = sum(named.values()) or 1
        rows = [(name, f"{count:,}", f"{count / total:.1%}") for name, count in most]
        return [table(("most of it", "instructions", "share"), rows)] if len(rows) > 1 else []


def _epochs(history: History) -> list[str]:
    measured = [f", {a:.1%} recognised before they were learned" for a in history.accuracy]
    measured = measured or [f", error {e:.4f} before they were learned" for e in history.error]
    return [f"loss {loss:.4f}{words}" for loss, words in zip(history.loss, measured)]


def board_run(learner: Learner, history: History, sample: Arrays, before: float | None = None,
              after: float | None = None) -> BoardRun:  # fmt: skip
    """What `fit` took on this learner's board; if the device counts, a prediction of this sample is counted, too."""
    counter = learner.device.counter
    if counter:
        counter.measure("predict", *sample)
    name, board, figures = described(learner)
    layers = counter.counted() if counter else {}
    if counter and not (isinstance(counter, RungCounter) or WHOLE in layers["predict"]):
        figures = {**figures, "choices": as_counted(figures.get("choices"), layers)}
    return BoardRun(name, board, figures, history, before, after, layers, counter.stack_bytes() if counter else None,
                    learner.device.counters())  # fmt: skip


def described(learner: Learner) -> tuple[str, Board, dict]:
    """The name of the program, its board, and the bytes it needs there."""
    manifest, deployed = learner.site.manifest, learner.deployed
    if manifest:
        return manifest.name, manifest.board, manifest.figures
    if deployed is None or deployed.limits.board is None:
        raise BoardError("was not compiled for a board", hint=f"compile with {option(board='nrf52840')}")
    return learner.graphs["predict"].name, deployed.limits.board, deployed.figures()
