"""A learner with a program for a board: the same classes, scheme and state, planned and linked for it.

If nobody asked for the scheme (`auto`), the board gets the one that fits it; what was learned stays, as frozen weights
where the board does not train them.

With a store, the program lives there (docs/living.md): it starts from what was learned here, and knows the means of the
classes, so that a class can be added to it by name; `most` leaves room for such classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from insitu.codegen.life_layout import LifeClass
from insitu.codegen.program import with_life
from insitu.data.arguments import whole
from insitu.deploy import Deployment, Limits, deploy_program, starting_from, usual_gradients
from insitu.deploy.auto import choose
from insitu.deploy.budget import check_budget
from insitu.errors import BudgetError, DataError
from insitu.graph import Graph
from insitu.learner.file import state_of
from insitu.learner.learner import Learner
from insitu.learner.seen import Seen, class_means
from insitu.ops.channels import merge_channels
from insitu.schemes.scheme import read_scheme
from insitu.schemes.search import HEAD as HEAD_ALONE
from insitu.terminal.wording import either, option
from insitu.training.head import HEAD, reserve_head
from insitu.training.low_rank import DOWN, UP, factored, with_product
from insitu.training.parts import Parts, trainable

Arrays = Mapping[str, np.ndarray]
PART = ".trained"  # the suffix of a weight of which only some channels are trained


def relinked(learner: Learner, limits: Limits, grad: str | None = None, most: int | None = None,
             rows: bool = False) -> Learner:  # fmt: skip
    """The same learner for this board; it starts from what was learned.

    most    the number of classes that it may get
    rows    its first input arrives row by row
    """
    parts = _for_board(learner, limits, grad, rows)
    starts = (
        list(fitting(parts, state_of(learner), limits)) if parts.scheme.rests else [Start(parts, state_of(learner))]
    )
    for start in starts[:-1]:
        with suppress(BudgetError):
            return _linked(learner, start, limits, most)
    return _linked(learner, starts[-1], limits, most)


def _for_board(learner: Learner, limits: Limits, grad: str | None, rows: bool) -> Parts:
    """With what a board's program may have of its own; on this machine a learner stays as it is."""
    assert learner.parts is not None  # a file has them
    if limits.board is None:
        return learner.parts
    grad, rows = grad or usual_gradients(limits.board), rows or learner.recipe.rows
    return replace(learner.parts, recipe=replace(learner.recipe, grad=grad, rows=rows))


def learned_parts(learner: Learner, limits: Limits, grad: str | None = None, most: int | None = None,
                  rows: bool = False) -> Parts:  # fmt: skip
    """The network with what was learned in its weights, for any scheme."""
    parts = _for_board(learner, limits, grad, rows)
    learned = replace(parts, forward=with_learned(parts, state_of(learner)))
    return learned if most is None else with_room(learned, most)


def with_scheme(learner: Learner, scheme: str) -> Learner:
    """The same learner on this machine, training another scheme from now on; it starts from what was learned."""
    learned = learned_parts(learner, Limits())
    parts = replace(learned, scheme=read_scheme(scheme, trainable(learned.forward)))
    graphs = parts.graphs()
    first = {name: array for g in graphs.values() for name, array in g.state.items()}
    notes = tuple(note for note in learner.notes if not note.startswith("scheme auto"))
    made = Learner(starting_from(graphs, {**first, **kept(parts, state_of(learner))}), parts=parts, notes=notes)
    made.remember(learner)
    made.seen = class_means(learner)
    return made


@dataclass(frozen=True, eq=False)
class Start:
    """What a program for a board is made from, and the state that it starts from."""

    parts: Parts
    state: Arrays
    note: str = ""  # about the scheme, if nobody asked for it


