"""Pandas frames given to a learner: the label among the columns, words, and numbers of other types."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from insitu import DataError
from insitu.data import as_inputs, as_samples
from insitu.graph import build
from insitu.graph.types import f32

pandas = pytest.importorskip("pandas", reason="a frame needs pandas")
X, WORDS = np.arange(12, dtype=np.float32).reshape(4, 3), ["rest", "wave", "rest", "tap"]


def rows():
    with build("rows") as b:
        return b.graph(b.input("x", f32(1, 3)))


def frame(heading: str):
    return pandas.DataFrame(X, columns=list("abc")).assign(**{heading: WORDS})


@pytest.mark.parametrize("heading", ["label", "Label", "class", "target"])
def test_a_column_of_labels_is_that_of_a_file(heading):
    found = as_samples(frame(heading), rows())
    np.testing.assert_array_equal(found.inputs[0], X)
    assert found.names == ("rest", "tap", "wave") and found.labels.tolist() == [0, 2, 0, 1]  # type: ignore[union-attr]
    np.testing.assert_array_equal(as_inputs((frame(heading),), rows())[0], X)


def test_a_column_with_another_heading_is_no_label():
    with pytest.raises(DataError, match="shape 4x6"):  # its three words became three columns
        as_samples(frame("kind"), rows())


def test_words_are_no_numbers_to_a_model_that_never_learned_words():
    made = pandas.DataFrame({"a": [1.0], "b": [2.0], "colour": ["red"]})
    with pytest.raises(DataError, match="has words, but the model knows no columns"):
        as_inputs((made,), rows())


@pytest.mark.parametrize("missing", [None, float("nan"), pandas.NA])
@pytest.mark.parametrize("kind", [list, pandas.Series])
def test_a_missing_label_is_named(missing, kind):
    with pytest.raises(DataError, match="sample 3: has no label"):
        as_samples(X, rows(), labels=kind([*WORDS[:3], missing]))


def named_rows():
    return replace(rows(), columns=("a", "b=dry", "b=wet"))


@pytest.mark.parametrize("order", [["a", "b"], ["b", "a"], ["label", "b", "a"]])
def test_a_row_of_a_frame_is_one_sample_by_the_names_of_its_columns(order):
    row = pandas.DataFrame({"a": [7.0], "b": ["wet"], "label": ["tap"]})[order].iloc[0]
    assert as_inputs((row,), named_rows())[0].tolist() == [[7.0, 0.0, 1.0]]
    found = as_samples(row.drop("label", errors="ignore"), named_rows(), labels=["tap"])
    assert found.inputs[0].tolist() == [[7.0, 0.0, 1.0]] and found.names == ("tap",)


def test_a_column_that_is_missing_is_named_without_the_words_of_others():
    with pytest.raises(DataError, match="has no column 'a'") as e:
        as_inputs((pandas.DataFrame({"b": ["wet"]}),), named_rows())
    assert e.value.hint == "its columns are b; needed are a, b"
