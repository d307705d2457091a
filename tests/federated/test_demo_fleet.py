"""The demo's fleet: watches of people whom the network has never seen, and who gain from learning together."""

import copy

import numpy as np
import pytest

from insitu.demo.fleet import FEW, FLEET, MOST, watches
from insitu.errors import DataError
from insitu.federated.handout import base_of
from insitu.federated.member import Member, Task
from insitu.federated.rounds import Fleet

pytest.importorskip("seglearn", reason='seglearn is not installed: pip install "insitu[demo]"')


def test_the_demo_leaves_something_to_learn_and_the_fleet_learns_it():
    learner, devices = watches(10)
    assert len(devices) == 10 and not set(FEW) & set(FLEET)
    fleet = Fleet([Member(copy.deepcopy(learner), *learn, test=test) for learn, test in devices])

    def scores(how=Member.evaluate, **options) -> np.ndarray:
        packed = base_of(fleet.arrays, fleet.catalogue).packed
        return np.array([how(m, packed, fleet.catalogue, **options)["accuracy"] for m in fleet.members])

    before = scores()
    for number in (1, 2):
        fleet.round(Task(epochs=5, seed=1000 * number))
    after, own = scores(), scores(Member.settle, passes=5)
    assert before.mean() < 0.75 and after.mean() > before.mean() + 0.04
    assert own.min() > before.min() + 0.1 and own.mean() > after.mean()  # the worst gains once it goes on by itself
    assert (scores() == after).all()  # which leaves no trace


def test_there_are_as_many_watches_as_asked_for_and_at_most_one_per_recording():
    for count in (1, 8, 13):
        assert len(watches(count)[1]) == count
    with pytest.raises(DataError, match="at most that many watches"):
        watches(MOST + 1)
