"""Attacks that keep to the format: what one device, one board, a gateway, a server or an unlucky restart can still do.

Replies that break the format are in test_fuzz.py, lies about scores and samples in test_hostile.py and test_weights.py,
attacks on secure aggregation in test_adversary.py.
"""

from __future__ import annotations

import json
import struct
import time
import tracemalloc
from zlib import crc32

import numpy as np
import pytest

from insitu.devices import process
from insitu.errors import DataError, DeviceError
from insitu.federated.checks import Limits, checked_reply, norm
from insitu.federated.delta import HEAD_BYTES, base_hash, read_delta, read_head, write_delta
from insitu.federated.events import words_of
from insitu.federated.gateway import STEP_SECONDS, Board, Gateway, from_samples
from insitu.federated.handout import base_of
from insitu.federated.member import Member, Task
from insitu.federated.privacy import Noise
from insitu.federated.rounds import Fleet, programs_of
from tests.federated.fleet import fresh, members
from tests.federated.test_gateway import on_a_line

pytest.importorskip("flwr", reason='flwr is not installed: pip install "insitu[flower]"')

from flwr.app import ConfigRecord
from flwr.serverapp.strategy import FedAdam, FedAvg, FedMedian

from insitu.federated.app import client_app, run_rounds
from insitu.federated.checkpoint import read_checkpoint
from insitu.federated.outcome import outcome_of
from insitu.federated.scored import WEIGHT
from insitu.federated.serving import held
from insitu.federated.strategy import DELTA, LEFT_OUT, LOSS, RECORD, SAMPLES, Deltas
from insitu.reports.fleet import fleet_page
from tests.federated.test_hostile import rewritten
from tests.federated.test_rounds import SETTINGS, Here, apps, everyone
from tests.federated.test_weights import Lying

TASK = Task(1, 0.02)
NOISE = Noise(1.0, 0.1)


def start(**options) -> tuple[Member, Fleet, bytes]:
    member = Member(fresh(), *members(1)[0], **options)
    fleet = Fleet([member])
    return member, fleet, base_of(fleet.arrays, fleet.catalogue).packed


# one device --------------------------------------------------------------------------------------


def test_a_reply_padded_to_megabytes_is_refused_before_it_is_unpacked():
    """A list of signs may be followed by bits that say nothing; unpacked, each byte of them would take sixteen."""
    member, fleet, packed = start()
    good = write_delta(
        {n: a * 0 + 1e-3 for n, a in fleet.arrays.items()}, member.units, base_hash(packed), 9, "ternary"
    )
    size, count, power, length = struct.unpack_from("<fIBI", good, HEAD_BYTES)
    at, more = HEAD_BYTES + 13 + length, 8 << 20
    head = good[: HEAD_BYTES - 4] + struct.pack("<I", len(good) - HEAD_BYTES - 4 + more)
    body = struct.pack("<fIBI", size, count, power, length + more) + good[HEAD_BYTES + 13 : at] + bytes(more)
    data = head + body + good[at:-4]
    data += struct.pack("<I", crc32(data))
    assert read_head(data).samples == 9  # well formed
    tracemalloc.start()
    with pytest.raises(DataError, match="honest ones at most"):
        checked_reply(data, programs_of([member.units]), base_hash(packed), fleet.arrays, Limits())
    assert tracemalloc.get_traced_memory()[1] < 3 * more
    tracemalloc.stop()


class Silent(Here):
    """Node 3 is connected and never answers; the clock says what that costs."""

    waited = 0.0

    def send_and_receive(self, messages, *, timeout=None):
        self.waited += timeout
        return [r for m in messages if m.metadata.dst_node_id != 3 and (r := self.answer(m)) is not None]

    def push_messages(self, messages):
        return super().push_messages([m for m in messages if m.metadata.dst_node_id != 3]) + ["nobody"] * any(
            m.metadata.dst_node_id == 3 for m in messages
        )


def test_a_device_that_is_connected_and_never_answers_costs_the_whole_time_once():
    """The first evaluation; then no more than a tenth of it for each of four messages."""
    made, grid, began = Deltas(everyone(FedAvg), [fresh()]), Silent(apps()), time.monotonic()
    run_rounds(made, grid, 3, SETTINGS, None, 3)
    assert grid.waited == 3 and time.monotonic() - began < 60
    assert [t.replies for t in made.traffic] == [3, 3, 3] and made.silent == {3}
    assert {d.why for d in made.dropped} == {"did not answer in time"}


