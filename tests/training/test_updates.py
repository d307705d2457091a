"""Updates of int8 weights: nothing wraps, nothing small is lost, the mean is right, and a step can be skipped."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from insitu.errors import DataError
from insitu.graph import s8
from insitu.graph.eval import run_step
from insitu.graph.types import s32
from insitu.ops.update_int import pack4, unpack4
from insitu.training.train import Recipe

from .programs import float_programs, int8_programs, one_weight, opened, samples

ARITHMETICS = ("residual", "residual4", "stochastic", "nearest", "master")
OPTIMIZERS = ("sgd", "momentum", "adam")
RESOLUTION = {"residual": 1 / 512, "residual4": 1 / 16, "stochastic": 1.0, "nearest": 0.5, "master": 0.0}
SCALE = 0.5


def weight_type(*shape):
    return s8(*shape, s=SCALE)


def real(state, arithmetic: str) -> np.ndarray:
    """The weight in its own unit, with the fraction that is stored beside it."""
    if arithmetic == "master":
        return state["w.master"].astype(np.float64)
    rest = {"residual": lambda r: r / 256, "residual4": lambda r: unpack4(r, state["w"].shape) / 16}
    return state["w"] + (rest[arithmetic](state["w.residual"]) if arithmetic in rest else 0.0)


def many_steps(arithmetic: str, weight, gradients, rate=1.0, **options) -> dict:
    """The state after these gradients, from the numpy meaning."""
    graph = one_weight(weight, weight_type(*weight.shape), Recipe(arithmetic=arithmetic, clip=0.0, **options))
    state = dict(graph.state)
    for g in gradients:
        _, state = run_step(graph, state, np.asarray(g, np.float32), np.float32(rate))
    return state


# one step ---------------------------------------------------------------------------------------

weights = arrays(np.int8, (7,), elements=st.integers(-127, 127))
gradients = arrays(np.float32, (7,), elements=st.floats(-(2.0**60), 2.0**60, width=32) | st.floats(-200, 200, width=32))


@pytest.mark.parametrize("arithmetic", ARITHMETICS)
@given(weight=weights, gradient=gradients)
@settings(max_examples=60, deadline=None)
def test_a_step_goes_the_right_way_and_stops_at_127(arithmetic, weight, gradient):
    state = many_steps(arithmetic, weight, [gradient])
    exact = weight - gradient.astype(np.float64) / SCALE
    wanted = np.clip(exact, -127, 127)
    assert np.abs(real(state, arithmetic) - wanted).max() <= RESOLUTION[arithmetic] + 1e-4
    assert np.abs(state["w"].astype(int)).max() <= 127
    sure = int((np.abs(exact) > 129).sum())
    assert sure <= state["counters"][2] <= sure + int((np.abs(exact) > 126).sum())


@pytest.mark.parametrize("arithmetic", ["residual", "residual4", "master"])
@given(weight=weights, gradient=gradients)
@settings(max_examples=30, deadline=None)
def test_the_weight_is_its_fine_value_rounded(arithmetic, weight, gradient):
    state = many_steps(arithmetic, weight, [gradient])
    assert np.abs(real(state, arithmetic) - state["w"]).max() <= 0.5


@given(r=arrays(np.int8, st.integers(1, 9), elements=st.integers(-8, 7)))
def test_half_bytes_pack_and_unpack(r):
    assert pack4(r).shape == (-(-r.size // 2),)
    np.testing.assert_array_equal(unpack4(pack4(r), r.shape), r)


def test_a_bias_saturates_instead_of_wrapping():
    bias = np.array([2**31 - 2, -(2**31) + 1, 5], np.int32)
    graph = one_weight(bias, s32(3, s=1.0), Recipe(clip=0.0))
    device = opened({"predict": graph})
    device.run("predict", np.array([-9, 9, 1], np.float32), 1.0)
    np.testing.assert_array_equal(device.state()["w"], [2**31 - 1, -(2**31), 4])
    assert device.state()["counters"][2] == 2


# many steps -------------------------------------------------------------------------------------


def test_a_residual_adds_up_small_steps_as_a_float_master_does():
    rng = np.random.default_rng(3)
    weight = rng.integers(-100, 101, 200).astype(np.int8)
    steps = [rng.uniform(-0.04, 0.05, 200) * SCALE for _ in range(400)]
    fine, exact = (real(many_steps(a, weight, steps), a) for a in ("residual", "master"))
    error = fine - exact
    moved = np.abs(exact - weight)
    assert moved.mean() > 1.5  # each step alone is far below one half
    spread = np.sqrt(len(steps) / 12) / 256  # each step is off by at most 1/512, either way
    assert np.abs(error.mean()) < 1 / 512
    assert np.abs(error).max() < 5 * spread
    assert np.abs(real(many_steps("nearest", weight, steps), "nearest") - weight).max() == 0


def test_a_residual_equals_a_float_master_where_steps_are_multiples_of_its_unit():
    rng = np.random.default_rng(4)
    weight = rng.integers(-60, 61, 50).astype(np.int8)
    steps = [rng.integers(-40, 41, 50) / 256 * SCALE for _ in range(200)]
    fine, exact = (many_steps(a, weight, steps) for a in ("residual", "master"))
    np.testing.assert_array_equal(real(fine, "residual"), real(exact, "master"))
    np.testing.assert_array_equal(fine["w"], exact["w"])


@pytest.mark.parametrize("arithmetic", ["stochastic", "residual4"])
@pytest.mark.parametrize("step", [0.3, -0.3, 0.01, -0.01, 0.0004])
def test_rounding_at_random_keeps_the_mean(arithmetic, step):
    count, steps, unit = 4000, 25, {"stochastic": 1, "residual4": 16}[arithmetic]
    state = many_steps(arithmetic, np.zeros(count, np.int8), [np.full(count, step * SCALE)] * steps)
    moves = -real(state, arithmetic) * unit
    p = abs(step) * unit % 1
    deviation = np.sqrt(steps * p * (1 - p))
    assert abs(moves.mean() - steps * step * unit) < 5 * deviation / np.sqrt(count)
    # steps are independent of each other: the sum of their variances is the variance of their sum
    assert abs(moves.std() - deviation) < 0.1 * deviation + 0.01


def test_another_step_element_name_or_seed_draws_other_numbers():
    half = np.full(256, 0.5 * SCALE)
    first = many_steps("stochastic", np.zeros(256, np.int8), [half])["w"]
    second = many_steps("stochastic", np.zeros(256, np.int8), [half, half])["w"] - first
    other = many_steps("stochastic", np.zeros(256, np.int8), [half], seed=1)["w"]
    agree = [np.mean(first == x) for x in (second, other, np.roll(first, 1))]
    assert all(0.3 < a < 0.7 for a in agree), agree


@pytest.mark.parametrize("arithmetic", ARITHMETICS)
def test_decay_is_in_real_units(arithmetic):
    weight = np.array([-120, -64, 3, 64, 120] * 40, np.int8)
    state = many_steps(arithmetic, weight, [np.zeros(200)] * 20, rate=0.1, decay=0.2)
    found = real(state, arithmetic).reshape(40, 5).mean(0)
    wanted = weight[:5] * (1 - 0.1 * 0.2) ** 20
    allowed = {"residual": 0.02, "master": 1e-3, "residual4": 0.2, "stochastic": 1.0, "nearest": 10.0}
    assert np.abs(found - wanted).max() < allowed[arithmetic]


# whole programs ---------------------------------------------------------------------------------

PROGRAMS = {
    **{a: lambda a=a, **k: int8_programs(Recipe(arithmetic=a, decay=0.01, seed=3), **k) for a in ARITHMETICS},
    **{o: lambda o=o, **k: float_programs("cnn", Recipe(optimizer=o, decay=0.01), **k) for o in OPTIMIZERS},
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_resuming_from_a_saved_state_equals_never_having_stopped(name):
    graphs = PROGRAMS[name]()
    x, y = samples("cnn", 8)
    whole, second = opened(graphs), opened(graphs)
    steps(whole, x[:4], y[:4])
    saved = whole.save_state()
    steps(whole, x[4:], y[4:])
    second.load_state(saved)
    steps(second, x[4:], y[4:])
    assert second.save_state() == whole.save_state() != saved


@pytest.mark.parametrize("name", PROGRAMS)
def test_c_and_numpy_learn_the_same(name):
    graphs = PROGRAMS[name]()
    step, device = graphs["train_step"], opened(graphs)
    x, y = samples("cnn", 4)
    state = dict(step.state)
    for n in range(len(x)):
        _, state = run_step(step, state, x[n : n + 1], y[n : n + 1], np.float32(0.1))
    steps(device, x, y)
    for key, found in device.state().items():
        tolerance = 0 if found.dtype.kind in "iu" else 1e-4
        assert np.abs(found.astype(np.float64) - state[key]).max() <= tolerance, key


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_loss_that_is_not_finite_changes_nothing_but_one_counter(name, bad):
    graphs = PROGRAMS[name]()
    device = opened(graphs)
    x, y = samples("cnn", 3)
    steps(device, x, y)
    poison(device, bad)
    before = device.state()
    steps(device, x[:1], y[:1])
    changed = {k for k, v in device.state().items() if not np.array_equal(v, before[k], equal_nan=True)}
    assert changed - {"step"} == {"counters"}  # the step counter continues
    np.testing.assert_array_equal(device.state()["counters"] - before["counters"], [1, 0, 0])


@pytest.mark.parametrize("name", ["residual", "adam"])
def test_a_rate_of_zero_or_infinity_changes_nothing(name):
    device = opened(PROGRAMS[name]())
    x, y = samples("cnn", 2)
    steps(device, x, y)
    before = device.state()
    for rate in (0.0, np.inf, np.nan):
        steps(device, x, y, rate)
    changed = {k for k, v in device.state().items() if not np.array_equal(v, before[k])}
    assert changed == {"counters"}
    assert device.state()["counters"][0] - before["counters"][0] == 4  # the two rates that are not finite


@pytest.mark.parametrize("name", ["residual", "sgd"])
def test_a_sample_whose_loss_is_not_finite_is_left_out_of_the_sum(name):
    graphs = PROGRAMS[name](accumulate=True)
    clean, dirty = opened(graphs), opened(graphs)
    x, y = samples("cnn", 3)
    for device in (clean, dirty):
        device.run("accumulate", x[:1], y[:1])
    good = dirty.state()
    poison(dirty, np.nan)
    dirty.run("accumulate", x[1:2], y[1:2])
    dirty.load_arrays({k: good[k] for k in ("head.bias",)})
    for device in (clean, dirty):
        device.run("accumulate", x[2:], y[2:])
        device.run("apply", 0.1, 0.5)
    a, b = clean.state(), dirty.state()
    assert (a.pop("counters")[0], b.pop("counters")[0]) == (0, 1)
    for key in a:
        np.testing.assert_array_equal(a[key], b[key], err_msg=key)


UNKNOWN = {
    "arithmetic": ("exact", "residual, residual4, stochastic, nearest, master"),
    "optimizer": ("lion", "sgd, momentum, adam"),
    "clip_kind": ("global", "None, step, parameter, head"),
    "loss": ("hinge", "cross_entropy, soft_cross_entropy, binary_cross_entropy, mse"),
    "grad": ("s4", "None, f32, s16, s8"),
}


@pytest.mark.parametrize("field", UNKNOWN)
def test_an_unknown_word_in_a_recipe_is_an_error_that_lists_the_known(field):
    word, known = UNKNOWN[field]
    with pytest.raises(DataError, match=f"{field} must be one of {known}, not '{word}'"):
        Recipe(**{field: word})


def test_the_words_of_a_recipe_may_be_in_upper_case():
    assert Recipe(optimizer="Adam", loss="MSE", grad="S16") == Recipe(optimizer="adam", loss="mse", grad="s16")


def test_a_word_that_is_nearly_known_is_suggested():
    with pytest.raises(DataError, match="try: momentum"):
        Recipe(optimizer="momentun")


def steps(device, x, y, rate: float = 0.1) -> None:
    for n in range(len(x)):
        device.run("train_step", x[n : n + 1], y[n : n + 1], np.float32(rate))


def poison(device, bad: float) -> None:
    """A head that gives a loss of NaN."""
    bias = device.state()["head.bias"]
    device.load_arrays({"head.bias": np.full_like(bias, bad)})
