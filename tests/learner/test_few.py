"""`partial_fit`, also called `learn`: one or a few samples at a time are learned from, and destroy nothing."""

import warnings
from inspect import signature

import numpy as np
import pytest
import torch
from torch import nn

import insitu
from insitu.demo import TARGET, digits, watch
from insitu.errors import DataError, LearningWarning

from ..learners import data, learner, state_of

DIGITS = digits()
X, Y = DIGITS.x_train[:300, ..., ::-1], DIGITS.y_train[:300]
TEST = DIGITS.x_test[..., ::-1], DIGITS.y_test
WORDS = np.array(["tap", "rest", "wave", "nod"])


def compiled(scheme: str, precision: str = "int8", **options) -> insitu.Learner:
    return insitu.compile(TARGET, data=DIGITS.x_train[:200], scheme=scheme, precision=precision, **options)


def in_calls(made: insitu.Learner, x, y, size: int) -> None:
    for first in range(0, len(x), size):
        made.partial_fit(x[first : first + size], y[first : first + size])


# scheme, precision, a new head -> the least accuracy after 300 mirrored digits; before: 34 % (a new head: 10 %)
LEARNED = [
    ("head", "int8", {}, 0.45),
    ("head", "int8", {"classes": 10}, 0.5),
    ("last:2", "int8", {}, 0.45),
    ("last:2", "int8", {"classes": 10}, 0.5),
    ("full", "float", {}, 0.45),
]


@pytest.mark.parametrize("scheme, precision, options, least", LEARNED)
def test_small_calls_learn_something_new(scheme, precision, options, least):
    made = compiled(scheme, precision, **options)
    first = state_of(made)
    for size in (10, 1):
        made.device.load_state(first)
        made.known = type(made.known)()
        in_calls(made, X, Y, size)
        assert made.evaluate(*TEST)["accuracy"] > least, size


@pytest.mark.parametrize("margin, size", [(20.0, 1), (40.0, 1), (120.0, 1), (2.0, 50), (8.0, 50)])
def test_samples_that_a_network_is_sure_of_do_not_make_the_next_one_destroy_it(margin, size):
    """Their gradients move no weight: with their own labels they would show no gain, and the rate would be 1e30 or that
    of features of no size at all."""
    module = nn.Linear(3, 3)
    module.weight.data, module.bias.data = margin * torch.eye(3), torch.zeros(3)
    made = insitu.compile(module, example=torch.zeros(1, 3), precision="float")
    x, y = size * np.eye(3, dtype=np.float32)[[0, 1, 2] * 3], np.array([0, 1, 2] * 3)
    made.partial_fit(x, y)
    found = made.partial_fit([[size, 0.9 * size, 0.0]], [1])
    assert found.head_rate * (size**2 + 1) < 2
    assert made.evaluate(x, y)["accuracy"] == 1.0


@pytest.mark.parametrize("scheme, precision", [("head", "int8"), ("last:2", "int8"), ("full", "float")])
def test_single_samples_do_not_destroy_what_is_known(scheme, precision):
    made = compiled(scheme, precision)
    known = DIGITS.x_test[300:], DIGITS.y_test[300:]
    before = made.evaluate(*known)["accuracy"]
    in_calls(made, DIGITS.x_test[:300], DIGITS.y_test[:300], 1)
    assert made.evaluate(*known)["accuracy"] > before - 0.02


@pytest.mark.parametrize("scheme, precision", [("head", "int8"), ("last:2", "int8"), ("full", "float")])
def test_a_watch_learns_its_wearer_window_by_window(scheme, precision):
    pytest.importorskip("seglearn")
    wearer = watch.wearer(2)
    made = insitu.compile(watch.network(2), data=watch.others(2).x[::16], scheme=scheme, precision=precision)
    before = made.evaluate(wearer.test.x, wearer.test.y)["accuracy"]
    order = np.random.default_rng(0).permutation(len(wearer.learn))
    for _ in range(5):
        in_calls(made, wearer.learn.x[order], wearer.learn.y[order], 1)
    assert made.evaluate(wearer.test.x, wearer.test.y)["accuracy"] > before + 0.05


