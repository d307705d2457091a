"""The app that Flower's processes run, in this process: files, memory and settings as `serve` and `join` give them."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import insitu
from tests.federated.fleet import fresh, members

pytest.importorskip("flwr", reason='flwr is not installed: pip install "insitu[flower]"')

from flwr.app import Context, RecordDict

from insitu.federated.deployed import apart, device_app, keep_model, serve
from insitu.federated.events import Events, ending, words_of
from insitu.federated.handout import base_of
from insitu.federated.member import Member
from insitu.federated.rounds import Fleet
from tests.federated.test_rounds import Here


class Restarting(Here):
    """Every message finds a new process: nothing but a device's files is left of the last one."""

    def __init__(self, folder, count: int, **given):
        super().__init__([device_app()] * count)
        self.given = [{"learner": str(folder / "g.insitu"), "data": str(folder / f"{k}.npz"),
                       "memory": str(folder / f"{k}.memory"), **given} for k in range(count)]  # fmt: skip

    def answer(self, message):
        node = message.metadata.dst_node_id
        self.contexts[node] = Context(1, node, self.given[node], RecordDict(), {})
        return super().answer(message)


def test_served_rounds_send_differences_and_tell_what_each_device_reaches_by_itself(tmp_path):
    fresh().save(tmp_path / "g.insitu")
    for k, (x, y) in enumerate(members(3)):
        np.savez(tmp_path / f"{k}.npz", x=x, y=y)
    given = {"learners": str(tmp_path / "g.insitu"), "output": str(tmp_path / "out.insitu"), "clients": 3, "rounds": 3,
             "rate": 0.02, "coding": "ternary", "own": 2}  # fmt: skip
    told = {"output": str(tmp_path / "mine.insitu"), "events": str(tmp_path / "events")}
    serve(Restarting(tmp_path, 3, coding="ternary", **told), given)  # type: ignore[arg-type]
    about = json.loads((tmp_path / "out.insitu.json").read_text())
    down = [r["down"] for r in about["rounds"]]
    assert not about["dropped"] and [r["replies"] for r in about["rounds"]] == [3, 3, 3]
    assert down[0] == 3 * 24  # they have it from the first evaluation
    assert 3 * 24 < down[1] < 3 * 150 and len(about["own"]) == 3
    assert about["tests"] == sum(len(y) // 5 for _, y in members(3))  # a fifth of the samples of each
    assert insitu.open(tmp_path / "out.insitu").evaluate(*members(1)[0])["accuracy"] > 0
    mine, together = (insitu.open(tmp_path / name) for name in ("mine.insitu", "out.insitu"))
    assert any((mine.device.state()[n] != a).any() for n, a in together.device.state().items())
    events = Events(tmp_path / "events")
    said = list(filter(None, map(words_of, events.new())))
    assert sum(words.startswith("the first model on this device: ") for words in said) == 3
    assert sum(words.startswith("the fleet's model after round 3 on this device: ") for words in said) == 3
    assert sum(words.startswith("round ") for words in said) == 9 and events.last["written"] == told["output"]
    assert re.fullmatch(r"the run is over: \d+\.\d% on this device, .+", ending(events.last)) and not events.new()


def test_a_device_keeps_a_fifth_of_its_samples_apart_unless_it_has_tests(tmp_path):
    """Enough samples, and no test among them or beside them."""
    learner, (x, y) = fresh(), members(1, 40)[0]
    np.savez(tmp_path / "all.npz", x=x, y=y)
    np.savez(tmp_path / "few.npz", x=x[:9], y=y[:9])
    np.savez(tmp_path / "both.npz", x_train=x[:30], y_train=y[:30], x_test=x[30:], y_test=y[30:])

    def counts(name: str, test=None) -> tuple[int, int, bool]:
        data, tests = apart(learner, str(tmp_path / name), test)
        member = Member(learner, data, test=tests)
        return len(learner.samples(*member.data)), int(member.measured()["samples"]), member.seen

    assert counts("all.npz") == (32, 8, False) and counts("both.npz") == (30, 10, False)
    assert counts("few.npz") == (9, 9, True) and counts("all.npz", (x[:5], y[:5])) == (40, 5, False)


def test_a_device_that_leaves_early_keeps_the_last_model(tmp_path):
    fresh().save(tmp_path / "g.insitu")
    x, y = members(1)[0]
    np.savez(tmp_path / "mine.npz", x=x, y=y)
    given = {"learner": str(tmp_path / "g.insitu"), "data": str(tmp_path / "mine.npz"), "own": 0,
             "memory": str(tmp_path / "memory"), "output": str(tmp_path / "mine.insitu")}  # fmt: skip
    assert keep_model(given) is None  # nothing came
    member = Member(fresh(), x, y)
    fleet = Fleet([member])
    fleet.arrays = {n: a + np.float32(0.01) for n, a in fleet.arrays.items()}
    member.held = base_of(fleet.arrays, fleet.catalogue).packed
    (tmp_path / "memory").write_bytes(member.kept())
    assert keep_model(given) == tmp_path / "mine.insitu"
    kept, wanted = insitu.open(tmp_path / "mine.insitu"), member
    wanted.take(member.held, fleet.catalogue)
    assert all((kept.device.state()[n] == a).all() for n, a in wanted.learner.device.state().items())


def test_a_device_with_another_scheme_joins_a_server_that_has_its_learner_also(tmp_path):
    fresh().save(tmp_path / "g.insitu")
    fresh("head").save(tmp_path / "small.insitu")
    for k, (x, y) in enumerate(members(3)):
        np.savez(tmp_path / f"{k}.npz", x=x, y=y)
    given = {"learners": str(tmp_path / "g.insitu"), "also": str(tmp_path / "small.insitu"), "clients": 3, "rounds": 2,
             "output": str(tmp_path / "out.insitu"), "rate": 0.02, "own": 1}  # fmt: skip
    grid = Restarting(tmp_path, 3)
    grid.given[2] |= {"learner": str(tmp_path / "small.insitu"), "output": str(tmp_path / "mine.insitu")}
    serve(grid, given)  # type: ignore[arg-type]
    about = json.loads((tmp_path / "out.insitu.json").read_text())
    assert not about["dropped"] and [r["replies"] for r in about["rounds"]] == [3, 3]
    assert {w["node"]: w["program"] for w in about["rounds"][-1]["who"]} == {0: 0, 1: 0, 2: 1}
    assert len(about["own"]) == 3 and keep_model(grid.given[2]) == tmp_path / "mine.insitu"
    (tmp_path / "2.memory").unlink()
    serve(grid, {k: v for k, v in given.items() if k != "also"})  # type: ignore[arg-type]
    about = json.loads((tmp_path / "out.insitu.json").read_text())
    assert {d["node"] for d in about["dropped"]} == {2} and "another scheme that the server was given too" in about[
        "dropped"
    ][0]["why"]
