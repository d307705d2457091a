"""Devices that lie, break, repeat themselves or leave: the server goes on, and its model is that of the others."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from insitu.errors import DataError
from insitu.federated.delta import write_delta
from insitu.federated.gateway import Board, Gateway, from_samples
from insitu.federated.member import Member, Task
from insitu.federated.rounds import Fleet
from tests.federated.fleet import fresh, members
from tests.federated.test_gateway import on_a_line

pytest.importorskip("flwr", reason='flwr is not installed: pip install "insitu[flower]"')

from flwr.app import Error, Message
from flwr.serverapp.strategy import FedAdam, FedAvg

from insitu.federated import app as federated_app
from insitu.federated.app import client_app, run_rounds, task_of
from insitu.federated.checkpoint import read_checkpoint, rounds_in, write_checkpoint
from insitu.federated.named import strategy_of
from insitu.federated.outcome import outcome_of
from insitu.federated.present import NUMBERS, SAMPLED, Present
from insitu.federated.privacy import Noise
from insitu.federated.scored import WEIGHT
from insitu.federated.strategy import DELTA, LEFT_OUT, LOSS, RECORD, Deltas
from insitu.reports.fleet import fleet_page
from tests.federated.test_rounds import SETTINGS, Here, Killed, apps, everyone, message_to, rounds_of

NAN = float("nan")
LIES = [("something", 1.0, ""), (WEIGHT, [1, 2], "num-examples is"), (WEIGHT, 0, "num-examples is 0"),
        ("accuracy", [0.5, 0.5], "accuracy is"), ("accuracy", 1e300, "accuracy is 1e+300"),
        ("accuracy", -7.0, "accuracy is -7"), ("accuracy", NAN, "accuracy is nan"),
        ("accuracy", None, "accuracy is None")]  # fmt: skip


def test_evaluations_that_make_no_sense_are_dropped_and_stop_nothing():
    """Flower's own strategies stop if one device answers with other names than the rest, or with a list."""

    def lie(message, node, reply):
        if message.metadata.message_type == "evaluate" and node < len(LIES):
            record, (name, value, _) = next(iter(reply.content.metric_records.values())), LIES[node]
            record.pop(name, None)
            if value is not None:
                record[name] = value
        return reply

    count = len(LIES) + 2
    found = rounds_of(everyone(FedAvg, count), Here(apps(count), lie), 1)
    why = {d.node: d.why for d in found.dropped if d.round == 0}
    assert all(words in why.get(node, "") for node, (_, _, words) in enumerate(LIES))
    assert set(found.scored[1]) == {0, count - 2, count - 1}  # a name too many does no harm
    assert 0 <= found.scores["accuracy"] <= 1  # type: ignore


def test_what_devices_say_about_themselves_stays_short_and_readable():
    def shout(message, node, reply):
        if message.metadata.message_type != "train":
            return reply
        if node == 0:
            return Message(Error(1, "\x1b[2J" + "x" * 100_000), reply_to=message_to(node))
        reply.content[RECORD][LOSS] = 1.7e308
        reply.content[RECORD][LEFT_OUT] = ["\x1b[2J" + "x" * 1000] * 500
        return reply

    made = Deltas(everyone(FedAvg), [fresh()])
    run_rounds(made, Here(apps(), shout), 1, SETTINGS, None, 60, own=1)
    found = outcome_of(made)
    text = json.dumps(found, allow_nan=False)  # a loss that cannot be averaged is not shown
    assert len(text) < 100_000 and "\\u001b" not in text and "the device reports" in text
    assert found == json.loads(text)  # a page is made of either
    page = fleet_page(found)
    assert "Who trained what" in page and page.count("<td class=n>0 of 1</td>") == 1 and "\x1b" not in page


class Repeating(Here):
    """One device answers each message four times."""

    def send_and_receive(self, messages, *, timeout=None):
        found = super().send_and_receive(messages, timeout=timeout)
        return found + [r for r in found if r.metadata.src_node_id == 1] * 3


def test_a_device_counts_once_however_often_it_answers():
    found, wanted = rounds_of(everyone(FedAvg), Repeating(apps()), 2), rounds_of(everyone(FedAvg), Here(apps()), 2)
    assert all((found.first[name] == a).all() for name, a in wanted.first.items())
    assert found.traffic[-1].up == wanted.traffic[-1].up
    assert {d.why for d in found.dropped} == {"answers twice, or was not asked"}


