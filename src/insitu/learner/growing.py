"""Add one class to a learner, without forgetting anything: in a free row of its head, or with one more row."""

from __future__ import annotations

from dataclasses import replace

from insitu.deploy.budget import check_budget
from insitu.devices.host import HostDevice
from insitu.errors import DeviceError, GraphError
from insitu.graph.classes import checked
from insitu.learner.learner import Learner
from insitu.learner.relinked import grown
from insitu.learner.rows import free_row, with_name
from insitu.terminal.wording import either
from insitu.training.head import widen_head


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
    made.device.load_arrays(grown(old.state(), made.device.state()))
    learner.become(made)
    if not isinstance(old, HostDevice):
        old.close()
    return was


def grown_names(names: tuple[str, ...], count: int, name: str) -> tuple[str, ...]:
    """The names of the classes and of one more."""
    return checked((*(names or [""] * count), name)) if name or any(names) else ()
