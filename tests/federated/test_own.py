"""A device goes on from the fleet's model by itself, and goes back if its test samples say that this did harm."""

from __future__ import annotations

import numpy as np

from insitu.federated.handout import base_of
from insitu.federated.member import KEPT, Member, Task
from insitu.federated.own import ALONE, go_on, start_of
from insitu.federated.rounds import Fleet
from insitu.learner.settle import usual_epochs
from tests.federated.fleet import CLASSES, fresh, samples

TASK = Task(rate=0.02)


def passing(learner, rate: float = 0.02):
    """A pass with this rate, and the sizes of what was learned from."""
    sizes: list[int] = []

    def learn(data, number):
        sizes.append(len(data))
        learner.fit(data, epochs=1, rate=rate, schedule="constant", warmup=0, seed=number)

    return learn, sizes


def test_passes_that_help_are_kept():
    learner, test = fresh(), samples(60, 8)
    learn, sizes = passing(learner)
    tests = learner.samples(*test)
    found = go_on(learner, learner.samples(*samples(48, 3)), learn, passes=6, more=2, test=tests)
    assert found.kept and found.passes == 8 and sizes == [48] * 8
    assert found.fleet is not None and learner.evaluate(*test)["accuracy"] > found.fleet.measure


def test_passes_that_do_harm_leave_the_model_as_it_was():
    learner, (x, y) = fresh(), samples(48, 3)
    learner.fit(x, y, epochs=8, rate=0.02)
    before, known = learner.device.save_state(), learner.known
    wrong = np.random.default_rng(0).integers(0, CLASSES, len(y))  # what is learned has nothing to do with the samples
    learn, _ = passing(learner, 0.2)
    spoiled, tests = learner.samples(x, wrong), learner.samples(*samples(60, 8))
    assert not go_on(learner, spoiled, learn, passes=4, test=tests).kept
    assert learner.device.save_state() == before and learner.known == known


def test_a_device_whom_the_fleet_does_not_suit_keeps_what_it_learns_without_it():
    """The fleet's model has learned nonsense, and few passes do not mend that."""
    learner, (x, y), tests = fresh(), samples(48, 3), samples(60, 8)
    learner.fit(x, y, epochs=8, rate=0.02)
    first = start_of(learner)
    learner.fit(x, np.random.default_rng(0).integers(0, CLASSES, len(y)), epochs=8, rate=0.2)
    learn, sizes = passing(learner)
    test = learner.samples(*tests)
    found = go_on(learner, learner.samples(x, y), learn, passes=2, test=test, first=first)
    assert found.kept == ALONE and len(sizes) == 4 and found.alone is not None
    assert learner.evaluate(*tests)["accuracy"] == found.alone.measure
    assert go_on(learner, learner.samples(x, y), learn, passes=3, first=first).alone is None  # nobody could tell


def test_without_test_samples_a_device_keeps_what_it_learned_and_without_passes_the_fleets_model():
    learner = fresh()
    learn, sizes = passing(learner)
    data, before = learner.samples(*samples(24, 3)), learner.device.save_state()
    assert not go_on(learner, data, learn, passes=0).kept and learner.device.save_state() == before
    found = go_on(learner, data, learn)
    assert found.kept and found.fleet is None and len(sizes) == usual_epochs(24)


def test_a_device_says_whether_its_tests_were_learned_from():
    (x, y), test = samples(40, 3), samples(20, 8)
    fleet = Fleet([Member(fresh(), x, y)])
    packed = base_of(fleet.arrays, fleet.catalogue).packed
    told = [(m.seen, set(m.settle(packed, fleet.catalogue, TASK, passes=2)))
            for m in (Member(fresh(), x, y), Member(fresh(), x, y, test=test))]  # fmt: skip
    assert told == [(seen, {"accuracy", "samples", KEPT}) for seen in (True, False)]
