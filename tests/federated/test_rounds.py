"""Rounds: Flower's own strategies on our deltas come to the model of the plain rounds in numpy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from insitu.errors import DataError
from insitu.federated.catalogue import catalogue_in
from insitu.federated.handout import HEAD_BYTES, Handout, OtherBase, base_of, received
from insitu.federated.member import Member, Task
from insitu.federated.rounds import Fleet
from insitu.federated.units import units_of
from tests.federated.fleet import fresh, members, samples

pytest.importorskip("flwr", reason='flwr is not installed: pip install "insitu[flower]"')

from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.app.metadata import Metadata
from flwr.serverapp.strategy import FedAdam, FedAvg, FedAvgM, FedMedian, FedProx, FedTrimmedAvg, Krum, MultiKrum
from flwr.supercore.task_identity import TaskIdentity

from insitu.federated.app import client_app, run_rounds
from insitu.federated.checkpoint import read_checkpoint
from insitu.federated.strategy import DELTA, RECORD, Deltas

SETTINGS = {"epochs": 2, "rate": 0.02}
TASK = Task(epochs=2, rate=0.02)


class Here:
    """A grid of clients in this process: every message goes through the real ClientApp."""

    def __init__(self, apps, spoil=lambda round, node, reply: reply):
        TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
        self.apps, self.spoil = apps, spoil
        self.contexts = [Context(1, k, {"partition-id": k}, RecordDict(), {}) for k in range(len(apps))]
        self.numbers, self.replies = itertools.count(1), {}

    def get_node_ids(self):
        return range(len(self.apps))

    def send_and_receive(self, messages, *, timeout=None):
        return [reply for m in messages if (reply := self.answer(m)) is not None]

    def push_messages(self, messages):
        """For those who look for answers themselves: they are there at once, or never."""
        replies = [self.answer(m) for m in messages]
        names = [r.metadata.reply_to_message_id if r else f"lost-{next(self.numbers)}" for r in replies]
        self.replies.update((n, r) for n, r in zip(names, replies) if r)
        return names

    def pull_messages(self, numbers):
        return [self.replies.pop(n) for n in numbers if n in self.replies]

    def answer(self, message):
        node, kind = message.metadata.dst_node_id, message.metadata.message_type
        about = Metadata(1, str(next(self.numbers)), 0, node, "", "", message.metadata.created_at, 100.0, kind)
        sent = Message(content=message.content, metadata=about)  # type: ignore
        try:
            reply = self.apps[node](sent, self.contexts[node])
        except Exception as e:
            reply = Message(Error(0, str(e)), reply_to=sent)
        return self.spoil(message, node, reply)


def apps(count: int = 4, **options):
    return [client_app(lambda _, d=d: Member(fresh(), *d, **options)) for d in members(count)]


def everyone(kind, count: int = 4, **options):
    return kind(min_train_nodes=count, min_evaluate_nodes=count, min_available_nodes=count, **options)


def rounds_of(strategy, grid, count: int = 3, timeout: float = 60, **options) -> Deltas:
    deltas = Deltas(strategy, [fresh()], **options)
    run_rounds(deltas, grid, count, SETTINGS, None, timeout)
    return deltas


def plain(count: int = 4, rounds: int = 3, **options) -> Fleet:
    fleet = Fleet([Member(fresh(), *d, **options) for d in members(count)])
    for number in range(1, rounds + 1):
        fleet.round(Task(epochs=2, rate=0.02, seed=1000 * number))
    return fleet


@pytest.mark.parametrize("options", [{}, {"coding": "4bit"}, {"coding": "ternary"}, {"personal": ("head",)}])
def test_flowers_average_of_deltas_is_the_plain_average(options):
    shared = {k: v for k, v in options.items() if k == "personal"}
    found, wanted = rounds_of(everyone(FedAvg), Here(apps(**options)), **shared), plain(**options)
    assert not found.dropped and [t.replies for t in found.traffic] == [4, 4, 4]
    for name, a in wanted.arrays.items():
        np.testing.assert_allclose(found.first[name], a, rtol=1e-4, atol=2e-5 * np.abs(a).max(), err_msg=name)


@pytest.mark.parametrize("strategy", [
    everyone(FedProx, proximal_mu=0.1), everyone(FedAdam, eta=0.01), everyone(FedMedian), everyone(FedTrimmedAvg),
    everyone(Krum), everyone(MultiKrum, num_malicious_nodes=1, num_nodes_to_select=2),
], ids=lambda s: type(s).__name__)  # fmt: skip
def test_flowers_other_strategies_learn_as_they_are(strategy):
    found = rounds_of(strategy, Here(apps()))
    assert not found.dropped and found.traffic[-1].loss < found.traffic[0].loss
    assert found.scores is not None and 0 <= found.scores["accuracy"] <= 1  # type: ignore


def test_flowers_own_loop_takes_the_strategy_as_well():
    made = Deltas(everyone(FedAvg), [fresh()])
    made.start(Here(apps()), made.initial_arrays, num_rounds=2, train_config=ConfigRecord(dict(SETTINGS)))  # type: ignore
    assert not made.dropped and [t.replies for t in made.traffic] == [4, 4]
    assert made.traffic[-1].loss < made.traffic[0].loss and set(made.scored) == {1, 2}


def test_learning_together_beats_learning_alone():
    """On samples of a device that took no part."""
    x, y = samples(400, 77, shift=0.2)
    fleet = plain(rounds=6)
    alone = [Member(fresh(), *d) for d in members()]
    for m in alone:
        m.learner.fit(*m.data, epochs=12, rate=0.02)
    together = Member(fresh(), x, y)
    score = together.evaluate(base_of(fleet.arrays, fleet.catalogue).packed, fleet.catalogue)["accuracy"]
    assert score > np.mean([m.learner.evaluate(x, y)["accuracy"] for m in alone])


def test_replies_that_fail_are_dropped_with_the_reason_and_the_round_goes_on():
    def spoil(message, node, reply):
        if message.metadata.message_type != "train":
            return reply
        if node == 0:
            reply.content[RECORD][DELTA] = b"garbage of another kind, long enough to be a header and a CRC"
        if node == 1:
            return Message(Error(1, "out of memory"), reply_to=message_to(node))
        if node == 2:
            return None  # a straggler, or one that was unplugged
        return reply

    found = rounds_of(everyone(FedAvg), Here(apps(), spoil), 2, timeout=1)
    assert [t.replies for t in found.traffic] == [1, 1]
    assert {d.node for d in found.dropped} >= {0} and any("is not a delta" in d.why for d in found.dropped)
    assert any("out of memory" in d.why for d in found.dropped)


def message_to(node: int) -> Message:
    about = Metadata(1, "x", 0, node, "", "", 0.0, 100.0, "train")
    return Message(content=RecordDict(), metadata=about)  # type: ignore


def test_a_round_without_a_good_reply_changes_nothing():
    def spoil(message, node, reply):
        if message.metadata.message_type == "train":
            reply.content[RECORD] = ConfigRecord({DELTA: b""})
        return reply

    found = rounds_of(everyone(FedAvg), Here(apps(), spoil), 1)
    start = Deltas(everyone(FedAvg), [fresh()]).first
    assert len(found.dropped) == 4
    assert all((found.first[name] == a).all() for name, a in start.items())


class Killed(Exception):
    """The server dies here."""


@pytest.mark.parametrize("kind, options", [
    (FedAvg, {}), (FedAdam, {"eta": 0.01}), (FedAvgM, {"server_momentum": 0.9}),
], ids=lambda k: getattr(k, "__name__", ""))  # fmt: skip
def test_a_server_that_was_killed_comes_to_the_same_bytes_as_one_that_was_not(kind, options, tmp_path):
    """It dies in its third round, when devices have answered already; the next one repeats that round."""
    path, wanted = tmp_path / "rounds.npz", rounds_of(everyone(kind, **options), Here(apps()), 4)
    train = itertools.count()

    def die(message, node, reply):
        if message.metadata.message_type == "train" and next(train) == 10:
            raise Killed
        return reply

    grid = Here(apps(), die)
    with pytest.raises(Killed):
        run_rounds(Deltas(everyone(kind, **options), [fresh()]), grid, 4, SETTINGS, path, 60)
    found = Deltas(everyone(kind, **options), [fresh()])
    run_rounds(found, grid, 4, SETTINGS, path, 60)
    assert [t.round for t in found.traffic] == [1, 2, 3, 4]  # the first server's rounds are remembered, not repeated
    assert all(found.first[name].tobytes() == a.tobytes() for name, a in wanted.first.items())
    assert [t.up for t in found.traffic] == [t.up for t in wanted.traffic]


def test_a_server_that_dies_at_any_answer_comes_to_the_same_bytes(tmp_path):
    """Evaluations and the devices' own passes included; devices have personal layers and send few of their numbers."""
    options, moments = {"coding": "ternary", "personal": ("head",)}, 3 * 5  # evaluate, two rounds, evaluate, own

    def rounds(grid, path) -> Deltas:
        made = Deltas(everyone(FedAdam, 3, eta=0.01), [fresh()], personal=("head",), coding="ternary")
        run_rounds(made, grid, 2, SETTINGS, path, 60, own=1)
        return made

    wanted, ends = rounds(Here(apps(3, **options)), None), []
    for moment in range(moments):
        answers, path = itertools.count(), tmp_path / str(moment)

        def die(message, node, reply, answers=answers, moment=moment):
            if next(answers) == moment:
                raise Killed
            return reply

        grid = Here(apps(3, **options), die)
        with pytest.raises(Killed):
            rounds(grid, path)
        found = rounds(grid, path)
        ends.append(all(found.first[n].tobytes() == a.tobytes() for n, a in wanted.first.items()))
        assert [t.up for t in found.traffic] == [t.up for t in wanted.traffic] and not found.dropped
    assert ends == [True] * moments


