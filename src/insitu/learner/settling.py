"""Where a learner's settings are found: on its own device here; for a board, on a twin on this machine; for a board
known only by its folder, on the board itself, where rates are measured but nothing is tried.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from insitu.data import Samples
from insitu.devices.device import Device, method_of
from insitu.devices.host import HostDevice
from insitu.learner.asked import Given
from insitu.learner.feed import Feed, Source, plain, predict_all
from insitu.learner.pupils import Views, cut_of, feed_of
from insitu.learner.rates import Probe, parameters_of, trained_values
from insitu.learner.settle import Settled, as_given, as_it_was, only_one, settle
from insitu.learner.solved import solver_of
from insitu.learner.units import units_of
from insitu.planner.changes.looped import macs
from insitu.terminal.progress import Report
from insitu.training.train import BODY_RATE

if TYPE_CHECKING:
    from insitu.learner.learner import Learner


def settled(learner: Learner, data: Samples, feed: Feed, given: Given, held_out: Samples | None,
            report: Report, scaled: bool = True) -> Settled:  # fmt: skip
    """How this fit goes. `scaled`: targets may be learned in other units; who goes on later would not know them."""
    if given.rate is not None:
        return as_given(feed, given, 1.0 if given.head_rate is not None else resting_share(learner, feed.device))
    if held_out is None and only_one(feed):
        return as_it_was(feed, given)
    if isinstance(learner.device, HostDevice):
        return _here(learner, data, feed, given, held_out, report, scaled)
    if learner.site.manifest is None:
        return _on_a_twin(learner, data, feed, given, held_out, report)
    state = learner.site.manifest.interface.state
    probe = Probe(feed.device, parameters_of(state.fields if state else ()), learner.recipe.loss)
    return settle(feed, given, learner.recipe, probe, report, tries=False)


def resting_share(learner: Learner, device: Device) -> float:
    """The share of a given rate for the layers before the head: all of it; if nobody asked to train them, the share
    that a fit has found, at first none."""
    if not (learner.parts and learner.parts.scheme.rests):  # a board's folder does not say
        return 1.0
    return float(device.state().get(BODY_RATE, np.ones(1, np.float32))[0])


def _here(learner: Learner, data: Samples, feed: Feed, given: Given, held_out: Samples | None, report: Report,
          scaled: bool = True) -> Settled:  # fmt: skip
    recipe = learner.recipe
    probe = Probe(feed.device, trained_values(learner.graphs), recipe.loss, recipe.smoothing, _deeper(learner))
    validation = None if held_out is None else _beside(learner, feed, held_out)
    cut = cut_of(learner) if feed.cached else None
    graph = cut.predict if cut else learner.graphs["predict"]
    solver = solver_of(graph, probe.parameters, recipe.loss, feed)
    units = units_of(solver.layer, feed.labels, feed.device.state()) if solver and scaled else None
    if units:
        feed.device.load_arrays(units.into())
        feed, validation = feed.measured_in(units), validation and validation.measured_in(units)
        solver = solver_of(graph, probe.parameters, recipe.loss, feed)
    return settle(feed, given, recipe, probe, report, validation, step_macs=_step_macs(feed.device), solver=solver,
                  inputs=data.inputs)  # fmt: skip


def _deeper(learner: Learner) -> bool:
    """Has the network weights that stay as they are?"""
    return any(array.ndim > 1 for array in learner.graphs["predict"].constants.values())


def _step_macs(device: Device) -> int:
    """The multiply-adds of one sample's share of an update on this machine; some programs take a batch at once."""
    assert isinstance(device, HostDevice)
    method = method_of(device.verbs)
    return sum(map(macs, device.program.plans[method.verb].graph.nodes)) // method.samples


def _beside(learner: Learner, feed: Feed, data: Samples) -> Feed:
    """Other samples, in the form for the same device."""
    assert data.labels is not None  # checked by samples()
    cut, source = cut_of(learner) if feed.cached else None, plain(data.inputs)
    return Feed(feed.device, Source(predict_all(cut.frozen, source)) if cut else source, data.labels, feed.cached)


def _on_a_twin(learner: Learner, data: Samples, feed: Feed, given: Given, held_out: Samples | None,
               report: Report) -> Settled:  # fmt: skip
    """Found on the host, trained on the board; the trials say whether training helps."""
    twin = type(learner)(learner.graphs, None, learner.classes, parts=learner.parts)
    twin.device.load_arrays(learner.device.state())
    views = Views(feed.source.augment, feed.source.views, seed=given.seed)
    ours = feed_of(twin, data, views, given.batch, report)
    found = _here(twin, data, ours, given, held_out, report, scaled=False)
    return found.moved_to(feed)
