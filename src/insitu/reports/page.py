"""A learner as a page: gathers its data, before or after training, with or without a board, and writes it.

html.py draws. Nothing is trained here; with a board that can be emulated, instructions are counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from insitu.boards import boards
from insitu.data import Samples
from insitu.errors import DataError
from insitu.files import check_target
from insitu.graph.classes import listed
from insitu.learner import History, Learner
from insitu.learner.feed import plain, predict_all
from insitu.learner.given import pair
from insitu.learner.shown import columns
from insitu.ops.activation import lut_s8
from insitu.reports.html import write_page
from insitu.reports.html_data import Group, RunReport, Score, estimate
from insitu.reports.memory import memory_map
from insitu.reports.needs import Layers, Needs, can_be_stored, costs, large_boards, needs_of, room, speed
from insitu.reports.outcome import Outcome, weakest
from insitu.terminal.progress import Report
from insitu.terminal.wording import either

SUFFIXES = (".html", ".htm")
NAMES = 40  # of classes, shown
FILE = "NAME.insitu"
FEW = 100  # samples below which a measured accuracy says little


@dataclass(frozen=True)
class About:
    """What the caller knows about a learner and the page does not: what it is called, and where it was written."""

    title: str = ""
    file: str = FILE
    folder: str = ""  # of its program
    again: str = ""  # the command that chooses another network, for a board
    tests: str = ""  # the options or commands that measure it on samples it has not seen


def write_report(learner: Learner, path: str | Path, *, test: Any = None, about: About | None = None) -> Path:
    """The page about a learner: `test` samples, or those that the last fit was tested on."""
    check_page(path)
    samples = learner.tests if test is None else learner.samples(*pair(test), part="test")
    found = None if samples is None else outcome(learner, samples)
    return write_page(report_of(learner, learner.history, found, about=about), path)


def check_page(path: str | Path) -> Path:
    """Raise a DataError if no page can be written there."""
    if Path(path).suffix.lower() not in SUFFIXES:
        raise DataError("a report is an HTML page", where=str(path), hint="report.html")
    check_target(path)
    return Path(path)


def outputs_of(learner: Learner, samples: Samples, progress: Report | None = None, words: str = "predicting"
               ) -> np.ndarray:  # fmt: skip
    """The first output for each sample."""
    return predict_all(learner.device, plain(samples.inputs), progress, words)[0][:, 0]


def outcome(learner: Learner, samples: Samples, before: np.ndarray | None = None, name: str = "test samples",
           after: np.ndarray | None = None) -> Outcome:  # fmt: skip
    """How good the learner is on labelled samples."""
    assert samples.labels is not None  # checked by Learner.samples
    out = outputs_of(learner, samples) if after is None else after
    return Outcome(name, learner.recipe.loss, samples.labels, out, before, learner.names)


def report_of(learner: Learner, history: History | None = None, found: Outcome | None = None,
              counted: Layers | None = None, about: About | None = None) -> RunReport:  # fmt: skip
    """The data of the page."""
    about = about or About()
    needs = needs_of(learner, counted)
    by_layer, unit = costs(learner, needs)
    step, predict = needs.instructions(history.batch if history and not history.in_float else learner.batch)
    plan = needs.plans.get(needs.step or "")
    scores = (found.score(),) if found else measured(learner, history)
    groups = found.groups() if found else ()
    return RunReport(
        title=about.title or learner.graphs["predict"].name, summary=summary(learner),
        device=where(learner, needs), scores=scores, sram=needs.sram, flash=needs.flash,
        arena=plan and memory_map(plan), costs=by_layer, unit=unit,
        step_instructions=step, predict_instructions=predict,
        estimate=estimate(step, needs.board) if needs.board and step is not None else None,
        losses=tuple(np.concatenate(history.losses).tolist()) if history and history.losses else (),
        steps_an_epoch=len(history.losses[0]) if history and history.losses else 1,
        confusion=found.confusion() if found else None, lowering=needs.lowering,
        in_float=bool(history and history.in_float),
        facts=facts(learner, history, needs), speed=None if needs.board else speed(learner),
        epochs={name: tuple(v) for name, v in columns(history).items()} if history else {},
        groups=groups, mistakes=found.mistakes() if found else (),
        next=advice(learner, history, scores, groups, needs, about), notes=tuple(history.notes) if history else (),
        room="" if needs.board else room(needs),
    )  # fmt: skip


def measured(learner: Learner, history: History | None) -> tuple[Score, ...]:
    """What the last fit measured itself."""
    if history is None:
        return ()
    for name, values in (("test samples", history.tested), ("validation samples", history.validation)):
        if values:
            return (Score(name, None, values[-1], 0, learner.measure),)
    return ()


# words ------------------------------------------------------------------------------------------


def summary(learner: Learner) -> str:
    """What is trained, in a sentence."""
    parts, graph = learner.parts, learner.graphs["predict"]
    one, several = ("class", "classes") if learner.measure == "accuracy" else ("output", "outputs")
    classes = f"{learner.classes:,} {one if learner.classes == 1 else several}"
    if parts is None:
        return f"{classes}; the program of a board's folder."
    trained = sum(a.size for a in graph.state.values())
    tables = {v.name for node in graph.nodes if node.op is lut_s8 for v in node.inputs}
    whole = trained + sum(a.size for name, a in graph.constants.items() if name not in tables)
    each = "one update per sample" if learner.batch == 1 else f"one update per {learner.batch} samples"
    return f"{classes}; trains {parts.scheme.name}: {trained:,} of {whole:,} parameters, {each}."


def where(learner: Learner, needs: Needs) -> str:
    place = learner.site.place or "a device opened by the caller"
    place = "this machine" if place == "host" else place
    return f"{place}; linked for {needs.board.title}" if needs.board else place


def facts(learner: Learner, history: History | None, needs: Needs) -> tuple[tuple[str, str], ...]:
    """Settings and versions."""
    import insitu

    recipe, graph = learner.recipe, learner.graphs["predict"]
    found = [
        ("takes", ", ".join(f"{v.name} {v.type}" for v in graph.inputs)),
        ("gives", ", ".join(f"{v.name} {v.type}" for v in graph.outputs)),
        ("classes" if learner.measure == "accuracy" else "predicts", class_words(learner)),
        ("scheme", learner.parts.scheme.name if learner.parts else ""),
        ("loss", recipe.loss), ("optimizer", recipe.optimizer),
        ("gradients", (recipe.grad or "f32") if learner.parts else ""),  # a board's folder does not say
    ]  # fmt: skip
    if history and history.loss:
        found += [
            ("epochs", history.epochs.rpartition(" ")[0]),
            ("updates", f"{history.updates:,}, one per {plural(history.batch)}"),
            ("rate", f"{history.rate:.4g}, head {history.head_rate:.4g}"), ("found", history.settings),
        ]  # fmt: skip
    return tuple((k, v) for k, v in [*found, ("notes", "; ".join(learner.notes)), ("insitu", insitu.__version__)] if v)


def plural(batch: int) -> str:
    return "sample" if batch == 1 else f"{batch} samples"


def class_words(learner: Learner) -> str:
    names = learner.names
    if not any(names):
        return f"{learner.classes:,}"
    return listed(names, NAMES)


# what to do next --------------------------------------------------------------------------------


def advice(learner: Learner, history: History | None, scores: tuple[Score, ...], groups: tuple[Group, ...],
           needs: Needs, about: About) -> tuple[str, ...]:  # fmt: skip
    """At most four things, the most useful first."""
    fresh = history is None and not learner.has_learned
    found = [
        f"Teach it: {either(shell='insitu train MODEL --data FILE -o NAME.insitu', python='learner.fit(x, y)')}"
        if fresh else "",
        test_advice(scores, about), class_advice(scores, groups), (needs.lowering or {}).get("advice", ""),
        *board_advice(learner, needs, fresh, about),
    ]  # fmt: skip
    return tuple(words for words in found if words)[:4]


def test_advice(scores: tuple[Score, ...], about: About = About()) -> str:
    shell = about.tests or f"insitu predict {about.file} --data FILE"
    tests = either(shell=shell, python="learner.report(..., test=(x, y))")
    if not scores:
        return f"Measure it on samples it has not seen: {tests}"
    if scores[0].name == "training samples":
        return f"Measure it on samples it has not learned from: {tests}"
    count = scores[0].samples
    if not 0 < count < FEW:
        return ""
    if scores[0].measure == "error":  # of n errors that are normal, the usual one is known to 1 / sqrt(2 n)
        return f"Test on more samples: {count} are few, the usual error may be {1 / np.sqrt(2 * count):.0%} off"
    return f"Test on more samples: {count} are few, one sample is {100 / count:.1f} points"


def class_advice(scores: tuple[Score, ...], groups: tuple[Group, ...]) -> str:
    worst = weakest(groups, scores[0]) if scores else None
    return f'Collect more samples of "{worst.name}": {worst.after:.0%} of {worst.samples:,} recognised' if worst else ""


USUAL = "nrf52840"


def first_board(needs: Needs, file: str = FILE, again: str = "") -> str:
    """How to put it on a board that is large enough, the usual one if it is."""
    large = [board.name for board in large_boards(needs)]
    if large:
        name = USUAL if USUAL in large else large[0]
        shell = f"insitu compile {file} --board {name} -o build"
        how = either(shell=shell, python=f'learner.on("emulator", board="{name}")')
        return f"Put it on a board: {how}"
    largest = max(boards().values(), key=lambda board: board.sram.bytes + board.flash.bytes).name
    shell = f"insitu compile {file} --board {largest} --prefer memory"
    how = either(shell=shell, python=f'insitu.compile(..., board="{largest}", prefer="memory")')
    what = "See what fits on a board" if can_be_stored(needs) else "Make it smaller for a board"
    less = f"{again} chooses a network that fits" if again else "int8 and a scheme that trains fewer layers take less"
    return f"{what}: {how} plans it in the least memory, and says what does not fit; {less}"


def board_advice(learner: Learner, needs: Needs, fresh: bool, about: About) -> list[str]:
    if needs.board is None:
        return [] if fresh else [first_board(needs, about.file, about.again)]
    if learner.site.manifest:
        return []
    if about.folder:
        return [f"Let the board learn, on this machine: insitu run {about.folder}"]
    shell = f"insitu compile {about.file} --board {needs.board.name} -o build"
    how = either(shell=shell, python='learner.write("build")')
    return [f"Write its folder: {how}; then insitu run build"]