def test_what_a_strategy_remembers_is_for_the_same_strategy_and_a_changed_option_counts(tmp_path):
    path, grid = tmp_path / "rounds.npz", Here(apps())
    run_rounds(Deltas(everyone(FedAdam, eta=0.01), [fresh()]), grid, 1, SETTINGS, path, 60)
    slower = Deltas(everyone(FedAdam, eta=0.001), [fresh()])
    assert read_checkpoint(path, slower)[0] == 1
    assert slower.strategy.eta == 0.001 and slower.strategy.m_t is not None  # type: ignore
    with pytest.raises(DataError, match="belongs to another strategy"):
        read_checkpoint(path, Deltas(everyone(FedAvg), [fresh()]))


def test_each_tensor_is_averaged_over_those_who_trained_it():
    """Two devices train everything, two only the head: what the first two learned is not diluted."""
    data = members(4)
    fleet = Fleet([Member(fresh("full" if k < 2 else "head"), *d) for k, d in enumerate(data)])
    start = {n: a.copy() for n, a in fleet.arrays.items()}
    fleet.round(TASK)
    two = Fleet([Member(fresh(), *d) for d in data[:2]])
    two.round(TASK)
    body = [n for n in start if not n.startswith("head.")]
    assert body and all(np.abs(fleet.arrays[n] - two.arrays[n]).max() < 1e-6 for n in body)
    assert np.abs(fleet.arrays["head.weight"] - two.arrays["head.weight"]).max() > 1e-4
    assert any(np.abs(fleet.arrays[n] - start[n]).max() > 1e-5 for n in body)