@pytest.mark.parametrize("scheme", ["head", "full"])
def test_five_windows_of_one_exercise_do_not_make_others_look_like_it(scheme):
    """Without lower rates, 8.8 points were lost by some."""
    pytest.importorskip("seglearn")
    wearer = watch.wearer(1)
    made = insitu.compile(watch.network(1), data=watch.others(1).x[::16], scheme=scheme)
    first, before = state_of(made), made.evaluate(wearer.test.x, wearer.test.y)["accuracy"]
    for exercise in range(7):
        made.device.load_state(first)
        made.known = type(made.known)()
        rows = np.flatnonzero(wearer.learn.y == exercise)[:5]
        made.partial_fit(wearer.learn.x[rows], wearer.learn.y[rows])
        assert made.evaluate(wearer.test.x, wearer.test.y)["accuracy"] > before - 0.015, exercise


def test_rates_are_lower_by_as_much_as_a_class_has_more_than_its_share():
    made, x = learner("head", head_init="zero"), data(12)[0]
    rates = []
    for labels in ([0, 1, 2, 3], [2] * 4, [0, 0, 1, 1], [0, 0, 1, 2]):
        made.known = type(made.known)()
        made.device.load_arrays({"head.weight": np.zeros((4, 8), np.float32), "head.bias": np.zeros(4, np.float32)})
        rates.append(made.partial_fit(x[:4], labels).head_rate)
    assert [rates[0] / rate for rate in rates] == pytest.approx([1, 16, 4, 2], rel=0.01)


# --- calls ----------------------------------------------------------------------------------------------


def test_one_sample_and_its_name_are_enough():
    made, x = learner(classes=WORDS.tolist()), data(40)[0]
    first = state_of(made)
    history = made.learn(x[0], "wave")
    assert state_of(made) != first and history.updates == 1 and history.head_rate > 0
    made.partial_fit(x[1], 2)
    made.partial_fit(x[1:3], ["tap", "nod"])
    with pytest.raises(DataError, match="no class named 'shake'") as error:
        made.partial_fit(x[0], "shake")
    assert "tap, rest, wave, nod" in str(error.value) and "add_class('shake')" in str(error.value)
    made.add_class("shake")
    assert made.partial_fit(x[0], "shake").updates == 1


def test_learn_is_partial_fit():
    one, other, x = learner(classes=WORDS.tolist()), learner(classes=WORDS.tolist()), data(40)[0]
    assert str(one.learn(x[:4], WORDS[:4].tolist())) == str(other.partial_fit(x[:4], WORDS[:4].tolist()))
    assert state_of(one) == state_of(other) and signature(type(one).learn) == signature(type(one).partial_fit)


def test_a_given_rate_is_used():
    made, x = learner("last:1"), data()[0]
    history = made.partial_fit(x[:3], [0, 1, 2], rate=0.01, head_rate=0.03)
    assert (history.rate, history.head_rate) == (0.01, 0.03)
    with pytest.raises(DataError, match="learning rate"):
        made.partial_fit(x[0], 1, rate=-1)


def test_what_was_measured_is_kept_in_the_file(tmp_path):
    x, y = data(60)
    whole, first = (learner("last:1", head_init="zero") for _ in range(2))
    in_calls(whole, x, y, 5)
    in_calls(first, x[:30], y[:30], 5)
    opened = insitu.open(first.save(tmp_path / "half.insitu"))
    assert opened.known == first.known and opened.known.samples == 30
    in_calls(opened, x[30:], y[30:], 5)
    assert state_of(opened) == state_of(whole) and opened.known == whole.known


def test_fewer_samples_than_a_batch_make_an_update():
    made, (x, y) = learner(batch=4), data()
    assert made.partial_fit(x[:1], y[:1]).updates == 1
    assert made.partial_fit(x[:6], y[:6]).updates == 2


@pytest.mark.parametrize("place", ["process", "emulator"])
def test_a_board_learns_the_same_bytes(place):
    for package in ("unicorn", "elftools", "ziglang"):
        pytest.importorskip(package)
    x, y = data(12)
    host = learner("last:1", board="nrf52840", precision="int8", data=data()[0], head_init="zero")
    with host.on(place) as there:
        for made in (host, there):
            in_calls(made, x, y, 3)
        assert state_of(there) == state_of(host) and there.known == host.known