def test_a_change_far_larger_than_all_others_is_dropped_and_so_is_a_replayed_one(tmp_path):
    """Both are well formed; the large one is within what a single reply may move the model, for a million samples."""
    made, old = Deltas(everyone(FedAvg), [fresh()]), {}

    def poison(message, node, reply):
        if message.metadata.message_type != "train":
            return reply
        if node == 1:
            base, units = made.handout.base, next(iter(made.programs.values()))
            change = {u.name: 4 * base.arrays[u.name][::-1] for u in units}  # type: ignore[union-attr]
            reply.content[RECORD][DELTA] = write_delta(change, units, base.id, 1_000_000)  # type: ignore[union-attr]
        if node == 2:
            reply.content[RECORD][DELTA] = old.setdefault("delta", reply.content[RECORD][DELTA])
        return reply

    run_rounds(made, Here(apps(), poison), 3, SETTINGS, None, 60)
    assert [t.replies for t in made.traffic] == [3, 2, 2]
    assert rounds_in(tmp_path / "none") == []
    write_checkpoint(tmp_path / "rounds", 3, made)
    assert [line.partition(", loss")[0] for line in rounds_in(tmp_path / "rounds")] == [
        "round 1: 3 replies",
        "round 2: 2 replies",
        "round 3: 2 replies",
    ]
    assert [line.rpartition(", ")[2] for line in rounds_in(tmp_path / "rounds")] == [f"{n} dropped" for n in (1, 2, 2)]
    assert any("times the median of 4 replies" in d.why for d in made.dropped if d.node == 1)
    assert all("another base" in d.why for d in made.dropped if d.node == 2)
    assert np.mean(list(made.scored[3].values())) > np.mean(list(made.scored[0].values())) + 0.1


class Leaving(Here):
    """A device that is there for one round, and comes back for the last one."""

    trained = 0

    def get_node_ids(self):
        return range(len(self.apps) if self.trained in (0, 2) else 3)

    def send_and_receive(self, messages, *, timeout=None):
        self.trained += messages[0].metadata.message_type == "train"
        return super().send_and_receive(messages, timeout=timeout)


def test_a_fleet_goes_on_without_a_device_that_left_and_with_it_when_it_comes_back(tmp_path):
    made = Deltas(everyone(FedAvg), [fresh()])
    made.asked = {0, 2}  # the superlink answers for a device that is gone; which one is known without that
    assert not made._theirs([Message(Error(3, "node unavailable"), reply_to=message_to(1))])
    run_rounds(made, Leaving(apps()), 3, SETTINGS, tmp_path / "rounds", 60, patience=0.1)
    assert [t.replies for t in made.traffic] == [4, 3, 4] and not made.dropped
    again = Deltas(everyone(FedAvg), [fresh()])
    assert read_checkpoint(tmp_path / "rounds", again)[0] == 3
    assert [getattr(again.strategy, n) for n in NUMBERS] == [4, 4, 4]  # a new server waits for all of them again


def test_noise_follows_the_devices_that_are_left():
    """The mean of fewer devices shows more of each."""
    noise = Noise(1.0, 0.5, "central")
    made = Deltas(strategy_of("fedavg", 4, noise=noise), [fresh()], noise=noise)
    assert Present(made).wanted["min_available_nodes"] == 4  # found inside Flower's wrapper
    run_rounds(made, Here(apps(), lambda m, node, reply: reply if node < 3 else None), 1, SETTINGS, None, 1)
    assert getattr(made.strategy, SAMPLED) == 3
    assert {d.why for d in made.dropped if d.node == 3} == {"did not answer in time"}


def test_a_server_that_dies_between_a_round_and_its_checkpoint_repeats_that_round(tmp_path, monkeypatch):
    wanted, grid, path = rounds_of(everyone(FedAdam, eta=0.01), Here(apps()), 3), Here(apps()), tmp_path / "rounds"

    def dies(path, number, strategy):
        if number == 2:
            raise Killed
        write_checkpoint(path, number, strategy)

    monkeypatch.setattr(federated_app, "write_checkpoint", dies)
    with pytest.raises(Killed):
        run_rounds(Deltas(everyone(FedAdam, eta=0.01), [fresh()]), grid, 3, SETTINGS, path, 60)
    monkeypatch.undo()
    found = Deltas(everyone(FedAdam, eta=0.01), [fresh()])
    run_rounds(found, grid, 3, SETTINGS, path, 60)
    assert all(found.first[name].tobytes() == a.tobytes() for name, a in wanted.first.items())


def damaged(data: bytes, count: int):
    rng = random.Random(0)
    for i in range(count):
        at, found = rng.randrange(len(data)), bytearray(data)
        yield [data[:at], bytes(found[:at] + rng.randbytes(64) + found[at + 64 :])][i % 2]


