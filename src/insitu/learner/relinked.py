"""A learner with a program for a board: the same classes, scheme and state, planned and linked for it.

With a store, the program lives there (docs/living.md): it starts from what was learned here, and knows the means of the
classes, so that a class can be added to it by name; `most` leaves room for such classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from insitu.codegen.life import LifeClass
from insitu.codegen.program import with_life
from insitu.data.arguments import whole
from insitu.deploy import Deployment, Limits, deploy_program, starting_from, usual_gradients
from insitu.deploy.budget import check_budget
from insitu.errors import BudgetError, DataError
from insitu.learner.file import state_of
from insitu.learner.learner import Learner
from insitu.learner.seen import Seen, class_means
from insitu.training.head import HEAD, reserve_head
from insitu.training.parts import Parts

Arrays = Mapping[str, np.ndarray]


def relinked(learner: Learner, limits: Limits, grad: str | None = None, most: int | None = None) -> Learner:
    """The same learner for this board; it starts from what was learned. `most` is the number of classes it may get."""
    assert learner.parts is not None  # a file has them
    parts = replace(learner.parts, recipe=replace(learner.recipe, grad=grad or usual_gradients(limits.board)))
    parts = parts if most is None else with_room(parts, most)
    graphs = parts.graphs()
    first = {name: array for g in graphs.values() for name, array in g.state.items()}
    graphs = starting_from(graphs, grown(state_of(learner), first))
    seen = class_means(learner)
    deployed = knowing(check_budget(parts, graphs, limits), seen)
    made = Learner(graphs, parts=parts, notes=learner.notes, deployed=deployed)
    made.known, made.lesson, made.seen = learner.known, learner.lesson, seen
    return made


def with_room(parts: Parts, most: int) -> Parts:
    """The same with rows of the head for so many classes; they are free."""
    most = whole(most, "max_classes", parts.forward.outputs[0].shape[-1])
    if parts.head != HEAD or parts.forward.producer[HEAD].inputs[0].dtype != "f32":
        raise DataError("only a float head has room for more classes", hint='head="float", or no max_classes')
    names = parts.forward.classes
    padded = (*names, *[""] * (most - len(names))) if names else ()
    return replace(parts, forward=replace(reserve_head(parts.forward, most), classes=padded))


def grown(old: Arrays, new: Arrays) -> dict[str, np.ndarray]:
    """The new arrays with the old ones in their first corner."""
    made = {name: array.copy() for name, array in new.items()}
    for name, array in old.items():
        made[name][tuple(slice(n) for n in array.shape)] = array
    return made


def knowing(deployed: Deployment | None, seen: Seen) -> Deployment | None:
    """The deployment of a living program that knows the means of its classes from the start."""
    if deployed is None or deployed.program.life is None or not seen.means:
        return deployed
    first = tuple(LifeClass(k, seen.counts[k], tuple(map(float, m))) for k, m in sorted(seen.means.items()))
    program = with_life(deployed.program, replace(deployed.program.life, first=first))
    found = deploy_program(program, deployed.limits)
    if not found.fits:
        what = f"with the means of its classes it takes {found.flash_bytes:,} bytes of flash"
        raise BudgetError(what, hint="a smaller --store")
    return replace(found, batch=deployed.batch, loss=deployed.loss, programs=deployed.programs)
