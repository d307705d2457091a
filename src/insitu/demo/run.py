"""`insitu demo`: a network that has seen nine wearers of a watch meets the tenth, and learns on the device."""

from __future__ import annotations

from importlib.metadata import version

from insitu.demo.lesson import LESSON, Lesson, base_learner, material
from insitu.demo.task import Demo, Say, Task, carry_out
from insitu.demo.watch import EXERCISES, WEARER, others, wearer
from insitu.terminal.progress import Report

BOARD = "nrf52840"
SUMMARY = (
    "A small network recognises seven shoulder exercises from a watch's motion sensor. It was trained on nine people; "
    "the tenth moves differently. Here it learns from a few of that person's own windows, on the device, in int8."
)


def run_demo(number: int = WEARER, board: str = BOARD, lesson: Lesson = LESSON, *, say: Say = lambda text: None,
             progress: Report | None = None) -> Demo:  # fmt: skip
    """Run the demo for a wearer on a board."""
    say(f"compiling a network that has not seen wearer {number}: int8, training {lesson.scheme}")
    return carry_out(watch_task(number, board, lesson), board, say, progress)


def watch_task(number: int, board: str, lesson: Lesson) -> Task:
    person = wearer(number)
    tests = (
        (f"wearer {number}'s exercises", person.test),
        ("the nine people the network was trained on", others(number)),
    )
    facts = (
        ("command", f"insitu demo --wearer {number} --board {board}"),
        ("trained", f"{lesson.scheme}: int8 weights with an 8-bit residual, batch 1"),
        ("rate", f"{lesson.rate:g}, cosine to zero over {lesson.epochs} epochs, seed {lesson.seed}"),
        ("data", f"seglearn {version('seglearn')}, windows of 128 readings (2.56 s), the first four of each recording"),
    )
    return Task(
        "A smartwatch learns its wearer", SUMMARY, base_learner(number, lesson.scheme), lesson,
        material(number, person.learn, lesson), tests, EXERCISES, facts,
    )  # fmt: skip
