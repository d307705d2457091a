"""A state is received in place if SRAM does not hold it twice or the least memory is wanted; every byte is counted."""

from dataclasses import replace

import numpy as np
import pytest

import insitu
from insitu.boards.cpu import CPUS
from insitu.cli.compile import describe, to_text
from insitu.codegen.device import in_place, interface_of
from insitu.codegen.state import HEADER_BYTES
from insitu.deploy import IN_PLACE, Limits, board_programs, deploy, limits_of
from insitu.deploy.bundle_texts import readme
from insitu.deploy.manifest import manifest
from insitu.devices.emulator import emulate
from insitu.errors import BudgetError
from insitu.planner import plan_all
from insitu.terminal.wording import in_shell

from .test_budget import compiled, least, ways

for package in ("elftools", "ziglang"):
    pytest.importorskip(package)

# of the wide network: less arena than state, or even less
OPTIONS = {"scheme": "last:1", "board": "nrf52840", "prefer": "memory"}


@pytest.fixture(scope="module")
def learner():
    return compiled("wide", **OPTIONS)


@pytest.fixture(scope="module")
def staged(learner):
    """All of the board's SRAM, which holds two states."""
    return within(learner)


@pytest.fixture(scope="module")
def programs(learner):
    return [*board_programs(learner.graphs)]


@pytest.fixture
def planned(monkeypatch) -> list[int]:
    """The plans that were made: the bytes that were enough."""
    found = []

    def counted(graphs, target, enough, made):
        found.append(enough)
        return plan_all(graphs, target, enough, made)

    monkeypatch.setattr("insitu.deploy.programs.plan_all", counted)
    return found


def within(learner, sram: int | None = None):
    """Its program for a board with this much SRAM, where neither memory nor speed matters more."""
    board = learner.deployed.limits.board
    return deploy(learner.graphs, Limits(board, sram or board.sram.bytes, board.flash.bytes, "balance"))


def at(sram: int):
    return compiled("wide", **OPTIONS, sram=sram).deployed


def test_the_least_memory_never_holds_a_state_twice(learner, staged, programs):
    assert learner.deployed.in_place and not staged.in_place
    assert learner.deployed.program.arena_bytes == programs[-1].arena_bytes < staged.program.state_bytes
    rest = staged.sram_bytes - interface_of(staged.program).arena_bytes - staged.program.state_bytes
    state_and_arena = learner.deployed.program.state_bytes + learner.deployed.program.arena_bytes
    assert learner.deployed.sram_bytes == pytest.approx(state_and_arena + rest, abs=256)  # stack


def test_half_of_a_board_is_kept_to_in_place_before_more_of_it_is_used(learner, staged):
    board, half = staged.limits.board, staged.sram_bytes - 1
    found = deploy(learner.graphs, Limits(board, board.sram.bytes, board.flash.bytes, "balance", (half, half * 2)))
    assert found.in_place and found.sram_bytes <= half


def test_each_program_takes_less_than_the_one_before_and_all_but_the_first_receive_in_place(programs):
    arenas = [interface_of(p).arena_bytes for p in programs]
    assert arenas == sorted(set(arenas), reverse=True) and len(arenas) == 3
    assert [in_place(p) for p in programs] == [False, True, True]
    assert arenas[0] == HEADER_BYTES + programs[0].state_bytes
    assert programs[1].plans == programs[0].plans, "the first in place costs no instructions"


def test_where_two_states_fit_they_are_staged_and_nothing_is_planned_twice(learner, staged, planned):
    found = within(learner, staged.sram_bytes)
    assert not found.in_place and found.sram_bytes == staged.sram_bytes
    assert len(planned) == 1


def test_a_byte_less_and_the_state_comes_in_place_with_the_same_plan(learner, staged, programs, planned):
    found = within(learner, staged.sram_bytes - 1)
    assert found.in_place and len(planned) == 1
    assert found.program.arena_bytes == programs[1].arena_bytes
    saved = interface_of(programs[0]).arena_bytes - programs[1].arena_bytes
    assert staged.sram_bytes - found.sram_bytes == pytest.approx(saved, abs=16)  # alignment


