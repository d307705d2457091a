"""`insitu demo`: a network for everybody meets one wearer, learns on the device, and a page shows what that took.

The program is trained on the device that device.py opens. Accuracy is measured with the same program on this computer,
with the state read back from the device; a window of every recording is predicted on both, and must agree to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np

from insitu.demo.device import Opened, open_device
from insitu.demo.lesson import LESSON, Lesson, Report, base_learner, material, teach
from insitu.demo.page import Measured, costs_of, flash_of, measured, sram_of
from insitu.demo.watch import EXERCISES, WEARER, Wearer, Windows, others, wearer
from insitu.learner import Learner
from insitu.reports.html_data import RunReport, Score, confusion, estimate
from insitu.reports.memory import memory_map
from insitu.reports.speed import machine
from insitu.reports.table import pairs, size

BOARD = "nrf52840"
Say = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Demo:
    """What happened, and the page about it."""

    report: RunReport
    equal: bool  # device and host predicted the same bytes
    note: str = ""
    page: Path | None = None

    def to_json(self) -> dict:
        r = self.report
        return {
            "device": r.device, "note": self.note,
            "scores": [{"name": s.name, "before": s.before, "after": s.after, "samples": s.samples} for s in r.scores],
            "steps": len(r.losses), "train_step_instructions": r.step_instructions,
            "predict_instructions": r.predict_instructions, "sram_bytes": r.sram.bytes, "flash_bytes": r.flash.bytes,
            "arena_bytes": r.arena.arena_bytes, "step_ms": r.estimate and r.estimate.step_ms,
            "step_mj": r.estimate and r.estimate.step_mj, "equal": self.equal,
            "report": self.page and str(self.page),
        }  # fmt: skip

    def to_text(self) -> str:
        r = self.report
        lines = [r.title, "", pairs(facts(self))]
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
        ("before", f"{own.before:.1%}   {own.name}, {own.samples} windows"),
        (
            "training",
            f"{len(r.losses):,} steps, loss {first:.3f} to {last:.3f}",
        ),
        ("after", f"{own.after:.1%}   {100 * (own.after - own.before):+.1f} points"),
        *(("others", f"{s.before:.1%} to {s.after:.1%}   {s.name}") for s in rest),
        ("SRAM", of_board(r.sram)),
        ("flash", of_board(r.flash)),
    ]
    if r.step_instructions is not None:
        found.append(("a step", step_words(r)))
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


def run_demo(number: int = WEARER, board: str = BOARD, lesson: Lesson = LESSON, *, say: Say = lambda text: None,
             progress: Report | None = None) -> Demo:  # fmt: skip
    """Everything but writing the page."""
    person, rest = wearer(number), others(number)
    say(f"compiling: int8, {lesson.scheme} training, batch 1")
    learner = base_learner(number, lesson.scheme)
    say(f"building and starting the firmware for {board}")
    opened = open_device(learner, board)
    before, others_before = predicted(learner, person.test), right(learner, rest)
    say(f"training on {len(person.learn)} windows of wearer {number}, {lesson.epochs} times over")
    windows = material(number, person.learn, lesson)
    losses = teach(opened.device, windows, lesson, progress)
    learner.device.load_arrays(opened.device.state())
    after, others_after = predicted(learner, person.test), right(learner, rest)
    say("measuring instructions, stack and layers")
    taken = measured(opened, learner, person.learn)
    scores = (
        Score(f"wearer {number}'s exercises", share(before, person.test), share(after, person.test), len(person.test)),
        Score("the nine others, whom the network was made with", others_before, others_after, len(rest)),
    )
    found = confusion(EXERCISES, person.test.y, before, after)
    report = assemble(opened, learner, taken, scores, found, losses, len(windows), settings(number, board, lesson))
    return Demo(report, agree(opened, learner, person), opened.note)


def assemble(opened: Opened, learner: Learner, taken: Measured, scores, found, losses, each: int, facts) -> RunReport:
    plans = opened.firmware.program.plans if opened.firmware else learner.plans
    costs, unit = costs_of(learner, taken)
    guess = estimate(taken.step, opened.board) if opened.board and taken.step is not None else None
    return RunReport(
        title="A smartwatch learns its wearer", summary=SUMMARY, device=opened.words, scores=scores,
        sram=sram_of(opened, learner, taken), flash=flash_of(opened, learner), arena=memory_map(plans["train_step"]),
        costs=costs, unit=unit, step_instructions=taken.step, predict_instructions=taken.predict, estimate=guess,
        losses=tuple(losses), steps_an_epoch=each, confusion=found, facts=facts,
    )  # fmt: skip


SUMMARY = (
    "A small network recognises seven shoulder exercises from a watch's motion sensor. It was trained on nine people; "
    "the tenth moves differently. Here it learns from a few of that person's own windows, on the device, in int8."
)


def predicted(learner: Learner, windows: Windows) -> np.ndarray:
    return np.asarray(learner.predict(windows.x)).argmax(1)


def share(classes: np.ndarray, windows: Windows) -> float:
    return float((classes == windows.y).mean())


def right(learner: Learner, windows: Windows) -> float:
    return share(predicted(learner, windows), windows)


def agree(opened: Opened, learner: Learner, person: Wearer, each: int = 4) -> bool:
    """Do device and host give the same bytes for a window of every recording?"""
    x = person.learn.x[::each]
    there = np.concatenate([np.asarray(opened.device.run("predict", one[None])[0]) for one in x])
    return bool(np.array_equal(there, np.asarray(learner.predict(x))))


def settings(number: int, board: str, lesson: Lesson) -> tuple[tuple[str, str], ...]:
    about = machine()
    return (
        ("command", f"insitu demo --wearer {number} --board {board}"),
        ("trained", f"{lesson.scheme}: int8 weights with an 8-bit residual, batch 1"),
        ("rate", f"{lesson.rate:g}, cosine to zero over {lesson.epochs} epochs, seed {lesson.seed}"),
        ("data", f"seglearn {version('seglearn')}, windows of 128 readings (2.56 s), the first four of each recording"),
        ("computer", f"{about['machine']}; {about['system']}"),
        ("insitu", about["insitu"]),
    )
