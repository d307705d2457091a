"""`insitu demo --vision`: mcunet-5fps learns a few kinds of photos on an emulated board, from the zoo's files."""

from __future__ import annotations

from dataclasses import replace

from insitu.demo.lesson import GRADIENTS, Lesson
from insitu.demo.photos import PhotoSet, photos
from insitu.demo.task import Demo, Say, Task, carry_out
from insitu.pipeline import compile
from insitu.terminal.progress import Report
from insitu.training.train import Recipe

BOARD = "stm32f746"
MODEL = "mcunet-5fps"
LESSON = Lesson(scheme=f"{MODEL}/49kb", rate=0.01, epochs=2, warmup=0.2)
SUMMARY = (
    "mcunet-5fps knows ImageNet. It gets a new head and learns {classes} classes it was not made for, from {count} "
    "photos of 128x128 pixels, with the published 49kb sparse update: int8, one update per photo, on the device."
)


def run_vision_demo(board: str = BOARD, epochs: int | None = None, *, say: Say = lambda text: None,
                    progress: Report | None = None) -> Demo:  # fmt: skip
    lesson = replace(LESSON, epochs=epochs or LESSON.epochs)
    found = photos()
    say(f"compiling {MODEL} for {len(found.labels)} classes of {found.name}: training {lesson.scheme}")
    return carry_out(vision_task(found, board, lesson), board, say, progress)


def vision_task(found: PhotoSet, board: str, lesson: Lesson) -> Task:
    classes = len(found.labels)
    learner = compile(f"zoo:{MODEL}", classes=classes, scheme=lesson.scheme, head_init="uniform", seed=lesson.seed,
                      recipe=Recipe(grad=GRADIENTS))  # fmt: skip
    facts = (
        ("command", f"insitu demo --vision --board {board} --epochs {lesson.epochs}"),
        ("trained", f"{lesson.scheme}: int8 weights with an 8-bit residual, batch 1"),
        ("rate", f"{lesson.rate:g}, cosine to zero over {lesson.epochs} epochs, seed {lesson.seed}"),
        ("data", f"{found.name}: {len(found.learn)} photos to learn from, {len(found.test)} others to test on"),
    )
    summary = SUMMARY.format(classes=classes, count=len(found.learn))
    tests = ((f"{found.name}: photos it has not seen", found.test),)
    return Task(f"{MODEL} learns {found.name}", summary, learner, lesson, found.learn, tests, found.labels, facts)