def test_a_silent_device_that_answers_again_is_waited_for_like_the_others():
    found = Deltas(everyone(FedAvg), [fresh()])
    found.silent = {2}
    run_rounds(found, Here(apps()), 1, SETTINGS, None, 60)
    assert not found.silent and [t.replies for t in found.traffic] == [4] and not found.dropped


def test_the_only_device_that_trains_a_layer_decides_about_it_under_any_strategy():
    """Not prevented: docs/federated.md says so. What it may do is bounded as for any single reply."""
    shared = [fresh(), fresh("head")]
    made = [client_app(lambda _, k=k, d=d: Member(fresh("full" if k == 6 else "head"), *d))
            for k, d in enumerate(members(7))]  # fmt: skip
    lying = Lying(1, 40)
    server = Deltas(everyone(FedMedian, 7), shared)
    first = {n: a.copy() for n, a in server.first.items()}
    run_rounds(server, Here(made, lying), 1, SETTINGS, None, 60)
    body = {n: a for n, a in lying.noise.items() if not n.startswith("head.")}
    moved = {n: server.first[n] - first[n] for n in body}
    assert norm({n: moved[n] - body[n] for n in body}) < 0.05 * norm(body)


def test_what_devices_and_boards_say_is_text_on_the_page_and_nothing_else():
    evil = '"><img src=x onerror=alert(1)><script>alert(2)</script>'

    def spoil(message, node, reply):
        if message.metadata.message_type == "train":
            reply.content[RECORD][LEFT_OUT] = [evil]
            if node == 0:
                reply.content[RECORD][DELTA] = evil
        return reply

    made = Deltas(everyone(FedAvg), [fresh()])
    run_rounds(made, Here(apps(), spoil), 1, SETTINGS, None, 60)
    page = fleet_page(json.loads(json.dumps(outcome_of(made))))
    assert "<img" not in page and "<script>alert" not in page and "&lt;script&gt;alert(2)" in page


# what a device tells under noise -----------------------------------------------------------------


def test_a_server_that_asks_again_about_one_model_cannot_average_the_noise_away():
    member, fleet, packed = start(noise=NOISE)
    first = member.train(packed, fleet.catalogue, TASK)
    left = {n: a.copy() for n, a in member.sender.left.items()}
    for _ in range(3):
        again = Member(fresh(), *members(1)[0], noise=NOISE)  # a new process
        again.keep(member.kept())
        assert again.train(packed, fleet.catalogue, TASK).delta == first.delta and again.account.answers == 1
        assert all((again.sender.left[n] == a).all() for n, a in left.items())
    other = member.train(packed, fleet.catalogue, Task(1, 0.01)).delta  # another question: other noise, and it counts
    assert other != first.delta and member.account.answers == 2


def test_a_device_with_a_budget_tells_no_more_whatever_the_server_counts():
    member, fleet, packed = start(noise=NOISE, budget=NOISE.epsilon(2))
    for k in range(2):
        member.train(packed, fleet.catalogue, Task(1, 0.02, seed=k))
    with pytest.raises(DataError, match="tells no more than epsilon"):
        member.train(packed, fleet.catalogue, Task(1, 0.02, seed=2))
    later = Member(fresh("head"), *members(1)[0], noise=NOISE, budget=NOISE.epsilon(2))
    later.keep(member.kept())  # another scheme: what was told about the samples stays told
    with pytest.raises(DataError, match="2 answers are worth epsilon"):
        later.train(packed, fleet.catalogue, TASK)
    member.train(packed, fleet.catalogue, Task(1, 0.02, seed=1))  # the last answer again costs nothing


def test_nothing_in_a_reply_tells_the_samples_or_the_loss_of_a_device_with_noise():
    seen = []

    def look(message, node, reply):
        seen.extend(dict(r) for r in reply.content.config_records.values())
        seen.extend(dict(r) for r in reply.content.metric_records.values())
        return reply

    made = Deltas(everyone(FedAvg), [fresh()], noise=NOISE)
    run_rounds(made, Here(apps(noise=NOISE), look), 1, SETTINGS, None, 60)
    assert [t.replies for t in made.traffic] == [4] and made.traffic[0].loss == 0
    assert not any(LOSS in r or SAMPLES in r for r in seen)
    assert {r[WEIGHT] for r in seen if WEIGHT in r} == {1}  # not how many tests it has, either


