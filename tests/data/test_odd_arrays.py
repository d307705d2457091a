"""Arrays and frames whose numbers numpy keeps as objects are read; what a mask hides is not."""

import numpy as np
import pytest

from insitu import DataError, Samples
from insitu.data import as_samples
from insitu.data.taking import as_inputs
from insitu.graph import build, f32, lookup

X, Y = np.arange(12, dtype=np.float32).reshape(4, 3), np.array([0, 1, 1, 0])


def rows():
    with build("net") as b:
        y = lookup("reshape")(b.input("x", f32(1, 3)), shape=(1, -1))
    return b.graph(y)


def frame(**other):
    pandas = pytest.importorskip("pandas", reason="a frame needs pandas")
    return pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], **other})


def test_what_a_mask_hides_is_not_learned():
    masked = np.ma.masked_greater(X, 10)
    for given in ((masked, Y), (X, np.ma.masked_equal(Y, 1))):
        with pytest.raises(DataError, match=r"are masked\n.*filled"):
            as_samples(given, rows())
    nothing = np.ma.masked_greater(X, 100)
    np.testing.assert_array_equal(as_samples((nothing, Y), rows()).inputs[0], X)


def test_numbers_in_an_array_of_objects_are_numbers():
    mixed = X.astype(object)
    mixed[:, 2] = X[:, 2] > 5
    want = np.column_stack([X[:, :2], X[:, 2] > 5])
    np.testing.assert_array_equal(as_samples((mixed, Y), rows()).inputs[0], want)


@pytest.mark.parametrize("wrong", [None, "7", np.datetime64("2026-01-01")])
def test_what_is_no_number_among_objects_is_named(wrong):
    mixed = X.astype(object)
    mixed[1, 1] = wrong
    with pytest.raises(DataError, match=f"must be numbers, not {type(wrong).__name__}"):
        as_samples((mixed, Y), rows())


@pytest.mark.parametrize("kind", ["bool", "boolean", "Int64", "object", "category"])
def test_a_frame_may_have_columns_of_other_kinds_beside_floats(kind):
    pandas = pytest.importorskip("pandas", reason="a frame needs pandas")
    given = frame(c=pandas.Series([True, False, True, True]).astype("int64" if kind != "bool" else "bool").astype(kind))
    for found in (as_samples((given, Y), rows()).inputs, as_inputs((given,), rows())):
        np.testing.assert_array_equal(found[0], np.column_stack([X[:, :2], [1, 0, 1, 1]]))


def test_a_missing_value_of_such_a_column_is_no_number():
    pandas = pytest.importorskip("pandas", reason="a frame needs pandas")
    given = frame(c=pandas.Series([1, None, 3, 4], dtype="Int64"))
    with pytest.raises(DataError, match="sample 1: has a number that is not finite: nan"):
        as_samples((given, Y), rows())


def test_a_missing_word_of_a_frame_is_no_word():
    pandas = pytest.importorskip("pandas", reason="a frame needs pandas")
    given = frame(c=pandas.Series(["red", None, "red", "red"], dtype="string"))
    with pytest.raises(DataError, match=r"line 2, column 3 \(c=red\): is empty"):
        as_samples((given, Y), rows())


def test_dates_in_a_frame_are_named():
    pandas = pytest.importorskip("pandas", reason="a frame needs pandas")
    for given in (frame(when=pandas.date_range("2026", periods=4)), frame().assign(when=pandas.Timedelta(3))):
        with pytest.raises(DataError, match="column 'when' of the frame: holds dates or times"):
            as_samples((given, Y), rows())


def test_a_sparse_matrix_says_how_it_is_given():
    scipy = pytest.importorskip("scipy.sparse", reason="a sparse matrix needs scipy")
    with pytest.raises(DataError, match=r"try: x\.toarray\(\)"):
        as_samples((scipy.csr_matrix(X), Y), rows())


def test_samples_made_by_hand_may_have_a_list_of_labels():
    found = as_samples(Samples((X,), Y.tolist()), rows())  # pyright: ignore[reportArgumentType]
    assert found.labels is not None and found.labels.tolist() == Y.tolist()


def test_items_with_names_say_how_pairs_are_made_of_them():
    with pytest.raises(DataError) as e:
        as_samples(({"image": x, "label": 1} for x in X), rows())
    assert e.value.hint.startswith("((s['image'], s['label']) for s in data)")
