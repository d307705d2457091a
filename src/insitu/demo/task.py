"""What both demos do: train a task in the firmware of a board, measure, and assemble the page.

The learner is trained on the device that device.py opens. Accuracy is measured with the same program on this computer,
with the state read back from the device; a few samples are predicted on both, and must agree to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from insitu.demo.device import Opened, open_device
from insitu.demo.lesson import Lesson, teach
from insitu.demo.page import Measured, costs_of, flash_of, measured, sram_of
from insitu.deploy.lowering import LoweringCost, lowering_rows
from insitu.learner import Learner
from insitu.reports.html_data import RunReport, Score, confusion, estimate
from insitu.reports.memory import memory_map
from insitu.reports.speed import machine
from insitu.terminal.progress import Report
from insitu.terminal.table import pairs, size

CHECKED = 8  # samples that device and host both predict
Say = Callable[[str], None]


class Labelled(Protocol):
    """Samples with their classes."""

    @property
    def x(self) -> np.ndarray: ...

    @property
    def y(self) -> np.ndarray: ...


@dataclass(frozen=True, eq=False)
class Task:
    """Something to learn on a device."""

    title: str
    summary: str
    learner: Learner
    lesson: Lesson
    learn: Labelled
    tests: tuple[tuple[str, Labelled], ...]  # the first is the one that training should improve
    labels: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, eq=False)
class Demo:
    """The result of a demo, and the page about it."""

    report: RunReport
    equal: bool  # device and host predicted the same bytes
    note: str = ""
    page: Path | None = None
    words: tuple[str, ...] = ("others",)  # for the scores after the first

    def to_json(self) -> dict:
        r = self.report
        return {
            "device": r.device, "note": self.note,
            "scores": [{"name": s.name, "before": s.before, "after": s.after, "samples": s.samples} for s in r.scores],
            "steps": len(r.losses), "train_step_instructions": r.step_instructions,
            "predict_instructions": r.predict_instructions, "sram_bytes": r.sram.bytes, "flash_bytes": r.flash.bytes,
            "arena_bytes": r.arena and r.arena.arena_bytes, "step_ms": r.estimate and r.estimate.step_ms,
            "step_mj": r.estimate and r.estimate.step_mj, "equal": self.equal,
            "lowering": r.lowering, "report": self.page and str(self.page), "story": dict(r.story),
        }  # fmt: skip

    def to_text(self) -> str:
        r = self.report
        lines = [r.title, "", *([pairs(r.story), ""] if r.story else []), pairs(facts(self))]
        lines += ["", self.note] if self.note else []
        lines += ["", r.estimate.assumption] if r.estimate else []
        lines += ["", f"report written to {self.page}"] if self.page else []
        return "\n".join(lines)


def facts(demo: Demo) -> list[tuple[str, str]]:
    """The lines of the summary."""
    r = demo.report
    own, *rest = r.scores
    first, last = (np.mean(part) for part in (r.losses[: r.steps_an_epoch], r.losses[-r.steps_an_epoch :]))
    found = [
        ("ran on", r.device),
        ("before", f"{own.before:.1%}   {own.name}, {own.samples} samples"),
        (
            "training",
            f"{len(r.losses):,} steps, loss {first:.3f} to {last:.3f}",
        ),
        ("after", f"{own.after:.1%}   {100 * ((own.after or 0) - (own.before or 0)):+.1f} points"),
        *((word, f"{s.before:.1%} to {s.after:.1%}   {s.name}") for word, s in zip(demo.words, rest)),
        ("SRAM", of_board(r.sram)),
        ("flash", of_board(r.flash)),
    ]
    if r.step_instructions is not None:
        found.append(("per step", step_words(r)))
    if r.lowering:
        found += lowering_rows(r.lowering["summary"], dict(r.lowering), "lowered")
    return [*found, ("host", "predicts the same bytes" if demo.equal else "DIFFERENT bytes: this is a bug")]


def of_board(memory) -> str:
    largest = sorted(memory.pieces, key=lambda p: -p.bytes)[:3]
    share = f" of {size(memory.limit_bytes)}" if memory.limit_bytes else ""
    return f"{size(memory.bytes)}{share}   {', '.join(f'{p.name} {size(p.bytes)}' for p in largest)}"


def step_words(r: RunReport) -> str:
    words = f"{r.step_instructions:,} instructions"
    if r.estimate:
        energy = "" if r.estimate.step_mj is None else f" and {r.estimate.step_mj:.2f} mJ"
        words += f", estimated {r.estimate.step_ms:.0f} ms{energy}"
    return words


# the run ----------------------------------------------------------------------------------------


def carry_out(task: Task, board: str, say: Say = lambda text: None, progress: Report | None = None) -> Demo:
    """Run a demo; everything except writing the page."""
    say(f"building and starting the firmware for {board}")
    opened = open_device(task.learner, board)
    before = predicted_all(task)
    say(f"training: {task.lesson.epochs} times over {len(task.learn.y)} samples, one update per sample")
    history = teach(opened.learner, task.learn, task.lesson, progress)
    task.learner.device.load_state(opened.learner.device.save_state())
    after = predicted_all(task)
    say("measuring instructions, stack and layers")
    taken = measured(opened, task.learner, task.learn)
    equal, losses = agree(opened, task), np.concatenate(history.losses).tolist()
    return Demo(assemble(task, opened, taken, before, after, losses), equal, opened.note)


def predicted_all(task: Task) -> list[np.ndarray]:
    return [np.asarray(task.learner.predict(test.x)).argmax(1) for _, test in task.tests]


def assemble(task: Task, opened: Opened, taken: Measured, before, after, losses: list[float]) -> RunReport:
    learner, own = task.learner, task.tests[0][1]
    plans = opened.firmware.program.plans if opened.firmware else learner.plans
    costs, unit = costs_of(learner, taken)
    guess = estimate(taken.step, opened.board) if opened.board and taken.step is not None else None
    return RunReport(
        title=task.title, summary=task.summary, device=opened.words, scores=scores(task, before, after),
        sram=sram_of(opened, learner, taken), flash=flash_of(opened, learner), arena=memory_map(plans["train_step"]),
        costs=costs, unit=unit, step_instructions=taken.step, predict_instructions=taken.predict, estimate=guess,
        losses=tuple(losses), steps_an_epoch=len(task.learn.y),
        confusion=confusion(task.labels, own.y, before[0], after[0]), facts=(*task.facts, *versions()),
        lowering=taken.cost and taken.cost.to_json(), next=next_steps(taken.cost),
    )  # fmt: skip


def next_steps(cost: LoweringCost | None) -> tuple[str, ...]:
    found = cost.advice if cost else ""
    own = "Teach a model of your own: insitu train model.onnx --data FILE -o mine.insitu"
    return (*([found] if found else []), own, "Put it on a board: insitu compile mine.insitu --board nrf52840 -o build")


def scores(task: Task, before: list[np.ndarray], after: list[np.ndarray]) -> tuple[Score, ...]:
    found = zip(task.tests, before, after)
    return tuple(
        Score(name, float((b == test.y).mean()), float((a == test.y).mean()), len(test.y))
        for (name, test), b, a in found
    )


def agree(opened: Opened, task: Task) -> bool:
    """Do device and host give the same bytes for a few samples?"""
    x = task.learn.x[:: max(1, len(task.learn.x) // CHECKED)]
    return bool(np.array_equal(opened.learner.predict(x), task.learner.predict(x)))


def versions() -> tuple[tuple[str, str], ...]:
    about = machine()
    return (("computer", f"{about['machine']}; {about['system']}"), ("insitu", about["insitu"]))
