"""A learner on another device, with everything it has learned: the work of `Learner.on`.

places.py opens devices by name, relinked.py makes a program for a board.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from insitu.boards import Board
from insitu.codegen import emit_program
from insitu.deploy import Deployment, limits_of
from insitu.deploy.budget import check_budget
from insitu.devices.device import STEP, Device
from insitu.devices.rungs import rung
from insitu.errors import BoardError
from insitu.learner.here import checked
from insitu.learner.places import HOST, Patience, open_in_folder, open_place

if TYPE_CHECKING:
    from insitu.learner.learner import Learner


def moved(learner: Learner, place: str | Device, board: str | Board | None, patience: Patience) -> Learner:
    """The same learner there; a device without anything learned here keeps its own state."""
    deployed, named = _linked(learner, board), place if isinstance(place, str) else ""
    device = _open(learner, place, deployed, patience) if isinstance(place, str) else checked(place, learner.graphs)
    plans = learner.plans if named == HOST else learner._plans  # planned once for both
    site = replace(learner.site, device=device, place=named, patience=patience)
    made = type(learner)(learner.graphs, plans, learner.classes, parts=learner.parts, notes=learner.notes,
                         deployed=deployed, site=site)  # fmt: skip
    made.remember(learner)
    return _with_state(made, learner)


def _with_state(made: Learner, learner: Learner) -> Learner:
    try:
        if learner.learned:
            made.device.load_state(learner.device.save_state())
    except BaseException:
        made.close()
        raise
    return made


def _linked(learner: Learner, board: str | Board | None) -> Deployment | None:
    """The program for a board: as compiled, or linked now; it must fit."""
    if board is None:
        return learner.deployed
    if learner.parts is None:
        raise _already_linked()
    return check_budget(learner.parts, learner.graphs, limits_of(board, None, None))


def _already_linked() -> BoardError:
    return BoardError("a folder's program is already linked", hint="compile the model for this board")


def _open(learner: Learner, place: str, deployed: Deployment | None, patience: Patience) -> Device | None:
    """The device of this name; None for this machine, whose device is opened on first use."""
    if learner.site.manifest:
        return open_in_folder(learner.site.manifest, place, patience)
    return None if place == HOST else open_place(place, deployed, lambda: emit_program(learner.plans), patience)


def linked(learner: Learner, board: str | Board | None, store: int | None, most: int | None,
           rows: bool, store_rule: str | None = None, class_cost: float | None = None) -> Learner:  # fmt: skip
    """The same learner with another program for this board, which lives there or takes rows, and starts from what was
    learned."""
    from insitu.learner.relinked import relinked

    if learner.parts is None:
        raise _already_linked()
    chosen = board or (learner.deployed.limits.board if learner.deployed else None)
    limits = limits_of(chosen, None, None, store=store, store_rule=store_rule, class_cost=class_cost)
    return relinked(learner, limits, most=most, rows=rows)


def on_rung(learner: Learner, scheme: str) -> Learner:
    """The same learner on the same device, whose step is that of one of its program's smaller schemes."""
    device, parts = rung(learner.device, scheme), learner.parts
    graphs = {verb: g for verb, g in learner.graphs.items() if not verb.startswith(STEP)}
    lower = next((low for low in parts.scheme.lower if low.verb == device.verb), None) if parts else None
    made = type(learner)({**graphs, STEP: learner.graphs[device.verb]}, classes=learner.classes,
                         parts=replace(parts, scheme=lower) if parts and lower else parts, notes=learner.notes,
                         deployed=learner.deployed, site=replace(learner.site, device=device))  # fmt: skip
    made.remember(learner)
    return made
