"""What `insitu teach` refuses: one line that says why."""

from pathlib import Path

import pytest

from insitu.cli import main
from insitu.errors import DataError
from insitu.learner.lesson import Lesson
from insitu.teach import teach
from insitu.teach.material import PHOTOS, TABLE, look


def refused(capsys, *words) -> str:
    assert main(["teach", *map(str, words)]) == 1
    said = capsys.readouterr().err
    assert "Traceback" not in said and "epoch" not in said
    return said


def folder(root: Path, **files: str) -> Path:
    """One empty file of this suffix per letter, in a subfolder of this name."""
    for name, suffix in files.items():
        (root / name).mkdir(parents=True)
        for letter in "abcde":
            (root / name / f"{letter}.{suffix}").write_bytes(b"")
    return root


@pytest.mark.parametrize("text", ["", "a,b,label\n"])
def test_a_table_without_a_line_has_no_example_in_a_later_lesson_either(tmp_path, text):
    path = tmp_path / "table.csv"
    path.write_text(text)
    for before in (None, Lesson(kind=TABLE), Lesson(kind=PHOTOS)):
        with pytest.raises(DataError, match="has no example"):
            look(path, before=before)


def test_a_class_of_another_kind_is_said_to_be_why_only_one_is_left(tmp_path):
    mixed = folder(tmp_path, one="wav", two="png")
    (mixed / "two" / "f.png").write_bytes(b"")
    with pytest.raises(DataError, match=r"only one class, two \(no photos in one\)"):
        look(mixed)


def test_what_a_learner_was_taught_is_said_in_words(iris, motion):
    learner = teach(iris).learner
    with pytest.raises(DataError, match="holds recordings, but the learner was taught a table of classes"):
        teach(motion, go_on=learner)


def test_a_file_of_another_framework_is_no_learner(tmp_path, capsys):
    said = refused(capsys, folder(tmp_path / "p", one="png", two="png"), "-o", tmp_path / "net.tflite")
    assert "a learner is written to an .insitu file" in said and "--export" in said
