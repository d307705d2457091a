"""`insitu demo`: a real network, small enough to ship, that loses nothing in int8 and runs in seconds."""

import pytest

from insitu.demo import TARGET, run_demo


@pytest.fixture(scope="module")
def demo():
    return run_demo()


def test_the_network_is_small_and_carries_no_path_of_the_machine_it_was_made_on():
    data = TARGET.read_bytes()
    assert len(data) < 100_000
    assert b"/site-packages/" not in data and b".py" not in data


def test_int8_is_within_a_point_of_float(demo):
    exact, quantised = (line.accuracy for line in demo.lines)
    assert exact > 0.95
    assert quantised > exact - 0.01


def test_the_c_program_gives_the_bytes_of_the_numpy_meaning(demo):
    assert demo.equal


def test_int8_needs_a_fraction_of_the_memory(demo):
    exact, quantised = (line.speed for line in demo.lines)
    assert quantised.arena_bytes < exact.arena_bytes / 3
    assert quantised.const_bytes < exact.const_bytes / 2


def test_the_map_names_what_is_alive_at_the_peak(demo):
    text = demo.to_text()
    peak = demo.int8_map.steps[demo.int8_map.peak_step]
    assert f"peak at step {demo.int8_map.peak_step} ({peak})" in text
    assert all(b.values[-1] in text for b in demo.int8_map.alive(demo.int8_map.peak_step) if b.type)
