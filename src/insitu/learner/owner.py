"""What a learner is: a program, the device that runs it, the classes and their names, what it remembers.

Nothing is planned, compiled or opened before it is needed. What a learner does is in learner.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from threading import RLock
from typing import TYPE_CHECKING

import numpy as np

from insitu.codegen import Program, emit_program
from insitu.data import Samples
from insitu.deploy import Deployment, starting_from
from insitu.devices.device import Device
from insitu.devices.forked import each_process
from insitu.devices.host import HostDevice
from insitu.errors import GraphError
from insitu.graph import Graph, Value
from insitu.graph.classes import word
from insitu.learner.few import Known
from insitu.learner.here import open_here, plan_here
from insitu.learner.history import History
from insitu.learner.lesson import Lesson
from insitu.learner.measures import MEASURES
from insitu.learner.naming import follow_board
from insitu.learner.pupils import Pupils
from insitu.learner.school import School
from insitu.learner.seen import Seen
from insitu.learner.shown import as_html, as_text, learner_rows
from insitu.learner.site import Site
from insitu.planner import Plan
from insitu.training.parts import Parts
from insitu.training.train import Recipe

if TYPE_CHECKING:
    import insitu  # stores stand after learners: only their names are used


class Owner:
    """Owns a device with a training program. `Learner` has the verbs."""

    def __init__(self, graphs: Mapping[str, Graph], plans: Mapping[str, Plan] | None = None,
                 classes: int | None = None, *, parts: Parts | None = None, notes: tuple[str, ...] = (),
                 deployed: Deployment | None = None, site: Site | None = None):  # fmt: skip
        self.parts: Parts | None = parts
        self.notes: tuple[str, ...] = notes
        self.deployed: Deployment | None = deployed  # if it was compiled for a board
        self.site: Site = site or Site()
        self.recipe: Recipe = parts.recipe if parts else self.site.recipe
        self.batch: int = parts.batch if parts else self.site.batch
        self.known: Known = Known()  # measured by partial_fit
        self.beside: Known = Known()  # the same where a rate is given: only to warn, never saved
        self.told: float = 0.0  # the largest rate that it was warned of
        self.lesson: Lesson | None = None  # what `insitu teach` taught it
        self.history: History | None = None  # of the last fit
        self.tests: Samples | None = None  # that it was tested on
        self.lately: Samples | None = None  # a few samples of each class of the last fit: in memory, never saved
        self.seen: Seen = Seen()  # the means of its classes, from its file
        self.school: School | None = None  # where its first fit may learn, too; not in its file
        self.taught: bool = False  # had it learned something before it got this program?
        self._life: insitu.Life | insitu.BoardLife | None = None  # the samples it keeps
        self._numbered = False  # was it said what numbers mean as labels?
        each_process(self, Owner._unlocked)
        self._take(graphs, dict(plans) if plans else None, self.site.device)
        self.classes: int = classes if classes is not None else self.graphs["predict"].outputs[0].shape[-1]

    def _unlocked(self) -> None:
        self._changing, self._opening = RLock(), RLock()

    def _take(self, graphs: Mapping[str, Graph], plans: dict[str, Plan] | None, device: Device | None) -> None:
        """From now on this is the program. Without a device, one on this machine is opened on first use."""
        self.graphs: dict[str, Graph] = dict(graphs)
        self._plans, self._device = plans, device
        self._pupils = Pupils()

    def become(self, other: Owner) -> None:
        """Take over another learner's program and device."""
        self._take(other.graphs, other._plans, other.device)
        self.parts, self.deployed, self.classes = other.parts, other.deployed, other.classes
        self.recipe, self.school = other.recipe, None

    def begin_from(self, state: Mapping[str, np.ndarray]) -> None:
        """Start from these arrays as the learned state. The device is opened when it is needed."""
        self.taught = self.taught or _differs(self._first, state)
        self.graphs = starting_from(self.graphs, state)

    def remember(self, other: Owner) -> None:
        """Know what another learner with the same classes knows of its past."""
        self.known, self.lesson, self.seen, self.taught = other.known, other.lesson, other.seen, other.has_learned

    def __repr__(self) -> str:
        return as_text("insitu.Learner", learner_rows(self))

    def _repr_html_(self) -> str:
        return as_html("insitu.Learner", learner_rows(self))

    # the program and its device ---------------------------------------------------------------

    @property
    def plans(self) -> dict[str, Plan]:
        """The functions' plans for this machine, made on first use."""
        with self._opening:
            if self._plans is None:
                self._plans = plan_here(self.graphs)
            return self._plans

    @property
    def device(self) -> Device:
        """Where the program runs; on this machine it is built and opened on first use."""
        if self._device is None:
            with self._opening:  # one for all threads
                self._device = self._device or open_here(self.plans)
        return self._device

    @property
    def program(self) -> Program:
        """The C program that runs there."""
        if self.site.manifest:
            raise GraphError("a folder has only the interface of its program", hint="compile the model again")
        if isinstance(self.device, HostDevice):
            return self.device.program
        return self.deployed.program if self.deployed else emit_program(self.plans)

    @property
    def opened(self) -> bool:
        """Has the program run? Until then it has learned nothing beyond its initial state."""
        return self._device is not None

    @property
    def learned(self) -> bool:
        """Is its state different from the program's initial state? (In a folder, that state is unknown.)"""
        if not self.opened or not (self._first or self.site.manifest):
            return False
        return not self._first or _differs(self._first, self.device.state())

    @property
    def has_learned(self) -> bool:
        """Did it ever learn something, with this program or before it?"""
        from_nothing = self.lesson is not None and self.lesson.from_nothing
        return from_nothing or self.taught or self.learned

    @property
    def _first(self) -> dict[str, np.ndarray]:
        """The program's initial state."""
        return {name: value for g in self.graphs.values() for name, value in g.state.items()}

    # what goes in and comes out ---------------------------------------------------------------

    @property
    def sample(self) -> Value:
        """The graph's input: the type of a sample."""
        return self.graphs["predict"].inputs[0]

    @property
    def measure(self) -> str:
        """What `evaluate` measures: accuracy, or the mean squared error with the loss mse."""
        return MEASURES[self.recipe.loss][0]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the classes; "" for a class without a name, () if none is known. A living board has its own."""
        follow_board(self)
        return self.graphs["predict"].classes

    @property
    def classes_(self) -> np.ndarray:
        """The classes as `evaluate` and `classify` report them: their names, or their numbers."""
        if not any(self.names):
            return np.arange(self.classes)
        return np.array([word(self.names, k) for k in range(self.classes)])

    def rename(self, names: tuple[str, ...], columns: tuple[str, ...] | None = None) -> None:
        """Set the names of the classes; those of a table's columns stay unless they are given."""
        graph = self.graphs["predict"]
        columns = graph.columns if columns is None else columns
        if (names, columns) == (graph.classes, graph.columns):
            return
        self.graphs["predict"] = replace(graph, classes=names, columns=columns)
        if self.parts:
            self.parts = replace(self.parts, forward=replace(self.parts.forward, classes=names, columns=columns))


def _differs(first: Mapping[str, np.ndarray], state: Mapping[str, np.ndarray]) -> bool:
    return any(not np.array_equal(array, state[name], equal_nan=True) for name, array in first.items())