def test_damaged_checkpoints_and_memories_are_refused_by_name(tmp_path):
    path, member = tmp_path / "rounds", Member(fresh(), *members(1)[0], personal=("head",))
    run_rounds(Deltas(everyone(FedAvg), [fresh()]), Here(apps()), 1, SETTINGS, path, 60)
    made, whole = Deltas(everyone(FedAvg), [fresh()]), path.read_bytes()
    for data in damaged(whole, 60):
        path.write_bytes(data)
        with pytest.raises(DataError, match="rounds: (is damaged|belongs to another)"):
            read_checkpoint(path, made)
    Fleet([member]).round(Task(1, 0.02))
    for data in damaged(member.kept(), 60):
        with pytest.raises(DataError, match="kept: (is damaged|unpacks to more)"):
            member.keep(data)


def rewritten(path, **changed) -> None:
    """A checkpoint with other contents, as somebody would forge it."""
    with np.load(path) as found:
        arrays = {**found, **changed}
    with path.open("wb") as out:
        np.savez(out, **arrays)


def test_a_forged_checkpoint_with_nonsense_in_it_is_refused_by_name(tmp_path):
    path = tmp_path / "rounds"
    run_rounds(Deltas(everyone(FedAvg), [fresh()]), Here(apps()), 1, SETTINGS, path, 60)
    whole, made = path.read_bytes(), Deltas(everyone(FedAvg), [fresh()])
    name = next(n for n in np.load(path).files if n.startswith("array/"))
    histories = [b"[]", b"{}", b'{"traffic": [7], "dropped": [], "scored": {}}',
                 b'{"traffic": [{"x": 1}], "dropped": [], "scored": {}}',
                 b'{"traffic": [], "dropped": [], "scored": {"a": 1}}']  # fmt: skip
    forged = [{"history": np.frombuffer(h, np.uint8)} for h in histories]
    forged += [{name: np.full_like(np.load(path)[name], NAN)}, {"round": np.int64(-3)}, {"round": np.zeros(3)}]
    for changed in forged:
        path.write_bytes(whole)
        rewritten(path, **changed)
        with pytest.raises(DataError, match="rounds: is damaged"):
            read_checkpoint(path, made)
    path.write_bytes(whole)
    assert read_checkpoint(path, made)[0] == 1


@pytest.mark.parametrize("asked", [{"epochs": 10**9}, {"epochs": -1}, {"rate": 1e30}, {"rate": NAN}, {"epochs": "many"},
                                   {"alone": 10**9}, {"more": 1e9}, {"pull": 2.0}], ids=str)  # fmt: skip
def test_a_server_that_asks_for_nonsense_is_refused(asked):
    with pytest.raises(DataError, match="the server asks for"):
        task_of({"server-round": 1, **asked})
    assert task_of({"epochs": 2, "rate": 0.02, "alone": -1}).epochs == 2


def test_a_device_says_to_its_owner_why_it_cannot_answer(tmp_path):
    memory, heard = tmp_path / "mine.memory", []
    memory.write_bytes(b"PK\x03\x04 not what it was")
    made = client_app(lambda _: Member(fresh(), *members(1)[0]), memory=lambda _: memory,
                      told=lambda context, member, event: heard.append(event))  # fmt: skip
    found = rounds_of(everyone(FedAvg, 1), Here([made]), 1)
    assert all("mine.memory: is damaged" in e["failed"] and "remove it" in e["failed"] for e in heard) and heard
    assert all("mine.memory: is damaged" in d.why for d in found.dropped)


def broken(values: float):
    """A lesson after which a board's head is full of these."""

    def learn(device, task):
        state = device.state()
        device.load_arrays({n: np.full_like(a, values) for n, a in state.items() if a.dtype == np.float32 and a.ndim})
        return 24, 1.0

    return learn


def killed(device, task):
    """A board that is unplugged while it learns."""
    learn = from_samples(fresh(), *members(1)[0])
    learn(device, task)
    device.link.channel.process.kill()
    return learn(device, task)


@pytest.mark.parametrize("lesson, why", [(broken(NAN), "not finite"), (broken(1e30), "moves the model"), (killed, "")])
def test_one_broken_board_does_not_spoil_its_gateways_answer(lesson, why):
    good = from_samples(fresh(), *members(1)[0])
    boards = [Board("left", on_a_line, good), Board("right", on_a_line, lesson)]
    both, alone = Fleet([Gateway(fresh(), boards)]), Fleet([Gateway(fresh(), [Board("left", on_a_line, good)])])
    both.round(Task(1, 0.02)), alone.round(Task(1, 0.02))
    assert len(boards[1].failures) == 1 and why in boards[1].failures[0]
    assert all((both.arrays[name] == a).all() for name, a in alone.arrays.items())
    for fleet in (both, alone):
        fleet.members[0].close()  # type: ignore[attr-defined]
