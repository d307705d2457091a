"""search(): the best schemes for a model, as a front of memory against gain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from insitu.data import as_samples
from insitu.data.arguments import byte_count
from insitu.deploy import limits_of
from insitu.deploy.finding import Point, find
from insitu.pipeline.choosing import measured
from insitu.pipeline.compiling import compile
from insitu.pipeline.recipes import with_gradients
from insitu.schemes.contribution import Contribution
from insitu.schemes.ladder import ladder
from insitu.training.parts import trainable
from insitu.training.train import Recipe, has_targets


def search(model: Any, *, board: str = "host", sram: int | str | None = None, flash: int | str | None = None,
           instructions: int = 0, gains: Contribution | None = None, measure: bool | float | None = None,
           kept: Path | None = None, recipe: Recipe | None = None, **options: Any) -> list[Point]:  # fmt: skip
    """The best schemes for a model, from the least memory to all that is allowed: a front of memory against gain.

    Takes the arguments of `compile` but `scheme`. `sram` defaults to all of the board's, `instructions` limits a step,
    `gains` is a table of what each part brings; None: what the structure of the network lets expect (schemes/ladder.py)
    `measure=True` fills such a table by short trainings with labelled `data`, a number limits them to so many seconds;
    the file `kept` (or the cache) collects their results: an interrupted measurement goes on (learner/contributions.py)
    """
    limits = limits_of(board, byte_count(sram, "sram"), byte_count(flash, "flash"), "memory")
    recipe = with_gradients(recipe or Recipe(), limits)
    parts = compile(model, scheme="full", recipe=recipe, **options).parts
    assert parts is not None
    found = trainable(parts.forward)
    if measure is not None and measure is not False:
        data = options.get("data")
        samples = None if data is None else as_samples(data, parts.forward, targets=has_targets(recipe))
        gains = measured(parts, samples, None if measure is True else measure, kept, options.get("seed", 0))
    return find(parts, found, limits, gains or ladder(found), instructions)
