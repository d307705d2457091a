"""What training each part of a network brings, measured: short trainings on some of the samples, tested on others.

First the head learns. From there, the same short training is run once with the head alone, and once with each part:
the last 1, 2, 4, ... biases, and an eighth, a quarter, a half and all of the weight of each layer. The gain of a part
is how much less the held-out samples cost than with the head alone, in hundredths: a sample costs its loss, and 1 if it
is a mistake. Mistakes alone would be too few to count. The layers before the middle of a large network stay frozen, and
their outputs are computed once; they are not offered.

The order is: biases, whole weights, then their shares. How many are measured follows from the work of a training,
counted in multiply-adds, so that every machine finds the same; with a limit in seconds, this machine decides. What is
missing is filled in from what was measured. Every result is kept in a file at once, in the cache if nobody names
another, so that an interrupted measurement goes on. Nothing here chooses (schemes/search.py, schemes/ladder.py).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path

import numpy as np

from insitu.data import Samples
from insitu.deploy.auto import step_macs
from insitu.devices.host import open_plans
from insitu.errors import DataError
from insitu.files import cache_folder, write_whole
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

WORK = 2_400_000_000_000  # multiply-adds for everything: a few minutes
MAKING = 10_000_000_000  # multiply-adds that making the program of a training counts as: about a second
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
    def everything(self) -> dict[str, Graph]:
        """The program that trains all that is measured."""
        whole = tuple(Update(layer.name, True, Fraction(1)) for layer in self.late)
        return replace(self.parts, scheme=Scheme("all", whole)).graphs()

    @cached_property
    def cut(self):
        """The frozen layers that no part trains; None if all are measured."""
        return split(self.everything, self.everything["predict"].inputs)

    @property
    def affordable(self) -> int:
        """The trainings that WORK pays for, if each took as long as one of everything."""
        return max(1, WORK // (UPDATES * step_macs(self.everything) + MAKING))

    @cached_property
    def key(self) -> str:
        """What a result depends on: network, recipe, samples, seed."""
        data, parts = self.data, self.parts
        arrays = (*data.inputs, *([] if data.labels is None else [data.labels]), *parts.forward.constants.values())
        about = f"{parts.recipe} {parts.batch} {parts.at_once} {self.seed} {UPDATES} {LEAD}"
        return key_of(str(parts.forward), about, *(np.ascontiguousarray(a).tobytes() for a in arrays))

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
    """Results by name, in a file; results of another network, data or seed are not used."""

    key: str
    path: Path
    costs: dict[str, float]

    @staticmethod
    def of(measuring: Measuring, path: Path | None) -> Kept:
        """In this file, or in the cache."""
        place = path or cache_folder() / "measured" / f"{measuring.key}.json"
        found = _read(place)
        return Kept(measuring.key, place, found["costs"] if found.get("key") == measuring.key else {})

    def cost(self, name: str, measure: Callable[[], float]) -> float:
        if name not in self.costs:
            self.costs[name] = measure()
            self.path.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps({"key": self.key, "costs": self.costs}, indent=1)
            write_whole(self.path, f"{text}\n".encode())
        return self.costs[name]


def _read(path: Path) -> dict:
    try:
        found = json.loads(path.read_text()) if path.is_file() else {}
        costs = found.get("costs") if isinstance(found, dict) else None
        return found if isinstance(costs, dict) and all(type(c) is float for c in costs.values()) else {}
    except (OSError, ValueError):
        return {}


def measure(parts: Parts, layers: list[Layer], data: Samples, *, seconds: float | None = None, path: Path | None = None,
            seed: int = 0, report: Report = lambda words, done, total: None) -> Contribution:  # fmt: skip
    """The measured table of these layers: of as many parts as WORK pays for; or, with `seconds`, of all that were kept
    and that this machine can measure in that time (and one run more)."""
    if data.labels is None:
        raise DataError("measuring what a layer brings needs labelled samples", hint="give each sample its class")
    measuring, began = Measuring(parts, layers, data, seed, report), time.monotonic()
    kept, wanted = Kept.of(measuring, path), parts_of(measuring.late)
    wanted = wanted[: measuring.affordable] if seconds is None else wanted
    alone, gains = kept.cost(HEAD.name, lambda: measuring.cost(HEAD)), {}
    for done, part in enumerate(wanted):
        if str(part) not in kept.costs and seconds is not None and time.monotonic() - began > seconds:
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
