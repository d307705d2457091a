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


def clocked(root, heading="t,ax,ay", start=1000.0):
    """Recordings whose readings say nothing, made one after the other: only the clock tells the classes apart."""
    rng, now = np.random.default_rng(0), start
    for name in ("wave", "rest"):
        (root / name).mkdir(parents=True)
        for k in range(6):
            t = now + np.cumsum(rng.uniform(0.01, 0.03, 140))
            now = t[-1] + 1
            rows = [",".join(f"{v:.3f}" for v in (a, *rng.normal(0, 1, 2))) for a in t]
            (root / name / f"{k}.csv").write_text("\n".join(filter(None, [heading, *rows])))
    return root


@pytest.mark.parametrize("heading", ["t,ax,ay", "timestamp,ax,ay", "seconds,x,y"])
def test_a_clock_is_not_learned_from_and_a_note_says_so(heading, tmp_path):
    found = numbers(look(clocked(tmp_path, heading)))
    assert found.samples.inputs[0].shape[-1] == 2 and found.samples.columns == tuple(heading.split(",")[1:])
    assert found.notes[0] == f"clocks are not learned from: {heading.split(',')[0]}"
    assert np.abs(found.samples.inputs[0]).max() < 10


def test_a_clock_without_a_heading_is_asked_about(tmp_path):
    found = numbers(look(clocked(tmp_path, "")))
    assert found.samples.inputs[0].shape[-1] == 3 and found.notes[0].startswith("column 1 rises from line to line")


def test_a_column_that_rises_in_some_recordings_only_is_a_reading(tmp_path):
    folder = clocked(tmp_path)
    (folder / "rest" / "0.csv").write_text("t,ax,ay\n" + "5,1,2\n" * 140)
    found = numbers(look(folder))
    assert found.samples.columns == ("t", "ax", "ay") and not any("clock" in note for note in found.notes)


def test_dates_of_recordings_are_left_out_and_files_that_are_predicted_may_have_them(tmp_path, capsys):
    rng = np.random.default_rng(1)
    for name, speed in {"slow": 0.05, "quick": 0.5}.items():
        (tmp_path / "motion" / name).mkdir(parents=True)
        for k in range(6):
            x = np.sin(speed * np.arange(200) + k) + rng.normal(0, 0.1, 200)
            rows = [f"2024-05-{k + 1:02d} 10:{i // 60:02d}:{i % 60:02d},{v:.3f}" for i, v in enumerate(x)]
            (tmp_path / "motion" / name / f"{k}.csv").write_text("\n".join(["when,a", *rows]))
    out = tmp_path / "motion.insitu"
    assert main(["teach", str(tmp_path / "motion"), "-o", str(out)]) == 0
    assert "clocks are not learned from: when" in capsys.readouterr().out
    assert main(["predict", str(out), str(tmp_path / "motion" / "quick" / "0.csv")]) == 0
    assert "quick" in capsys.readouterr().out
