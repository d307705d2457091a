"""compile(): from a model to a program that learns, one line per stage."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

from insitu.boards import Board
from insitu.data import Samples, as_samples
from insitu.data.arguments import byte_count, whole
from insitu.data.labels import matched
from insitu.deploy import limits_of
from insitu.errors import DataError
from insitu.graph import Graph
from insitu.learner import Learner
from insitu.learner.own_head import own_or_new
from insitu.pipeline.choosing import as_compiled, chosen_by, chosen_program, head_alone, wish_of
from insitu.pipeline.dump import Dump
from insitu.pipeline.network import (
    OWN,
    check_arithmetic,
    example_of,
    has_statistics,
    load,
    new_head,
    rounded,
    to_precision,
    with_room,
)
from insitu.pipeline.notes import prototypes_note, say_notes
from insitu.pipeline.recipes import bare, settings_of, without_softmax
from insitu.pipeline.reopened import learner_of, reopened
from insitu.pipeline.schooling import school_of
from insitu.preprocess import Audio, Motion, Transform
from insitu.quantizer.fold import is_int8
from insitu.quantizer.untrained import is_untrained
from insitu.terminal.misspelled import spelled
from insitu.terminal.progress import stage
from insitu.training.classes import Classes, choose_classes
from insitu.training.integer_head import integer_head
from insitu.training.train import Recipe, has_targets, usual_clip

Front = Transform | Audio | Motion  # what raw samples go through first


@spelled
def compile(model: Any, *, example: Any = None, classes: int | Sequence[str] | None = None, data: Any = None,
            scheme: str = "auto", precision: str = "int8", batch: int | None = None, head: str = "float",
            head_after: str | None = None, head_init: str | None = None, rounding: str | None = None,
            recipe: Recipe | None = None, board: str | Board = "host", sram: int | str | None = None,
            flash: int | str | None = None, prefer: str = "balance", transform: Front | None = None,
            seed: int = 0, dump: str | Path | None = None, max_classes: int | None = None,
            store: int | str | None = None, store_rule: str | None = None,
            class_cost: float | None = None) -> Learner:  # fmt: skip
    """A learner on the host: `fit`, `evaluate`, `predict`, and the C program behind them.

    model       a path, a torch module (with `example`), a Keras model, an insitu Model or Graph. A learner or its file
                stays what it is: it gets another scheme, or is linked for a board, and goes on from what it learned
    classes     the classes of the new head: their names, or how many. None: those of labelled `data`, if the model does
                not know them; else the model's own classifier stays, in float
    data        samples, to calibrate a float model for int8 and for head_init="prototypes"
    head        the classifier's arithmetic: float (default) or int8
    rounding    of int8 results: "litert" gives the bytes of LiteRT's reference kernels, "single" (what we quantise
                ourselves) is faster and agrees with XNNPACK; None: as the model has it
    head_init   of a new head: zero, uniform or prototypes; "own" keeps the model's. None: zero; but names for as many
                classes as the model has unnamed outputs keep its own head, unless labelled `data` shows that it guesses
    scheme      what is trained: head, full, last:6, bias:22, ladder:40, lora:4, a published name, a file. "auto": as
                much as fits half of the board's SRAM, or `sram`, in the order of what usually brings most per byte;
                here also no more than 200 million multiply-adds per update. fit then decides whether more than the
                head learns. With `store` or `max_classes` it is the head; "auto:ladder" is as much as fits in all of
                these cases. "auto:measured" finds out with the labelled `data` what brings most, in minutes
                (docs/schemes.md)
    batch       1 (default): one update per sample; more: gradients are added up and applied once per batch. A float
                network with batch norm that is trained in full takes the whole batch at once and learns its statistics;
                otherwise the statistics are frozen. For a compiled Keras model in float the default is 32, as in Keras
    recipe      loss and optimizer; None: those that a Keras model was compiled with, else cross-entropy and SGD
    transform   what raw samples go through first, as part of the graph: Transform (pixels), Audio (int16
                sound) or Motion (readings of a sensor)
    board       a name (`insitu boards`) or a profile.json: the program is linked for this board, and must fit; it
                still runs here; `on("emulator")` or `on("serial:PORT")` of the learner runs it there
    sram, flash the bytes the program may use (262144, or "256K": K is 1,024); a BudgetError says what does not fit
    prefer      on a board: the fewest instructions within `sram`, or within half of the board's ("balance") or all of
                it ("speed"); or the least memory ("memory")
    dump        a folder that gets one text file per stage
    max_classes the head has room for this many classes: `add_class` takes the next row, nothing is compiled again
    store       on a board: bytes ("64K") for samples that the program keeps itself, in flash where insitu can write the
                board's, else in SRAM. The board then collects, learns in bouts and survives power cuts (docs/living.md)
    store_rule  what gives way when it is full: balanced (all classes alike; the default), oldest, informative, typical
                (docs/continual.md)
    class_cost  the share of the others' samples in the store that a class that is added may take, to be recognised more
                often; 0: none of them
    """
    seed, say = whole(seed, "seed"), Dump(dump)
    check_arithmetic(head, "head")
    sram, flash, kept = byte_count(sram, "sram"), byte_count(flash, "flash"), byte_count(store, "store")
    limits = limits_of(board, sram, flash, prefer, kept, store_rule, class_cost)
    if learner := learner_of(copy(model) if isinstance(model, Learner) else model):
        given = {"example": example, "classes": classes, "precision": precision, "batch": batch, "head": head,
                 "head_after": head_after, "head_init": head_init, "rounding": rounding, "transform": transform,
                 "dump": dump}  # fmt: skip
        return reopened(learner, scheme, limits, recipe, max_classes, given)
    settings = settings_of(model, recipe, precision, batch, limits)
    targets = has_targets(settings.recipe)
    with stage("reading the model"):
        g = say("1-loaded", load(model, example_of(model, example, data)))
    g, without = bare(g, settings)
    g = say("2-input", checked_front(transform).applied_to(g) if transform else g)
    samples = None if data is None else as_samples(data, g, targets=targets)
    chosen = _classes(g, classes, samples, head_init, head_after)
    own = chosen.count is None and head_after is None
    without = without or (without_softmax(g, settings.recipe) if own else "")
    untrained = not is_int8(g) and is_untrained(g)
    settings = replace(settings, recipe=usual_clip(settings.recipe, untrained))
    settings, scheme = as_compiled(settings, scheme, untrained, limits, head_alone(store, max_classes))
    wish, norms = wish_of(scheme, untrained, head_alone(store, max_classes)), has_statistics(g)
    asked = {"scheme": scheme, "head": head, "rounding": rounding, "board": board, "sram": sram, "flash": flash,
             "prefer": prefer, "seed": seed}  # fmt: skip
    usual = precision == "int8" and settings.batch == 1 and not (head_after or max_classes or store)
    school = school_of(g, recipe, asked) if untrained and norms and usual else None
    with stage("calibrating"):
        g = say("3-numerics", to_precision(g, precision, samples, wish.schemes[0], settings.batch))
    known = samples and matched(samples, chosen.names)
    g = new_head(g, chosen.count, known, settings.recipe, head_after, head_init, seed)
    g = with_room(_named(g, chosen, samples), max_classes, head)
    g = say("4-head", rounded(integer_head(g) if head == "int8" else g, rounding))
    made = chosen_program(g, wish, settings, samples, limits, seed)
    say("5-scheme", made.parts.scheme)
    say("6-training", made.graphs)
    first = (*settings.notes, without, chosen.note, prototypes_note(head_init))
    notes = say_notes(first, g, precision, wish, made, norms and not has_statistics(g), school is not None)
    deployed = made.deployed and replace(made.deployed, chosen=chosen_by(scheme))
    learner = Learner(made.graphs, parts=made.parts, notes=notes, deployed=deployed)
    learner.school = school
    if dump:
        say("7-plan", made.deployed.program.plans if made.deployed else learner.plans)
    return learner


def checked_front(transform: Any) -> Front:
    if not isinstance(transform, Front):
        raise DataError(f"transform must be insitu.Transform, Audio or Motion, not {transform!r:.60}")
    return transform


def _classes(graph: Graph, classes: int | Sequence[str] | None, samples: Samples | None, head_init: str | None,
             head_after: str | None) -> Classes:  # fmt: skip
    """The classes of the head, and whether the model's own classifier stays."""
    chosen = choose_classes(graph, classes, samples, head_init == OWN)
    return own_or_new(graph, chosen, samples) if head_init is None and head_after is None else chosen


def _named(graph: Graph, chosen: Classes, samples: Samples | None) -> Graph:
    columns = graph.columns or (samples.columns if samples else ())
    return replace(graph, classes=chosen.names, columns=columns)
