"""A learner from a file, with a program for a board: the same classes, scheme and state, planned and linked for it."""

from __future__ import annotations

from dataclasses import replace

from insitu.deploy import Limits, starting_from, usual_gradients
from insitu.deploy.budget import check_budget
from insitu.learner.file import first_state
from insitu.learner.learner import Learner


def relinked(learner: Learner, limits: Limits, grad: str | None = None) -> Learner:
    """The same learner for this board; it starts from what was learned when the file was written."""
    assert learner.parts is not None  # a file has them
    parts = replace(learner.parts, recipe=replace(learner.recipe, grad=grad or usual_gradients(limits.board)))
    graphs = starting_from(parts.graphs(), first_state(learner))
    made = Learner(graphs, parts=parts, notes=learner.notes, deployed=check_budget(parts, graphs, limits))
    made.known, made.lesson = learner.known, learner.lesson
    return made