def _linked(learner: Learner, start: Start, limits: Limits, most: int | None) -> Learner:
    parts = start.parts if most is None else with_room(start.parts, most)
    graphs = parts.graphs()
    first = {name: array for g in graphs.values() for name, array in g.state.items()}
    graphs, seen = starting_from(graphs, grown(start.state, first)), class_means(learner)
    found = check_budget(parts, graphs, limits)
    deployed = found and knowing(found, seen)
    others = tuple(note for note in learner.notes if not (start.note and note.startswith("scheme auto")))
    made = Learner(graphs, parts=parts, notes=(*others, start.note) if start.note else others, deployed=deployed)
    made.remember(learner)
    made.seen = seen
    return made


def fitting(parts: Parts, state: Arrays, limits: Limits) -> Iterator[Start]:
    """With schemes that fit this board, the best first."""
    learned = replace(parts, forward=with_learned(parts, state), scheme=HEAD_ALONE)
    if limits.store is not None and parts.head:
        yield Start(learned, kept(learned, state), "scheme auto: the head, because a store keeps what the head sees")
        return
    for rung in choose(learned, trainable(learned.forward), limits):
        if rung.scheme.updates == parts.scheme.updates:
            yield Start(parts, state, rung.note)
        else:
            found = replace(learned, scheme=rung.scheme)
            yield Start(found, kept(found, state), rung.note)


def with_learned(parts: Parts, state: Arrays) -> Graph:
    """The network with what was learned as its constants."""
    merges = {n.inputs[0].name: n.attrs["channels"] for n in parts.graphs()["predict"].nodes if n.op is merge_channels}
    constants = dict(parts.forward.constants)
    for name, array in state.items():
        whole = name.removesuffix(PART)
        if name in merges and whole in constants:
            constants[whole] = constants[whole].copy()
            constants[whole][..., list(merges[name])] = array
        elif name in constants:
            constants[name] = array
    for name in factored(state):
        constants[name] = with_product(constants[name], state, name)
    return replace(parts.forward, constants=constants)


def kept(parts: Parts, state: Arrays) -> Arrays:
    """What goes on as it was: everything but parts of weights, whose channels may be others now, and factors, which
    are in the weights now."""
    inside = tuple(f"{name}{end}." for name in factored(state) for end in (DOWN, UP))
    first = {name: array for g in parts.graphs().values() for name, array in g.state.items()}
    going = {n: a for n, a in state.items() if PART not in n and not f"{n}.".startswith(inside)}
    return {n: a for n, a in going.items() if n in first and first[n].shape == a.shape}


def with_room(parts: Parts, most: int) -> Parts:
    """The same with rows of the head for so many classes; they are free."""
    most = whole(most, "max_classes", parts.forward.outputs[0].shape[-1])
    if parts.head != HEAD or parts.forward.producer[HEAD].inputs[0].dtype != "f32":
        raise DataError("only a float head has room for more classes", hint=f"compile it with {option(head='float')}")
    names = parts.forward.classes
    padded = (*names, *[""] * (most - len(names))) if names else ()
    return replace(parts, forward=replace(reserve_head(parts.forward, most), classes=padded))


def grown(old: Arrays, new: Arrays) -> dict[str, np.ndarray]:
    """The new arrays with the old ones in their first corner."""
    made = {name: array.copy() for name, array in new.items()}
    for name, array in old.items():
        made[name][tuple(slice(n) for n in array.shape)] = array
    return made


def knowing(deployed: Deployment, seen: Seen) -> Deployment:
    """The deployment of a living program that knows the means of its classes from the start."""
    if deployed.program.life is None or not seen.means:
        return deployed
    first = tuple(LifeClass(k, seen.counts[k], tuple(map(float, m))) for k, m in sorted(seen.means.items()))
    program = with_life(deployed.program, replace(deployed.program.life, first=first))
    found = deploy_program(program, deployed.limits)
    if not found.fits:
        what = f"with the means of its classes it takes {found.flash_bytes:,} bytes of flash"
        raise BudgetError(what, hint=f"a smaller {either(shell='--store', python='store')}")
    about = {name: getattr(deployed, name) for name in ("batch", "loss", "scheme", "chosen", "programs")}
    return replace(found, **about)
