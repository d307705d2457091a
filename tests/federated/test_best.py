"""A fleet whose rounds do harm on the devices' tests goes back to the model that these speak for."""

from __future__ import annotations

import copy
import itertools
from functools import cache

import numpy as np
import pytest

from insitu.federated.best import MOST, Verdict, compared, does_harm, together
from insitu.federated.checks import Limits
from insitu.federated.handout import base_of
from insitu.federated.member import Member, Task
from insitu.federated.privacy import Noise
from insitu.federated.rounds import Fleet
from tests.federated.fleet import CLASSES, fresh, members, samples

pytest.importorskip("flwr", reason='flwr is not installed: pip install "insitu[flower]"')

from flwr.serverapp.strategy import FedAvg, FedMedian

from insitu.federated.app import client_app, run_rounds
from insitu.federated.outcome import outcome_of, with_model
from insitu.federated.strategy import RECORD, Deltas
from insitu.reports.fleet import fleet_page
from insitu.reports.fleet_text import told
from tests.federated.test_rounds import SETTINGS, Here, everyone

TEST = samples(80, 8)
STRONG = {"epochs": 4, "rate": 0.05}
Data = list[tuple[np.ndarray, np.ndarray]]


def wrong(data: Data) -> Data:
    """Labels that have nothing to do with the samples."""
    rng = np.random.default_rng(0)
    return [(x, rng.integers(0, CLASSES, len(y))) for x, y in data]


def taught():
    """A learner that knows its task."""
    return copy.deepcopy(_taught())


@cache
def _taught():
    learner = fresh()
    learner.fit(*samples(200, 5), epochs=20, rate=0.02)
    return learner


class Fed(Here):
    """Devices with tests, whose samples may change from round to round."""

    def __init__(self, start, data_of, count: int = 3, test=TEST, **options):
        self.round, self.sent = 0, []

        def app(k: int):
            return client_app(lambda _: Member(start(), *data_of(self.round)[k], test=test, **options))

        super().__init__([app(k) for k in range(count)])

    def answer(self, message):
        about = dict(message.content.config_records[RECORD])
        self.round = int(about.get("server-round", 0)) if message.metadata.message_type == "train" else self.round
        self.sent.append(about)
        return super().answer(message)


def rounds_of(grid, learner, count: int = 3, path=None, own=0, kind=FedAvg, settings=SETTINGS, **options) -> Deltas:
    made = Deltas(everyone(kind, len(grid.apps)), [learner], **options)
    run_rounds(made, grid, count, settings, path, 60, own=own)
    return made


def accuracy(learner, strategy: Deltas) -> float:
    return with_model(learner, strategy).evaluate(*TEST)["accuracy"]


def test_a_fleet_whose_rounds_do_harm_ends_with_the_model_that_it_began_with():
    start, spoiled = taught(), wrong(members(3))
    found = rounds_of(Fed(taught, lambda r: spoiled), start)
    last = rounds_of(Fed(taught, lambda r: spoiled), start, keep_last=True)
    assert found.undone["round"] == 0 and not last.undone
    before = start.evaluate(*TEST)["accuracy"]
    assert accuracy(start, last) < before - 0.1 and abs(accuracy(start, found) - before) < 0.02
    assert found.scored[3] != found.undone["scores"] == last.scored[3]
    about = outcome_of(found)
    words = "tests speak for the model that the fleet began with"
    assert words in told(about) and words in fleet_page(about)


def test_rounds_that_help_are_kept():
    found = rounds_of(Fed(fresh, lambda r: members(3)), fresh())
    assert not found.undone and found.best is not None and found.best.round > 0
    plain = Fleet([Member(fresh(), *d) for d in members(3)])
    for number in (1, 2, 3):
        plain.round(Task(epochs=2, rate=0.02, seed=1000 * number))
    for name, a in plain.arrays.items():
        np.testing.assert_allclose(found.first[name], a, rtol=1e-4, atol=2e-5 * np.abs(a).max(), err_msg=name)


def test_the_model_of_a_round_in_between_is_taken_back():
    """Two rounds help; then the devices' sensors break."""
    good, bad = members(3, 64), wrong(members(3, 64))
    found = rounds_of(Fed(fresh, lambda r: good if r < 3 else bad), fresh(), 4, settings=STRONG)
    after = rounds_of(Fed(fresh, lambda r: good), fresh(), 2, settings=STRONG)
    assert found.undone["round"] == 2
    assert abs(accuracy(fresh(), found) - accuracy(fresh(), after)) < 0.03  # as it was handed out, in fewer bits


def test_devices_hear_of_it_and_the_last_message_comes_once():
    for own, start in itertools.product((0, 2), (taught, fresh)):
        spoiled = wrong(members(3)) if start is taught else members(3)
        grid = Fed(start, lambda r, s=spoiled: s)
        rounds_of(grid, start(), own=own)
        assert [m.get("over", 0) for m in grid.sent[-3:]] == [1, 1, 1] and sum("over" in m for m in grid.sent) == 3
        assert sum("back" in m for m in grid.sent) == (3 if start is taught else 0)


