"""`insitu search`: a front of schemes that really fit, which can be made again; an impossible budget is told."""

from __future__ import annotations

import json
import re
import shlex

import numpy as np
import pytest
from torch import nn

import insitu
from insitu import pipeline
from insitu.cli import main
from insitu.errors import BudgetError

from .test_budget import model

pytest.importorskip("scipy")
BOARD = "nrf52840"
DATA = np.random.default_rng(0).normal(size=(20, 13)).astype(np.float32)


class Small(nn.Module):
    """A residual network for tables: below 10 KB, many schemes need nearly the same."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.end = (nn.Linear(n, m) for n, m in ((13, 24), (24, 24), (24, 24), (24, 5)))

    def forward(self, x):
        x = self.a(x).relu()
        x = x + self.b(x).relu()
        return self.end(x + self.c(x).relu())


@pytest.fixture(scope="module")
def front():
    return pipeline.search(model("inverted"), classes=4, board=BOARD, sram=30_000)


def test_more_memory_brings_more_and_every_point_fits(front):
    assert [p.sram_bytes for p in front] == sorted({p.sram_bytes for p in front}) and len(front) > 2
    assert [p.score for p in front] == sorted({p.score for p in front})
    assert front[0].scheme.updates == () and front[-1].sram_bytes <= 30_000
    assert all(p.linked and p.flash_bytes and p.step_instructions for p in front)


def test_a_point_compiled_again_needs_what_the_front_says(front, tmp_path):
    point = front[-1]
    path = tmp_path / "scheme.txt"
    path.write_text(str(point.scheme))
    sram = point.budget_bytes
    again = insitu.compile(model("inverted"), classes=4, board=BOARD, scheme=str(path), sram=sram).deployed
    assert again is not None
    assert (again.sram_bytes, again.flash_bytes) == (point.sram_bytes, point.flash_bytes)


def test_an_impossible_budget_names_the_smallest_that_works():
    with pytest.raises(BudgetError, match="even the head alone needs") as e:
        pipeline.search(model("inverted"), classes=4, board=BOARD, sram=4000)
    named = re.fullmatch(r'sram="(\d+)K"', e.value.hint)
    assert named
    least = int(named[1]) * 1024
    assert pipeline.search(model("inverted"), classes=4, board=BOARD, sram=least)


def test_points_of_a_small_network_have_files_of_their_own_and_end_where_all_is_trained():
    found = pipeline.search(insitu.load(Small().eval(), np.zeros((1, 13), np.float32)), data=DATA, sram=9001)
    assert len({p.scheme.name for p in found}) == len(found) > 2
    assert all(p.sram_bytes <= 9001 for p in found)
    whole = insitu.compile(Small().eval(), data=DATA, scheme="full").info()
    assert found[-1].sram_bytes <= whole["arena_bytes"] + whole["state_bytes"]
    more = pipeline.search(insitu.load(Small().eval(), np.zeros((1, 13), np.float32)), data=DATA)  # 256 KB, as auto has
    assert more[-1].score >= found[-1].score > 0


def test_a_limit_on_instructions_is_kept(front):
    most = (front[0].step_instructions + front[-1].step_instructions) // 2
    found = pipeline.search(model("inverted"), classes=4, board=BOARD, sram=30_000, instructions=most)
    assert 0 < (found[-1].step_instructions or 0) <= most and found[-1].score < front[-1].score


def test_the_command_prints_a_table_or_json_and_writes_what_makes_each_point_again(tmp_path, capsys):
    path = model("inverted").save(tmp_path / "net.insitu")
    words = ["search", str(path), "--classes", "4", "-o", str(tmp_path / "found")]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["front"]
    assert {"scheme", "sram_bytes", "flash_bytes", "step_instructions", "score", "command"} <= found[-1].keys()
    assert "<svg" in (tmp_path / "found" / "front.svg").read_text()
    again = shlex.split(found[-1]["command"])[1:]
    assert main([*again, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["arena_bytes"] + made["state_bytes"] == found[-1]["sram_bytes"]
