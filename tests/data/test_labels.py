"""Labels: numbers, one-hot rows or names; matched by name with the classes that a model knows."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import numpy as np
import pytest

from insitu.data import Samples, as_samples, by_name, check_labels
from insitu.data.streams import MOST
from insitu.errors import DataError
from insitu.graph import build, parse
from insitu.graph.classes import checked, named
from insitu.graph.types import f32
from insitu.learner.given import given_samples, one_or_more

WORDS = ["wave", "rest", "wave", "tap"]
X = np.arange(12, dtype=np.float32).reshape(4, 3)


def rows():
    with build("rows") as b:
        x = b.input("x", f32(1, 3))
        return b.graph(x)


@pytest.mark.parametrize("labels", [WORDS, np.array(WORDS), np.array(WORDS, object), tuple(WORDS)])
def test_names_are_numbered_in_alphabetical_order(labels):
    found = as_samples(X, rows(), labels=labels)
    assert found.names == ("rest", "tap", "wave")
    assert found.labels is not None and found.labels.tolist() == [2, 0, 2, 1]


def test_lists_single_samples_and_frames_are_taken():
    assert as_samples(X.tolist(), rows(), labels=[0, 1, 0, 1]).inputs[0].shape == (4, 3)
    assert as_samples(X[0], rows(), labels=3).labels.tolist() == [3]  # type: ignore[union-attr]
    pandas = pytest.importorskip("pandas", reason="a frame needs pandas")
    frame = pandas.DataFrame(X)
    found = as_samples(frame, rows(), labels=pandas.Series(WORDS))
    assert found.names == ("rest", "tap", "wave") and np.array_equal(found.inputs[0], X)


def test_names_as_bytes_are_text():
    found = as_samples(X[:2], rows(), labels=np.array(["wavé".encode(), b"rest"]))
    assert found.names == ("rest", "wavé") and found.labels.tolist() == [1, 0]  # type: ignore[union-attr]
    with pytest.raises(DataError, match="not text in UTF-8"):
        as_samples(X[:2], rows(), labels=[b"\xff", b"a"])


def test_an_endless_iterable_is_cut_with_a_note():
    found = as_samples(((X[i % 4], "a") for i in count()), rows())
    assert len(found) == MOST and "without a length" in found.notes[0]


def test_labels_are_matched_by_name_not_by_position():
    samples = Samples((X,), np.array([0, 1, 0, 1]), ("tap", "wave"))
    found = by_name(samples, ("rest", "wave", "tap"))
    assert found.labels is not None and found.labels.tolist() == [2, 1, 2, 1]


def test_an_unknown_name_lists_the_known_ones():
    samples = Samples((X,), np.array([0, 1, 0, 1]), ("tap", "shake"))
    with pytest.raises(DataError, match="no class named 'shake'") as error:
        by_name(samples, ("rest", "wave", "tap"))
    assert "known: rest, wave, tap" in str(error.value)
    unused = replace(samples, labels=np.zeros(4, np.int64))
    assert by_name(unused, ("rest", "wave", "tap")).labels.tolist() == [2] * 4  # type: ignore[union-attr]


def test_new_names_take_the_free_places():
    assert named(("b", "a"), (), 3) == ("b", "a", "")
    assert named(("c",), ("b", "a", ""), 3) == ("b", "a", "c")
    with pytest.raises(DataError, match="no class named 'd'"):
        named(("d",), ("b", "a", "c"), 3)


@pytest.mark.parametrize("bad", [("a", "a"), ("a\nb",), ("x" * 201,), (3,)])
def test_names_that_cannot_be_written_are_refused(bad):
    with pytest.raises(DataError):
        checked(bad)


def test_empty_labels_and_labels_beyond_the_classes_are_refused():
    with pytest.raises(DataError, match="empty label"):
        as_samples(X, rows(), labels=["a", "", "b", "a"])
    with pytest.raises(DataError, match=r"classes=8"):
        check_labels(Samples((X,), np.array([0, 1, 7, 1])), 3)


def test_an_npz_may_name_its_numbers(tmp_path):
    np.savez(tmp_path / "a.npz", x=X, y=np.array([0, 1, 0, 1]), class_names=np.array(["rest", "wave"]))
    assert as_samples(tmp_path / "a.npz", rows()).names == ("rest", "wave")
    np.savez(tmp_path / "b.npz", x=X, y=np.array(WORDS))
    assert as_samples(tmp_path / "b.npz", rows()).names == ("rest", "tap", "wave")


def test_the_text_of_a_graph_keeps_its_classes():
    graph = replace(rows(), classes=("rest", 'a "quoted" one', "größer"))
    assert parse(str(graph)).classes == graph.classes


def test_labels_with_many_different_values_are_told_how_quantities_are_learned():
    x, y = np.zeros((100, 2), np.float32), np.random.default_rng(0).integers(25, 347, 100)
    with pytest.raises(DataError, match="labels are .* but the model has classes 0..2") as e:
        check_labels(Samples((x,), y), 3)
    assert e.value.hint.startswith('to learn quantities: recipe=Recipe(loss="mse")')
    with pytest.raises(DataError) as few:
        check_labels(Samples((x,), np.arange(100) % 8), 3)
    assert "mse" not in few.value.hint


@pytest.mark.parametrize("wrong", [2, -1, 255])
def test_a_number_that_the_names_of_an_npz_do_not_name_is_refused(wrong, tmp_path):
    """A negative one would count from the last name."""
    np.savez(tmp_path / "a.npz", x=X, y=np.array([0, 1, 0, wrong]), class_names=np.array(["rest", "wave"]))
    with pytest.raises(DataError, match=rf"a\.npz: labels are .*{wrong}.*names for 0\.\.1: rest, wave"):
        as_samples(tmp_path / "a.npz", rows())


def test_ragged_labels_and_samples_are_refused():
    ragged = [[1, 2], [1], [2, 1], [3]]
    for x, y in ((X, ragged), (ragged, [0, 1, 0, 1])):
        with pytest.raises(DataError, match="differ in shape"):
            given_samples(rows(), "cross_entropy", x, y)
    with pytest.raises(DataError, match="differ in shape"):
        one_or_more(ragged, [0, 1, 0, 1], rows(), "mse")