def test_a_device_without_noise_is_refused_by_a_fleet_whose_epsilon_counts_on_it():
    made = apps(3, noise=NOISE) + apps(4)[3:]
    found = Deltas(everyone(FedAvg), [fresh()], noise=NOISE)
    run_rounds(found, Here(made), 1, SETTINGS, None, 60)
    assert [t.replies for t in found.traffic] == [3]
    assert [(d.node, d.why) for d in found.dropped] == [
        (3, "delta: has no noise, as this fleet wants it\n  try: a noise of 1 and a clip of 0.1")
    ]


# one round that goes wrong -----------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"coding": "ternary"}, {"personal": ("head",)}], ids=str)
def test_one_round_with_a_mad_rate_leaves_no_trace_on_a_device(options):
    """Its change would be refused; what its coding lost of it, and its personal layers, must not stay either."""
    (member, fleet, packed), (calm, _, _) = start(**options), start(**options)
    other = base_of({n: a * 1.01 for n, a in fleet.arrays.items()}, fleet.catalogue).packed
    for m in (member, calm):
        m.train(packed, fleet.catalogue, TASK)
    mad = base_of({n: a * 0.99 for n, a in fleet.arrays.items()}, fleet.catalogue).packed
    with pytest.raises(DataError, match="moves the model by|not finite"):
        member.train(mad, fleet.catalogue, Task(20, 100.0))
    assert member.train(other, fleet.catalogue, TASK).delta == calm.train(other, fleet.catalogue, TASK).delta


# boards and gateways -----------------------------------------------------------------------------


def shifted(by: float):
    """A lesson after which a board's head is this far away from where it was."""

    def learn(device, task):
        found = from_samples(fresh(), *members(1)[0])(device, task)
        device.load_arrays({"head.weight": device.state()["head.weight"] + np.float32(by)})
        return found

    return learn


def test_a_board_that_moves_far_more_than_the_others_is_left_out_of_its_gateways_answer():
    """Within ten times the model's norm: alone it would pass, and be most of the mean."""
    good = [Board(str(k), on_a_line, from_samples(fresh(), *members(3)[k])) for k in range(3)]
    wild = Board("wild", on_a_line, shifted(1.0))
    both, alone = Gateway(fresh(), [*good, wild]), Gateway(fresh(), good)
    fleets = [Fleet([both]), Fleet([alone])]
    packed = base_of(fleets[0].arrays, fleets[0].catalogue).packed
    lessons = [f.members[0].learn(packed, f.catalogue, TASK) for f in fleets]  # type: ignore[attr-defined]
    assert "times the median of 4 replies" in wild.failures[-1]
    assert lessons[0].left_out == (f"wild: {wild.failures[-1]}",) and lessons[0].samples == lessons[1].samples
    assert all((lessons[0].learned[n] == a).all() for n, a in lessons[1].learned.items())
    both.close(), alone.close()


def test_a_board_that_hangs_in_a_step_is_given_up_after_a_minute(monkeypatch):
    """Ten minutes, as a board alone may take, are all that a server waits for its gateway."""
    monkeypatch.setattr(process, "PATIENCE", 0.2)
    board = Board("left", on_a_line, from_samples(fresh(), *members(1)[0]))
    device = board.reached()
    assert device.run_timeout == STEP_SECONDS <= 60  # type: ignore[attr-defined]
    device.run_timeout = 0.3  # type: ignore[attr-defined]
    device.link.timeout = 0.05  # type: ignore[attr-defined]
    device.link.channel.process.send_signal(19)  # type: ignore[attr-defined]  it stops, and its line stays open
    made, began = Gateway(fresh(), [board]), time.monotonic()
    with pytest.raises(DeviceError, match="no board answered .*does not answer"):
        Fleet([made]).round(TASK)
    assert time.monotonic() - began < 20 and board.device is None


