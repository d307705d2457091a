"""Learn from one or a few samples at a time: one pass, a constant rate, no trials and nothing held out.

The rates are derived as in rates.py, from gains that are measured on the samples at hand. If one class has more than
its share of them, they are lower: five samples of one class must not make all others look like it. The learner
remembers the gains from call to call, and measures again when it has seen twice as many samples: many small calls learn
like one long pass over all of their samples. `fit` is in settle.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from insitu.data import Samples
from insitu.devices.device import Device, Method, method_of
from insitu.devices.host import HostDevice
from insitu.errors import DataError
from insitu.learner.course import Course
from insitu.learner.far import FAR, Excess, Watched
from insitu.learner.feed import Feed, plain
from insitu.learner.history import History
from insitu.learner.loop import run_epochs
from insitu.learner.pupils import learning, take_over
from insitu.learner.rates import Gains, Probe, Rates, derived, parameters_of, softmax, trained_values
from insitu.learner.settling import resting_share
from insitu.terminal.progress import Report
from insitu.terminal.wording import option
from insitu.training.head import HEAD
from insitu.training.train import BODY_RATE

if TYPE_CHECKING:
    from insitu.learner.learner import Learner

CAREFUL = 1 / 3  # of the derived rates: nothing tests them
SURE = 0.99  # of the right answer: a probe with this label would be lost in rounding
PROBES = 8  # samples to measure gains with, at most
AGAIN = 2  # times as many samples as at the last measurement: then the gains are measured again
LOUD = 1.5  # the spread of a classifier's outputs once it has learned: measured from 1.3 to 3.2 on digits and motion
READY = 1 / 3  # of it: from there on, the body learns too


@dataclass(frozen=True)
class Known:
    """What earlier calls have measured: mean gains, and on how many samples."""

    head: float = 0.0
    body: float = 0.0
    head_probes: int = 0
    body_probes: int = 0  # fewer: through a head of zeros nothing reaches the body
    samples: int = 0  # learned from in all
    measured: int = 0  # of these, at the last measurement

    def with_gains(self, found: Gains, probes: int, samples: int) -> Known:
        """After another measurement with this many probes."""
        head = _mean(self.head, self.head_probes, found.head, probes)
        own = probes if found.body else 0
        body = _mean(self.body, self.body_probes, found.body, own)
        return Known(head, body, self.head_probes + probes, self.body_probes + own, self.samples, samples)


def _mean(before: float, count: int, found: float, more: int) -> float:
    return (before * count + found * more) / max(count + more, 1)


def learn(learner: Learner, data: Samples, rate: float | None, head_rate: float | None, report: Report) -> History:
    """One pass over these samples."""
    feed = _feed(learner, data)
    rates = given_rates(learner, feed.device, rate, head_rate) if rate is not None else _found(learner, feed, head_rate)
    watched = _watched(learner, feed, rates) if rate not in (None, learner.recipe.rate) else None
    if BODY_RATE in feed.device.state():
        feed.device.load_arrays({BODY_RATE: np.array([rates.share], np.float32)})
    course = Course(1, rates.head, _batch(learner, len(feed)), "constant", 0.0, seed=learner.known.samples)
    body = rates.head if rates.body is None else rates.body
    history = History(batch=course.batch, rate=body, head_rate=rates.head)
    try:
        for epoch in run_epochs(feed, course, range(1), report):
            history.add(epoch, learner.recipe.loss)
    finally:
        take_over(learner, feed)
    learner.known = replace(learner.known, samples=learner.known.samples + len(data))
    if watched and watched.tell(feed, learner.recipe.loss):
        learner.told = rates.head
    history.counters = learner.counters()
    return history


def _feed(learner: Learner, data: Samples) -> Feed:
    assert data.labels is not None  # checked by samples()
    feed = Feed(learning(learner), plain(data.inputs), data.labels)
    method = method_of(feed.device.verbs)
    if len(feed) < method.samples:
        raise too_few(len(feed), method)
    return feed


def too_few(count: int, method: Method) -> DataError:
    hint = f"compile with {option(batch=1)}: its statistics are then frozen, and it learns from single samples"
    return DataError(f"this program takes {method.samples} samples at once, not {count}", hint=hint)


def _batch(learner: Learner, count: int) -> int:
    return min(learner.batch, count)


# rates ------------------------------------------------------------------------------------------


def given_rates(learner: Learner, device: Device, rate: float, head_rate: float | None = None) -> Rates:
    """A rate that was given: of all layers, or of the head alone while the others rest."""
    if BODY_RATE not in device.state():
        return Rates(rate if head_rate is None else head_rate)
    return Rates(rate, rate * resting_share(learner, device)) if head_rate is None else Rates(head_rate, rate)


def _found(learner: Learner, feed: Feed, head_rate: float | None) -> Rates:
    """The rates for one pass over these samples and no others: much lower if most are of one class."""
    less = 1 / one_sided(feed.labels, learner.classes)
    found = derived_rates(learner, feed).times(less, less)
    return found if head_rate is None else replace(found, head=head_rate)


def derived_rates(learner: Learner, feed: Feed) -> Rates:
    """The rates for these samples on this device, from everything that is known.

    Gains are measured if there are many new samples since the last measurement.
    """
    learner.known = _measured(learner, feed, learner.known)
    return _rates_by(learner, feed, learner.known)


def _measured(learner: Learner, feed: Feed, known: Known) -> Known:
    """What is known, with the gains of these samples if there are enough new ones."""
    samples = learner.known.samples + len(feed)
    return known.with_gains(*_gains(learner, feed), samples) if samples >= AGAIN * known.measured else known


def _rates_by(learner: Learner, feed: Feed, known: Known) -> Rates:
    """The rates that follow from these gains."""
    both = BODY_RATE in feed.device.state()
    gains = Gains(max(known.head, least_gain(learner)), known.body if both else 0.0)
    rates = derived(gains, learner.recipe, _has_head(learner))
    rates = replace(rates.times(CAREFUL, CAREFUL), body=CAREFUL * (rates.body or 0.0) if both else None)
    return rates if resting_share(learner, feed.device) else rates.alone  # nothing is tried here


def _watched(learner: Learner, feed: Feed, rates: Rates) -> Watched | None:
    """Samples to watch, if these rates are far above the derived ones. Gains are measured beside what is known, so that
    nothing else changes; not on a board, where this takes longer than the training."""
    if not isinstance(feed.device, HostDevice) or rates.head <= learner.told:
        return None
    learner.beside = _measured(learner, feed, learner.beside)
    excess = Excess.of(rates, _rates_by(learner, feed, learner.beside))
    return Watched.of(excess, feed, learner.recipe.loss) if excess.times > FAR else None


def least_gain(learner: Learner) -> float:
    """The gain of a classifier's head is |f|^2 + 1. Samples that it is sure of move no weight, and would show none."""
    known = {v.name for v in _parameters(learner)}
    return 1.0 if f"{HEAD}.bias" in known and learner.recipe.loss == "cross_entropy" else 0.0