def test_where_that_is_not_enough_the_arena_is_lowered_as_far_as_it_must(learner, staged, programs, planned):
    larger = within(learner, staged.sram_bytes - 1).sram_bytes
    lower = within(learner, larger - 1)
    assert lower.in_place and lower.sram_bytes < larger
    assert lower.program.arena_bytes < programs[1].arena_bytes
    assert planned[0] > planned[1] and len(planned) == 2, "the arena that is too large is not planned again"


def test_the_smallest_program_fits_to_the_byte_and_a_byte_less_is_told(learner):
    sram = least("wide", **OPTIONS)
    assert at(sram).sram_bytes == sram
    with pytest.raises(
        BudgetError, match=rf"needs {sram:,} B of SRAM, {sram - 1:,} B available.*\n.*\n.*of stack and protocol"
    ) as e:
        at(sram - 1)
    assert ways(e.value)


def test_the_memory_that_a_hint_names_is_what_the_smallest_program_takes():
    options = {**OPTIONS, "scheme": "head", "head": "int8"}
    sram = least("wide", **options)
    with pytest.raises(BudgetError) as e, in_shell():
        compiled("wide", **options, sram=sram - 1)
    (way,) = ways(e.value)
    assert way == {"sram": f"{-(-sram // 1024)}K"}


def test_more_flash_is_not_sought_by_receiving_in_place(learner, planned):
    board = learner.deployed.limits.board
    found = deploy(learner.graphs, Limits(board, board.sram.bytes, 4096, "balance"))
    assert not found.fits and not found.in_place and len(planned) == 1


def test_a_program_without_limits_and_one_without_a_state_are_not_in_place(learner):
    board = learner.deployed.limits.board
    assert not deploy(learner.graphs, Limits(board)).in_place
    fixed = {"predict": insitu.load(learner.parts.forward).graph}
    assert [in_place(p) for p in board_programs(fixed)] == [False]


def test_a_core_that_is_not_linked_for_is_reckoned_in_the_same_way(learner, monkeypatch):
    monkeypatch.setitem(CPUS, "rv32imc", replace(CPUS["rv32imc"], emulator=""))
    limits = replace(limits_of("esp32c3", None, None), aims=())
    whole = deploy(learner.graphs, limits)
    tight = deploy(learner.graphs, replace(limits, sram=whole.sram_bytes - 1))
    assert (whole.in_place, tight.in_place) == (False, True)
    assert whole.sram_bytes > tight.sram_bytes


def test_reports_say_it_in_a_line(learner):
    roomy = compiled("wide", **{**OPTIONS, "prefer": "speed"})
    for found, said in ((roomy, False), (learner, True)):
        report = describe(found)
        assert report["in_place"] is said is manifest(found.deployed)["figures"]["in_place"]
        assert (IN_PLACE in to_text(report)) is said is (IN_PLACE in readme(found.deployed))


def test_what_was_learned_here_goes_on_learning_there_after_an_in_place_load(learner):
    pytest.importorskip("unicorn")
    firmware = at(least("wide", **OPTIONS)).firmware
    device = emulate(firmware)
    host, shape = learner.device, learner.graphs["train_step"].inputs[0].shape
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(4, *shape)).astype(np.float32), np.arange(4, dtype=np.int32)
    steps = [(x[i], y[i : i + 1], np.float32(0.05)) for i in range(4)]
    for step in steps[:2]:
        host.run("train_step", *step)
    first = host.save_state()
    device.load_state(first)
    for step in steps[2:]:
        there, here = device.run("train_step", *step), host.run("train_step", *step)
        assert [a.tobytes() for a in there] == [a.tobytes() for a in here]
    assert device.save_state() == host.save_state() != first
    assert device.stack_bytes() <= firmware.stack.bytes