def test_the_firmware_in_a_folder_learns_too(tmp_path):
    for package in ("unicorn", "elftools", "ziglang"):
        pytest.importorskip(package)
    x, y = data(12)
    host = learner("last:1", board="nrf52840", precision="int8", data=data()[0], head_init="zero")
    host.write(tmp_path)
    with insitu.open(tmp_path) as board:
        for made in (host, board):
            in_calls(made, x, y, 3)
        assert state_of(board) == state_of(host)


def test_samples_of_a_new_class_alone_are_warned_of():
    """Nothing in them holds the other classes: after a few calls the network gives one answer to everything."""
    made = compiled("head")
    made.fit(X[Y < 9], Y[Y < 9], rate=0.01, epochs=1)
    nine = X[Y == 9][:5], np.full(5, 9)
    with pytest.warns(LearningWarning, match="a new class.*fit\\(x, y\\) with samples of all classes"):
        made.partial_fit(*nine)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made.partial_fit(X[Y == 3][:5], Y[Y == 3][:5])  # a class that the fit knew
        made.partial_fit(X[:30], Y[:30])  # all classes


def test_a_rate_that_only_moves_the_head_is_said():
    made = insitu.compile(TARGET, data=DIGITS.x_train[:200])
    assert "of the head alone" in str(made.fit(X[:20], Y[:20], rate=0.01, epochs=1))
    assert "of the head alone" not in str(made.fit(X[:20], Y[:20], rate=0.01, head_rate=0.01, epochs=1))


# rates that are given --------------------------------------------------------------------------------


def taught(scheme: str) -> insitu.Learner:
    """A learner that knows mirrored digits."""
    made = compiled(scheme)
    made.fit(X, Y, epochs=12, rate=0.02)
    return made


def said_by(made: insitu.Learner, samples: slice, rate: float) -> list[str]:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        made.partial_fit(X[samples], Y[samples], rate=rate)
    return [str(one.message) for one in said if one.category is LearningWarning]


@pytest.mark.parametrize("scheme", ["head", "last:2"])
def test_a_given_rate_far_above_the_derived_one_is_said(scheme):
    """partial_fit(x, y, rate=0.2) took a learner from 99.7 to 61.3 %, and nothing was said."""
    made = taught(scheme)
    first, before = state_of(made), made.evaluate(X, Y)["accuracy"]
    derived = made.partial_fit(X[:8], Y[:8]).head_rate
    made.device.load_state(first)
    (words,) = said_by(made, slice(0, 8), 0.2)
    assert "rate 0.2 is" in words and "times the derived one" in words
    assert derived < 0.2 / 10 and made.evaluate(X, Y)["accuracy"] < before - 0.05
    assert not said_by(made, slice(8, 16), 0.2)  # once


def test_a_rate_that_made_the_samples_worse_says_how_much():
    assert "the loss of 8 of the samples grew from" in said_by(taught("last:2"), slice(0, 8), 0.2)[0]


@pytest.mark.parametrize("rate", [0.001, 0.01])
def test_a_given_rate_like_the_derived_one_is_not_said(rate):
    assert not said_by(taught("head"), slice(0, 8), rate)


def test_watching_a_given_rate_changes_nothing():
    made = taught("last:2")
    first = state_of(made)
    found = []
    for told in (0.0, 1.0):  # watched; not watched, because that was said before
        made.device.load_state(first)
        made.told, made.known = told, type(made.known)()
        said_by(made, slice(0, 8), 0.2)
        found.append(state_of(made))
        assert made.known == type(made.known)(samples=8)
    assert found[0] == found[1]


def test_a_knock_or_silence_is_learned_from_and_another_unit_is_refused():
    x, y = data(100)
    made = learner(precision="int8", data=x)
    knock, silence = x[:1].copy(), np.full((1, 6), 0.5, np.float32) + np.arange(6, dtype=np.float32) / 1000
    knock[0, 0] = 9 * x.max()
    for one in (knock, silence):
        assert made.partial_fit(one, y[:1]).updates == 1
    with pytest.raises(insitu.DataError, match="the data lies in"):
        made.partial_fit(100 * x[:1], y[:1])
    with pytest.raises(insitu.DataError, match="the data lies in"):
        made.evaluate(np.repeat(silence, 4, 0), y[:4])
