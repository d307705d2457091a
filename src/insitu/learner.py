"""A model that learns: fit, evaluate, predict, add_class, save, load, on a device.

The compiled program does the work; this file feeds it. Where the first layers are frozen their outputs are
computed once a sample (or once a view of it) and training starts from them: the same bytes, a fraction of
the time. Random choices come from (seed, epoch, sample), never from what happened before, so that a run that
was interrupted continues as if it had not been.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import cos, pi
from pathlib import Path

import numpy as np

from insitu.checks import number, optional, whole
from insitu.data import Samples, as_samples, check_labels
from insitu.devices.host import HostDevice, open_plans
from insitu.errors import DataError, GraphError
from insitu.feed import Augment, Crew, Feed, run_many, usual_threads
from insitu.graph import Graph
from insitu.measures import MEASURES
from insitu.ops.update import COUNTERS
from insitu.planner import Plan, plan
from insitu.progress import Report, bar
from insitu.training.head import widen_head
from insitu.training.prefix import Split, split
from insitu.training.scheme import Scheme
from insitu.training.train import LOSSES, Recipe, train_graphs

STEPS_A_REPORT = 256


@dataclass(frozen=True, eq=False)
class Parts:
    """What the training graphs were made of: what is needed to make them again with one class more."""

    forward: Graph
    scheme: Scheme
    recipe: Recipe = field(default_factory=Recipe)
    batch: int = 1  # samples an update
    at_once: bool = False  # they go through the network together, for statistics over the batch
    head: str | None = "head"

    def graphs(self) -> dict[str, Graph]:
        together = self.batch if self.at_once else 1
        one_by_one = self.batch > 1 and not self.at_once
        return train_graphs(
            self.forward, self.scheme, self.recipe, accumulate=one_by_one, samples=together, head=self.head
        )


@dataclass
class History:
    """What happened in `fit`, an entry an epoch."""

    loss: list[float] = field(default_factory=list)
    accuracy: list[float] = field(default_factory=list)  # of each sample just before it was learned from
    error: list[float] = field(default_factory=list)  # the same for the loss mse, which has no accuracy
    validation: list[float] = field(default_factory=list)  # of the samples held out: that, too
    counters: dict[str, int] = field(default_factory=dict)
    cached: bool = False  # did training start from the cached outputs of the frozen layers?
    threads: int = 1

    def __str__(self) -> str:
        way = "from cached outputs of the frozen layers" if self.cached else "through all layers"
        ends = f"loss {self.loss[0]:.3f} to {self.loss[-1]:.3f}" if self.loss else "nothing done"
        return f"{len(self.loss)} epochs {way}: {ends}"


def cosine(step: int, steps: int, warmup: int) -> float:
    """A rise over `warmup` steps, then half a cosine down to zero."""
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + cos(pi * (step - warmup) / max(1, steps - warmup)))


SCHEDULES: dict[str, Callable[[int, int, int], float]] = {"constant": lambda step, steps, warmup: 1.0, "cosine": cosine}


@dataclass(frozen=True)
class Course:
    """The settings of one `fit`."""

    epochs: int
    rate: float
    batch: int
    schedule: str
    warmup: float
    seed: int

    def __post_init__(self):
        for name in ("epochs", "batch"):
            whole(getattr(self, name), name, 1)
        whole(self.seed, "seed")
        number(self.rate, "the learning rate")
        number(self.warmup, "the warm-up")
        if self.schedule not in SCHEDULES:
            raise DataError(f"unknown schedule {self.schedule!r}", hint=", ".join(SCHEDULES))

    def order(self, epoch: int, count: int) -> list[int]:
        """In which order the samples come in this epoch."""
        return np.random.default_rng((self.seed, epoch)).permutation(count).tolist()

    def rates(self, epoch: int, count: int) -> list[float]:
        """The learning rate of each update in this epoch."""
        each = -(-count // self.batch)
        warmup, rate = int(self.warmup * count / self.batch), SCHEDULES[self.schedule]
        return [self.rate * rate(epoch * each + i, self.epochs * each, warmup) for i in range(each)]


class Learner:
    """Holds a device with a training program. Made by `insitu.compile`."""

    def __init__(self, graphs: Mapping[str, Graph], plans: Mapping[str, Plan] | None = None,
                 classes: int | None = None, *, parts: Parts | None = None, notes: tuple[str, ...] = (),
                 deployed=None):  # fmt: skip
        self.parts, self.notes = parts, notes
        self.deployed = deployed  # where it was compiled for a board: a Deployment (deploy.py)
        self.recipe = parts.recipe if parts else Recipe()
        self._open(graphs, plans)
        self.classes = classes if classes is not None else self.graphs["predict"].outputs[0].shape[-1]

    def _open(self, graphs: Mapping[str, Graph], plans: Mapping[str, Plan] | None = None) -> None:
        self.graphs = dict(graphs)
        self.plans = dict(plans) if plans else {verb: plan(g) for verb, g in graphs.items()}
        self.device: HostDevice = open_plans(self.plans)
        self._cut: tuple[Split, HostDevice, HostDevice] | None = None

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
        `fit(epochs=9, start_epoch=4)` is the same as `fit(epochs=9)`.
        """
        course = Course(epochs, rate, self._batch(batch), schedule, warmup, seed)
        whole(start_epoch, "start_epoch")
        last = epochs if stop_epoch is None else min(whole(stop_epoch, "stop_epoch"), epochs)
        for name, value in (("threads", threads), ("views", views)):
            optional(value, name, 1)
        data = self.samples(x, y)
        held_out = None if validation is None else self.samples(*pair(validation), part="test")
        with bar(progress) as report:
            feed = self._feed(data, augment, views, cache, seed, report)
            history = History(cached=feed.cached)
            for epoch in range(start_epoch, last):
                self._epoch(feed, data, course, epoch, threads, history, report)
                if feed.cached:  # what was learned on the rest of the network, back to the whole
                    self.device.load_arrays(feed.device.state())
                if held_out is not None:
                    history.validation.append(self._score(held_out)[self.measure])
        history.counters = self.counters()
        return history

    def _batch(self, batch: int | None) -> int:
        made_for = self.parts.batch if self.parts else 1
        if batch is None:
            return made_for
        batch = whole(batch, "batch", 1)
        if batch != made_for and "accumulate" not in self.graphs:
            each = "every sample" if made_for == 1 else f"every {made_for} samples"
            raise DataError(f"this program updates after {each}", hint=f"insitu.compile(..., batch={batch})")
        return batch

    def _epoch(self, feed: Feed, data: Samples, course: Course, epoch: int, threads: int | None, history: History,
               report: Report) -> None:  # fmt: skip
        order, rates = course.order(epoch, len(data)), course.rates(epoch, len(data))
        results = Results(feed.device, data, order)
        if "accumulate" in self.graphs:
            crew = Crew(feed, threads or usual_threads(feed.device))
            history.threads = crew.threads
            results.batches(crew, course.batch, rates, epoch, report)
            crew.close()
        elif course.batch > 1:
            results.together(feed, course.batch, rates, epoch, report)
        else:
            results.steps(feed, rates, epoch, report)
        history.loss.append(results.loss)
        name, measured = MEASURES[self.recipe.loss]
        getattr(history, name).append(results.measured(measured))

    def _feed(self, data: Samples, augment: Augment | None, views: int | None, cache: bool | None, seed: int,
              report: Report) -> Feed:  # fmt: skip
        fixed = augment is None or views is not None
        wanted = cache if cache is not None else fixed
        if wanted and not fixed:
            raise DataError("outputs can be kept of fixed views only", hint="views=16, or cache=False")
        found = self._split() if wanted else None
        rows = tuple(x[:, None] for x in data.inputs)
        if found is None:
            return Feed(self.device, rows, False, augment, views, seed)
        _, prefix, rest = found
        rest.load_arrays(self.device.state())
        source = Feed(prefix, rows, False, augment, views, seed)
        return Feed(rest, run_prefix(source, report), True)

    def _split(self):
        """The program cut where the frozen layers end; None where nothing is frozen."""
        if self._cut is None:
            parts = None if self.parts and self.parts.at_once else split(self.graphs, self.graphs["predict"].inputs)
            if parts is None or not parts.prefix.constants:  # turning or rounding samples is not worth keeping
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
        (out, *_) = run_many(Feed(self.device, tuple(x[:, None] for x in data.inputs)))
        y = data.labels
        assert y is not None  # samples() sees to it
        name, measured = MEASURES[self.recipe.loss]
        return {name: measured(out, y), "samples": len(y)}

    def counters(self) -> dict[str, int]:
        """How often an update was skipped (not finite), clipped, or saturated a weight."""
        count = self.device.state().get("counters", np.zeros(len(COUNTERS), np.int32))
        return dict(zip(COUNTERS, map(int, count)))

    def add_class(self) -> int:
        """Give the head one class more, keeping all that was learned; the new class's number."""
        if self.parts is None or self.parts.head is None:
            raise GraphError("this program has no head that can grow", hint="make it with insitu.compile(...)")
        old, was = self.device.state(), self.classes
        forward = widen_head(self.parts.forward, was + 1)
        self.parts = replace(self.parts, forward=forward)
        self._open(self.parts.graphs())
        new = self.device.state()
        for name, array in old.items():
            new[name][tuple(slice(n) for n in array.shape)] = array
        self.device.load_arrays(new)
        self.classes = was + 1
        return was

    # keeping ----------------------------------------------------------------------------------

    def save(self, path: str | Path) -> Path:
        """Write what was learned; the file appears whole or not at all."""
        path = Path(path)
        temporary = path.with_name(path.name + ".part")
        try:
            with temporary.open("wb") as f:
                f.write(self.device.save_state())
                f.flush()
                os.fsync(f.fileno())
            temporary.replace(path)
        except OSError as e:
            raise DataError(f"cannot be written: {e.strerror or e}", where=str(path)) from e
        return path

    def load(self, path: str | Path) -> None:
        """Take back what was saved. A wrong or damaged file is an error and changes nothing."""
        try:
            data = Path(path).read_bytes()
        except OSError as e:
            raise DataError(f"cannot be read: {e.strerror or e}", where=str(path)) from e
        try:
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