def test_a_base_that_comes_twice_gets_the_same_answer():
    """The first answer was lost on its way: nothing that was not sent is lost, nothing is learned twice."""
    (x, y), options = members(1)[0], {"coding": "ternary", "personal": ("head",)}
    fleet = plain(1, 0, **options)
    packed = base_of(fleet.arrays, fleet.catalogue).packed
    other = base_of({n: a * 1.01 for n, a in fleet.arrays.items()}, fleet.catalogue).packed
    member = Member(fresh(), x, y, **options)
    first, again = (member.train(packed, fleet.catalogue, TASK).delta for _ in range(2))
    once = Member(fresh(), x, y, **options)
    once.train(packed, fleet.catalogue, TASK)
    assert first == again
    assert member.train(other, fleet.catalogue, TASK).delta == once.train(other, fleet.catalogue, TASK).delta


def test_what_a_device_keeps_survives_a_new_process():
    (x, y), options = members(1)[0], {"coding": "ternary", "personal": ("head",)}
    fleet = plain(1, 0, **options)
    packed = base_of(fleet.arrays, fleet.catalogue).packed
    one, two = (Member(fresh(), x, y, **options) for _ in range(2))
    one.train(packed, fleet.catalogue, TASK)
    two.keep(one.kept())
    again = [m.train(packed, fleet.catalogue, TASK).delta for m in (one, two)]
    assert again[0] == again[1]
    with pytest.raises(DataError, match="is damaged"):
        two.keep(one.kept()[:50])


