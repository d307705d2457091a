"""`scheme="auto:ladder"`: as much is trained as fits, more in more memory, and the note says what and why."""

from __future__ import annotations

import pytest

import insitu
from insitu.deploy.auto import HOST, choose
from insitu.deploy.limits import Limits
from insitu.errors import BudgetError
from insitu.pipeline import trainable
from insitu.schemes.ladder import rungs

from .test_budget import model, need


def auto(**options):
    return insitu.compile(model("inverted"), classes=4, **{"scheme": "auto:ladder", **options})


@pytest.fixture(scope="module")
def full():
    return auto(scheme="full")


@pytest.fixture(scope="module")
def head():
    return auto(scheme="head")


def trained(learner) -> set[str]:
    return set(learner.graphs["predict"].state)


def test_a_small_network_is_trained_in_full(full):
    made = auto()
    assert made.parts.scheme == full.parts.scheme and need(made)[0] <= HOST
    assert made.notes == ("scheme auto:ladder: full, everything is trained",)


def test_a_budget_is_used_and_kept(full, head):
    least, most, before = need(head)[0], need(full)[0], 0
    for sram in (least, (least + most) // 2, most - 1):
        made = auto(sram=sram)
        assert need(made)[0] <= sram and len(made.parts.scheme.updates) >= before
        before = len(made.parts.scheme.updates)
    assert before > 0 and made.parts.scheme.name.startswith("ladder:")
    assert f"within {sram / 1000:.1f} KB" in made.notes[0]


def test_the_next_rung_would_not_fit(head, full):
    sram = (need(head)[0] + need(full)[0]) // 2
    number = int(auto(sram=sram).parts.scheme.name.partition(":")[2])
    with pytest.raises(BudgetError):
        auto(sram=sram, scheme=f"ladder:{number + 1}")


def test_the_name_of_a_rung_makes_the_same_program(head, full):
    made = auto(sram=(need(head)[0] + need(full)[0]) // 2)
    again = auto(scheme=made.parts.scheme.name)
    assert trained(again) == trained(made) and need(again) == need(made)


def test_where_not_even_the_head_fits_the_error_says_so(head):
    with pytest.raises(BudgetError, match="needs"):
        auto(sram=need(head)[0] - 1)


def test_on_a_board_everything_is_counted():
    for package in ("elftools", "ziglang"):
        pytest.importorskip(package)
    made = auto(board="nrf52840", sram=24_000)
    assert made.deployed.sram_bytes <= 24_000
    assert made.parts.scheme.updates and made.parts.scheme.name.startswith("ladder:")


def test_more_than_half_of_a_board_is_used_only_if_nothing_but_the_head_fits_the_half(full, head):
    def best(half: int, whole: int) -> str:
        limits = Limits(None, whole, aims=(half, whole))
        return next(choose(full.parts, trainable(full.parts.forward), limits)).scheme.name

    assert best(need(full)[0], 10**6) == "full" == best(need(head)[0], 10**6)
    assert best(need(full)[0] - 1, 10**6) != "full"


def test_a_few_plans_are_enough(full, monkeypatch):
    planned = []
    monkeypatch.setattr("insitu.deploy.auto.host_bytes", lambda graphs: planned.append(graphs) or 10**9)
    layers = trainable(full.parts.forward)
    first = next(choose(full.parts, layers, Limits(sram=50_000)))
    assert first.number == 0 and len(planned) < 9 < len(rungs(layers))
