"""`insitu demo`: a watch that has seen nine wearers meets the tenth, and lives a week on that wrist (week.py)."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version

import numpy as np

from insitu.data import Samples
from insitu.demo.device import HOST, Opened, missing_words, on_host
from insitu.demo.lesson import CALIBRATION, LESSON, Lesson, base_learner
from insitu.demo.page import Measured, costs_of, counted_life, flash_of, sram_of
from insitu.demo.task import CHECKED, Demo, Say, next_steps, versions
from insitu.demo.watch import EXERCISES, WEARER, Windows, others, wearer
from insitu.demo.week import KNOWN, NEW, Week, of, upside_down
from insitu.demo.wrist import BoardWrist, HostWrist, Wrist
from insitu.learner import Learner
from insitu.learner.rows import forget_class
from insitu.learner.seen import seen_in
from insitu.reports.html_data import RunReport, Score, confusion, estimate
from insitu.reports.memory import memory_map
from insitu.terminal.progress import Report

BOARD = "nrf52840"
STORE, STORE_IN_SRAM = "256K", "96K"  # for samples: in flash, or where a board's cannot be written
TITLE = "A week of a smartwatch's life"
SUMMARY = (
    "A small network recognises shoulder exercises from a watch's motion sensor. It was trained on nine people; the "
    "tenth moves differently. Here it lives a week on that wrist, on the device, in int8: it keeps what it sees, "
    "learns a little every day, and judges for itself whether that did good."
)
WORDS = ("new", "turned", "others")  # of the scores after the first


def run_demo(number: int = WEARER, board: str = BOARD, lesson: Lesson = LESSON, *, say: Say = lambda text: None,
             progress: Report | None = None) -> Demo:  # fmt: skip
    """The week of a wearer's watch on a board."""
    say(f"compiling a network that has not seen wearer {number}: int8, training {lesson.scheme}")
    learner = delivered(number, lesson.scheme)
    say(f"building and starting the firmware for {board}")
    opened, watch = on_wrist(learner, board)
    tests = tests_of(number)
    before = predicted(learner, tests)
    week = Week(number, watch, lesson, lambda windows: score(learner, watch, windows), wearer(number).test)
    story = []
    for i, (day, words) in enumerate(week.days()):
        say(f"{day}  {words}")
        story.append((day, words))
        if progress:
            progress("a week", i + 1, 7)
    take(learner, watch)
    after = predicted(learner, tests)
    say("measuring instructions, stack and layers")
    taken = counted_life(opened, wearer(number).learn) if opened.firmware else Measured()
    equal = agree(opened, learner, wearer(number).test.x[::40][:CHECKED])
    report = assemble(number, board, lesson, learner, opened, taken, tests, before, after, week.losses)
    return Demo(replace(report, story=tuple(story)), equal, opened.note, words=WORDS)


def delivered(number: int, scheme: str = LESSON.scheme) -> Learner:
    """As the watch comes out of the box: it knows six of the seven exercises, from nine people, and their means."""
    learner, everybody = base_learner(number, scheme, list(EXERCISES)), others(number)
    chosen = of(Windows(*(a[::CALIBRATION] for a in (everybody.x, everybody.y, everybody.arm))), KNOWN)
    learner.seen = seen_in(learner, Samples((chosen.x,), chosen.y))
    forget_class(learner, EXERCISES[NEW])
    return learner


def on_wrist(learner: Learner, board: str) -> tuple[Opened, Wrist]:
    """The watch: an emulated board, or this machine."""
    note = missing_words(board)
    if board == HOST or note:
        opened = on_host(learner, note)
        return opened, HostWrist(opened.learner)
    from insitu.boards import find_board

    found = find_board(board)
    made = learner.on("emulator", board=found, store=STORE if found.pages else STORE_IN_SRAM)
    opened = Opened(made, f"{found.title}: its firmware on an emulated {found.core.title}", found)
    return opened, BoardWrist(made)


# measuring --------------------------------------------------------------------------------------


def tests_of(number: int) -> tuple[tuple[str, Windows], ...]:
    """What is measured before and after the week; the first is what it should improve."""
    test = wearer(number).test
    return (
        (f"wearer {number}'s six exercises", of(test, KNOWN)),
        (f'the exercise added on Thursday, "{EXERCISES[NEW]}"', of(test, [NEW])),
        ("all seven, worn upside down", upside_down(test)),
        ("six exercises of the nine people the network was trained on", of(others(number), KNOWN)),
    )


def take(learner: Learner, watch: Wrist) -> None:
    """The same program on this machine, in the state of the watch."""
    learner.device.load_state(watch.state())


def score(learner: Learner, watch: Wrist, windows: Windows) -> float:
    take(learner, watch)
    return float((np.asarray(learner.predict(windows.x)).argmax(1) == windows.y).mean())


def predicted(learner: Learner, tests) -> list[np.ndarray]:
    return [np.asarray(learner.predict(test.x)).argmax(1) for _, test in tests]


def agree(opened: Opened, learner: Learner, x: np.ndarray) -> bool:
    """Do device and host give the same bytes for a few samples?"""
    return bool(np.array_equal(opened.learner.predict(x), learner.predict(x)))


def assemble(number: int, board: str, lesson: Lesson, learner: Learner, opened: Opened, taken: Measured, tests, before,
             after, losses: list[float]) -> RunReport:  # fmt: skip
    plans = opened.firmware.program.plans if opened.firmware else learner.plans
    costs, unit = costs_of(learner, taken)
    guess = estimate(taken.step, opened.board) if opened.board and taken.step is not None else None
    scores = tuple(
        Score(name, float((b == test.y).mean()), float((a == test.y).mean()), len(test.y))
        for (name, test), b, a in zip(tests, before, after)
    )
    whole = wearer(number).test
    own = [np.concatenate([part[0], part[1]]) for part in (before, after)]
    truth = np.concatenate([of(whole, KNOWN).y, of(whole, [NEW]).y])
    return RunReport(
        title=TITLE, summary=SUMMARY, device=opened.words, scores=scores, sram=sram_of(opened, learner, taken),
        flash=flash_of(opened, learner), arena=memory_map(plans["learn" if "learn" in plans else "train_step"]),
        costs=costs, unit=unit, step_instructions=taken.step, predict_instructions=taken.predict, estimate=guess,
        losses=tuple(losses), steps_an_epoch=max(len(losses) // 7, 1),
        confusion=replace(confusion(EXERCISES, truth, *own), on=f"wearer {number}'s seven exercises"),
        facts=(*settings(number, board, lesson), *versions()), next=next_steps(None),
    )  # fmt: skip


def settings(number: int, board: str, lesson: Lesson) -> tuple[tuple[str, str], ...]:
    return (
        ("command", f"insitu demo --wearer {number} --board {board}"),
        ("trained", f"{lesson.scheme}: int8 weights with an 8-bit residual, one update per sample"),
        ("bouts", f"one a day, of {8 * lesson.epochs} steps at the rate {lesson.rate:g}"),
        ("data", f"seglearn {version('seglearn')}, windows of 128 readings (2.56 s), the first four of each recording"),
    )
