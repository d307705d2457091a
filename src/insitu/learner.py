"""A model that learns: fit, evaluate, predict, save, load, on a device.

The compiled program does the work; this file feeds it. Where the first layers are frozen their outputs are
computed once a sample (or once a view of it) and training starts from them: the same bytes, a fraction of
the time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import cos, pi
from pathlib import Path

import numpy as np

from insitu.devices.host import HostDevice, open_plans
from insitu.errors import DataError
from insitu.graph import Graph
from insitu.planner import Plan, plan
from insitu.training.prefix import Split, split


@dataclass
class History:
    """What happened in `fit`, an entry an epoch."""

    loss: list[float] = field(default_factory=list)
    accuracy: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    cached: bool = False


def cosine(step: int, steps: int, warmup: int) -> float:
    """A rise over `warmup` steps, then half a cosine down to zero."""
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + cos(pi * (step - warmup) / max(1, steps - warmup)))


SCHEDULES: dict[str, Callable[[int, int, int], float]] = {"constant": lambda step, steps, warmup: 1.0, "cosine": cosine}


class Learner:
    """Holds a device with a training program. Made by `insitu.compile`."""

    def __init__(
        self, graphs: Mapping[str, Graph], plans: Mapping[str, Plan] | None = None, classes: int | None = None
    ):
        self.graphs = dict(graphs)
        self.plans = dict(plans) if plans else {verb: plan(g) for verb, g in graphs.items()}
        self.classes = classes
        self.device: HostDevice = open_plans(self.plans)
        self._tail: tuple[Split, HostDevice, HostDevice] | None = None

    @property
    def sample(self):
        """The graph's input: what a sample looks like."""
        return self.graphs["predict"].inputs[0]

    def info(self) -> dict[str, int]:
        return self.device.info()

    # learning ---------------------------------------------------------------------------------

    def fit(self, x, y, *, epochs: int = 1, rate: float = 0.01, batch: int = 1, schedule: str = "cosine",
            warmup: float = 1.0, augment: Callable | None = None, views: int | None = None, cache: bool | None = None,
            validation=None, seed: int = 0, progress: Callable | None = None) -> History:  # fmt: skip
        """Train on samples x with labels y (or targets, for an autoencoder).

        `augment(x, rng)` gives a changed copy of a batch of samples; with `views=k` it is applied k times to each
        sample beforehand, which lets the frozen prefix be cached; without `views` it is applied afresh each epoch.
        `warmup` is in epochs. `rate` is the largest learning rate.
        """
        x, y = self._samples(x, y)
        check_rate(rate)
        if batch > 1 and "accumulate" not in self.graphs:
            raise DataError("this program updates after every sample", hint="insitu.compile(..., batch=64)")
        cached = cache if cache is not None else augment is None or views is not None
        feed = self._feed(x, augment, views, cached, seed, progress)
        history = History(cached=feed.tail)
        steps = epochs * -(-len(x) // batch)
        rng = np.random.default_rng(seed)
        for epoch in range(epochs):
            order = rng.permutation(len(x))
            done = epoch * -(-len(x) // batch)
            rates = [rate * SCHEDULES[schedule](s, steps, int(warmup * len(x) / batch)) for s in range(done, steps)]
            losses, hits = self._epoch(feed, order, y, rates, batch, epoch, progress)
            history.loss.append(float(np.mean(losses)))
            history.accuracy.append(hits / len(x))
            if validation is not None:
                feed.give_back(self.device)
                history.validation.append(self.evaluate(*validation)["accuracy"])
                feed.take(self.device)
        feed.give_back(self.device)
        history.counters = self.counters()
        return history

    def _epoch(self, feed: Feed, order, y, rates, batch: int, epoch: int, progress):
        losses, hits = [], 0
        for i, start in enumerate(range(0, len(order), batch)):
            chosen = order[start : start + batch]
            for n in chosen:
                sample = feed.sample(int(n), epoch)
                if batch == 1:
                    loss, out = feed.device.run("train_step", *sample, y[n : n + 1], np.float32(rates[i]))
                else:
                    loss, out = feed.device.run("accumulate", *sample, y[n : n + 1])
                losses.append(float(loss))
                hits += int(y.ndim == 1 and out.reshape(-1).argmax() == y[n])
            if batch > 1:
                feed.device.run("apply", np.float32(rates[i]), np.float32(1 / len(chosen)))
            if progress and i % 64 == 0:
                progress(f"epoch {epoch + 1}: loss {np.mean(losses[-512:]):.3f}", start / len(order))
        return losses, hits

    def _feed(self, x, augment, views, cached: bool, seed: int, progress) -> Feed:
        found = self._split() if cached else None
        if found is None:
            return Feed(self.device, False, self._whole(x, augment, seed))
        _, prefix, tail = found
        tail.load_arrays(self.device.state())
        rows = run_prefix(prefix, x, augment, views, seed, progress)
        return Feed(tail, True, lambda n, epoch: tuple(r[n : n + 1, epoch % r.shape[1]] for r in rows))

    def _whole(self, x, augment, seed: int):
        def sample(n: int, epoch: int):
            one = x[n : n + 1]
            return (one if augment is None else augment(one, np.random.default_rng((seed, epoch, n))),)

        return sample

    def _split(self):
        if self._tail is None:
            parts = split(self.graphs, self.graphs["predict"].inputs)
            if parts is None:
                return None
            prefix = open_plans({"predict": plan(parts.prefix)})
            self._tail = parts, prefix, open_plans({verb: plan(g) for verb, g in parts.rest.items()})
        return self._tail

    # using ------------------------------------------------------------------------------------

    def predict(self, x):
        """The model's outputs for these samples, from the generated C."""
        return self.device.predict(x)

    def evaluate(self, x, y) -> dict[str, float]:
        """Accuracy over labelled samples."""
        x, y = self._samples(x, y)
        out = self.device.run("predict", x)[0]
        return {"accuracy": float((out.reshape(len(x), -1).argmax(1) == y).mean()), "samples": len(x)}

    def counters(self) -> dict[str, int]:
        """How often an update was skipped (not finite), clipped, or saturated a weight."""
        count = self.device.state().get("counters", np.zeros(3, np.int32))
        return dict(zip(("skipped", "clipped", "saturated"), map(int, count)))

    def save(self, path: str | Path) -> Path:
        """Write what was learned; the file appears whole or not at all."""
        path = Path(path)
        temporary = path.with_name(path.name + ".part")
        temporary.write_bytes(self.device.save_state())
        temporary.replace(path)
        return path

    def load(self, path: str | Path) -> None:
        try:
            data = Path(path).read_bytes()
        except OSError as e:
            raise DataError(f"cannot be read: {e.strerror or e}", where=str(path)) from e
        self.device.load_state(data)

    def _samples(self, x, y):
        x, y = np.asarray(x), np.asarray(y)
        if len(x) == 0:
            raise DataError("there are no samples")
        if len(x) != len(y):
            raise DataError(f"{len(x)} samples and {len(y)} labels")
        if x.dtype.kind == "f" and not np.isfinite(x).all():
            bad = int(np.flatnonzero(~np.isfinite(x.reshape(len(x), -1)).all(1))[0])
            raise DataError("holds a number that is not finite", where=f"sample {bad}")
        return x, self._labels(y)

    def _labels(self, y: np.ndarray) -> np.ndarray:
        if y.ndim > 1 or y.dtype.kind == "f":
            return y.astype(np.float32)
        classes = self.graphs["predict"].outputs[0].shape[-1]
        if y.min() < 0 or y.max() >= classes:
            raise DataError(f"labels lie in {y.min()}..{y.max()}, the model has classes 0..{classes - 1}")
        return y.astype(np.int32)


@dataclass(frozen=True)
class Feed:
    """Where training samples come from and which device takes them."""

    device: HostDevice
    tail: bool  # do samples come from the cached prefix?
    sample: Callable[[int, int], tuple]  # (index, epoch) -> inputs

    def give_back(self, device: HostDevice) -> None:
        """The state learned on the tail, back to the whole program."""
        if self.tail:
            device.load_arrays(self.device.state())

    def take(self, device: HostDevice) -> None:
        if self.tail:
            self.device.load_arrays(device.state())


def run_prefix(prefix: HostDevice, x, augment, views: int | None, seed: int, progress) -> list[np.ndarray]:
    """The prefix's outputs for every view of every sample: one array an output, [samples, views, ...]."""
    count = views or 1
    rows = [np.empty((len(x), count, *v.shape[1:]), v.type.numpy) for v in prefix.outputs]
    for n in range(len(x)):
        for k in range(count):
            one = x[n : n + 1]
            if augment is not None:
                one = augment(one, np.random.default_rng((seed, k, n)))
            for row, value in zip(rows, prefix.run("predict", one)):
                row[n, k] = value[0]
        if progress and n % 64 == 0:
            progress("frozen layers, once a view", n / len(x))
    return rows


def check_rate(rate: float) -> None:
    if not np.isfinite(rate) or rate < 0:
        raise DataError(f"a learning rate of {rate} is not a number above zero")
