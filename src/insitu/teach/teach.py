"""The steps from a folder to a learner: look, choose a network that fits, read, train, test.

Photos: a network that knows photos already gets a new classifier; sounds too, if one that knows words is here. Tables,
recordings, other sounds, and small pictures if that is better: a small network learns from nothing, in float, and is
then made int8. Everything that runs
is the generated C. Files are written by the caller.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from insitu import pipeline
from insitu.boards import Board, find_board
from insitu.data.augment import Augment
from insitu.data.augment_sound import AugmentSound
from insitu.deploy import limits_of
from insitu.errors import BudgetError, DataError, LearningWarning
from insitu.graph import Graph
from insitu.learner import Learner
from insitu.learner.growing import add_new_classes
from insitu.learner.learned import learned_model
from insitu.learner.lesson import NEW_NETWORK, Lesson
from insitu.learner.relinked import relinked
from insitu.learner.school import in_int8
from insitu.teach.backbones import BACKBONES, NEW, backbones
from insitu.teach.examples import Examples, examples_of, numbers, photos, sounds
from insitu.teach.material import PHOTOS, QUANTITIES, RECORDINGS, SOUNDS, TABLE, Material, look
from insitu.teach.pictures import are_small, better, frame
from insitu.teach.result import Taught, tested
from insitu.teach.scratch import LISTENING, for_pictures, for_quantity, for_sounds, for_table, for_windows
from insitu.terminal.colour import say
from insitu.terminal.progress import Report, bar
from insitu.terminal.wording import either, in_lesson
from insitu.training.train import Recipe

WORDS = {TABLE: "a table of classes", QUANTITIES: "a table of quantities"}
WORST_LOSS = 0.02  # of accuracy from float to int8, above which a note says so
SEVERAL = {TABLE: "tables", QUANTITIES: "a quantity", PHOTOS: "pictures"}  # what a network is for
FORGOTTEN = "what it learned before is not in its file: the test may be on examples that it learned from"
KNOWN = "known"  # the way of a network that has learned before, beside NEW
ALONE = "no network that knows photos is here to compare with"
HEARD = 28000  # sounds (or pictures) that a new network hears in total, in at least and at most so many epochs
FEWEST_EPOCHS, MOST_EPOCHS = 40, 200
BATCH = 16  # sounds or pictures
SQUARED = Recipe(loss="mse")

Keep = Callable[[Learner], object]
CHOSEN = "insitu teach"  # who chose what the board trains


def teach(path: str | Path, *, board: str | Board | None = None, sram: int | None = None, flash: int | None = None,
          backbone: str | None = None, share: float | None = None, seed: int | None = None,
          label: str = "", go_on: Learner | None = None, strangers: bool = True, keep: Keep | None = None,
          progress: Report | None = None) -> Taught:  # fmt: skip
    """A learner that knows the examples of a folder or table, tested on a fifth of them.

    board, sram, flash    the network is chosen to fit them
    backbone              a network for photos or words, by name; None: the most accurate one that fits
    share                 of the examples that are kept for the test (0.2)
    label                 the column of a table that is the label; "": by its heading, or the last one
    go_on                 a learner that was taught before: it learns on, for the same board; what it learned from
                          before is never tested on
    strangers             False: it is an error if go_on knows none of the classes
    keep                  is called with the learner if Ctrl-C interrupts its training
    """
    name = board.name if isinstance(board, Board) else board
    if board is not None and board != "host":
        find_board(board)  # a slip of the pen is told before all else
    given = {"board": name, "sram": sram, "flash": flash, "backbone": backbone, "share": share, "seed": seed}
    before = go_on.lesson if go_on else None
    lesson = before.agreed(given) if before else Lesson(**{k: v for k, v in given.items() if v is not None})
    columns = go_on.graphs["predict"].columns if go_on else ()
    material = look(path, share=lesson.share, seed=lesson.seed, before=before, columns=columns, label=label)
    if material.label:
        say(f"{material.path.name}: the label is {material.label}")
    if go_on is not None and not strangers:
        _check_known(material, go_on.names)
    lesson = replace(lesson, kind=_kind(material, before)).after(material.marks, material.test)
    board = board or lesson.board
    with bar(progress) as report, in_lesson():
        if go_on is not None and lesson.finished:
            return _further(go_on, material, lesson, board, keep, report)
        if go_on is None and material.kind == PHOTOS and lesson.backbone is None and are_small(material):
            return _from_either(material, lesson, board, keep, report)
        if go_on is None and _knows(material, lesson):
            return _from_backbone(material, lesson, board, keep, report)
        return _from_scratch(material, lesson, board, go_on, keep, report)


def _knows(material: Material, lesson: Lesson) -> bool:
    """Is there a network that knows photos, or words, already? For photos, none is an error."""
    return material.kind in (PHOTOS, SOUNDS) and any(True for _ in backbones(lesson.backbone, material.kind == SOUNDS))


def _check_known(material: Material, known: tuple[str, ...]) -> None:
    """Examples of other classes alone are hardly meant for this learner."""
    if material.targets is None and any(known) and not set(material.names) & set(known):
        what = f"has none of the classes that the learner knows ({', '.join(known[:3])}{', ...' if known[3:] else ''})"
        hint = either(shell="-o OTHER.insitu learns them apart, --again starts anew, -o with its file adds them to it",
                      python="leave out go_on to start anew")  # fmt: skip
        raise DataError(what, where=str(material.path), hint=hint)


def _kind(material: Material, before: Lesson | None) -> str:
    if before and before.kind != material.kind:
        now, then = (WORDS.get(kind, kind) for kind in (material.kind, before.kind))
        what = f"holds {now}, but the learner was taught {then}"
        raise DataError(
            what,
            where=str(material.path),
            hint=either(shell="--again starts anew", python="leave out go_on to start anew"),
        )
    return material.kind


@contextmanager
def kept_at_interrupt(learner: Learner, keep: Keep | None) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        if keep:
            keep(learner)
        raise


def _further(learner: Learner, material: Material, lesson: Lesson, board: str | Board, keep: Keep | None,
             report: Report) -> Taught:  # fmt: skip
    """A learner that goes on, linked for its board again, with the classes that are new in the folder."""
    notes = () if learner.lesson else (FORGOTTEN,)
    new = add_new_classes(learner, material.names, str(material.path)) if material.targets is None else ()
    if new:
        notes = (*notes, _new(new, material.kind))
    if board != "host" and learner.deployed is None:
        learner = relinked(learner, limits_of(board, lesson.sram, lesson.flash))
    found = examples_of(material, learner.graphs["predict"], lesson.window, report)
    return _taught(learner, material, lesson, found, keep, report, notes)


def _new(names: tuple[str, ...], kind: str) -> str:
    deeper = either(shell="--again lets all layers learn them", python="without go_on, all layers learn them")
    return f"new classes: {', '.join(names)}{'' if kind == PHOTOS else f'; only the classifier learned them, {deeper}'}"


def _taught(learner: Learner, material: Material, lesson: Lesson, found: Examples, keep: Keep | None, report: Report,
            notes: tuple[str, ...]) -> Taught:  # fmt: skip
    learner.lesson = lesson
    with kept_at_interrupt(learner, keep):
        history = learner.fit(found.part(~material.test), seed=lesson.seed, progress=report)
    notes = (*material.notes, *found.notes, *notes)
    network = lesson.network or learner.graphs["predict"].name
    return tested(learner, material.only(found.which), network, history, found.part(material.test), notes)


def _from_either(material: Material, lesson: Lesson, board: str | Board, keep: Keep | None,
                 report: Report) -> Taught:  # fmt: skip
    """Small pictures: a network that knows photos, or a new one, whichever does better on examples held out; the new
    one if both do as well, because it is smaller by far."""
    ways = {
        NEW: lambda m, own, kept, said: _from_scratch(m, own, board, None, kept, said),
        KNOWN: lambda m, own, kept, said: _from_backbone(m, own, board, kept, said),
    }
    name, why = better(material, lesson, ways, report) if any(b.here for b in BACKBONES) else (NEW, ALONE)
    made = ways[name](material, lesson, keep, report)
    return replace(made, notes=(*made.notes, why))


# photos and words -------------------------------------------------------------------------------


def _from_backbone(material: Material, lesson: Lesson, board: str | Board, keep: Keep | None,
                   report: Report) -> Taught:  # fmt: skip
    """The first network that is here and fits; why others were passed over."""
    passed: list[str] = []
    limits = limits_of(board, lesson.sram, lesson.flash)
    for backbone in backbones(lesson.backbone, material.kind == SOUNDS):
        report(f"trying {backbone.name}", 0, 1)
        graph = backbone.make()
        if limits.flash is not None and _weights(graph) > limits.flash:
            passed.append(f"{backbone.name}: {_weights(graph):,} weights are more than the flash")
            continue
        found = examples_of(material, graph, lesson.window, report)
        try:
            learner = pipeline.compile(
                graph, classes=material.names, data=found.part(~material.test), board=board, sram=lesson.sram,
                flash=lesson.flash, scheme="head", head_after=backbone.head_after, seed=lesson.seed,
            )  # fmt: skip
            _chosen_here(learner)
        except BudgetError as e:
            passed.append(f"{backbone.name}: {e.what.splitlines()[0]}")
            continue
        lesson = replace(lesson, network=backbone.name)
        return _taught(learner, material, lesson, found, keep, report, tuple(f"passed over {p}" for p in passed))
    why = "\n  ".join(passed)
    raise BudgetError(f"no network for {material.kind} fits:\n  {why}", hint="a larger board, or more SRAM and flash")


def _chosen_here(learner: Learner) -> None:
    """Nobody asked for the head alone: the folder of the board must not say that the user did."""
    if learner.deployed is not None:
        learner.deployed = replace(learner.deployed, chosen=CHOSEN)


def _weights(graph: Graph) -> int:
    return sum(array.size for array in graph.constants.values())


# tables, recordings, sounds, small pictures ---------------------------------------------------------------------


@dataclass(frozen=True)
class School:
    """How a new network learns in float: who makes it, and what differs from the usual training."""

    make: Callable[..., Graph]
    options: Callable[[int], dict[str, Any]] = lambda count: {}  # of pipeline.compile, for this many samples
    course: Callable[[int], dict[str, Any]] = lambda count: {}  # of fit, for this many samples
    recipe: Recipe | None = None  # of the int8 network


def listening(count: int) -> dict[str, Any]:
    """Every epoch hears the sounds changed, few sounds more often, until nothing is left to learn. The numbers were
    chosen on test clips: docs/sound.md."""
    epochs = min(max(HEARD // count, FEWEST_EPOCHS), MOST_EPOCHS)
    return {"epochs": epochs, "rate": 0.003, "augment": AugmentSound(), "early": True}


def looking(count: int) -> dict[str, Any]:
    """Every epoch sees the pictures moved a little, lighter or darker."""
    changed = Augment(crop=None, pad=1, flip=False, brightness=0.1, contrast=0.1)
    return {**listening(count), "augment": changed, "early": False}  # the last epochs, at a low rate, bring a point


def in_batches(count: int) -> dict[str, Any]:
    """Batch norm wants several sounds at once; a few clips are one batch."""
    return {"recipe": Recipe(optimizer="adam"), "batch": min(BATCH, count)}


SCHOOLS = {
    TABLE: School(for_table),
    QUANTITIES: School(
        for_quantity, lambda count: {"recipe": SQUARED, "classes": None, "head_init": None}, recipe=SQUARED
    ),
    RECORDINGS: School(for_windows),
    SOUNDS: School(for_sounds, in_batches, listening),
    PHOTOS: School(for_pictures, in_batches, looking),
}


def _read(material: Material, lesson: Lesson, columns: tuple[str, ...], report: Report) -> Examples:
    """All examples, as a new network takes them."""
    if material.kind == SOUNDS:
        return sounds(material, LISTENING.graph(), report)
    if material.kind == PHOTOS:
        return photos(material, frame(material), report)
    return numbers(material, lesson.window, columns)


def _from_scratch(material: Material, lesson: Lesson, board: str | Board, school: Learner | None, keep: Keep | None,
                  report: Report) -> Taught:  # fmt: skip
    """A small float network learns everything; then the same network in int8, for the board.

    `school` is that float network, if it was interrupted earlier.
    """
    columns = school.graphs["predict"].columns if school else ()
    found = _read(material, lesson, columns, report)
    training, test, way = found.part(~material.test), found.part(material.test), SCHOOLS[material.kind]
    lesson = replace(
        lesson,
        network=f"{NEW_NETWORK}{SEVERAL.get(material.kind, material.kind)}",
        window=found.window,
        finished=False,
    )
    if school is None:
        graph = way.make(training.inputs[0], len(material.names), lesson.seed)
        usual = {"classes": material.names, "head_init": "uniform", "precision": "float", "scheme": "full"}
        school = pipeline.compile(graph, data=training, seed=lesson.seed, **usual | way.options(len(training)))
    school.lesson = lesson
    with kept_at_interrupt(school, keep):
        history = school.fit(training, seed=lesson.seed, progress=report, **way.course(len(training)))
        learner = pipeline.compile(learned_model(school), data=training, board=board, scheme="head", sram=lesson.sram,
                                   flash=lesson.flash, seed=lesson.seed, recipe=way.recipe)  # fmt: skip
        _chosen_here(learner)
    learner.lesson = replace(lesson, finished=True)
    with warnings.catch_warnings(), kept_at_interrupt(learner, keep):
        warnings.simplefilter("ignore", LearningWarning)  # it has learned already: there may be nothing to gain
        # what int8 cost, as far as the last layer can make up
        second = learner.fit(training, seed=lesson.seed, progress=report)
        history = in_int8(history, second, "its last layer")
    learner.history = history
    notes = (*material.notes, *found.notes)
    made = tested(learner, material.only(found.which), lesson.network, history, test, notes)
    before = tested(school, material, "", history, test, ()).score
    if before - made.score <= WORST_LOSS:
        return made
    what = "accuracy" if made.explained is None else "explained variance"
    note = f"int8 costs {100 * (before - made.score):.1f} points of {what} ({before:.1%} in float)"
    return replace(made, notes=(*made.notes, note))
