"""`insitu demo --audio`: a keyword network learns a noisy place and new speakers on an emulated board, from raw sound.

The network and the words are files of the zoo. The sound arrives hop by hop: neither it nor its spectrogram is ever
whole.
"""

from __future__ import annotations

from dataclasses import replace

from insitu.demo.lesson import GRADIENTS, Lesson
from insitu.demo.task import Demo, Say, Task, carry_out
from insitu.demo.words import SNR, Words, labels, words
from insitu.learner import Learner
from insitu.learner.learned import learned_model
from insitu.pipeline import compile
from insitu.preprocess import Audio
from insitu.terminal.progress import Report
from insitu.training.train import Recipe

BOARD = "nrf52840"
MODEL = "kws-dscnn-int8"
LISTENING = Audio(gain=4.0)  # the network was trained on clips as loud as possible
LESSON = Lesson(scheme="last:4", rate=0.005, epochs=4, warmup=0.4)
EACH = 15  # clips per word to learn from
SUMMARY = (
    "MLPerf Tiny's keyword network knows seven words, spoken in quiet rooms. Here it stands in a noisy place, and "
    "people speak to it whom it has never heard. It learns from {count} of their clips on the device. Raw samples "
    "come in at 16 kHz, features are computed in integers as they arrive, and int8 weights change after every clip."
)


def run_audio_demo(board: str = BOARD, epochs: int | None = None, *, say: Say = lambda text: None,
                   progress: Report | None = None) -> Demo:  # fmt: skip
    lesson = replace(LESSON, epochs=epochs or LESSON.epochs)
    say(f"teaching {MODEL} seven words in a quiet room, then compiling it: int8, training {lesson.scheme}")
    return carry_out(audio_task(board, lesson, words("val", hum=True).few(EACH)), board, say, progress)


def quiet_learner() -> Learner:
    """The network with a head for the seven words, taught on quiet clips of many speakers."""
    learner = compile(f"zoo:{MODEL}", transform=LISTENING, classes=labels(), scheme="head",
                      recipe=Recipe(grad=GRADIENTS))  # fmt: skip
    learner.fit(words("train").x, words("train").y, rate=0.05, epochs=10)
    return learner


def noisy_learner(scheme: str, rows: bool = True, **options) -> Learner:
    """The same network, to be taught in a noisy place."""
    return compile(learned_model(quiet_learner()), scheme=scheme, recipe=Recipe(grad=GRADIENTS, rows=rows), **options)


def audio_task(board: str, lesson: Lesson, learn: Words) -> Task:
    tests = (
        ("words in noise, by speakers it has never heard", words("test", hum=True)),
        ("the same words without the noise", words("test")),
    )
    facts = (
        ("command", f"insitu demo --audio --board {board} --epochs {lesson.epochs}"),
        ("trained", f"{lesson.scheme}: int8 weights with an 8-bit residual, batch 1"),
        ("rate", f"{lesson.rate:g}, cosine to zero over {lesson.epochs} epochs, seed {lesson.seed}"),
        ("data", f"seven words of Speech Commands, a hum {SNR:g} dB below them: {len(learn)} clips to learn from"),
    )
    summary = SUMMARY.format(count=len(learn))
    return Task(f"{MODEL} learns a noisy place", summary, noisy_learner(lesson.scheme), lesson, learn, tests, labels(),
                facts)  # fmt: skip
