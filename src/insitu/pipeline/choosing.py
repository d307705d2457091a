"""What is trained: the scheme that was asked for, or as much as fits the board.

The search itself is in schemes/ (in which order) and deploy/ (what fits).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from insitu.data import Samples
from insitu.deploy import Deployment, Limits
from insitu.deploy.auto import WORK, choose
from insitu.deploy.budget import check_budget
from insitu.errors import BudgetError, DataError
from insitu.graph import Graph
from insitu.learner.contributions import measure as measure_gains
from insitu.learner.given import given_samples
from insitu.pipeline.network import has_statistics, head_of
from insitu.pipeline.recipes import Settings
from insitu.schemes.contribution import Contribution
from insitu.schemes.scheme import read_scheme
from insitu.schemes.search import HEAD as HEAD_ALONE
from insitu.terminal.colour import say
from insitu.terminal.progress import bar, stage
from insitu.terminal.wording import either, option
from insitu.training.head import HEAD
from insitu.training.parts import Parts, trainable

AUTO = "auto"  # the scheme: as much as fits (schemes/ladder.py); the head of a model that will get more classes
LAST = {"last:4": 4, "last:2": 2, "last:1": 1}
UNTRAINED_SCHEMES = ("full", *LAST, HEAD)  # the first that fits
LADDER = "auto:ladder"  # as much as fits of any model
NO_HEAD = "scheme auto: the last layer, because fit compares with a head alone, and this model ends in none"
KEPT = "interrupted; what was measured is kept, and the same command goes on from there"
MEASURED = "auto:measured"  # what brings most, by short trainings on the samples (learner/contributions.py)


@dataclass(frozen=True)
class Wish:
    """The schemes to try, in this order."""

    schemes: tuple[str, ...]
    why: str = ""  # if it is the head alone, though nobody said so
    untrained: bool = False  # is the model?
    default: bool = False  # nobody asked for a scheme

    @property
    def measured(self) -> bool:
        return self.schemes[0] == MEASURED

    @property
    def as_much_as_fits(self) -> bool:
        return self.schemes[0] in (LADDER, MEASURED)


@dataclass(frozen=True, eq=False)
class Chosen:
    """The program that trains what was chosen."""

    parts: Parts
    graphs: dict[str, Graph]
    deployed: Deployment | None = None
    note: str = ""


def wish_of(scheme: str, untrained: bool, why_head: str) -> Wish:
    """What to try for this argument: `why_head` says why the head is enough for a trained model, if it is."""
    if scheme != AUTO:
        return Wish((scheme,), untrained=untrained)
    if untrained:
        return Wish(UNTRAINED_SCHEMES, untrained=True)
    return Wish((HEAD if why_head else LADDER,), why_head, default=True)


def as_compiled(settings: Settings, scheme: str, untrained: bool, limits: Limits,
                why_head: str) -> tuple[Settings, str]:  # fmt: skip
    """Every layer, if nobody asked for a scheme and the model was compiled to train them at a rate of its own. With a
    rate that is given nothing is tried, so `auto` would only ever train the head."""
    own = settings.taken and settings.taken.every and settings.recipe.rate is not None
    if scheme != AUTO or not own or untrained or limits.board or why_head:
        return settings, scheme
    note = f"Keras: every layer learns, as it was compiled; {option(scheme=HEAD)} trains the last one alone"
    return replace(settings, notes=(*settings.notes, note)), "full"


def chosen_by(scheme: str) -> str:
    """Who chose what is trained: for the folder of a board, which outlives the command that made it."""
    return f"insitu ({scheme})" if scheme.startswith(AUTO) else "the user"


def head_alone(store: int | str | None, max_classes: int | None) -> str:
    """Why only the head is trained if nobody asked for more; a note for the learner, not for the terminal."""
    reasons = {
        "a store keeps most samples of what the head sees": store is not None,
        "classes are added later": max_classes is not None,
    }
    why = next((why for why, holds in reasons.items() if holds), "")
    return f"scheme auto: the head, because {why}; {option(scheme=LADDER)} trains as much as fits" if why else ""


def chosen_program(graph: Graph, wish: Wish, settings: Settings, samples: Samples | None, limits: Limits,
                   seed: int) -> Chosen:  # fmt: skip
    """The program for the first wish that fits the board."""
    if wish.default and head_of(graph) is None:  # targets, after something else than a linear layer
        return replace(_first_that_fits(graph, ["last:1"], settings, limits), note=NO_HEAD)
    if wish.as_much_as_fits:
        parts = Parts(graph, HEAD_ALONE, settings.recipe, settings.batch, has_statistics(graph), head_of(graph))
        table = measured(parts, samples, seed=seed) if wish.measured else None
        return highest_rung(parts, limits, table, WORK if wish.default and not limits.board else None)
    return _first_that_fits(graph, wish.schemes, settings, limits)


def _first_that_fits(graph: Graph, schemes: Sequence[str], settings: Settings, limits: Limits) -> Chosen:
    """The program of the first scheme that fits the board; the error is that of the last one."""
    known = trainable(graph)
    if len(schemes) > 1:
        fitting = [s for s in schemes if LAST.get(s, 0) < len(known) and (s != HEAD or head_of(graph) is not None)]
        schemes = fitting or ["full"]  # a single layer, which is no head of ours
    for i, name in enumerate(schemes):
        scheme = read_scheme(name, known)
        parts = Parts(graph, scheme, settings.recipe, settings.batch, has_statistics(graph), head_of(graph))
        try:
            return _within(parts, limits)
        except BudgetError:
            if i + 1 == len(schemes):
                raise
    raise AssertionError("there is always a scheme")


def highest_rung(parts: Parts, limits: Limits, table: Contribution | None = None, work: int | None = None) -> Chosen:
    """The program that trains as much as fits, and a note about what that is; an error if nothing does.

    `work` limits the multiply-adds of an update.
    """
    with stage("choosing what to train"):
        rungs = list(choose(parts, trainable(parts.forward), limits, table, work))
    for rung in rungs[:-1]:
        with suppress(BudgetError):
            return _within(replace(parts, scheme=rung.scheme), limits, rung.note, hints=False)
    return _within(replace(parts, scheme=rungs[-1].scheme), limits, rungs[-1].note)


def _within(parts: Parts, limits: Limits, note: str = "", hints: bool = True) -> Chosen:
    with stage("gradients and updates"):
        graphs = parts.graphs()
    return Chosen(parts, graphs, check_budget(parts, graphs, limits, hints), note)


def measured(parts: Parts, samples: Samples | None, seconds: float | None = None, kept: Path | None = None,
             seed: int = 0) -> Contribution:  # fmt: skip
    """What each part of the network brings on these samples; `kept` or the cache has what an interrupted call found."""
    if samples is None or samples.labels is None:
        raise DataError("measuring what a layer brings needs labelled samples", hint="give each sample its class")
    known = given_samples(parts.forward, parts.recipe.loss, samples)
    try:
        with bar() as report:
            return measure_gains(
                parts, trainable(parts.forward), known, seconds=seconds, path=kept, seed=seed, report=report
            )
    except KeyboardInterrupt:
        if words := either(shell=KEPT, python=""):
            say(words)
        raise