def test_what_a_device_kept_before_an_update_of_insitu_is_still_taken(tmp_path):
    (x, y), path = members(1)[0], tmp_path / "old.npz"
    one, two = (Member(fresh(), x, y, personal=("head",)) for _ in range(2))
    fleet = plain(1, 0, personal=("head",))
    one.train(base_of(fleet.arrays, fleet.catalogue).packed, fleet.catalogue, TASK)
    path.write_bytes(one.kept())
    with np.load(path) as found:
        np.savez(path, **{name: a for name, a in found.items() if name != "told"})
    two.keep(path.read_bytes())
    assert two.asked == one.asked and two.told == "" and all((two._own[n] == a).all() for n, a in one._own.items())


# the model on its way to devices ----------------------------------------------------------------


def test_devices_that_have_the_last_model_get_a_difference_and_come_to_the_same_bytes():
    fleet, rng = plain(1, 0), np.random.default_rng(0)
    handout, held, arrays = Handout(fleet.catalogue, "ternary"), b"", fleet.arrays
    for number in range(4):
        base = handout.next(arrays)
        blob = handout.blob_for(7)
        held = received(blob, held, fleet.catalogue)
        assert held == base.packed and (len(blob) < len(base.packed) / 2) == (number > 0)
        handout.has(7)
        assert received(handout.blob_for(7), held, fleet.catalogue) == held and handout.next(arrays) is base  # the same
        handout.has(7)
        arrays = {n: (a + rng.normal(0, 0.01, a.shape)).astype(np.float32) for n, a in arrays.items()}
    with pytest.raises(OtherBase, match="does not have"):
        handout.next(arrays)
        received(handout.blob_for(7), b"another model", fleet.catalogue)
    assert received(handout.blob_for(7), b"", fleet.catalogue) == handout.base.packed  # nobody knows what it has: whole


def test_what_a_difference_loses_comes_with_the_next_ones():
    fleet, rng = plain(1, 0), np.random.default_rng(0)
    handout = Handout(fleet.catalogue, "4bit")
    goal = {n: (a + rng.normal(0, 0.03, a.shape)).astype(np.float32) for n, a in fleet.arrays.items()}
    handout.next(fleet.arrays)
    far = []
    for _ in range(4):
        handout.source = None  # as if the arrays were new
        base = handout.next(goal)
        far.append(max(float(np.abs(base.arrays[n] - a).max()) for n, a in goal.items()))
    assert far[-1] < 0.05 * far[0] < 0.05 * 0.03