class Results:
    """Runs the updates of one epoch; losses and outputs are written where they can be summed up afterwards."""

    def __init__(self, device: HostDevice, data: Samples, order: list[int]):
        assert data.labels is not None
        self.device, self.order, self.y = device, order, data.labels
        verb = "accumulate" if "accumulate" in device.routines else "train_step"
        loss, *others = device.routines[verb].outputs
        self.losses = np.zeros(len(order), np.float32)
        self.outputs = [np.zeros((len(order), *v.shape[1:]), v.type.numpy) for v in others]
        self._ends = [(o.ctypes.data, v.type.bytes) for o, v in zip((self.losses, *self.outputs), (loss, *others))]
        self._label = self.y.ctypes.data, self.y[0].nbytes

    def steps(self, feed: Feed, rates: list[float], epoch: int, report: Report) -> None:
        """An update a sample. The loop is kept bare: on small models Python would take longer than the C."""
        call, locate, (label, label_bytes) = feed.device.bound("train_step"), feed.locate(), self._label
        (loss, _), *others = self._ends
        for first in range(0, len(self.order), STEPS_A_REPORT):
            for i, n in enumerate(self.order[first : first + STEPS_A_REPORT], first):
                where, _keep = locate(n, epoch)
                ends = [start + i * size for start, size in others]
                call(*where, label + n * label_bytes, rates[i], loss + 4 * i, *ends)
            report(self._words(epoch, first), first, len(self.order))

    def batches(self, crew: Crew, batch: int, rates: list[float], epoch: int, report: Report) -> None:
        apply, (label, label_bytes) = crew.feed.device.bound("apply"), self._label
        for i, first in enumerate(range(0, len(self.order), batch)):
            chosen = self.order[first : first + batch]
            crew.accumulate(
                chosen, epoch, lambda k, f=first: [s + (f + k) * size for s, size in self._ends],
                lambda n: label + n * label_bytes,
            )  # fmt: skip
            apply(rates[i], float(np.float32(1 / len(chosen))))
            report(self._words(epoch, first), first, len(self.order))

    def together(self, feed: Feed, batch: int, rates: list[float], epoch: int, report: Report) -> None:
        """All samples of a batch at once. What is left over at the end of an epoch waits for another one."""
        if len(self.order) < batch:
            raise DataError(f"{len(self.order)} samples do not make a batch of {batch}")
        call, (loss, *others) = feed.device.bound("train_step"), self._ends
        for i, first in enumerate(range(0, len(self.order) - batch + 1, batch)):
            chosen = self.order[first : first + batch]
            inputs, labels = feed.gathered(chosen, epoch), np.ascontiguousarray(self.y[chosen])
            ends = [start + i * size for start, size in others]
            call(*(x.ctypes.data for x in inputs), labels.ctypes.data, rates[i], loss[0] + 4 * first, *ends)
            self.losses[first : first + batch] = self.losses[first]
            report(self._words(epoch, first), first, len(self.order))
        done = len(self.order) // batch * batch
        self.order, self.losses = self.order[:done], self.losses[:done]
        self.outputs = [o[:done] for o in self.outputs]

    def _words(self, epoch: int, first: int) -> str:
        recent = self.losses[max(0, first - 256) : first + 1]
        return f"epoch {epoch + 1}, loss {float(recent.mean()):.3f}"

    @property
    def loss(self) -> float:
        return float(self.losses.mean(dtype=np.float64))

    def measured(self, measure: Callable[[np.ndarray, np.ndarray], float]) -> float:
        """How good the outputs were, just before each sample was learned from."""
        return measure(self.outputs[0], self.y[self.order]) if self.outputs else float("nan")


def run_prefix(source: Feed, report: Report) -> tuple[np.ndarray, ...]:
    """The frozen layers' outputs for every view of every sample: one array an output, [samples, views, ...]."""
    views = source.views if source.augment and source.views else 1
    outputs = run_many(source, views=views, report=lambda done, total: report("frozen layers", done, total))
    return tuple(o.reshape(-1, views, *o.shape[1:]) for o in outputs)


def pair(data):
    """(x, y) from what `validation` may be."""
    return data if isinstance(data, tuple) and len(data) == 2 else (data, None)


def check_width(y, classes: int) -> None:
    """Labels may come as one-hot rows, a column a class."""
    shape = np.shape(y)
    if len(shape) == 2 and shape[1] not in (1, classes):
        raise DataError(f"the labels have {shape[1]} columns, the model has {classes} classes",
                        hint="class numbers, or one-hot rows with a column a class")  # fmt: skip
