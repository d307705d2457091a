"""Samples and labels that come one after the other: generators, iterators and loaders."""

from __future__ import annotations

from itertools import count, repeat

import numpy as np
import pytest
import torch

from insitu.data import as_inputs, as_samples, to_classify
from insitu.data.streams import MOST
from insitu.errors import DataError
from insitu.graph import build
from insitu.graph.types import f32
from insitu.quantizer.calibrate import calibrate

from ..learners import data, learner, state_of

X, Y = np.arange(12, dtype=np.float32).reshape(4, 3), np.array([0, 1, 0, 1])


def rows(inputs: int = 1):
    with build("rows") as b:
        found = [b.input(f"x{i}", f32(1, 3)) for i in range(inputs)]
        return b.graph(*found)


class Loader:
    """Batches of samples, with a length and no index."""

    def __init__(self, *parts):
        self.parts = parts

    def __iter__(self):
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)


SAMPLES = {
    "a generator": lambda: (row for row in X),
    "an iterator": lambda: iter(X),
    "of lists": lambda: iter(X.tolist()),
    "of batches": lambda: iter([X[:3], X[3:]]),
    "a loader": lambda: Loader(X[:3], X[3:]),
    "a map": lambda: map(np.copy, X),
    "values of a dict": lambda: dict(enumerate(X)).values(),
}


@pytest.mark.parametrize("kind", SAMPLES)
def test_iterables_of_samples_are_taken(kind):
    (found,) = as_inputs((SAMPLES[kind](),), rows())
    np.testing.assert_array_equal(found, X)
    np.testing.assert_array_equal(as_samples(SAMPLES[kind](), rows()).inputs[0], X)


LABELS = {
    "a generator": lambda: (int(k) for k in Y),
    "an array": lambda: Y,
    "one-hot rows": lambda: iter(np.eye(2)[Y]),
    "names": lambda: iter(np.array(["rest", "wave"])[Y].tolist()),
}


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("together", [False, True])
def test_labels_come_along(kind, together):
    x, y = iter(X), LABELS[kind]()
    found = as_samples((x, y), rows()) if together else as_samples(x, rows(), labels=y)
    assert found.labels is not None and found.labels.tolist() == Y.tolist()
    np.testing.assert_array_equal(found.inputs[0], X)


def test_labels_may_come_in_the_batches_of_their_samples():
    found = as_samples(Loader(X[:3], X[3:]), rows(), labels=iter([Y[:3], Y[3:]]))
    assert found.labels is not None and found.labels.tolist() == Y.tolist()
    assert as_samples(X, rows(), labels=iter(Y)).labels.tolist() == Y.tolist()  # type: ignore[union-attr]


def test_a_model_with_several_inputs_takes_tuples_or_an_iterable_for_each():
    found = as_samples(((row, 2 * row) for row in X), rows(2), labels=iter(Y))
    np.testing.assert_array_equal(found.inputs[1], 2 * X)
    np.testing.assert_array_equal(as_inputs((iter(X), X), rows(2))[0], X)


BOTH = r'\(x0, x1\), or a dict: {"x0": \.\.\., "x1": \.\.\.}'


@pytest.mark.parametrize("take", [
    lambda: as_samples(X, rows(2)), lambda: as_samples(X, rows(2), labels=Y), lambda: as_samples((X, Y), rows(2)),
    lambda: as_inputs((X,), rows(2)), lambda: calibrate(rows(2), X),
])  # fmt: skip
def test_one_array_for_two_inputs_is_refused_with_how_to_give_two(take):
    with pytest.raises(DataError, match=rf"\n  try: a tuple with one array per input, {BOTH}"):
        take()


def test_an_endless_one_is_cut_with_a_note_to_learn_and_refused_to_predict():
    found = as_samples(repeat(X[0]), rows(), labels=(k % 2 for k in count()))
    assert len(found) == MOST and "without a length" in found.notes[0]
    with pytest.raises(DataError, match="more than 10,000 samples may never end"):
        as_inputs((repeat(X[0]),), rows())
    assert len(as_inputs((iter(np.zeros((MOST, 3))),), rows())[0]) == MOST


WRONG = {
    "nothing": (lambda: iter(()), None, "there are no samples"),
    "no labels": (lambda: iter(X), lambda: iter(()), "there are no labels"),
    "labels are missing": (lambda: iter(X), lambda: iter(Y[:3]), "numbers of inputs and labels differ: \\d+ and 3"),
    "a label too many": (lambda: iter(X), lambda: iter([*Y, 1]), "numbers of inputs and labels differ"),
    "other shapes": (lambda: iter([X[0], X[0, :2]]), None, "differ in shape"),
    "objects": (lambda: iter([{"x": 1}]), None, "must be a sample or a pair"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_told(what):
    x, y, says = WRONG[what]
    with pytest.raises(DataError, match=says):
        as_samples(x(), rows(), labels=y and y())


def test_pairs_are_refused_where_only_samples_are_wanted():
    with pytest.raises(DataError, match="x alone must be given") as error:
        as_inputs((zip(X, Y),), rows())
    assert "(x for x, y in data)" in str(error.value)


def test_lists_of_two_lists_are_samples_of_two_channels_and_no_pairs():
    with build("channels") as b:
        graph = b.graph(b.input("x", f32(1, 2, 3)))
    x = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
    np.testing.assert_array_equal(as_samples(x.tolist(), graph).inputs[0], x)
    np.testing.assert_array_equal(to_classify(x.tolist(), graph)[0], x)


def test_samples_to_classify_may_come_with_labels_and_must_end():
    for given in ((X, Y), zip(X, Y), list(zip(X, Y)), Pairs(), Loader((X[:3], Y[:3]), (X[3:], Y[3:])), X, iter(X)):
        np.testing.assert_array_equal(to_classify(given, rows())[0], X)
    with pytest.raises(DataError, match="may never end"):
        to_classify(repeat(X[0]), rows())


class Pairs:
    """As a torch Dataset: a length and an index."""

    def __getitem__(self, i: int):
        return X[i], Y[i]

    def __len__(self) -> int:
        return len(X)


def test_a_dict_has_an_array_per_input_and_brain_floats_are_floats():
    np.testing.assert_array_equal(as_inputs(({"x1": 2 * X, "x0": X},), rows(2))[1], 2 * X)
    np.testing.assert_array_equal(as_samples({"x0": X}, rows(), labels=Y).inputs[0], X)
    with pytest.raises(DataError, match="one array per input of the model: x0, x1; not x0"):
        as_inputs(({"x0": X},), rows(2))
    np.testing.assert_array_equal(as_inputs((torch.tensor(X).bfloat16(),), rows())[0], X)
    with pytest.raises(DataError, match="is a single int"):
        as_inputs((3,), rows())


def test_a_learner_takes_them_everywhere():
    x, y = data(40)
    made, same = learner(), learner()
    made.fit((row for row in x), (int(k) for k in y), epochs=2, rate=0.1)
    same.fit(x, y, epochs=2, rate=0.1)
    assert state_of(made) == state_of(same)
    np.testing.assert_array_equal(made.predict(row for row in x), made.predict(x))
    assert made.classify(iter(x)) == made.classify(x)
    assert made.evaluate(iter(x), iter(y)) == made.evaluate(x, y)
    made.partial_fit(iter(x), iter(y))
