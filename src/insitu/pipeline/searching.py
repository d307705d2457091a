"""search(): the best schemes for a model, as a front of memory against gain."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from insitu.data import as_samples
from insitu.data.arguments import byte_count
from insitu.deploy import Limits, limits_of
from insitu.deploy.finding import Point, StepLimit, find
from insitu.errors import DataError
from insitu.learner import Learner
from insitu.learner.relinked import learned_parts
from insitu.pipeline.choosing import measured
from insitu.pipeline.compiling import compile
from insitu.pipeline.network import example_of, load
from insitu.pipeline.recipes import with_gradients
from insitu.quantizer.fold import is_int8
from insitu.quantizer.untrained import is_untrained
from insitu.schemes.contribution import Contribution
from insitu.schemes.ladder import ladder
from insitu.terminal.misspelled import spelled
from insitu.training.parts import Parts, trainable
from insitu.training.train import Recipe, has_targets

PART = "ladder:0"  # a scheme with which statistics over a batch are frozen, as with all that a search finds
OF_A_LEARNER = ("data", "seed", "max_classes")  # options that change nothing that a learner has already


@spelled
def search(model: Any, *, board: str = "host", sram: int | str | None = None, flash: int | str | None = None,
           instructions: int = 0, millijoules: float = 0.0, gains: Contribution | None = None,
           measure: bool | float | None = None, kept: Path | None = None, recipe: Recipe | None = None,
           **options: Any) -> list[Point]:  # fmt: skip
    """The best schemes for a model, from the least memory to all that is allowed: a front of memory against gain.

    Takes the arguments of `compile` but `scheme`. The model may be a learner: what it learned is the start, and of
    `options` it takes `data`, `seed` and `max_classes`, of `recipe` only what a board's program may have of its own.

    sram            defaults to all of the board's
    instructions    of one step, at most, estimated if they are many; or `millijoules`, by the board's profile
    gains           a table of what each part brings; None: what the structure of the network lets expect
                    (schemes/ladder.py)
    measure         True: fill such a table by short trainings with labelled `data`; a number: within so many seconds
    kept            a file that collects their results, instead of the cache: an interrupted measurement goes on
                    (learner/contributions.py)
    """
    limits = limits_of(board, byte_count(sram, "sram"), byte_count(flash, "flash"), "memory")
    parts = _parts(model, recipe or Recipe(), limits, options)
    found, step = trainable(parts.forward), StepLimit(instructions, millijoules)
    step.instructions_on(limits.board)  # before anything is measured
    if measure is not None and measure is not False:
        data = options.get("data")
        samples = None if data is None else as_samples(data, parts.forward, targets=has_targets(parts.recipe))
        gains = measured(parts, samples, None if measure is True else measure, kept, options.get("seed", 0))
    alone = _alone(model, recipe or Recipe(), limits, options) if parts.head else None
    return find(parts, found, limits, gains or ladder(found), step, alone=alone)


def _parts(model: Any, recipe: Recipe, limits: Limits, options: Mapping[str, Any]) -> Parts:
    """The network as `compile` would train a part of it."""
    if isinstance(model, Learner):
        given = [name for name in options if name not in OF_A_LEARNER and options[name] is not None]
        if given:
            raise DataError(f"is already compiled: {given[0]} would change it", where="learner", hint="leave it out")
        return learned_parts(model, limits, recipe.grad, options.get("max_classes"), recipe.rows)
    whole = options.get("precision") != "float" or (options.get("batch") or 1) == 1
    made = compile(model, scheme="full" if whole else PART, recipe=with_gradients(recipe, limits), **options).parts
    assert made is not None
    return made


def _alone(model: Any, recipe: Recipe, limits: Limits, options: Mapping[str, Any]) -> Parts | None:
    """The network as `compile` trains the head alone, where its numbers differ: random weights get room to grow in int8
    if they are trained, and none if only the head is."""
    if isinstance(model, Learner) or options.get("precision") == "float":
        return None
    g = load(model, example_of(model, options.get("example"), options.get("data")))
    if is_int8(g) or not is_untrained(g):
        return None
    return compile(model, scheme="head", recipe=with_gradients(recipe, limits), **options).parts
