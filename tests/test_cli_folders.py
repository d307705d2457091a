"""Folders on the command line: what they hold, and which file each prediction is about."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import insitu
from insitu.cli import main
from insitu.demo import TARGET, digits
from insitu.errors import DataError
from insitu.pipeline.choosing import chosen_by

Image = pytest.importorskip("PIL.Image")


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    """Three photos each of two digits, and a file that is none."""
    root, data = tmp_path_factory.mktemp("photos"), digits()
    for digit, name in ((0, "nil"), (1, "one")):
        (root / name).mkdir()
        for k, x in enumerate(data.x_test[data.y_test == digit][:3]):
            Image.fromarray((x.reshape(8, 8) * 255 / x.max()).astype(np.uint8)).save(root / name / f"{k}.png")
    (root / "one" / "9.png").write_bytes(b"not a picture")
    return root


def said(capsys, *words) -> str:
    assert main(list(map(str, words))) == 0
    both = capsys.readouterr()
    return both.out + both.err


def test_each_prediction_names_its_own_file_and_a_damaged_one_is_left_out(photos, capsys):
    text = said(capsys, "predict", TARGET, photos)
    for name in ("nil/0.png", "nil/2.png", "one/1.png"):
        assert text.count(f"{photos / name} ") == 1
    assert "note: " in text and "1 file cannot be read, left out: one/9.png (is not an image, or is damaged)" in text
    assert f"{photos / 'nil' / '1.png'} " in said(capsys, "predict", TARGET, "--data", photos)


def test_a_folder_that_is_no_class_among_some_that_are_is_named(photos, tmp_path, capsys):
    learner = insitu.compile(TARGET, data=digits().x_train[:20], scheme="head", classes=["nil", "two"])
    learner.save(tmp_path / "two.insitu")
    note = "note: no class of the model is named one, so no labels are shown (known: nil, two)"
    assert note in said(capsys, "predict", tmp_path / "two.insitu", photos)
    assert "no class of the model" not in said(capsys, "predict", tmp_path / "two.insitu", photos / "nil")
    other = insitu.compile(TARGET, data=digits().x_train[:20], scheme="head", classes=["a", "b"])
    other.save(tmp_path / "other.insitu")
    assert "no class of the model" not in said(capsys, "predict", tmp_path / "other.insitu", photos)


def test_photos_without_classes_cannot_be_learned_and_the_error_says_how(photos, capsys):
    assert main(["train", str(TARGET), "--data", str(photos / "nil")]) == 1
    assert "have no labels\n  try: a folder with one subfolder per class" in capsys.readouterr().err


def test_photos_in_folders_of_a_class_are_counted(photos, tmp_path, capsys):
    moved = shutil.copytree(photos, tmp_path / "moved")
    (moved / "nil" / "old").mkdir()
    (moved / "nil" / "0.png").rename(moved / "nil" / "old" / "0.png")
    assert "nil 3, one 4" in said(capsys, "info", moved)


def test_info_says_what_a_folder_is_for(photos, tmp_path, capsys):
    text = said(capsys, "info", photos)
    assert "7 photos, one subfolder per class" in text and "nil 3, one 4" in text and "insitu teach" in text
    assert "3 photos, without classes" in said(capsys, "info", photos / "nil")
    learner = insitu.compile(TARGET, data=digits().x_train[:20], scheme="head")
    learner.write(tmp_path / "c")
    assert "a C program for no board" in said(capsys, "info", tmp_path / "c")
    (tmp_path / "empty").mkdir()
    assert main(["info", str(tmp_path / "empty")]) == 1
    assert "is neither the folder of a board nor one of samples" in capsys.readouterr().err
    with pytest.raises(DataError, match="there is nothing to predict: it is None"):
        learner.predict(None)


def test_a_boards_folder_knows_who_chose_what_it_trains(tmp_path, capsys):
    pytest.importorskip("unicorn")
    learner = insitu.compile(TARGET, data=digits().x_train[:20], scheme="head", board="nrf52840")
    learner.write(tmp_path / "build")
    assert "head, chosen by the user" in said(capsys, "info", tmp_path / "build")
    assert chosen_by("auto:ladder") == "insitu (auto:ladder)"
