"""Columns that teach does not learn from, and tables that are read again as teach read them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from insitu.data.left_out import uncounted
from insitu.data.tables import read_table
from insitu.errors import DataError
from insitu.exporters.samples import compared
from insitu.graph import Graph, build, f32
from insitu.learner.given import given_samples
from insitu.ops.linear import linear
from insitu.teach.material import look


def loans(folder: Path, label: str = "decision", first: str = "id") -> Path:
    """Lines with a number, a date and an answer in words; two lack a value."""
    lines = [f"{i},2024-01-{i % 28 + 1:02d},{i % 7},{'' if i in (3, 9) else i % 5},{'ab'[i % 2]}" for i in range(40)]
    (folder / "loans.csv").write_text("\n".join([f"{first},applied,age,debt,{label}", *lines]))
    return folder / "loans.csv"


def takes(columns: tuple[str, ...], outputs: int, classes: tuple[str, ...] = ()) -> Graph:
    with build("table") as b:
        w = b.constant("w", np.zeros((outputs, len(columns)), np.float32))
        y = linear(b.input("row", f32(1, len(columns))), w)
    return replace(b.graph(y), columns=columns, classes=classes)


@pytest.mark.parametrize("heading", ["id", "ID", "customer_id", "index", "Nr"])
def test_numbers_of_lines_are_not_learned_from_and_a_note_says_so(heading, tmp_path):
    found = look(loans(tmp_path, first=heading))
    assert found.columns == ("age", "debt")
    assert f"numbers that count the lines are not learned from: {heading}" in found.notes


def test_rising_numbers_with_another_heading_are_learned_from_with_a_note(tmp_path):
    found = look(loans(tmp_path, first="depth"))
    assert found.columns == ("depth", "age", "debt")
    assert any(note.startswith("the numbers of depth are all different and rising") for note in found.notes)


@pytest.mark.parametrize("text", ["id,label\n" + "".join(f"{i},a\n" for i in range(9)),  # nothing else is left
                                  "v,id\n" + "".join(f"1,{i}\n" for i in range(9)),  # it is the label
                                  "id,v,label\n" + "".join(f"{i % 4},1,a\n" for i in range(9))])  # fmt: skip
def test_an_id_that_is_all_there_is_or_the_label_or_not_different_stays(text, tmp_path):
    (tmp_path / "t.csv").write_text(text)
    table = read_table(tmp_path / "t.csv")
    assert uncounted(table)[0].width == table.width


def test_a_table_is_tested_on_as_it_was_taught_without_its_dates_numbers_and_gaps(tmp_path):
    path, graph = loans(tmp_path), takes(("age", "debt"), 2, ("a", "b"))
    found = given_samples(graph, "cross_entropy", str(path), part="test")
    assert len(found) == 38 and found.names == ("a", "b")
    assert "2 of 40 lines lack a value: left out" in found.notes


def test_an_export_is_compared_on_the_lines_of_a_table_of_classes_or_quantities(tmp_path):
    assert len(compared(takes(("age", "debt"), 2, ("a", "b")), str(loans(tmp_path)))) == 38
    rows = "".join(f"{i},{i % 7},{i / 3:.2f}\n" for i in range(40))
    (tmp_path / "energy.csv").write_text("id,temp,kwh\n" + rows)
    assert len(compared(takes(("temp",), 1), str(tmp_path / "energy.csv"))) == 40


def test_what_is_predicted_must_be_whole(tmp_path):
    from insitu.data.taking import as_inputs

    with pytest.raises(DataError, match=r"column 4 \(debt\): is empty"):
        as_inputs((str(loans(tmp_path)),), takes(("age", "debt"), 2))


@pytest.mark.parametrize("heading", ["timestamp", "Time Stamp", "event_timestamp_ms", "unix_time", "epoch"])
def test_points_in_time_are_not_learned_from_even_as_numbers(heading, tmp_path):
    lines = [f"{1.7e9 + 60.5 * (i * 7 % 40)},{i % 7},{'ab'[i % 2]}" for i in range(40)]
    (tmp_path / "t.csv").write_text("\n".join([f"{heading},age,label", *lines]))
    found = look(tmp_path / "t.csv")
    assert found.columns == ("age",) and f"dates and times are not learned from: {heading}" in found.notes
