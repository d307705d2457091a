"""compile() of what is a learner already: the same classes and state, with another scheme or linked for a board.

`insitu compile learner.insitu --board NAME` means the same (cli/reopen.py). Nothing is quantised or trained here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from insitu.deploy import Limits
from insitu.errors import DataError
from insitu.graph.file import is_learner
from insitu.learner import Learner
from insitu.learner.file import open_learner
from insitu.learner.relinked import relinked, with_scheme
from insitu.quantizer.fold import is_int8
from insitu.terminal.wording import option
from insitu.training.train import Recipe

USUAL = {"precision": "int8", "head": "float"}  # what an argument is if it is not given; else None
HINT = "leave it out, or start from the model that the learner was made from"


def learner_of(model: Any) -> Learner | None:
    """The learner that this is, or that this file holds."""
    if isinstance(model, str | Path) and is_learner(model):
        return open_learner(model)
    return model if isinstance(model, Learner) else None


def reopened(learner: Learner, scheme: str, limits: Limits, recipe: Recipe | None, most: int | None,
             given: Mapping[str, Any]) -> Learner:  # fmt: skip
    """The learner with this scheme ("auto": its own), for this board. `given` are arguments that would change what it
    is: an error, if they say anything else than the learner does."""
    _check(learner, recipe, given, limits.board is None and most is not None)
    learner = learner if scheme == "auto" else with_scheme(learner, scheme)
    if limits.board is None:
        return learner
    return relinked(learner, limits, recipe.grad if recipe else None, most, bool(recipe and recipe.rows))


def _check(learner: Learner, recipe: Recipe | None, given: Mapping[str, Any], room: bool) -> None:
    where = learner.graphs["predict"].name
    if learner.parts is None:
        what = "runs in a board's folder, which has no model"
        raise DataError(what, where=where, hint="compile the .insitu file or the model that the folder was made from")
    own = as_it_is(learner)
    changed = [name for name, value in given.items() if not _usual(value, USUAL.get(name), own.get(name))]
    changed = [name for name in changed if name != "classes" or not _same(learner, given["classes"])]
    if recipe is not None and _bare(recipe) not in (_bare(learner.recipe), Recipe()):
        changed.append("recipe")
    if changed:
        raise DataError(f"is already compiled: {changed[0]} would change it", where=where, hint=HINT)
    if room:
        hint = f"{option(board='NAME')}; on this machine, add_class adds one to the learner"
        raise DataError("max_classes is for a board's program", where=where, hint=hint)


def as_it_is(learner: Learner) -> dict[str, Any]:
    """Arguments of compile with which it would be what it is."""
    int8 = learner.parts is not None and is_int8(learner.parts.forward)
    return {"precision": "int8" if int8 else "float", "batch": learner.batch, "head_init": "own"}


def _usual(value: Any, *usual: Any) -> bool:
    """Is it one of these words or numbers? Arrays are none."""
    return value is None or (isinstance(value, str | int) and value in usual)


def _same(learner: Learner, classes: Any) -> bool:
    return classes == learner.classes if isinstance(classes, int) else tuple(classes) == learner.names


def _bare(recipe: Recipe) -> Recipe:
    """The recipe without what a board may have of its own."""
    return replace(recipe, grad=Recipe.grad, rows=Recipe.rows)