def test_a_gateway_that_sends_its_old_change_for_every_new_model_counts_as_one_device():
    """Sealed anew it cannot be told from training: the same change again and again is a liar within the limits."""
    made, old = Deltas(everyone(FedAvg), [fresh()]), {}

    def replay(message, node, reply):
        if message.metadata.message_type == "train" and node == 2:
            data, units = reply.content[RECORD][DELTA], next(iter(made.programs.values()))
            change, samples = read_delta(data, units, data[12:20])
            old.setdefault("change", change)
            reply.content[RECORD][DELTA] = write_delta(old["change"], units, data[12:20], samples)
        return reply

    run_rounds(made, Here(apps(), replay), 3, SETTINGS, None, 60)
    assert [t.replies for t in made.traffic] == [4, 4, 4] and not made.dropped
    assert np.mean(list(made.scored[3].values())) > np.mean(list(made.scored[0].values()))


def test_what_a_server_says_does_not_write_all_over_a_devices_terminal():
    heard, rude = [], "\x1b[2J\x1b]0;owned\x07" + "x" * 100_000
    app = client_app(lambda _: Member(fresh(), *members(1)[0]), told=lambda c, m, event: heard.append(event))

    class Rude(Here):
        def answer(self, message):
            if message.metadata.message_type == "train":
                message.content[RECORD] = ConfigRecord({**message.content[RECORD], "phase": rude})
            return super().answer(message)

    run_rounds(Deltas(everyone(FedAvg, 1), [fresh()]), Rude([app]), 1, SETTINGS, None, 60)
    failed = [words_of(json.loads(json.dumps(e))) for e in heard if "failed" in e]
    assert failed and all("no such message" in w and w.isprintable() and len(w) < 3000 for w in failed)


# a server that starts again ----------------------------------------------------------------------


def test_rounds_of_a_learner_with_other_weights_are_not_continued(tmp_path):
    """The same network trained anew: its shapes are the same, its devices have other frozen layers."""
    path, other = tmp_path / "rounds", fresh()
    run_rounds(Deltas(everyone(FedAvg), [fresh()]), Here(apps()), 1, SETTINGS, path, 60)
    other.fit(*members(1)[0], epochs=1, rate=0.05)
    with pytest.raises(DataError, match="rounds: belongs to another learner"):
        read_checkpoint(path, Deltas(everyone(FedAvg), [other]))
    assert read_checkpoint(path, Deltas(everyone(FedAvg), [fresh()]))[0] == 1
    with np.load(path) as found:
        np.savez(tmp_path / "old.npz", **{n: a for n, a in found.items() if n != "start"})
    assert read_checkpoint(tmp_path / "old.npz", Deltas(everyone(FedAvg), [other]))[0] == 1  # it did not say


def test_every_part_of_a_checkpoint_is_checked_and_the_error_names_the_file(tmp_path):
    path = tmp_path / "rounds"
    run_rounds(Deltas(everyone(FedAdam, eta=0.01), [fresh()]), Here(apps()), 1, SETTINGS, path, 60)
    whole = path.read_bytes()
    with np.load(path) as found:
        moments = [n for n in found.files if n.startswith("strategy/")]
        bad = [{"base": found["base"][:-3]}, {"base": np.full_like(found["base"], 255)},
               {moments[0]: np.full_like(found[moments[0]], np.nan)}, {"strategy/nonsense": np.zeros(2)},
               {"strategy/eta:magic:": np.zeros(2)}, {"array/head.bias": np.array(["a", "b"])}]  # fmt: skip
    for changed in bad:
        path.write_bytes(whole)
        rewritten(path, **changed)
        with pytest.raises(DataError, match="rounds: is damaged"):
            read_checkpoint(path, Deltas(everyone(FedAdam, eta=0.01), [fresh()]))
    path.write_bytes(whole)
    with pytest.raises(DataError, match="rounds: belongs to another strategy"):
        read_checkpoint(path, Deltas(everyone(FedAvg), [fresh()]))


def test_two_servers_do_not_write_the_same_rounds(tmp_path):
    output = tmp_path / "together.insitu"
    words = "together.insitu: another server is at work on it"
    with held(output), pytest.raises(DataError, match=words), held(output):
        pass
    with held(output):  # free again
        pass
    assert not list(tmp_path.iterdir())
