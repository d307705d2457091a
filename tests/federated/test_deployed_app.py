"""The app that Flower's processes run, in this process: files, memory and settings as `serve` and `join` give them."""

from __future__ import annotations

import json

import numpy as np
import pytest

import insitu
from tests.federated.fleet import fresh, members

pytest.importorskip("flwr", reason='flwr is not installed: pip install "insitu[flower]"')

from flwr.app import Context, RecordDict

from insitu.federated.deployed import device_app, serve
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
    serve(Restarting(tmp_path, 3, coding="ternary"), given)  # type: ignore[arg-type]
    about = json.loads((tmp_path / "out.insitu.json").read_text())
    down = [r["down"] for r in about["rounds"]]
    assert not about["dropped"] and [r["replies"] for r in about["rounds"]] == [3, 3, 3]
    assert down[0] == 3 * 24  # they have it from the first evaluation
    assert 3 * 24 < down[1] < 3 * 150 and len(about["own"]) == 3
    assert insitu.open(tmp_path / "out.insitu").evaluate(*members(1)[0])["accuracy"] > 0