def one_sided(labels: np.ndarray, classes: int) -> float:
    """How many times its share the commonest class has, if that is more than one sample; 1 for targets.

    The square of it for samples of one or two classes only: nothing in them holds the others.
    """
    if labels.ndim > 1 or labels.dtype.kind == "f":
        return 1.0
    counts = np.bincount(labels)
    times = max(1.0, counts.max() / max(1.0, len(labels) / classes))
    return float(times**2 if np.count_nonzero(counts) <= 2 else times)


def _gains(learner: Learner, feed: Feed) -> tuple[Gains, int]:
    """The gains over some of the samples, and how many these are."""
    count = method_of(feed.device.verbs).samples
    probes = min(PROBES, len(feed) // count)
    groups = np.random.default_rng(learner.known.samples).permutation(len(feed))[: probes * count].reshape(-1, count)
    labels = doubted(feed, groups.reshape(-1), learner.recipe.loss)
    samples = [(*(r[g, 0] for r in feed.source.rows), labels[g]) for g in groups]
    state: Mapping[str, np.ndarray] = dict(feed.device.state())
    recipe = learner.recipe
    found = Probe(feed.device, _parameters(learner), recipe.loss, recipe.smoothing).gains(state, samples)
    more = _to_come(feed, groups.reshape(-1), recipe.loss) if found.body else 0.0
    return Gains(found.head, found.body * more), probes


def doubted(feed: Feed, chosen: np.ndarray, loss: str) -> np.ndarray:
    """The labels to probe with: for samples that the network is sure of, its least likely class.

    Such samples move nothing and would show no gain; the gain does not depend on the label that it is measured with.
    """
    if loss != "cross_entropy" or feed.labels.ndim > 1:
        return feed.labels
    out = np.asarray(feed.device.run("predict", *(r[chosen, 0] for r in feed.source.rows))[0], np.float64)
    rows, labels = out.reshape(len(chosen), -1), feed.labels.copy()
    sure = softmax(rows)[np.arange(len(rows)), labels[chosen]] > SURE
    labels[chosen[sure]] = rows[sure].argmin(1)
    return labels


def _to_come(feed: Feed, chosen: np.ndarray, loss: str) -> float:
    """How much larger the body's gain will be once the head has learned: it grows with the square of the outputs.

    0 as long as the head has hardly learned: the layers before it wait.
    """
    out = np.asarray(feed.device.run("predict", *(r[chosen, 0] for r in feed.source.rows))[0], np.float64)
    wanted = _square(feed.labels[chosen]) if loss == "mse" else LOUD**2
    share = _square(out) / max(wanted, 1e-30)
    return 0.0 if share < READY**2 else max(1.0, 1 / share)


def _square(outputs: np.ndarray) -> float:
    """The mean square of outputs, of several classes around their mean."""
    rows = outputs.reshape(len(outputs), -1)
    return float(np.square(rows - rows.mean(1, keepdims=True) if rows.shape[1] > 1 else rows).mean())


def _parameters(learner: Learner):
    if learner.site.manifest is None:
        return trained_values(learner.graphs)
    state = learner.site.manifest.interface.state
    return parameters_of(state.fields if state else ())


def _has_head(learner: Learner) -> bool:
    return any(v.name.startswith(f"{HEAD}.") for v in _parameters(learner))
