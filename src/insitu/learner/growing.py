"""Add classes to a learner, without forgetting anything: in a free row of its head, or with one more row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from insitu.deploy.budget import check_budget
from insitu.devices.host import HostDevice
from insitu.errors import DataError, DeviceError, GraphError
from insitu.graph.classes import checked, listed
from insitu.learner.learner import Learner
from insitu.learner.relinked import grown
from insitu.learner.rows import free_row, with_name
from insitu.terminal.wording import either
from insitu.training.head import HEAD, mean_row, widen_head


def add_class(learner: Learner, name: str) -> int:
    """Add one class to the head; returns its number. If it no longer fits the board, nothing has changed."""
    if learner.recipe.loss == "mse":
        raise GraphError(f"the loss {learner.recipe.loss} learns no classes", hint="fit(x, targets) learns its outputs")
    row = free_row(learner)
    if row is not None:
        learner.rename(with_name(learner, row, name or str(row)))
        return row
    if learner.parts is None or learner.parts.head is None:
        raise GraphError(
            "this program has no head that can grow",
            hint=either(shell="insitu compile MODEL", python="make it with insitu.compile(...)"),
        )
    place = learner.site.place
    if not place or place.partition(":")[0] == "serial":
        hint = 'on("host").add_class(), then write(...) and flash the board'
        raise DeviceError("the firmware there cannot grow", where=place or "device", hint=hint)
    was, old = learner.classes, learner.device
    forward, names = widen_head(learner.parts.forward, was + 1), grown_names(learner.names, was, name)
    parts = replace(learner.parts, forward=replace(forward, classes=names))
    graphs = parts.graphs()
    deployed = learner.deployed and check_budget(parts, graphs, learner.deployed.limits)
    made = Learner(graphs, parts=parts, deployed=deployed).on(place, **vars(learner.site.patience))
    made.device.load_arrays(with_mean_row(made, grown(old.state(), made.device.state()), was))
    learner.become(made)
    if not isinstance(old, HostDevice):
        old.close()
    return was


def with_mean_row(learner: Learner, state: dict[str, np.ndarray], row: int) -> dict[str, np.ndarray]:
    """The state whose new row of a float head is the mean of what the rows before it have learned."""
    names = [v.name for v in learner.graphs["predict"].producer[HEAD].inputs[1:]]
    for array in (state[name] for name in names if name in state and state[name].dtype == np.float32):
        array[row] = mean_row(array[:row])[0]
    return state


def grown_names(names: tuple[str, ...], count: int, name: str) -> tuple[str, ...]:
    """The names of the classes and of one more."""
    return checked((*(names or [""] * count), name)) if name or any(names) else ()


def add_new_classes(learner: Learner, names: Sequence[str], where: str) -> tuple[str, ...]:
    """Add those of these classes that the learner does not know; returns them. `names` are the classes with samples:
    the learner's own must be among them, because it would forget those that it is not shown together with new ones."""
    new = tuple(name for name in names if name not in learner.names)
    unseen = [name for name in learner.names if name and name not in names]
    if not new or not any(learner.names):
        return ()
    if len(new) == len(names):
        what = f"has other classes ({some(new)}) than the learner ({some(learner.names)})"
        raise DataError(
            what, where=where, hint=either(shell="-o FILE for a learner of its own", python="a new learner")
        )
    if unseen:
        what = f"has new classes ({some(new)}), but no examples of {some(unseen)}: the learner would forget them"
        raise DataError(what, where=where, hint=f"add examples of {some(unseen)}")
    for name in new:
        add_class(learner, name)
    return new


def some(names: Sequence[str], most: int = 5) -> str:
    """The first of these names."""
    return listed(names, most)
