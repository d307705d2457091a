"""A device goes on from the fleet's model by itself, and keeps that only if samples that it held out speak for it."""

from __future__ import annotations

import numpy as np

from insitu.federated.handout import base_of
from insitu.federated.member import KEPT, Member, Task
from insitu.federated.own import go_on
from insitu.federated.rounds import Fleet
from tests.federated.fleet import CLASSES, fresh, samples

TASK = Task(rate=0.02)


def passing(learner, rate: float = 0.02):
    """A pass with this rate, and the sizes of what was learned from."""
    sizes: list[int] = []

    def learn(data, number):
        sizes.append(len(data))
        learner.fit(data, epochs=1, rate=rate, schedule="constant", warmup=0, seed=number)

    return learn, sizes


def test_passes_that_help_are_kept_and_every_sample_was_held_out_once():
    learner, (x, y) = fresh(), samples(48, 3)
    learn, sizes = passing(learner)
    found = go_on(learner, learner.samples(x, y), learn, passes=6)
    assert found.kept and found.own is not None and found.fleet is not None
    assert found.own.samples == 48 and found.own.cost < found.fleet.cost
    assert sorted(set(sizes)) == [32, 48] and len(sizes) == 4 * 6  # three folds, then all
    assert learner.evaluate(x, y)["accuracy"] > found.fleet.measure


def test_passes_that_do_harm_leave_the_model_as_it_was():
    learner, (x, y) = fresh(), samples(48, 3)
    learner.fit(x, y, epochs=8, rate=0.02)
    before, known = learner.device.save_state(), learner.known
    wrong = np.random.default_rng(0).integers(0, CLASSES, len(y))
    learn, _ = passing(learner, 0.2)
    data = learner.samples(x, y)

    def spoiled(part, number):  # what is learned has nothing to do with the samples
        learn(learner.samples(part.inputs[0], wrong[: len(part)]), number)

    assert not go_on(learner, data, spoiled, passes=4).kept
    assert learner.device.save_state() == before and learner.known == known


def test_too_few_samples_to_hold_any_out_change_nothing():
    learner, (x, y) = fresh(), samples(2, 3)
    before = learner.device.save_state()
    learn, sizes = passing(learner)
    found = go_on(learner, learner.samples(x, y), learn)
    assert not found.kept and found.score is None and not sizes
    assert learner.device.save_state() == before


def test_a_device_without_tests_is_measured_on_samples_while_they_are_held_out():
    """On those that it learned from, every network looks good."""
    x, _ = samples(40, 3)
    y = np.random.default_rng(1).integers(0, CLASSES, 40)  # nothing can be learned from these
    member, fleet = Member(fresh(), x, y), Fleet([Member(fresh(), x, y)])
    packed = base_of(fleet.arrays, fleet.catalogue).packed
    honest = member.settle(packed, fleet.catalogue, TASK, passes=20)
    assert member.seen and honest["samples"] == 40 and honest["accuracy"] < 0.6
    apart = Member(fresh(), x, y, test=(x, y)).settle(packed, fleet.catalogue, TASK, passes=20)
    assert set(apart) == {"accuracy", "samples", KEPT}
