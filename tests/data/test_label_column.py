"""Which column of a table is the label: the one that is named, and all that is read says so."""

from __future__ import annotations

import numpy as np
import pytest

from insitu.cli import main
from insitu.data import as_samples
from insitu.errors import DataError
from insitu.graph import build
from insitu.graph.types import f32
from insitu.teach.material import look

from ..learners import learner

LINES = [f"{i % 3},{'ab'[i % 2]},{i},{i * i}" for i in range(24)]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["one,kind,two,three", *LINES]))
    return path


def taking(inputs: int):
    with build("rows") as b:
        x = b.input("x", f32(1, inputs))
        return b.graph(x)


def test_a_named_column_is_the_label_wherever_it_stands(table):
    found = as_samples(table, taking(3), label="kind")
    assert found.names == ("a", "b") and found.columns == ("one", "two", "three")
    assert found.source == "t.csv, labels in column kind"
    assert np.array_equal(found.labels, np.arange(24) % 2)


def test_without_a_name_it_is_the_last_one_and_that_is_said(table):
    found = look(table)
    assert (found.label, found.targets is None) == ("three", False)
    assert "kind=a" in found.columns
    named = look(table, label="kind")
    assert named.label == "kind" and named.names == ("a", "b") and named.columns == ("one", "two", "three")


def test_a_misspelled_column_is_told_with_the_nearest_one(table, capsys):
    with pytest.raises(DataError, match="has no column 'knd' .did you mean kind") as e:
        as_samples(table, taking(3), label="knd")
    assert e.value.hint == "its columns are one, kind, two, three"
    assert main(["teach", str(table), "--label", "knd"]) == 1
    assert "did you mean kind?" in capsys.readouterr().err


def test_a_table_without_a_heading_has_no_column_of_that_name(tmp_path):
    (tmp_path / "t.csv").write_text("1,2,3\n4,5,6\n")
    with pytest.raises(DataError, match="has no heading"):
        as_samples(tmp_path / "t.csv", taking(2), label="kind")


def test_other_classes_do_not_go_on_in_a_file_that_was_not_named(table, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    made = learner()
    made.rename(("rest", "wave", "tap", "shake"))
    before = made.save("learned.insitu").read_bytes()
    assert main(["teach", str(table), "--label", "kind"]) == 1
    said = capsys.readouterr().err
    assert "has none of the classes that the learner knows (rest, wave, tap, ...)" in said and "-o OTHER" in said
    assert (tmp_path / "learned.insitu").read_bytes() == before
