"""Columns of words: what they become, how a learner remembers them, and which words are errors."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from insitu import DataError
from insitu.data import as_samples, read_samples
from insitu.data.tables import read_table
from insitu.data.taking import as_inputs
from insitu.data.words import spread
from insitu.graph import build, f32, lookup, parse, to_text
from insitu.pipeline.network import example_of

NAMES = ("size", "colour=blue", "colour=red")
FRUIT = "size,colour,kind\n1,red,plum\n2,blue,pear\n3,red,pear\n"
WANT = [[1, 0, 1], [2, 1, 0], [3, 0, 1]]


def takes(count, columns=()):
    with build("net") as b:
        y = lookup("reshape")(b.input("x", f32(1, count)), shape=(1, -1))
    return parse(to_text(replace(b.graph(y), columns=columns)))  # as a learner's file keeps it


def table(tmp_path, text):
    (tmp_path / "t.csv").write_text(text)
    return tmp_path / "t.csv"


@pytest.mark.parametrize(
    "text", [FRUIT, FRUIT.replace("kind", "label"), "label,size,colour\nplum,1,red\npear,2,blue\npear,3,red"]
)
def test_each_word_is_a_column_and_the_label_stays(tmp_path, text):
    found = read_samples(table(tmp_path, text), takes(3))
    assert found.inputs[0].tolist() == WANT and found.columns == NAMES
    assert found.names == ("pear", "plum") and found.labels.tolist() == [1, 0, 0]
    assert found.notes == ("columns of words become columns of 0 and 1: colour (blue, red)",)


def test_a_table_without_a_label_may_end_in_words(tmp_path):
    found = read_samples(table(tmp_path, "size,colour\n1,red\n2,blue\n3,red\n"), takes(3))
    assert found.inputs[0].tolist() == WANT and found.labels is None


def test_new_rows_are_read_with_the_words_that_were_learned(tmp_path):
    for text in ("colour,size\nred,7\n", "colour,size,kind\nred,7,plum\n", "size,colour=red,colour=blue\n7,1,0\n"):
        (x,) = as_inputs((table(tmp_path, text),), takes(3, NAMES))
        assert x.tolist() == [[7, 0, 1]], text
    found = read_samples(table(tmp_path, "kind,colour,size\nplum,blue,1\n"), takes(3, NAMES))
    assert found.inputs[0].tolist() == [[1, 1, 0]]


def test_an_unknown_word_is_an_error_that_lists_the_known_ones(tmp_path):
    match = r"line 3, column 1 \(colour\): 'green' was not learned\n.*known are blue, red"
    with pytest.raises(DataError, match=match):
        as_inputs((table(tmp_path, "colour,size\nred,7\ngreen,8\n"),), takes(3, NAMES))


def test_a_model_with_too_few_inputs_is_told_how_many_it_needs(tmp_path):
    match = r"has 3 inputs, as each word is one \(colour \(blue, red\)\), but the model takes 2\n.*input of 3"
    with pytest.raises(DataError, match=match):
        read_samples(table(tmp_path, FRUIT), takes(2))


def test_a_typing_error_among_numbers_is_no_word(tmp_path):
    with pytest.raises(DataError, match=r"line 3, column 1 \(size\): '2,x' is not a number"):
        read_samples(table(tmp_path, FRUIT.replace("2,", '"2,x",')), takes(3))


def test_lines_that_lack_a_value_are_not_learned_but_must_be_predicted(tmp_path):
    path = table(tmp_path, FRUIT + ",red,plum\n4,,plum\n")
    found = read_samples(path, takes(3))
    assert found.inputs[0].tolist() == WANT and "2 of 5 lines lack a value: not learned" in found.notes
    with pytest.raises(DataError, match=r"line 5, column 1 \(size\): is empty"):
        as_inputs((path,), takes(3, NAMES))


def test_words_may_be_inputs_of_quantities(tmp_path):
    path = table(tmp_path, "p,q,r,size,colour\n5,6,7,1,red\n8,9,0,2,blue\n")
    found = read_samples(path, takes(3), targets=("p", "q", "r"))
    assert found.inputs[0].tolist() == WANT[:2] and found.labels.tolist() == [[5, 6, 7], [8, 9, 0]]


def test_words_in_a_frame_are_read_like_those_in_a_file():
    pandas = pytest.importorskip("pandas", reason="a frame needs pandas")
    frame = pandas.DataFrame({"size": [1.5, 2, 3], "colour": ["red", "blue", "red"]})
    found = as_samples((frame, ["plum", "pear", "pear"]), takes(3))
    assert found.columns == NAMES and found.inputs[0][0].tolist() == [1.5, 0, 1]
    (x,) = as_inputs((frame[["colour", "size"]].astype({"colour": "category"}),), takes(3, NAMES))
    np.testing.assert_array_equal(x, found.inputs[0])
    with pytest.raises(DataError, match="'pink' was not learned"):
        as_inputs((frame.replace("red", "pink"),), takes(3, NAMES))


def test_a_torch_module_takes_its_example_from_a_frame_with_words():
    pandas = pytest.importorskip("pandas", reason="a frame needs pandas")
    frame = pandas.DataFrame({"size": [1.5, 2], "colour": ["red", "blue"]})
    assert example_of(torch.nn.Linear(3, 2), None, frame).tolist() == [[1.5, 0, 1]]


@pytest.mark.parametrize("date", ["2024-01-{:02d}", "{:02d}/11/2023", "2024-01-01T10:{:02d}:00Z", "12:{:02d}"])
def test_dates_and_times_are_left_out_with_a_note(date, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("when,v,label\n" + "".join(f"{date.format(i % 28 + 1)},{i},{'ab'[i % 2]}\n" for i in range(40)))
    made, notes = spread(read_table(path), labelled=True)
    assert made.heading == ["v", "label"] and made.rows[3] == ["3", "b"]
    assert notes == ("dates and times are not learned from: when",)


def test_codes_with_an_underscore_are_words_and_no_number(tmp_path):
    """Python reads 1_2 as 12."""
    path = tmp_path / "codes.csv"
    path.write_text("size,code,label\n1,1_2,a\n2,1_3,b\n3,1_2,a\n")
    assert read_samples(path, takes(3)).inputs[0].tolist() == [[1, 1, 0], [2, 0, 1], [3, 1, 0]]
    path.write_text("size,weight,label\n1,1_2,a\n2,13,b\n3,12,a\n")
    with pytest.raises(DataError, match=r"line 2, column 2 \(weight\): '1_2' is not a number"):
        read_samples(path, takes(2))


def test_a_table_without_a_line_says_so(tmp_path):
    for text, words in (("", "is empty"), ("size,label\n", "has a heading, but no lines")):
        (tmp_path / "empty.csv").write_text(text)
        with pytest.raises(DataError, match=rf"empty\.csv: {words}"):
            read_samples(tmp_path / "empty.csv", takes(1))


def test_of_many_words_the_first_are_named(tmp_path):
    words = [f"w{chr(97 + k // 26)}{chr(97 + k % 26)}" for k in range(60)]
    (tmp_path / "many.csv").write_text("size,word,label\n" + "".join(f"1,{w},a\n" for w in words))
    with pytest.raises(DataError, match=r"word \(waa, .*wal, \.\.\.\)\), but the model takes 2") as e:
        read_samples(tmp_path / "many.csv", takes(2))
    assert len(str(e.value)) < 300
