"""A model that learns: fit, evaluate, predict, add_class, save, load, on any device.

The compiled program does the work; this file feeds it. If the first layers are frozen, their outputs are computed once
per sample (or once per view of it), and training starts from them: the same bytes in a fraction of the time. Random
choices depend on (seed, epoch, sample) and nothing else, so an interrupted run continues as if it had not been
interrupted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from insitu.boards import Board
from insitu.codegen import Program, emit_program
from insitu.data import Samples, as_samples, by_name, check_labels
from insitu.data.arguments import byte_count, number, optional, whole
from insitu.deploy import Deployment, limits_of, starting_from
from insitu.deploy.budget import check_budget
from insitu.devices.device import Device
from insitu.devices.host import HostDevice, open_plans
from insitu.errors import BoardError, DataError, GraphError
from insitu.files import write_whole
from insitu.graph import Graph, Value
from insitu.graph.classes import word
from insitu.learner.classify import Classified, classified
from insitu.learner.feed import Augment, Feed, Source, plain, predict_all, predicted
from insitu.learner.few import Known, learn
from insitu.learner.given import given_samples, kept, one_or_more, pair, read_state
from insitu.learner.here import checked, follow, open_here, plan_here
from insitu.learner.history import History
from insitu.learner.lesson import Lesson
from insitu.learner.measures import MEASURES
from insitu.learner.own_head import LOOKED_AT, named_by_outputs
from insitu.learner.places import HOST, Patience, open_in_folder, open_place
from insitu.learner.rows import few_of_each, ready
from insitu.learner.seen import Seen
from insitu.learner.settle import Given, check_given, given_of
from insitu.learner.settling import settled, trained
from insitu.learner.shown import as_html, as_text, learner_rows
from insitu.learner.site import Site
from insitu.learner.together import STEP, faster_together
from insitu.ops.update import COUNTERS
from insitu.planner import Plan, plan
from insitu.terminal import colour
from insitu.terminal.interrupts import patient
from insitu.terminal.progress import Report, bar, stoppable
from insitu.training.parts import Parts
from insitu.training.prefix import Split, split
from insitu.training.train import Recipe, has_targets

if TYPE_CHECKING:
    import insitu  # stores stand after learners: only their names are used


class Learner:
    """Owns a device with a training program. Made by `insitu.compile`, or by `open_folder` from a board's folder.

    Threads may share a learner. Predictions run side by side, even while it learns: then they are those of the last
    completed epoch. Methods that change it (fit, load, add_class) wait for their turn. On a board, every call waits.
    """

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
        self._numbered = False  # was it said what numbers mean as labels?
        self.lesson: Lesson | None = None  # what `insitu teach` taught it
        self.history: History | None = None  # of the last fit
        self.tests: Samples | None = None  # that it was tested on
        self.lately: Samples | None = None  # a few samples of each class of the last fit: in memory, never saved
        self.seen: Seen = Seen()  # the means of its classes, from its file
        self._life: insitu.Life | None = None  # the samples it keeps
        self._changing, self._opening = RLock(), RLock()
        self._take(graphs, dict(plans) if plans else None, self.site.device)
        self.classes: int = classes if classes is not None else self.graphs["predict"].outputs[0].shape[-1]

    def _take(self, graphs: Mapping[str, Graph], plans: dict[str, Plan] | None, device: Device | None) -> None:
        """From now on this is the program. Without a device, one on this machine is opened on first use."""
        self.graphs: dict[str, Graph] = dict(graphs)
        self._plans, self._device = plans, device
        self._trained: HostDevice | None = None  # the one that learns, if nothing is cached
        self._cut: tuple[Split, HostDevice, HostDevice] | None = None
        self._taken = 1  # samples that those two take at once, by the graphs below
        self._batch_graphs: dict[str, Graph] | None = None

    def become(self, other: Learner) -> None:
        """Take over another learner's program and device."""
        self._take(other.graphs, other._plans, other.device)
        self.parts, self.deployed, self.classes = other.parts, other.deployed, other.classes

    def __repr__(self) -> str:
        return as_text("insitu.Learner", learner_rows(self))

    def _repr_html_(self) -> str:
        return as_html("insitu.Learner", learner_rows(self))

    def __enter__(self) -> Learner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the device; calls that need it are then a DeviceError."""
        self.close_life()
        if self._device is not None:
            self._device.close()

    def close_life(self) -> None:
        """Keep no samples any more; `keep` with the same folder goes on with them."""
        if self._life is not None:
            self._life.close()
            self._life = None

    def on(self, place: str | Device = HOST, *, board: str | Board | None = None, limit: int | None = None,
           timeout: float | None = None, baud: int | None = None, store: int | str | None = None,
           max_classes: int | None = None) -> Learner:  # fmt: skip
        """The same learner on another device: "host", "emulator", "qemu", "process", "serial:PORT", or an open device.

        It starts with everything learned here so far. If nothing was learned yet, the device keeps its own state: a
        board that has learned is not overwritten. Afterwards the two are independent.

        board       the board to link for, if it was compiled without one
        limit       instructions that a request may take on the emulator
        timeout     seconds that it may take elsewhere
        baud        of a serial line, if it is not the one of the board's profile
        store       on a board: bytes ("64K") for samples that it keeps and learns from by itself (docs/living.md)
        max_classes with a store: how many classes it may have in the end
        """
        if store is not None or max_classes is not None:
            return self._living(board, store, max_classes).on(place, limit=limit, timeout=timeout, baud=baud)
        deployed, patience = self._linked(board), Patience(limit, timeout, baud)
        named = place if isinstance(place, str) else ""
        device = self._open_at(named, deployed, patience) if isinstance(place, str) else checked(place, self.graphs)
        site = replace(self.site, device=device, place=named, patience=patience)
        plans = self.plans if named == HOST else self._plans  # planned once for both
        made = Learner(self.graphs, plans, self.classes, parts=self.parts, notes=self.notes, deployed=deployed,
                       site=site)  # fmt: skip
        made.known, made.lesson, made.seen = self.known, self.lesson, self.seen
        try:
            if self.learned:
                made.device.load_state(self.device.save_state())
        except BaseException:
            made.close()
            raise
        return made

    def _linked(self, board: str | Board | None) -> Deployment | None:
        """The program for a board: as compiled, or linked now; it must fit."""
        if board is None:
            return self.deployed
        if self.parts is None:
            raise BoardError("a folder's program is already linked", hint="compile the model for this board")
        return check_budget(self.parts, self.graphs, limits_of(board, None, None))

    def _living(self, board: str | Board | None, store: int | str | None, most: int | None) -> Learner:
        """The same learner with a program for this board that lives there, and starts from what was learned."""
        from insitu.learner.relinked import relinked

        if self.parts is None:
            raise BoardError("a folder's program is already linked", hint="compile the model for this board")
        chosen = board or (self.deployed.limits.board if self.deployed else None)
        return relinked(self, limits_of(chosen, None, None, store=byte_count(store, "store")), most=most)

    def _open_at(self, place: str, deployed: Deployment | None, patience: Patience) -> Device | None:
        """The device of this name; None for this machine, whose device is opened on first use."""
        if self.site.manifest:
            return open_in_folder(self.site.manifest, place, patience)
        return None if place == HOST else open_place(place, deployed, lambda: emit_program(self.plans), patience)

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
        first = {name: value for g in self.graphs.values() for name, value in g.state.items()}
        if not self.opened or not (first or self.site.manifest):
            return False
        state = self.device.state()
        return not first or any(not np.array_equal(v, state[n], equal_nan=True) for n, v in first.items())

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the classes; "" for a class without a name, () if none is known."""
        return self.graphs["predict"].classes

    @property
    def classes_(self) -> np.ndarray:
        """The classes as `evaluate` and `classify` report them: their names, or their numbers."""
        if not any(self.names):
            return np.arange(self.classes)
        return np.array([word(self.names, k) for k in range(self.classes)])

    def _named(self, data: Samples) -> Samples:
        """The samples; the names of their classes are taken over, and those of a table's columns if none are known.

        Outputs that have no names yet get those of the samples that they are already right for.
        """
        graph = self.graphs["predict"]
        if any(data.names) and not any(graph.classes) and len(data):
            some = data.take(np.unique(np.linspace(0, len(data) - 1, LOOKED_AT).astype(int)))
            found = named_by_outputs(predict_all(self.device, plain(some.inputs))[0].reshape(len(some), -1), some)
            if found.names != data.names:
                data = check_labels(by_name(data, found.names), len(found.names))
        self.rename(data.names if any(data.names) else graph.classes, graph.columns or data.columns)
        return data

    def rename(self, names: tuple[str, ...], columns: tuple[str, ...] | None = None) -> None:
        """Set the names of the classes; those of a table's columns stay unless they are given."""
        graph = self.graphs["predict"]
        columns = graph.columns if columns is None else columns
        if (names, columns) == (graph.classes, graph.columns):
            return
        self.graphs["predict"] = replace(graph, classes=names, columns=columns)
        if self.parts:
            self.parts = replace(self.parts, forward=replace(self.parts.forward, classes=names, columns=columns))

    @property
    def sample(self) -> Value:
        """The graph's input: the type of a sample."""
        return self.graphs["predict"].inputs[0]

    def info(self) -> dict[str, int]:
        """Bytes: arena_bytes, arena_lower_bound_bytes, state_bytes, const_bytes."""
        return self.device.info()

    # learning ---------------------------------------------------------------------------------

    def fit(self, x: Any, y: Any = None, *, epochs: int | None = None, rate: float | None = None,
            head_rate: float | None = None, batch: int | None = None, schedule: str | None = None,
            warmup: float | None = None, augment: Augment | None = None, views: int | None = None,
            cache: bool | None = None, validation: Any = None, test: Any = None, seed: int = 0, start_epoch: int = 0,
            stop_epoch: int | None = None, threads: int | None = None, progress: Report | None = None,
            batch_size: int | None = None) -> History:  # fmt: skip
        """Train on samples x with labels y (targets, for losses that take them; x itself if y is None).

        What is not given is found (docs/defaults.md): the rates are measured and tried with some samples held out, the
        epochs follow from the number of samples. If training does not help, a warning says so and nothing changes.

        rate        the largest learning rate; if given, nothing is tried, and every sample is learned from
        head_rate   another rate for the head
        batch       samples per update; also called batch_size
        schedule    "cosine", or "constant"; a rate from a compiled Keras model is constant, without warm-up
        warmup      in epochs; None: a tenth of them, at most one
        validation  samples to choose by instead of a part of x; `test` samples are only measured after each epoch
        augment     `augment(x, rng)` returns a changed copy of a batch of samples. With `views=k` it is applied k times
                    to each sample beforehand, so that the frozen layers' outputs can be kept; else in each epoch

        `fit(epochs=9, rate=r, stop_epoch=4)`, then `fit(epochs=9, rate=r, start_epoch=4)` is the same as
        `fit(epochs=9, rate=r)`. Ctrl-C finishes the updates at hand: the learner keeps them, and KeyboardInterrupt is
        raised. A second Ctrl-C does not wait.
        """
        batch = self._batch(batch if batch_size is None else batch_size)
        given = given_of(self.recipe, epochs, rate, head_rate, warmup, batch, schedule, seed)
        check_given(given, whole(start_epoch, "start_epoch"))
        for name, value, least in (("threads", threads, 1), ("views", views, 1), ("stop_epoch", stop_epoch, 0)):
            optional(value, name, least)
        data = self._named(self.samples(x, y, naming=True))
        held_out, tests = (None if v is None else self.samples(*pair(v), part="test") for v in (validation, test))
        with self._changing, bar(progress) as shown, patient() as check:
            report = stoppable(shown, check)
            ready(self, data)
            feed = self._feed(data, augment, views, cache, given, report)
            found = settled(self, data, feed, given, held_out, report)
            span = range(start_epoch, found.last(stop_epoch))
            try:
                self.history = trained(self, found, span, report, threads, held_out, tests)
                self.tests, self.lately = tests, few_of_each(data)
                return self.history
            except KeyboardInterrupt:
                self._take_over(found.feed)
                raise

    def partial_fit(self, x: Any, y: Any=None, *, rate: float | None = None, head_rate: float | None = None,
                    progress: Report | None = None) -> History:  # fmt: skip
        """Learn from one or a few samples, in one pass: no warm-up, no trials, nothing held out. Also called `learn`.

        The rates are derived from the samples, a third of those that `fit` begins with, and the learner remembers what
        it measured: many calls with few samples learn like one pass over all of them. A class may be given by its name.

        rate, head_rate     instead of the derived ones
        """
        for value, name in ((rate, "the learning rate"), (head_rate, "the head's learning rate")):
            if value is not None:
                number(value, name)
        y = one_or_more(x, y, self.graphs["predict"], self.recipe.loss)
        data = self._named(self.samples(x, y, naming=True))
        with self._changing, bar(progress) as shown, patient() as check:
            ready(self, data)
            return learn(self, data, self.recipe.rate if rate is None else rate, head_rate, stoppable(shown, check))

    learn = partial_fit

    def _take_over(self, feed: Feed) -> None:
        """Copy what was learned, on a twin or on the rest of the network, to the device that predicts."""
        if feed.cached:
            self.device.load_arrays(feed.device.state())
        elif isinstance(self.device, HostDevice) and self._trained is not None:
            follow(self.device, self._trained)

    def _batch(self, batch: int | None) -> int:
        made_for = self.batch
        if batch is None:
            return made_for
        batch = whole(batch, "batch", 1)
        if batch != made_for and "accumulate" not in self.graphs:
            each = "every sample" if made_for == 1 else f"every {made_for} samples"
            if self.site.manifest:
                raise DataError(f"this firmware updates after {each}", hint=f"insitu compile ... --batch {batch}")
            raise DataError(f"this program updates after {each}", hint=f"insitu.compile(..., batch={batch})")
        return batch

    def _feed(self, data: Samples, augment: Augment | None, views: int | None, cache: bool | None, given: Given,
              report: Report) -> Feed:  # fmt: skip
        here, fixed = isinstance(self.device, HostDevice), augment is None or views is not None
        if cache and not here:
            raise DataError("outputs of frozen layers can only be kept on the host", hint="train it there")
        if cache and not fixed:
            raise DataError("outputs can only be kept of fixed views", hint="views=16, or cache=False")
        if here:
            self._take_together(given.batch)
        found, labels = self._split() if here and (fixed if cache is None else cache) else None, data.labels
        assert labels is not None  # checked by samples()
        source = replace(plain(data.inputs), augment=augment, views=views, seed=given.seed)
        if found is None:
            return Feed(self._learning(), source, labels)
        _, prefix, rest = found
        rest.load_arrays(self.device.state())
        return Feed(rest, Source(predict_all(prefix, source, report, "frozen layers")), labels, cached=True)

    def _take_together(self, batch: int) -> None:
        """From now on, programs that learn here take this many samples at once, if they can."""
        if batch == self._taken:
            return
        self._taken, self._trained, self._cut = batch, None, None
        adds_up = "accumulate" in self.graphs
        self._batch_graphs = self.parts.batch_graphs(batch) if self.parts and adds_up else None

    def _learning(self) -> Device:
        """The device to learn on; on this machine another, so that concurrent predictions never see half an update."""
        if not isinstance(self.device, HostDevice):
            return self.device
        if self._trained is None:
            graphs = faster_together(self._batch_graphs or {})
            self._trained = open_here(plan_here(graphs)) if STEP in graphs else self.device.twin()
        follow(self._trained, self.device)
        return self._trained

    def _split(self) -> tuple[Split, HostDevice, HostDevice] | None:
        """The program cut where the frozen layers end; None if nothing is frozen."""
        if self._cut is None:
            graphs = self._batch_graphs or self.graphs
            parts = None if self.parts and self.parts.at_once else split(graphs, graphs["predict"].inputs)
            if parts is None:
                return None
            prefix = open_plans({"predict": plan(parts.prefix)})
            self._cut = parts, prefix, open_plans({verb: plan(g) for verb, g in faster_together(parts.rest).items()})
        return self._cut

    # using ------------------------------------------------------------------------------------

    def predict(self, *x: Any) -> Any:
        """The model's outputs (logits) for these samples, from the generated C: [samples, ...], also of one sample."""
        return predicted(self.device, self.graphs["predict"], x)

    def classify(self, x: Any, *, top: int | None = None) -> list[Classified]:
        """For each sample its classes with their probabilities, the likeliest first; `top` of them, or all."""
        graph = self.graphs["predict"]
        if has_targets(self.recipe):
            what = f"a learner with the loss {self.recipe.loss} has no classes"
            raise DataError(what, hint="predict(x) gives its outputs")
        data = as_samples(x, graph)
        return classified(graph, predict_all(self.device, plain(data.inputs))[0][:, 0], self.names, top)

    def evaluate(self, x: Any, y: Any = None) -> dict[str, float]:
        """Accuracy over labelled samples; the mean squared error, if that is the loss."""
        data = self.samples(x, y, part="test")
        with bar() as report:
            return self._score(data, report)

    def _score(self, data: Samples, report: Report | None = None) -> dict[str, float]:
        out, y = predict_all(self.device, plain(data.inputs), report)[0][:, 0], data.labels
        assert y is not None  # checked by samples()
        name, measured = MEASURES[self.recipe.loss]
        return {name: measured(out, y), "samples": len(y)}

    def counters(self) -> dict[str, int]:
        """How often an update was skipped (not finite), clipped, or saturated a weight."""
        found = self.device.counters()
        return {name: found[name] for name in COUNTERS}

    def add_class(self, name: str = "") -> int:
        """Add one class to the head, keeping everything learned; returns the new class's number.

        With room for it (`compile(..., max_classes=N)`), nothing is compiled again: the class takes the next free row,
        and takes part from its first samples on. Otherwise the program is made again; for a board, it is linked again,
        and if it no longer fits, this is a BudgetError, and nothing has changed.
        """
        from insitu.learner.growing import add_class

        with self._changing:
            return self._life.add_class(name) if self._life else add_class(self, name)

    # a life of its own ------------------------------------------------------------------------

    def keep(self, path: str | Path | None = None, *, quota: int | str = "64M", count: int | None = None,
             rule: str = "balanced", key: bytes | None = None, raw: bool = False, when: Any = None,
             watts: float = 4.0, covariance: bool = False) -> insitu.Life:  # fmt: skip
        """Keep samples from now on, to learn from them a little at a time: in a folder, or in memory without one.

        If the folder has a life already, it goes on: the learner takes over its state, classes and samples. What is
        kept are outputs of the frozen layers, not the samples themselves. docs/continual.md has examples.

        quota       the largest size of the store's file; `count` is the largest number of samples
        rule        what gives way when it is full: balanced (all classes alike), oldest, informative
        key         16, 24 or 32 bytes: samples and checkpoints are encrypted
        raw         keep the samples themselves as well
        when        may it learn now? A function, or insitu.store.power.When(charging=True, hours=(22, 6))
        watts       what this machine takes while it computes, to estimate energy
        covariance  classes are learned from their means alone, without bouts: follow how features scatter around them
        """
        import insitu  # stores stand after learners, so they are asked for by their public name

        with self._changing:
            if self._life is not None:
                raise DataError("this learner has a life already", hint="learner.close_life() first")
            made = self._life = insitu.Life(self, path, quota=quota, count=count, rule=rule, key=key, raw=raw,
                                            when=when, watts=watts, covariance=covariance)  # fmt: skip
            return made

    @property
    def life(self) -> insitu.Life:
        """The samples it keeps and what it learned from them; in memory if `keep` was not called."""
        return self._life or self.keep()

    def observe(self, x: Any, label: Any = None) -> Any:
        """Keep what the device sees, with a label or without; returns the id of the sample, or a list of ids."""
        return self.life.observe(x, label)

    def label(self, id: int, label: Any) -> bool:
        """Tell the class of an observed sample, by name or number; returns whether the sample is still kept."""
        return self.life.label(id, label)

    def asks(self, n: int = 1) -> list[int]:
        """The ids of the samples whose label would help most."""
        return self.life.asks(n)

    def rehearse(self, steps: int | None = None, *, seconds: float | None = None, energy_mj: float | None = None,
                 rate: float | None = None, partial: bool = False) -> insitu.Rehearsed:  # fmt: skip
        """One bout of learning from the kept samples, new and old; it counts only if the guards are not worse off.

        A bout that is not finished within `seconds` or `energy_mj` (an estimate) goes on with the next call, with the
        same bytes as without the pause. What is not given is found: the rates as in `partial_fit`, the steps from the
        number of samples. With `partial`, it also learns if some class has no samples, and may unlearn it.
        """
        return self.life.rehearse(steps, seconds, energy_mj, rate, partial)

    def drift(self) -> float:
        """How far the samples of now are from the first ones; from about 1 on, labels for them would help."""
        return self.life.drift()

    def statistics(self) -> dict[str, Any]:
        """Samples by class, guards, bouts, rollbacks, drift, bytes."""
        return self.life.statistics()

    def forget(self, name: str | int) -> int:
        """Remove a class, its samples and everything known about it; returns how many samples were dropped."""
        return self.life.forget(name)

    # keeping ----------------------------------------------------------------------------------

    def save(self, path: str | Path) -> Path:
        """Write a file that appears complete or not at all.

        "gesture.insitu" is the whole learner: `insitu.open` continues with it anywhere. "state.bin" is only what was
        learned, for `load` and for a board with exactly this program.
        """
        from insitu.learner.file import save_learner

        if kept(path) == "learner":
            return save_learner(self, path)
        return write_whole(path, self.device.save_state())

    def begin_from(self, state: Mapping[str, np.ndarray]) -> None:
        """Start from these arrays as the learned state. The device is opened when it is needed."""
        self.graphs = starting_from(self.graphs, state)

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickle or a copy is an independent learner on this machine."""
        from insitu.learner.file import learner_bytes, open_learner

        return open_learner, (learner_bytes(self),)

    def load(self, path: str | Path) -> None:
        """Load a saved state. A wrong or damaged file is an error and changes nothing."""
        data = read_state(path)
        try:
            with self._changing:
                self.device.load_state(data)
        except DataError as e:
            from insitu.learner.origin import foreign_state

            raise foreign_state(self.parts, data, e, str(path)) from e

    def write(self, folder: str | Path, *, measure: bool = False) -> list[Path]:
        """Write the C program to a folder, with firmware if it was compiled for a board; returns the files.

        It starts from what was learned. Nothing is planned again; for a board, it is linked again. With `measure`, its
        README says how many instructions each function takes, and what a lower peak costs.
        """
        from insitu.learner.learned import measured_deployment, write

        with self._changing:
            return write(self, folder, measured_deployment(self) if measure else None)

    def report(self, path: str | Path = "report.html", *, test: Any = None) -> Path:
        """Write one self-contained HTML page: does it fit, how accurate is it, how fast, and what to do next.

        It can be written at any time, and shows the last `fit` if there was one. `test` are labelled samples (x, y) to
        measure it on; without them, the test samples of that fit. For a board, instructions are counted if possible.
        """
        import insitu  # reports stand after learners, so they are asked for by their public name

        with self._changing:
            return insitu.reports.write_report(self, path, test=test)

    def export(self, path: str | Path, to: str | None = None, **options: Any) -> Any:
        """Write what was learned for another framework: by suffix .tflite, .mlmodel, .onnx or .pt, or as `to` says.

        `to` is litert, litert-train, coreml, onnx or torch. With precision="float" the file of an int8 learner is
        float. The result says what was written, and how equal it is. docs/exports.md has examples.
        """
        import insitu  # exporters stand after learners, so they are asked for by their public name

        return insitu.export.export(self, path, to=to, **options)

    def instructions(self) -> dict[str, int]:
        """Function -> instructions of one call, counted on an emulated core of the board it was compiled for."""
        from insitu.learner.learned import measured_deployment

        with self._changing:
            return dict(measured_deployment(self, cost=False).counts or {})

    # checking ---------------------------------------------------------------------------------

    @property
    def measure(self) -> str:
        """What `evaluate` measures: accuracy, or the mean squared error with the loss mse."""
        return MEASURES[self.recipe.loss][0]

    def samples(self, x: Any, y: Any = None, part: str = "train", naming: bool = False) -> Samples:
        """Checked samples with labels or targets in the program's own types; labels are matched by name."""
        found = given_samples(self.graphs["predict"], self.recipe.loss, x, y, part, naming)
        if any(self.names) and not found.names and self.measure == "accuracy" and not self._numbered:
            self._numbered = True
            known = ", ".join(f"{k} is {word(self.names, k)}" for k in range(min(self.classes, 4)))
            colour.say(f"note: the labels are numbers, taken as positions: {known}{', ...' * (self.classes > 4)}")
        return found
