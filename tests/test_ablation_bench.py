"""bench/ablation.py: every part of the planner can be switched off, comes back, and the table says what changed."""

from importlib import import_module

import pytest

from bench.ablation import PARTS, WHOLE, Planned, off, planned, table
from insitu.planner.changes.table import CHANGES
from insitu.planner.spent import words_of

from .firmware.images import conv_graphs


def now() -> list:
    """What the planner has at the places that the bench changes."""
    places = {(module, name) for switches in PARTS.values() for module, name, _ in switches}
    return [getattr(import_module(f"insitu.planner.{module}"), name) for module, name in sorted(places)]


def test_every_change_of_the_table_is_a_part():
    assert {words_of(c.name) for c in CHANGES} <= set(PARTS)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_is_off_only_inside(part):
    before = now()
    with off(part):
        assert (now() == before) == (part == WHOLE)
    assert now() == before


@pytest.mark.parametrize("part", (WHOLE, "stripes", "less scratch", "a first round without stripes"))
def test_a_step_is_planned_without_a_part(part):
    assert planned(conv_graphs()["train_step"], part, 0).arena_bytes > 0


def test_the_table_has_the_program_that_changes_most():
    found = {
        "a/49kb/m7/s16": {WHOLE: Planned(1000, 100), "stripes": Planned(1500, 2_000_100)},
        "b/49kb/m7/s16": {WHOLE: Planned(1000), "stripes": Planned(1001)},
        "a/49kb/m7/f32": {WHOLE: Planned(1000), "stripes": Planned(1002)},
        "a/49kb/m7/s16/rows": {WHOLE: Planned(1000), "stripes": Planned(why="cannot arrive")},
    }
    line = table(found, [WHOLE, "stripes"]).splitlines()[-1]
    assert line == "| stripes | +50 % (a/49kb) | nothing (+0.20 %) | needed | up to 2 M more |"
