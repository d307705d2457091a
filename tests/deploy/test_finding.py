"""`insitu search`: a front of schemes that really fit, which can be made again; an impossible budget is told."""

from __future__ import annotations

import json
import re
import shlex

import numpy as np
import pytest
import torch
from torch import nn

import insitu
from insitu import pipeline
from insitu.boards import find_board
from insitu.cli import main
from insitu.deploy.cost import count
from insitu.errors import BoardError, BudgetError

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


def wave() -> nn.Module:
    """A small 1-D network with odd sizes: what a call costs matters more than its multiply-adds."""
    sizes = ((3, 13), (13, 19), (19, 27))
    layers = [layer for i, o in sizes for layer in (nn.Conv1d(i, o, 5, 2, 2), nn.ReLU())]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(27, 4)).eval()


def test_instructions_of_a_small_network_are_what_its_compiled_program_takes(tmp_path):
    pytest.importorskip("unicorn")
    x = np.random.default_rng(0).normal(size=(20, 3, 157)).astype(np.float32)
    net = insitu.load(wave(), x[:1])
    found = pipeline.search(net, data=x, board=BOARD)
    assert len(found) > 2 and all(p.counted for p in found)
    for point in (found[0], found[-1]):
        (tmp_path / "scheme.txt").write_text(str(point.scheme))
        scheme, sram = str(tmp_path / "scheme.txt"), point.budget_bytes
        deployed = insitu.compile(net, data=x, board=BOARD, scheme=scheme, sram=sram).deployed
        assert deployed and deployed.firmware
        assert sum(count(deployed.firmware)["train_step"].values()) == point.step_instructions


def needs(text: str) -> tuple[int, int]:
    found = re.search(r"needs ([\d,]+) B of SRAM and ([\d,]+) B of flash", text)
    assert found
    return int(found[1].replace(",", "")), int(found[2].replace(",", ""))


@pytest.fixture(scope="module")
def small():
    return insitu.load(Small().eval(), np.zeros((1, 13), np.float32))


def test_what_links_is_not_refused_by_an_estimate(small):
    """The least that is named is what a linked head takes, to the byte: so much is enough, and less is not."""
    with pytest.raises(BudgetError) as e:
        pipeline.search(small, data=DATA, board=BOARD, sram=2000, flash=10_000)
    sram, flash = needs(str(e.value))
    assert flash < 40_000
    (point,) = pipeline.search(small, data=DATA, board=BOARD, sram=sram, flash=flash)
    assert point.linked and (point.sram_bytes, point.flash_bytes) <= (sram, flash)
    for ram, rom in ((sram - 1, flash), (sram, flash - 1)):
        with pytest.raises(BudgetError, match="even the head alone"):
            pipeline.search(small, data=DATA, board=BOARD, sram=ram, flash=rom)


@pytest.mark.parametrize("seed", [0, 11])
def test_compile_refuses_what_a_search_refuses(seed):
    """Random weights get no room to grow in int8 if only the head is trained: in compile, and so in search."""
    torch.manual_seed(seed)
    drawn = insitu.load(Small().eval(), np.zeros((1, 13), np.float32))
    with pytest.raises(BudgetError) as e:
        pipeline.search(drawn, data=DATA, board=BOARD, sram=2000, flash=10_000)
    sram, flash = needs(str(e.value))
    for ram, rom in ((sram - 1, flash), (sram, flash - 1)):
        with pytest.raises(BudgetError):
            insitu.compile(drawn, data=DATA, board=BOARD, scheme="head", sram=ram, flash=rom)
    made = insitu.compile(drawn, data=DATA, board=BOARD, scheme="head", sram=sram, flash=flash).deployed
    assert made and (made.sram_bytes, made.flash_bytes) <= (sram, flash)


def test_no_point_needs_more_flash_than_is_allowed(small):
    free = pipeline.search(small, data=DATA, board=BOARD, sram=12_000)
    most = (free[0].flash_bytes + max(p.flash_bytes for p in free)) // 2
    found = pipeline.search(small, data=DATA, board=BOARD, sram=12_000, flash=most)
    assert all(p.flash_bytes <= most for p in found)


def energies(points) -> list[tuple[int, float, float]]:
    """Instructions, millijoules and score."""
    return [(p.step_instructions, p.step_millijoules, p.score) for p in points]


def test_a_limit_on_energy_is_one_on_instructions_by_the_boards_profile(small):
    free, each = energies(pipeline.search(small, data=DATA, board=BOARD, sram=12_000)), find_board(BOARD).millijoules(1)
    assert each and free[-1][1] == pytest.approx(free[-1][0] * each)
    most = (free[0][1] + free[-1][1]) / 2
    found = energies(pipeline.search(small, data=DATA, board=BOARD, sram=12_000, millijoules=most))
    assert 0 < found[-1][1] <= most and found[-1][2] < free[-1][2]
    with pytest.raises(BudgetError, match="mJ by estimate") as e:
        pipeline.search(small, data=DATA, board=BOARD, millijoules=1e-6)
    named = re.fullmatch(r'millijoules="(\S+)"', e.value.hint)
    assert named and pipeline.search(small, data=DATA, board=BOARD, sram=12_000, millijoules=float(named[1]))


def test_what_a_step_takes_is_only_known_of_boards(small, tmp_path):
    with pytest.raises(BoardError, match="estimated for a board"):
        pipeline.search(small, data=DATA, instructions=5)
    profile = json.dumps({**find_board(BOARD).to_json(), "mw_per_mhz": None})
    (tmp_path / "own.json").write_text(profile)
    with pytest.raises(BoardError, match="does not say what it takes"):
        pipeline.search(small, data=DATA, board=str(tmp_path / "own.json"), millijoules=5)


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
