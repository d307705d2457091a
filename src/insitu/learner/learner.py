"""A model that learns: fit, evaluate, predict, add_class, save, load, on a device.

The compiled program does the work; this file feeds it. Where the first layers are frozen their outputs are
computed once a sample (or once a view of it) and training starts from them: the same bytes, a fraction of
the time. Random choices come from (seed, epoch, sample), never from what happened before, so that a run that
was interrupted continues as if it had not been.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from threading import RLock

import numpy as np

from insitu.data import Samples, as_samples, check_labels
from insitu.data.arguments import optional, whole
from insitu.deploy import Deployment
from insitu.deploy.budget import check_budget
from insitu.devices.host import HostDevice, open_plans
from insitu.errors import DataError, GraphError
from insitu.files import write_whole
from insitu.graph import Graph
from insitu.learner.course import Course
from insitu.learner.feed import Augment, Feed, Source, plain, predict_all
from insitu.learner.history import History
from insitu.learner.loop import run_epochs
from insitu.learner.measures import MEASURES
from insitu.ops.update import COUNTERS
from insitu.planner import Plan, plan
from insitu.progress import Report, bar, stage
from insitu.training.head import widen_head
from insitu.training.parts import Parts
from insitu.training.prefix import Split, split
from insitu.training.train import LOSSES, Recipe


class Learner:
    """Holds a device with a training program. Made by `insitu.compile`.

    Threads may share one. Predictions run side by side, while it learns, too: then they are those of the last epoch
    that is over. What changes it (fit, load, add_class) waits for its turn.
    """

    def __init__(self, graphs: Mapping[str, Graph], plans: Mapping[str, Plan] | None = None,
                 classes: int | None = None, *, parts: Parts | None = None, notes: tuple[str, ...] = (),
                 deployed: Deployment | None = None):  # fmt: skip
        self.parts, self.notes = parts, notes
        self.deployed = deployed  # where it was compiled for a board
        self.recipe = parts.recipe if parts else Recipe()
        self._changing, self._opening = RLock(), RLock()
        self._open(graphs, plans)
        self.classes = classes if classes is not None else self.graphs["predict"].outputs[0].shape[-1]

    def _open(self, graphs: Mapping[str, Graph], plans: Mapping[str, Plan] | None = None,
              state: Mapping[str, np.ndarray] | None = None) -> None:  # fmt: skip
        """Take these graphs; with what a smaller program has learned, its device is opened now, else when asked for."""
        plans, device = dict(plans) if plans else None, None
        if state:
            plans = plans or plan_here(graphs)
            device = open_here(plans)
            device.load_arrays(grown(state, device.state()))
        self.graphs, self._plans, self._device = dict(graphs), plans, device
        self._trained: HostDevice | None = None  # the twin that learns, where nothing is cached
        self._cut: tuple[Split, HostDevice, HostDevice] | None = None

    @property
    def plans(self) -> dict[str, Plan]:
        """The functions' plans for this machine, made when they are first asked for."""
        with self._opening:
            if self._plans is None:
                self._plans = plan_here(self.graphs)
            return self._plans

    @property
    def device(self) -> HostDevice:
        """Where the program runs; built and opened when it is first asked for."""
        if self._device is None:
            with self._opening:  # one for all threads
                self._device = self._device or open_here(self.plans)
        return self._device

    @property
    def opened(self) -> bool:
        """Has the program run here? Until then it has learned nothing beyond its first state."""
        return self._device is not None

    @property
    def sample(self):
        """The graph's input: what a sample looks like."""
        return self.graphs["predict"].inputs[0]

    def info(self) -> dict[str, int]:
        """Bytes: arena_bytes, arena_lower_bound_bytes, state_bytes, const_bytes."""
        return self.device.info()

    # learning ---------------------------------------------------------------------------------

    def fit(self, x, y=None, *, epochs: int = 1, rate: float = 0.01, batch: int | None = None,
            schedule: str = "cosine", warmup: float = 1.0, augment: Augment | None = None, views: int | None = None,
            cache: bool | None = None, validation=None, seed: int = 0, start_epoch: int = 0,
            stop_epoch: int | None = None, threads: int | None = None,
            progress: Report | None = None) -> History:  # fmt: skip
        """Train on samples x with labels y (targets, for the losses that take them; x itself where y is None).

        `augment(x, rng)` gives a changed copy of a batch of samples; with `views=k` it is applied k times to each
        sample beforehand, which lets the frozen layers' outputs be kept; without `views` it is applied afresh each
        epoch. `warmup` is in epochs, `rate` is the largest learning rate. `fit(epochs=9, stop_epoch=4)`, then
        `fit(epochs=9, start_epoch=4)` is the same as `fit(epochs=9)`. Interrupted, the learner has what it had at the
        end of the last epoch.
        """
        course = Course(epochs, rate, self._batch(batch), schedule, warmup, seed)
        whole(start_epoch, "start_epoch")
        last = epochs if stop_epoch is None else min(whole(stop_epoch, "stop_epoch"), epochs)
        for name, value in (("threads", threads), ("views", views)):
            optional(value, name, 1)
        data = self.samples(x, y)
        held_out = None if validation is None else self.samples(*pair(validation), part="test")
        with self._changing, bar(progress) as report:
            feed = self._feed(data, augment, views, cache, seed, report)
            history = History(cached=feed.cached, batch=course.batch)
            for epoch in run_epochs(feed, course, range(start_epoch, last), report, threads):
                history.add(epoch, self.recipe.loss)
                self._take_over(feed)
                if held_out is not None:
                    history.validation.append(self._score(held_out)[self.measure])
            history.counters = self.counters()
        return history

    def _take_over(self, feed: Feed) -> None:
        """What was learned, on a twin or on the rest of the network, back to the device that predicts."""
        if feed.cached:
            self.device.load_arrays(feed.device.state())
        elif self._trained is not None:
            self.device.follow(self._trained)

    def _batch(self, batch: int | None) -> int:
        made_for = self.parts.batch if self.parts else 1
        if batch is None:
            return made_for
        batch = whole(batch, "batch", 1)
        if batch != made_for and "accumulate" not in self.graphs:
            each = "every sample" if made_for == 1 else f"every {made_for} samples"
            raise DataError(f"this program updates after {each}", hint=f"insitu.compile(..., batch={batch})")
        return batch

    def _feed(self, data: Samples, augment: Augment | None, views: int | None, cache: bool | None, seed: int,
              report: Report) -> Feed:  # fmt: skip
        fixed = augment is None or views is not None
        wanted = cache if cache is not None else fixed
        if wanted and not fixed:
            raise DataError("outputs can be kept of fixed views only", hint="views=16, or cache=False")
        found, labels = self._split() if wanted else None, data.labels
        assert labels is not None  # samples() sees to it
        source = replace(plain(data.inputs), augment=augment, views=views, seed=seed)
        if found is None:
            return Feed(self._twin(), source, labels)
        _, prefix, rest = found
        rest.load_arrays(self.device.state())
        return Feed(rest, Source(predict_all(prefix, source, report, "frozen layers")), labels, cached=True)

    def _twin(self) -> HostDevice:
        """A device to learn on: who predicts meanwhile never meets half an update."""
        self._trained = self._trained or self.device.twin()
        self._trained.follow(self.device)
        return self._trained

    def _split(self):
        """The program cut where the frozen layers end; None where nothing is frozen."""
        if self._cut is None:
            parts = None if self.parts and self.parts.at_once else split(self.graphs, self.graphs["predict"].inputs)
            if parts is None:
                return None
            prefix = open_plans({"predict": plan(parts.prefix)})
            self._cut = parts, prefix, open_plans({verb: plan(g) for verb, g in parts.rest.items()})
        return self._cut

    # using ------------------------------------------------------------------------------------

    def predict(self, *x):
        """The model's outputs (logits) for these samples, from the generated C."""
        return self.device.predict(*x)

    def evaluate(self, x, y=None) -> dict[str, float]:
        """Accuracy over labelled samples; the mean squared error, where that is the loss."""
        return self._score(self.samples(x, y, part="test"))

    def _score(self, data: Samples) -> dict[str, float]:
        out, y = predict_all(self.device, plain(data.inputs))[0][:, 0], data.labels
        assert y is not None  # samples() sees to it
        name, measured = MEASURES[self.recipe.loss]
        return {name: measured(out, y), "samples": len(y)}

    def counters(self) -> dict[str, int]:
        """How often an update was skipped (not finite), clipped, or saturated a weight."""
        found = self.device.counters()
        return {name: found[name] for name in COUNTERS}

    def add_class(self) -> int:
        """Give the head one class more, keeping all that was learned; the new class's number.

        For a board it is linked anew: where it no longer fits, a BudgetError, and nothing has changed.
        """
        if self.parts is None or self.parts.head is None:
            raise GraphError("this program has no head that can grow", hint="make it with insitu.compile(...)")
        with self._changing:
            was = self.classes
            parts = replace(self.parts, forward=widen_head(self.parts.forward, was + 1))
            graphs = parts.graphs()
            deployed = self.deployed and check_budget(parts, graphs, self.deployed.limits)
            self._open(graphs, state=self.device.state())
            self.parts, self.deployed, self.classes = parts, deployed, was + 1
            return was

    # keeping ----------------------------------------------------------------------------------

    def save(self, path: str | Path) -> Path:
        """Write what was learned; the file appears whole or not at all."""
        return write_whole(path, self.device.save_state())

    def load(self, path: str | Path) -> None:
        """Take back what was saved. A wrong or damaged file is an error and changes nothing."""
        try:
            data = Path(path).read_bytes()
        except OSError as e:
            raise DataError(f"cannot be read: {e.strerror or e}", where=str(path)) from e
        try:
            with self._changing:
                self.device.load_state(data)
        except DataError as e:
            hint = "a state goes with the model, scheme and options it was saved with"
            raise DataError(e.what, where=str(path), hint=hint) from e

    # checking ---------------------------------------------------------------------------------

    @property
    def measure(self) -> str:
        """What `evaluate` measures: accuracy, or the error (mean squared) with the loss mse."""
        return MEASURES[self.recipe.loss][0]

    @property
    def _takes_labels(self) -> bool:
        return LOSSES[self.recipe.loss][1] == "labels"

    def samples(self, x, y=None, part: str = "train") -> Samples:
        """Checked samples with labels or targets in the program's own types."""
        graph = self.graphs["predict"]
        if self._takes_labels:
            check_width(pair(x)[1] if y is None else y, graph.outputs[0].shape[-1])
        data = as_samples(x if y is None else (x, y), graph, targets=not self._takes_labels, part=part)
        if self._takes_labels:
            return check_labels(data, graph.outputs[0].shape[-1])
        out = graph.outputs[0]
        y = data.inputs[0] if data.labels is None else data.labels
        if y.size != len(data) * out.type.size // out.shape[0]:
            raise DataError(f"the targets have shape {y.shape}, the model's output is {out.type}")
        if not np.isfinite(y).all():
            raise DataError("a target is not finite")
        y = np.ascontiguousarray(y, np.float32).reshape(-1, *out.shape[1:])
        return Samples(data.inputs, y, data.names)


def plan_here(graphs: Mapping[str, Graph]) -> dict[str, Plan]:
    with stage("planning for this machine"):
        return {verb: plan(g) for verb, g in graphs.items()}


def open_here(plans: Mapping[str, Plan]) -> HostDevice:
    with stage("compiling for this machine"):
        return open_plans(plans)


def grown(old: Mapping[str, np.ndarray], new: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The new arrays with the old ones in their first corner."""
    for name, array in old.items():
        new[name][tuple(slice(n) for n in array.shape)] = array
    return new


def pair(data):
    """(x, y) from what `validation` may be."""
    return data if isinstance(data, tuple) and len(data) == 2 else (data, None)


def check_width(y, classes: int) -> None:
    """Labels may come as one-hot rows, a column a class."""
    shape = np.shape(y)
    if len(shape) == 2 and shape[1] not in (1, classes):
        raise DataError(f"the labels have {shape[1]} columns, the model has {classes} classes",
                        hint="class numbers, or one-hot rows with a column a class")  # fmt: skip
