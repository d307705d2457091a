"""Recordings and tables: windows of one length, and columns that are matched by their names."""

import shutil

import numpy as np
import pytest

from insitu.cli import main
from insitu.errors import DataError
from insitu.teach import teach
from insitu.teach.examples import numbers
from insitu.teach.material import look


def test_a_short_recording_is_left_out_and_does_not_shorten_the_others(motion, tmp_path):
    shutil.copytree(motion, tmp_path, dirs_exist_ok=True)
    (tmp_path / "slow" / "cut.csv").write_text("9,1\n" * 20)
    material = look(tmp_path)
    found = numbers(material)
    assert found.samples.inputs[0].shape[1:] == (1, 128, 2)
    assert "slow/cut.csv (20)" in found.notes[0]


@pytest.mark.parametrize("content", ["", "x,y\n"])
def test_recordings_without_a_reading_are_left_out_as_short_ones_are(content, motion, tmp_path):
    shutil.copytree(motion, tmp_path, dirs_exist_ok=True)
    for name in ("00", "98", "99"):  # one is the first file of all
        (tmp_path / "quick" / f"{name}.csv").write_text(content)
    found = numbers(look(tmp_path))
    assert found.samples.inputs[0].shape[1:] == (1, 128, 2)
    assert "fewer than 128 readings: quick/00.csv (0), quick/98.csv (0), quick/99.csv (0)" in found.notes[0]


def test_a_class_of_recordings_without_a_reading_is_an_error(motion, tmp_path):
    shutil.copytree(motion, tmp_path, dirs_exist_ok=True)
    for file in (tmp_path / "quick").iterdir():
        file.write_text("")
    with pytest.raises(DataError, match="no recording of quick has a reading"):
        numbers(look(tmp_path))


def test_recordings_that_are_all_short_make_short_windows(tmp_path):
    for name in ("wave", "rest"):
        (tmp_path / name).mkdir()
        for k in range(5):
            (tmp_path / name / f"{k}.csv").write_text("x,y\n" + "9,1\n" * (40 + k))
    found = numbers(look(tmp_path))
    assert found.window == 41 and "windows have 41 readings" in found.notes[1]


def test_a_recording_is_predicted_from_its_file_by_the_names_of_its_columns(tmp_path, capsys):
    rng = np.random.default_rng(1)
    for name, speed in {"slow": 0.05, "quick": 0.5}.items():
        (tmp_path / "motion" / name).mkdir(parents=True)
        for k in range(6):
            t = np.arange(200) + rng.uniform(0, 100)
            x = np.stack([9 + np.sin(speed * t), 100 * np.cos(speed * t)], 1) + rng.normal(0, 0.1, (200, 2))
            np.savetxt(tmp_path / "motion" / name / f"{k}.csv", x, delimiter=",", header="ax,ay", comments="")
    out = tmp_path / "motion.insitu"
    assert main(["teach", str(tmp_path / "motion"), "-o", str(out)]) == 0
    turned, other = tmp_path / "turned.csv", tmp_path / "other.csv"
    np.savetxt(turned, x[:, ::-1], delimiter=",", header="ay,ax", comments="")
    np.savetxt(other, x, delimiter=",", header="gx,gy", comments="")
    capsys.readouterr()
    assert main(["predict", str(out), str(turned), "--json"]) == 0
    assert "quick" in capsys.readouterr().out.split("slow")[0]
    assert main(["predict", str(out), str(other)]) == 1
    assert "has no column 'ax'" in capsys.readouterr().err
    assert main(["teach", str(tmp_path / "motion"), "-o", str(out)]) == 0  # goes on


def test_the_columns_of_a_table_are_matched_by_name(iris, tmp_path):
    learner = teach(iris).learner
    lines = iris.read_text().splitlines()[1:]
    turned = [",".join(line.split(",")[::-1]) for line in lines]
    other = tmp_path / "turned.csv"
    other.write_text("\n".join(["label,d,c,b,a", *turned]))
    assert learner.evaluate(str(other)) == learner.evaluate(str(iris))
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(iris)
    assert np.array_equal(learner.predict(frame[["d", "c", "b", "a"]]), learner.predict(frame[["a", "b", "c", "d"]]))
    with pytest.raises(DataError, match="no column 'd'"):
        learner.predict(frame[["a", "b", "c"]])
