"""Names of classes that come with samples: taken over by the learner, and said where labels are only numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from insitu.data import Samples, by_name, check_labels
from insitu.devices.living import living
from insitu.graph.classes import word
from insitu.learner.feed import plain, predict_all
from insitu.learner.own_head import LOOKED_AT, named_by_outputs
from insitu.terminal import colour

if TYPE_CHECKING:
    from insitu.learner.owner import Owner


def take_names(learner: Owner, data: Samples) -> Samples:
    """The samples; the names of their classes are taken over, and those of a table's columns if none are known.

    Outputs that have no names yet get those of the samples that they are already right for.
    """
    graph = learner.graphs["predict"]
    if any(data.names) and not any(graph.classes) and len(data) and learner.measure == "accuracy":
        some = data.take(np.unique(np.linspace(0, len(data) - 1, LOOKED_AT).astype(int)))
        found = named_by_outputs(predict_all(learner.device, plain(some.inputs))[0].reshape(len(some), -1), some)
        if found.names != data.names:
            data = check_labels(by_name(data, found.names), len(found.names))
    learner.rename(data.names if any(data.names) else graph.classes, graph.columns or data.columns)
    return data


def several(data: Samples) -> bool:
    """Are there several classes, or targets? Of one class alone fit learns nothing, not even its name."""
    y = data.labels
    return y is None or y.dtype.kind not in "iu" or len(np.unique(y)) > 1


def follow_board(learner: Owner) -> None:
    """Take over the names that a living board knows now: it adds and forgets classes by itself."""
    life = living(learner._device)
    if life is not None and not life.device.link.closed and any(life.names):
        learner.rename(life.names)


def say_numbers(learner: Owner, data: Samples) -> None:
    """Once: what numbers as labels mean to a learner that knows its classes by name."""
    if any(learner.names) and not data.names and learner.measure == "accuracy" and not learner._numbered:
        learner._numbered = True
        known = ", ".join(f"{k} is {word(learner.names, k)}" for k in range(min(learner.classes, 4)))
        colour.say(f"note: the labels are numbers, taken as positions: {known}{', ...' * (learner.classes > 4)}")


def say_left_out(given: object, data: Samples) -> None:
    """What was left out of files or iterables that were given in Python; the command line reads its files itself."""
    where = f"{given}: " if isinstance(given, (str, Path)) else ""
    for note in () if isinstance(given, Samples) else data.notes:
        colour.say(f"note: {where}{note}")