@pytest.mark.parametrize("options", [{"test": None}, {"personal": ("head",)}], ids=["learned from", "personal"])
def test_devices_that_cannot_tell_say_nothing(options):
    spoiled = wrong(members(3))
    shared = {k: v for k, v in options.items() if k == "personal"}
    found = rounds_of(Fed(taught, lambda r: spoiled, **options), taught(), **shared)
    assert found.best is None and not found.undone


def test_devices_with_noise_say_nothing_while_they_learn():
    """Every word about their samples counts; evaluations tell how good the first and the last model are."""
    spoiled, noise = wrong(members(3)), Noise(0.01, 5.0, "local")
    found = rounds_of(Fed(taught, lambda r: spoiled, noise=noise), taught(), noise=noise)
    assert found.best is not None and found.best.round == 0 and found.undone["round"] == 0


def test_a_server_that_dies_at_any_answer_goes_back_to_the_same_model(tmp_path):
    good, bad = members(3, 64), wrong(members(3, 64))

    class Killed(BaseException):
        pass

    class Dying(Fed):
        moment = -1

        def answer(self, message):
            reply = super().answer(message)
            self.moment -= 1
            if self.moment == -1:
                raise Killed
            return reply

    def grid() -> Dying:
        return Dying(fresh, lambda r: good if r < 2 else bad)

    wanted = rounds_of(grid(), fresh(), settings=STRONG)
    assert wanted.undone["round"] == 1
    for moment in (1, 4, 8, 9, 13, 16):
        fleet, path = grid(), tmp_path / str(moment)
        fleet.moment = moment
        with pytest.raises(Killed):
            rounds_of(fleet, fresh(), path=path, settings=STRONG)
        found = rounds_of(fleet, fresh(), path=path, settings=STRONG)
        assert found.undone["round"] == 1, moment
        assert all(found.first[n].tobytes() == a.tobytes() for n, a in wanted.first.items())


def test_what_was_noted_survives_a_new_process():
    member = Member(taught(), *wrong(members(1))[0], test=TEST)
    fleet = Fleet([member])
    first = base_of(fleet.arrays, fleet.catalogue)
    assert member.judge(first.packed, fleet.catalogue, b"") == Verdict(0.0, 0.0, len(TEST[1]))
    fleet.round(Task(epochs=4, rate=0.05))
    after = base_of(fleet.arrays, fleet.catalogue).packed
    anew = Member(taught(), *member.data, test=TEST)
    anew.keep(member.kept())
    found = [m.judge(after, fleet.catalogue, first.id) for m in (member, anew)]
    assert found[0] == found[1] and found[0] is not None and found[0].gain < -found[0].error < 0
    assert Member(taught(), *member.data, test=TEST).judge(after, fleet.catalogue, first.id) is None  # it joined later


# liars ------------------------------------------------------------------------------------------


def test_one_device_among_five_cannot_undo_or_keep_what_the_others_see():
    better, worse = ([Verdict(sign * 0.2, 0.05, 20)] * 4 for sign in (1, -1))
    for robust, count in itertools.product((False, True), (1, 1_000_000)):
        assert not does_harm([*better, Verdict(-MOST, 0.0, count)], Limits(), robust)
        assert does_harm([*worse, Verdict(0.0, MOST, count)], Limits(), robust)


@pytest.mark.parametrize("said", [{"gain": float("nan")}, {"gain-error": -1.0}, {"gain-tests": 0}, {"gain": "much"},
                                  {"gain": 1e300}, {"gain-tests": 1e300}])  # fmt: skip
def test_words_that_cannot_be_true_cost_a_device_its_round(said):
    grid = Fed(fresh, lambda r: members(3))

    def spoil(message, node, reply):
        if node == 1 and message.metadata.message_type == "train":
            reply.content.config_records[RECORD].update({"gain": 0.0, "gain-error": 0.0, "gain-tests": 60, **said})
        return reply

    grid.spoil = spoil
    found = rounds_of(grid, fresh(), 1)
    assert [d.node for d in found.dropped] == [1] and "gain" in found.dropped[0].why


def test_a_strategy_that_expects_liars_asks_the_median_device():
    grid = Fed(fresh, lambda r: members(3))

    def spoil(message, node, reply):
        if node == 1 and message.metadata.message_type == "evaluate" and message.metadata.group_id == "3":
            next(iter(reply.content.metric_records.values())).update({"gain": -1e5, "gain-error": 0.0})
        return reply

    grid.spoil = spoil
    assert not rounds_of(grid, fresh(), kind=FedMedian).undone


# numbers ----------------------------------------------------------------------------------------


def test_differences_are_taken_test_by_test():
    hard = np.linspace(0, 5, 40)
    found = compared(hard - 0.1, hard)  # tests differ far more than the models
    assert found.gain == pytest.approx(0.1) and found.error < 1e-9
    assert compared(np.array([1.0]), np.array([2.0])) == Verdict(1.0, 1.0, 1)  # a single test decides nothing
    assert compared(np.full(3, np.inf), np.ones(3)) == Verdict(-MOST, 0.0, 3)
    assert compared(np.full(3, np.inf), np.full(3, np.inf)).gain == 0
    assert together([], Limits()) == (0.0, 0.0) and not does_harm([], Limits())
