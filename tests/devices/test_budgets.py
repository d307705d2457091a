"""Budgets of a bout on a board, the rule of its store, and why a bout was rolled back."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("unicorn")

import insitu
from insitu.boards import find_board
from insitu.codegen.life_layout import STORE_RULES
from insitu.deploy.living import life_cost
from insitu.devices.link import LinkDevice
from insitu.devices.living import Kept, Living
from insitu.errors import BoardError, BudgetError, DataError
from insitu.store import rules

from ..learners import imported
from .living import CLASSES, RATE, compiled, points

X, Y = points(80)


def counted(made: insitu.Learner) -> tuple[int, int]:
    """Instructions of a step and of a recall."""
    assert made.deployed is not None and made.deployed.firmware is not None
    found = life_cost(made.deployed.firmware)[1]
    return found["learn"], found["recall"]


def test_a_budget_of_instructions_decides_how_many_steps_a_bout_has():
    made = compiled()
    step, recall = counted(made)
    with made.on("emulator") as board:
        board.observe(X[:30], Y[:30])
        guards = sum(c["guards"] for c in board.statistics()["classes"])
        done = board.rehearse(instructions=7 * step + 2 * guards * recall, rate=RATE)
        assert done.steps == 7 and done.finished and "(estimate)" in done.note and "instructions" in done.note
        assert done.energy_mj == pytest.approx(find_board("nrf51822").millijoules(7 * step + 2 * guards * recall))
        assert board.rehearse(3, instructions=10**9, rate=RATE).steps == 3
        with pytest.raises(BudgetError, match="too little.*estimate"):
            board.rehearse(instructions=step, rate=RATE)


def test_a_budget_of_energy_is_one_of_instructions():
    made, board_ = compiled(), find_board("nrf51822")
    step, _ = counted(made)
    with made.on("emulator") as board:
        board.observe(X[:3], Y[:3])
        done = board.rehearse(energy_mj=board_.millijoules(5.5 * step), rate=RATE, partial=True)
        assert done.steps == 5 and "mJ for 5 steps (estimate)" in str(done)


def test_this_machine_names_the_budget_that_ended_a_call():
    made = insitu.compile(imported(), classes=CLASSES, precision="float")
    made.keep(watts=1000.0)
    made.observe(X[:30], Y[:30])
    assert made.rehearse(1000, energy_mj=1e-3, seconds=60).note == "out of energy: 0.001 mJ (estimate)"
    assert made.rehearse(energy_mj=1e9, seconds=1e-6).note == "out of time: 1e-06 s"
    with pytest.raises(DataError, match="counted on boards"):
        made.rehearse(instructions=1000)


@pytest.mark.parametrize("rule", STORE_RULES)
def test_a_board_follows_the_rule_of_its_store_as_this_machine_does(rule: str):
    learner = insitu.compile(imported(), classes=CLASSES, scheme="head", precision="float", board="stm32l476",
                             store="1K", store_rule=rule)  # fmt: skip
    with learner.on("emulator") as board:
        assert isinstance(board.device, LinkDevice)
        life = Living(board.device)
        here = learner.keep(count=life.capacity, rule=rule)
        for i in range(80):
            life.observe(X[i], label=int(Y[i]))
            learner.observe(X[i][None], int(Y[i]))
        kept = [r for _, r in sorted(here.store.ledger.records.items())]
        assert life.records() == [Kept(r.id, r.label, r.guard, r.worth, r.uses) for r in kept]
        assert rule != "oldest" or min(r.id for r in kept if not r.guard) > 80 - 2 * life.capacity > 0


def test_a_rule_is_one_of_three_and_needs_a_store():
    assert STORE_RULES == rules.RULES
    with pytest.raises(BoardError, match="unknown"):
        insitu.compile(imported(), classes=4, precision="float", board="nrf51822", store="4K", store_rule="newest")
    with pytest.raises(BoardError, match="there is none"):
        insitu.compile(imported(), classes=4, precision="float", board="nrf51822", store_rule="oldest")


def test_a_bout_that_was_rolled_back_says_why():
    from insitu.store.verdict import harm

    assert harm(0, 3) == "what it learned was no longer finite"
    assert harm(1, 0) == "1 guard went wrong, 0 went right"
    assert "had judged no bout before" in harm(4, 4)
    with compiled().on("emulator") as board:
        board.observe(X[:60], Y[:60])
        board.rehearse(400, rate=0.2)
        done = board.rehearse(40, rate=50.0)
        assert done.rolled_back and f"{done.lost} guards went wrong" in done.note and done.note in str(done)
    here = insitu.compile(imported(), classes=CLASSES, precision="float")
    here.observe(X[:60], Y[:60])
    here.rehearse(400, rate=0.2)
    done = here.rehearse(40, rate=50.0)
    assert done.rolled_back and "went wrong" in done.note and done.note in str(done)
