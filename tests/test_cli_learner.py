"""Three commands from a folder of photos to predictions, a program for a board, and more training."""

from __future__ import annotations

import json
import shutil
import wave
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import insitu
from insitu.cli import main
from insitu.errors import DataError

COLOURS = {"berry": (200, 30, 60), "leaf": (40, 180, 50), "sky": (60, 90, 220)}


def network(classes: int = 10) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(8, classes)).eval()  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A model of ten classes, and photos of three others."""
    path, rng = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    insitu.load(network(), torch.zeros(1, 3, 12, 12)).save(path / "model.insitu")
    for name, colour in COLOURS.items():
        (path / "photos" / name).mkdir(parents=True)
        for i in range(12):
            pixels = np.clip(np.array(colour) + rng.normal(0, 25, (12, 12, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(path / "photos" / name / f"{i}.png")
    return path


@pytest.fixture(scope="module")
def taught(folder) -> Path:
    out = folder / "colours.insitu"
    options = ["--scheme", "last:1", "--epochs", "10", "--rate", "0.1"]
    assert (
        main(["train", str(folder / "model.insitu"), "--data", str(folder / "photos"), *options, "-o", str(out)]) == 0
    )
    return out


def run(capsys, *arguments) -> dict:
    assert main([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_train_takes_new_classes_if_it_is_told_to(taught, folder, tmp_path, capsys):
    more, out = tmp_path / "more", tmp_path / "more.insitu"
    shutil.copytree(folder / "photos", more)
    shutil.copytree(more / "sky", more / "snow")
    for photo in (more / "snow").iterdir():
        Image.fromarray(255 - np.asarray(Image.open(photo)) // 8).save(photo)
    assert main(["train", str(taught), "--data", str(more), "-o", str(out)]) == 1
    assert "no class named 'snow'" in (said := capsys.readouterr().err) and "--add-classes" in said
    assert main(["train", str(taught), "--data", str(more), "--add-classes", "-o", str(out)]) == 0
    assert "new classes: snow" in capsys.readouterr().err
    assert insitu.open(out).names == ("berry", "leaf", "sky", "snow")
    assert run(capsys, "predict", out, "--data", more)["accuracy"] > 0.9


def test_photos_in_folders_are_learned_by_their_names(taught, folder, capsys):
    assert insitu.open(taught).names == ("berry", "leaf", "sky")
    found = run(capsys, "predict", taught, "--data", folder / "photos")
    assert found["names"] == ["berry", "leaf", "sky"] and found["accuracy"] > 0.9


def test_one_file_or_several_are_predicted(taught, folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    files = [Path("photos") / name / "0.png" for name in COLOURS]
    assert main(["predict", str(taught), *map(str, files)]) == 0
    shown = capsys.readouterr().out
    for name, file in zip(COLOURS, files):
        line = next(line for line in shown.splitlines() if str(file) in line)
        assert line.split(str(file))[1].split()[0] == name and "%" in line


def test_a_broken_file_among_several_is_left_out_and_said(taught, folder, tmp_path, capsys):
    good = [folder / "photos" / name / "0.png" for name in ("berry", "sky")]
    broken, missing = tmp_path / "broken.png", tmp_path / "missing.png"
    broken.write_bytes(good[0].read_bytes()[:40])
    assert main(["predict", str(taught), *map(str, (good[0], broken, missing, good[1])), "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["samples"] == 2 and "left out: " in err
    assert f"left out: {broken}: is not an image" in err and f"left out: {missing}: no such file" in err
    assert main(["predict", str(taught), str(broken), str(missing)]) == 1, "nothing is left to predict"
    out, err = capsys.readouterr()
    assert not out and f"DataError: {broken}: is not an image" in err


@pytest.mark.parametrize(("count", "shown", "rest"), [(12, 12, ""), (20, 20, ""), (21, 10, "... and 11 more")])
def test_all_predictions_are_shown_if_few_would_be_left_out(taught, folder, capsys, count, shown, rest):
    files = sorted((folder / "photos").rglob("*.png"))[:count]
    assert main(["predict", str(taught), *map(str, files)]) == 0
    said = capsys.readouterr().out
    assert said.count(".png") == shown and rest in said and ("more" in said) == bool(rest)


def test_wrong_answers_are_listed_the_surest_first(taught, folder, tmp_path, capsys):
    shutil.copytree(folder / "photos", tmp_path / "mixed")
    (tmp_path / "mixed" / "sky" / "0.png").rename(tmp_path / "mixed" / "leaf" / "wrong.png")
    assert main(["predict", str(taught), "--data", str(tmp_path / "mixed")]) == 0
    shown = capsys.readouterr().out.split("accuracy 97.22 % of 36")[1].strip().splitlines()
    assert len(shown) == 3 and shown[0].split() == ["wrong", "label", "answer"]
    assert shown[2].split()[1:3] == ["leaf", "sky"] and str(Path("leaf") / "wrong.png") in shown[2]


def test_a_folder_of_folders_named_like_classes_is_compared_with_them(taught, folder, capsys):
    found = run(capsys, "predict", taught, folder / "photos")
    assert found["accuracy"] == run(capsys, "predict", taught, "--data", folder / "photos")["accuracy"] > 0.9
    assert run(capsys, "predict", taught, folder / "photos" / "sky" / "0.png")["accuracy"] is None


def test_labels_of_fewer_classes_are_compared_by_name(taught, folder, tmp_path, capsys):
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "sky").symlink_to(folder / "photos" / "sky")
    assert run(capsys, "predict", taught, "--data", tmp_path / "some")["accuracy"] > 0.9


def test_a_learner_goes_on_where_it_stopped(taught, folder, tmp_path, capsys):
    again = tmp_path / "again.insitu"
    found = run(capsys, "train", taught, "--data", folder / "photos", "--epochs", 2, "-o", again)
    assert found["before"] > 0.9 and insitu.open(again).names == insitu.open(taught).names
    assert main(["train", str(taught), "--data", str(folder / "photos"), "--scheme", "full"]) == 1
    assert "--scheme would change it" in capsys.readouterr().err


def test_a_learner_becomes_the_program_of_a_board(taught, folder, tmp_path, capsys):
    run(capsys, "compile", taught, "--board", "nrf52840", "-o", tmp_path / "build")
    assert run(capsys, "info", tmp_path / "build")["classes"] == "3: berry, leaf, sky"
    (source,) = (tmp_path / "build").rglob("net_classes.c")
    assert '"leaf"' in source.read_text()
    x = insitu.data.read_samples(folder / "photos", insitu.open(taught).graphs["predict"]).inputs[0][:4]
    with insitu.open(tmp_path / "build") as board:
        np.testing.assert_array_equal(board.predict(x), insitu.open(taught).predict(x))
        assert board.names == ("berry", "leaf", "sky")


def test_check_takes_the_model_of_a_learner(taught, capsys):
    found = run(capsys, "check", taught)
    assert {row["op"] for row in found["rows"]} >= {"conv2d_s8", "linear"} and found["totals"]["schemes"]


def test_info_tells_what_a_file_holds(taught, folder, capsys):
    found = run(capsys, "info", taught)
    assert (found["holds"], found["classes"], found["scheme"]) == ("a learner", "3: berry, leaf, sky", "last:1")
    assert run(capsys, "info", folder / "model.insitu")["holds"] == "a model"


def test_info_says_what_a_regression_predicts(tmp_path, capsys):
    (tmp_path / "homes.csv").write_text("area,price\n" + "".join(f"{n},{3 * n}\n" for n in range(60)))
    net = nn.Sequential(nn.Linear(1, 4), nn.ReLU(), nn.Linear(4, 1)).eval()
    insitu.load(net, torch.zeros(1, 1)).save(tmp_path / "net.insitu")
    words = ("--loss", "mse", "--targets", "price", "--precision", "float", "--epochs", "1", "--rate", "0.001")
    run(capsys, "train", tmp_path / "net.insitu", "--data", tmp_path / "homes.csv", *words, "-o", tmp_path / "l.insitu")
    found = run(capsys, "info", tmp_path / "l.insitu")
    assert found["predicts"] == "price" and "classes" not in found


def test_an_unknown_suffix_is_told_before_training(folder, capsys):
    arguments = [
        "train",
        str(folder / "model.insitu"),
        "--data",
        str(folder / "photos"),
        "-o",
        str(folder / "a.tflite"),
    ]
    assert main(arguments) == 1
    said = capsys.readouterr().err
    assert "cannot save a .tflite" in said and "insitu export" in said and not (folder / "a.tflite").exists()


def test_info_counts_no_tables_as_parameters(tmp_path, capsys):
    net = nn.Sequential(nn.Linear(4, 12), nn.Tanh(), nn.Linear(12, 3)).eval()
    x = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    quantised = insitu.load(net, torch.zeros(1, 4)).quantize(x)
    assert run(capsys, "info", quantised.save(tmp_path / "m.insitu"))["parameters"] == 4 * 12 + 12 + 12 * 3 + 3
    assert ", 99 parameters" in repr(quantised.graph)


def test_names_may_be_given(folder, tmp_path, capsys):
    common = ["train", str(folder / "model.insitu"), "--data", str(folder / "photos"), "-o", str(tmp_path / "a.insitu")]
    assert main([*common, "--classes", "sky,leaf,berry,stone"]) == 0
    assert insitu.open(tmp_path / "a.insitu").names == ("sky", "leaf", "berry", "stone")
    assert main([*common, "--classes", 'sky,leaf, "berry", "stone, or rock"', "--epochs", "1"]) == 0
    assert insitu.open(tmp_path / "a.insitu").names == ("sky", "leaf", "berry", "stone, or rock")
    assert 'classes    4: sky, leaf, berry, "stone, or rock"' in capsys.readouterr().out
    assert main([*common, "--classes", "sky,leaf"]) == 1
    assert "'berry', which is not given" in capsys.readouterr().err


# --- sound ----------------------------------------------------------------------------------------------


def write_wav(path: Path, sound: np.ndarray, channels: int = 1) -> Path:
    with wave.open(str(path), "wb") as f:
        f.setnchannels(channels)
        f.setsampwidth(2)
        f.setframerate(8000)
        f.writeframes((sound * 32767).astype("<i2").repeat(channels).tobytes())
    return path


def test_a_wav_is_read_in_pieces(tmp_path):
    model = insitu.load(nn.Sequential(nn.Conv1d(1, 2, 5), nn.Flatten(), nn.Linear(2 * 396, 2)).eval(),
                        torch.zeros(1, 1, 400))  # fmt: skip
    sound = np.sin(np.arange(1000) / 9).astype(np.float32) * 0.9
    for channels in (1, 2):
        path = write_wav(tmp_path / f"{channels}.wav", sound, channels)
        (x,) = insitu.data.as_samples(path, model.graph).inputs
        assert x.shape == (3, 1, 400)
        np.testing.assert_allclose(x.reshape(-1)[:1000], sound, atol=1e-4)
        assert np.shape(model.predict(path)) == (3, 2)
    (tmp_path / "no.wav").write_bytes(b"RIFF....")
    with pytest.raises(DataError, match="not a .wav"):
        model.predict(tmp_path / "no.wav")
