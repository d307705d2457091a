"""Numbers that make no sense are refused by name, before anything changes."""

import numpy as np
import pytest

import insitu
from insitu.data.arguments import byte_count
from insitu.demo import TARGET
from insitu.errors import BudgetError, DataError
from insitu.schemes.scheme import SchemeError
from insitu.training.train import Recipe

X = np.random.default_rng(0).normal(size=(6, 1, 8, 8)).astype(np.float32)
Y = np.arange(6) % 3


@pytest.fixture(scope="module")
def learner():
    return insitu.compile(TARGET, classes=3, data=X, scheme="head")


@pytest.mark.parametrize(("name", "value"), [
    ("batch", 0), ("batch", -3), ("batch", 1.5), ("batch", "2"), ("batch", True), ("classes", 2.5), ("classes", 0),
    ("seed", -1), ("seed", 0.5), ("sram", "2 kilo"), ("sram", "0K"), ("sram", 1.5), ("flash", -1),
])  # fmt: skip
def test_compile_refuses(name, value):
    with pytest.raises(DataError, match=f"{name} must"):
        insitu.compile(TARGET, **{"classes": 3, "data": X, "scheme": "head", name: value})


@pytest.mark.parametrize(("name", "value"), [
    ("clip", float("nan")), ("clip", -1), ("clip", "a"), ("decay", float("inf")), ("decay", -0.1), ("decay", 1e39),
    ("momentum", 1.5), ("momentum", float("nan")), ("seed", -1),
])  # fmt: skip
def test_a_recipe_refuses(name, value):
    with pytest.raises(DataError, match=f"{name} must"):
        Recipe(**{name: value})


@pytest.mark.parametrize(("name", "value"), [
    ("rate", 1e39), ("rate", "a"), ("rate", float("nan")), ("rate", -1), ("head_rate", -1), ("epochs", 1.5),
    ("epochs", -1), ("epochs", 0), ("seed", -1), ("warmup", float("inf")), ("warmup", "a"), ("batch", 0),
    ("batch", 1.5), ("start_epoch", -1), ("stop_epoch", 0.5), ("threads", 0), ("views", 0),
])  # fmt: skip
def test_fit_refuses_and_learns_nothing(learner, name, value):
    before = learner.device.save_state()
    word = {"rate": "learning rate", "head_rate": "learning rate", "warmup": "warm-up"}.get(name, name)
    with pytest.raises(DataError, match=f"{word} must"):
        learner.fit(X, Y, **{name: value})
    assert learner.device.save_state() == before


@pytest.mark.parametrize("labels", [
    np.eye(4)[Y], np.eye(2)[Y % 2], np.full((6, 3), 1 / 3), np.ones((6, 3), int), np.eye(3)[Y] * 2,
])  # fmt: skip
def test_labels_with_the_wrong_columns_are_refused(learner, labels):
    before = learner.device.save_state()
    for arguments in ((X, labels), ((X, labels),)):
        with pytest.raises(DataError, match="columns"):
            learner.fit(*arguments)
    assert learner.device.save_state() == before


def test_one_hot_rows_are_class_numbers(learner):
    assert learner.evaluate(X, np.eye(3)[Y]) == learner.evaluate(X, Y)


@pytest.mark.parametrize("scheme", ["last:²", "last:٣", "last:0", "last:", "last:1.5", "bias:-1", "last:+2"])
def test_a_scheme_with_a_number_that_is_none_is_refused(scheme):
    with pytest.raises(SchemeError):
        insitu.compile(TARGET, classes=3, data=X, scheme=scheme)


def test_memory_may_be_given_in_words():
    assert [byte_count(v, "sram") for v in (None, 7, "7", "2K", "2kb", "1M")] == [None, 7, 7, 2048, 2048, 1 << 20]
    with pytest.raises(BudgetError):
        insitu.compile(TARGET, classes=3, data=X, scheme="head", sram="2K")
    insitu.compile(TARGET, classes=3, data=X, scheme="head", sram="256K")
