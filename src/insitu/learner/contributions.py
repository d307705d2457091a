"""What training each part of a network brings, measured: short trainings on some of the samples, tested on others.

First the head learns. From there, the same short training is run once with the head alone, and once with each part:
the last 1, 2, 4, ... biases, and an eighth, a quarter, a half and all of the weight of each layer. The gain of a part
is how much less the held-out samples cost than with the head alone, in hundredths: a sample costs its loss, and 1 if it
is a mistake. Mistakes alone would be too few to count. The layers before the middle of a large network stay frozen, and
their outputs are computed once; they are not offered.

The order is: biases, whole weights, then their shares. When the time is over, what is missing is filled in from what
was measured. Every result is kept in a file at once, so that an interrupted measurement goes on. Nothing here chooses
(schemes/search.py, schemes/ladder.py).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path

import numpy as np

from insitu.data import Samples
from insitu.devices.host import open_plans
from insitu.errors import DataError
from insitu.files import write_whole
from insitu.graph import Graph
from insitu.learner.course import Course
from insitu.learner.feed import Feed, Source, plain, predict_all
from insitu.learner.held_out import Fold, Score, folds
from insitu.learner.rates import Probe, derived, trained_values
from insitu.learner.trials import Trials, gains_at
from insitu.planner import plan
from insitu.planner.changes.looped import macs
from insitu.schemes.contribution import SHARES, Contribution, Gain
from insitu.schemes.layers import Layer
from insitu.schemes.update import Scheme, Update
from insitu.terminal.progress import Report
from insitu.toolchain.cache import key_of
from insitu.training.parts import Parts
from insitu.training.prefix import split

SECONDS = 240.0  # for everything, unless it is given
LARGE = 4_000_000  # multiply-adds of a prediction: above, only layers from the middle on are measured
UPDATES, LEAD = 800, 1600  # of a short training, and of the head before it
PROBES = 16  # samples to measure gains with
ORDER = (Fraction(1), Fraction(1, 4), Fraction(1, 2), Fraction(1, 8))
HEAD = Scheme("head", ())


@dataclass(frozen=True)
class Part:
    """One training to run: the last so many biases, or a share of a layer's weight."""

    biases: int = 0
    layer: str = ""
    share: Fraction = Fraction(0)

    def __str__(self) -> str:
        return f"bias:{self.biases}" if self.biases else f"{self.layer} {self.share}"

    def scheme(self, layers: list[Layer]) -> Scheme:
        if self.biases:
            return Scheme(str(self), tuple(Update(layer.name) for layer in layers[-self.biases :]))
        return Scheme(str(self), (Update(self.layer, False, self.share),))


def parts_of(layers: list[Layer]) -> list[Part]:
    """What is measured, the most telling first."""
    counts = sorted({min(2**k, len(layers)) for k in range(len(layers).bit_length() + 1)})
    weights = [
        Part(layer=layer.name, share=share)
        for share in ORDER
        for layer in reversed(layers)
        if share == 1 or (layer.channels or 0) * share >= 1
    ]
    return [Part(count) for count in counts if any(layer.bias for layer in layers[-count:])] + weights