def test_damaged_models_are_refused():
    fleet, rng = plain(1, 0), np.random.default_rng(0)
    handout = Handout(fleet.catalogue)
    held = handout.next(fleet.arrays).packed
    handout.has(1)
    right = handout.next({n: a * np.float32(1.01) for n, a in fleet.arrays.items()}).packed
    blob, refused = handout.blob_for(1), 0
    assert len(blob) < len(held)
    for _ in range(300):
        bad = bytearray(blob)
        bad[rng.integers(len(bad))] ^= 1 << rng.integers(8)
        try:  # a bit that says nothing (padding) may change; whatever is taken is the right model
            assert received(bytes(bad[: rng.integers(len(bad)) if rng.random() < 0.3 else None]), held,
                            fleet.catalogue) == right  # fmt: skip
        except DataError:
            refused += 1
    assert refused > 270


def test_a_device_that_lost_the_model_asks_for_the_whole_one_in_the_same_round(tmp_path):
    """What devices keep is in files here, as it is when each message is a new process."""
    made = [
        client_app(lambda _, d=d: Member(fresh(), *d), memory=lambda c: tmp_path / str(c.node_id)) for d in members()
    ]
    grid = Here(made)
    found = Deltas(everyone(FedAvg), [fresh()])
    run_rounds(found, grid, 2, SETTINGS, None, 60)
    usual = found.traffic[1].down
    (tmp_path / "2").unlink()
    config = ConfigRecord({**SETTINGS, "server-round": 3})
    found.round(grid, 3, {n: a * np.float32(1.01) for n, a in found.first.items()}, config, 60)
    assert found.traffic[-1].replies == 4 and not found.dropped
    assert found.traffic[-1].down == usual + len(found.handout.base.packed) + HEAD_BYTES  # type: ignore


# unlike devices that know only their own program ------------------------------------------------


def test_devices_with_other_schemes_hear_from_the_server_what_the_fleet_exchanges(tmp_path):
    """Two train everything, two the head: the model is that of plain rounds, and what a device keeps says it, too."""
    schemes = ["full", "full", "head", "head"]
    made = [client_app(lambda _, s=s, d=d: Member(fresh(s), *d), memory=lambda c: tmp_path / str(c.node_id))
            for s, d in zip(schemes, members())]  # fmt: skip
    found = Deltas(everyone(FedAvg), [fresh(), fresh("head")])
    run_rounds(found, Here(made), 2, SETTINGS, None, 60)
    wanted = Fleet([Member(fresh(s), *d) for s, d in zip(schemes, members())])
    for number in (1, 2):
        wanted.round(Task(epochs=2, rate=0.02, seed=1000 * number))
    assert not found.dropped and {w["program"] for w in found.traffic[-1].who} == {0, 1}
    for name, a in wanted.arrays.items():
        np.testing.assert_allclose(found.first[name], a, rtol=1e-4, atol=2e-5 * np.abs(a).max(), err_msg=name)
    left = Member(fresh("head"), *members()[2])
    left.keep((tmp_path / "2").read_bytes())
    assert left.catalogue.shapes == found.catalogue.shapes and left.evaluate(left.held, left.catalogue)["accuracy"] > 0


@pytest.mark.parametrize("text", [
    "", "{", "[]", "[[1,2]]", '[["head.weight",[4,8],[9,9]]]', '[["x",[99999,99999],[]]]',
    '[["head.weight",[-4,8],[]]]', '[["head.weight",[4,9],[]]]', b"[]", "[" * 500_000, "[" * 2_000_000,
], ids=lambda text: str(text)[:30])  # fmt: skip
def test_a_catalogue_that_makes_no_sense_is_refused(text):
    with pytest.raises(DataError, match="what the fleet exchanges is damaged|does not exchange"):
        catalogue_in(text, units_of(fresh("head").graphs))