@dataclass(frozen=True, eq=False)
class Measuring:
    """A network, the layers in question, and samples to learn and to test."""

    parts: Parts
    layers: list[Layer]
    data: Samples
    seed: int
    report: Report

    @cached_property
    def late(self) -> list[Layer]:
        """The layers that are measured."""
        large = sum(map(macs, self.parts.forward.nodes)) > LARGE
        return self.layers[len(self.layers) // 2 :] if large else self.layers

    @cached_property
    def fold(self) -> Fold:
        assert self.data.labels is not None  # checked by whoever asks
        found = folds(self.data.labels, self.seed)
        if not found:
            raise DataError("too few samples to measure with: three of each class, and twelve in all, are needed")
        return found[0]

    @cached_property
    def cut(self):
        """The frozen layers that no part trains; None if all are measured."""
        everything = Scheme("all", tuple(Update(layer.name, True, Fraction(1)) for layer in self.late))
        graphs = replace(self.parts, scheme=everything).graphs()
        return split(graphs, graphs["predict"].inputs)

    @cached_property
    def rows(self) -> Source:
        """What is learned from: the outputs of the frozen layers, or the samples."""
        source = plain(self.data.inputs)
        if self.cut is None:
            return source
        frozen = open_plans({"predict": plan(self.cut.prefix)})
        return Source(predict_all(frozen, source, self.report, "frozen layers"))

    def trials(self, scheme: Scheme, start: Mapping[str, np.ndarray], updates: int) -> Trials:
        """A short training of this scheme, on this machine."""
        graphs: dict[str, Graph] = replace(self.parts, scheme=scheme).graphs()
        graphs = self.cut.rest_of(graphs) if self.cut else graphs
        device = open_plans({verb: plan(g) for verb, g in graphs.items()})
        device.load_arrays(start)
        assert self.data.labels is not None
        feed, recipe = Feed(device, self.rows, self.data.labels, cached=True), self.parts.recipe
        epochs = max(1, updates // max(1, len(self.fold.learn)))
        course = Course(epochs, 0.0, self.parts.batch, "cosine", min(1.0, 0.1 * epochs), self.seed)
        probe = Probe(device, trained_values(graphs), recipe.loss, recipe.smoothing)
        return Trials(feed, [self.fold], course, recipe, probe, dict(device.state()), self.report, probes=PROBES,
                      samples=updates)  # fmt: skip

    def run(self, trials: Trials) -> Score:
        return trials.run(derived(gains_at(trials, trials.start), trials.recipe, head=True)).end

    @cached_property
    def head(self) -> dict[str, np.ndarray]:
        """The head's state after it learned alone: through a head of zeros nothing reaches the other layers."""
        trials = self.trials(HEAD, {}, LEAD)
        self.run(trials)
        return {k: v for k, v in trials.feed.device.state().items() if k.startswith(f"{self.parts.head}.")}

    def cost(self, scheme: Scheme) -> float:
        """The mean cost of a held-out sample after a short training of this scheme."""
        return self.run(self.trials(scheme, self.head, UPDATES)).cost


@dataclass(eq=False)
class Kept:
    """Results by name, in a file if there is one; results of another network, data or seed are not used."""

    key: str
    path: Path | None
    costs: dict[str, float]

    @staticmethod
    def of(measuring: Measuring, path: Path | None) -> Kept:
        labels = measuring.data.labels
        arrays = (*measuring.data.inputs, labels) if labels is not None else measuring.data.inputs
        about = f"{measuring.parts.recipe} {measuring.seed} {UPDATES} {LEAD}"
        constants = measuring.parts.forward.constants.values()
        key = key_of(str(measuring.parts.forward), about, *(np.ascontiguousarray(a).tobytes() for a in arrays),
                     *(np.ascontiguousarray(a).tobytes() for a in constants))  # fmt: skip
        found = _read(path)
        return Kept(key, path, found["costs"] if found.get("key") == key else {})

    def cost(self, name: str, measure) -> float:
        if name not in self.costs:
            self.costs[name] = measure()
            if self.path:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                text = json.dumps({"key": self.key, "costs": self.costs}, indent=1)
                write_whole(self.path, f"{text}\n".encode())
        return self.costs[name]


def _read(path: Path | None) -> dict:
    try:
        found = json.loads(path.read_text()) if path and path.is_file() else {}
        return found if isinstance(found, dict) and isinstance(found.get("costs"), dict) else {}
    except ValueError:
        return {}


def measure(parts: Parts, layers: list[Layer], data: Samples, *, seconds: float = SECONDS, path: Path | None = None,
            seed: int = 0, report: Report = lambda words, done, total: None) -> Contribution:  # fmt: skip
    """The measured table of these layers, within so many seconds of this machine (and one run more)."""
    if data.labels is None:
        raise DataError("measuring what a layer brings needs labelled samples", hint="give each sample its class")
    measuring = Measuring(parts, layers, data, seed, report)
    kept, began, wanted = Kept.of(measuring, path), time.monotonic(), parts_of(measuring.late)
    alone, gains = kept.cost(HEAD.name, lambda: measuring.cost(HEAD)), {}
    for done, part in enumerate(wanted):
        if str(part) not in kept.costs and time.monotonic() - began > seconds:
            continue
        report(f"measuring {part}", done + 1, len(wanted) + 1)
        gains[part] = 100 * (alone - kept.cost(str(part), lambda p=part: measuring.cost(p.scheme(measuring.late))))
    return Contribution("measured", dict(table(measuring.late, gains)))


# from results to a table ------------------------------------------------------------------------


def table(layers: list[Layer], gains: Mapping[Part, float]) -> Iterator[tuple[str, Gain]]:
    """What each layer's bias and weight bring; what was not measured follows from what was."""
    biases = each_bias(layers, {part.biases: gain for part, gain in gains.items() if part.biases})
    for layer in layers:
        found = {part.share: gain for part, gain in gains.items() if part.layer == layer.name}
        yield layer.name, Gain(biases.get(layer.name, 0.0), filled(found, layer))


def each_bias(layers: list[Layer], found: Mapping[int, float]) -> dict[str, float]:
    """The gain of one more bias: that of the last k, minus that of fewer, in equal parts; never below 0."""
    gains, before, most = {}, 0, 0.0
    for count, gain in sorted(found.items()):
        some = [layer.name for layer in layers[-count : len(layers) - before] if layer.bias]
        gains |= dict.fromkeys(some, max(0.0, gain - most) / max(1, len(some)))
        before, most = count, max(most, gain)
    return gains


def filled(found: Mapping[Fraction, float], layer: Layer) -> dict[Fraction, float]:
    """The gain of each share: more of a weight never brings less, and an unmeasured share its part of the whole."""
    if not found:
        return {}
    top, rising, most = max(found.values()), {}, 0.0
    for share in sorted(s for s in SHARES if s == 1 or (layer.channels or 0) * s >= 1):
        most = max(most, found.get(share, top * float(share) ** 0.5))
        rising[share] = most
    return rising if most > 0 else {}
