"""A trained learner as a .tflite file: its predictions, its names, its errors."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import insitu

from ..learners import data, learner

pytest.importorskip("ai_edge_litert", reason="runs the files in LiteRT")

from insitu.cli import main
from insitu.exporters.compared import Comparison
from insitu.exporters.litert.runtime import Runtime


@pytest.fixture(scope="module")
def trained() -> insitu.Learner:
    x, y = data(40)
    made = learner(precision="int8", data=x, classes=["rest", "tap", "wave", "fist"])
    made.fit(x, y, epochs=2, rate=0.05)
    return made


def rows(path: Path, x: np.ndarray, kernels: str = "XNNPACK") -> np.ndarray:
    runtime = Runtime(path.read_bytes(), kernels)
    return np.concatenate([runtime.run(sample[None])[0] for sample in x])


def test_the_file_predicts_what_the_learner_predicts(trained, tmp_path):
    made = trained.export(tmp_path / "net.tflite")
    x, _ = data(20, seed=5)
    np.testing.assert_allclose(rows(made.path, x), trained.predict(x), atol=1e-4)
    assert made.format == "litert" and made.size_bytes == made.path.stat().st_size
    assert any("XNNPACK kernels" in note for note in made.notes)


def test_values_that_are_rounded_differently_are_told_calmly_and_counted_in_json(tmp_path, capsys):
    x, y = data(40)
    made = learner(precision="int8", data=x, rounding="litert")
    made.fit(x, y, epochs=2, rate=0.05)
    words = ["export", str(made.save(tmp_path / "own.insitu")), "-o", str(tmp_path / "own.tflite"), "--json"]
    assert main(words) == 0
    told = json.loads(capsys.readouterr().out)
    counts = {each["by"]: each for each in told["compared"]}
    assert counts["LiteRT, reference kernels"]["unequal"] == 0
    assert set(counts) == {"LiteRT, XNNPACK kernels", "LiteRT, reference kernels"}


def test_the_words_say_what_a_difference_means():
    x = np.arange(100, dtype=np.int8)
    found = Comparison("LiteRT").inside(x + (x % 5 == 0), x).output(np.array([[1.0, 2.02]]), np.array([[1.0, 2.0]]))
    same = "the same answer for 1 of 1 sample, outputs within 1.0% of the largest"
    assert str(found) == f"LiteRT: {same}; inside, 20.0% of the int8 values are rounded differently, by at most 1 step"
    assert "answer" not in str(found.of(insitu.Recipe(loss="mse"))), "of a quantity"
    assert str(Comparison("LiteRT").inside(x, x)) == "LiteRT: all 100 int8 values equal, outputs equal"


def test_a_float_learner_gives_a_float_file(tmp_path):
    x, y = data(40)
    made = learner()
    made.fit(x, y, epochs=1, rate=0.1)
    path = made.export(tmp_path / "net.tflite").path
    np.testing.assert_allclose(rows(path, x), made.predict(x), atol=1e-5)


def test_the_same_learner_gives_the_same_bytes(trained, tmp_path):
    first, second = (trained.export(tmp_path / name).path.read_bytes() for name in ("a.tflite", "b.tflite"))
    trained.save(tmp_path / "net.insitu")
    third = insitu.open(tmp_path / "net.insitu").export(tmp_path / "c.tflite").path.read_bytes()
    assert first == second == third


def test_class_names_are_the_labels_file_of_the_metadata(trained, tmp_path):
    path = trained.export(tmp_path / "net.tflite").path
    with zipfile.ZipFile(path) as z:
        (info,) = z.infolist()
        assert (info.filename, info.compress_type) == ("labels.txt", zipfile.ZIP_STORED)
        assert z.read(info).decode().split() == ["rest", "tap", "wave", "fist"]
    assert insitu.load(path).classes == ("rest", "tap", "wave", "fist")


def test_an_untrained_learner_is_exported_with_a_note(tmp_path):
    made = learner().export(tmp_path / "net.tflite")
    assert any("nothing was learned yet" in note for note in made.notes)


def test_a_folder_of_that_name_is_an_error_and_stays(trained, tmp_path):
    (tmp_path / "net.tflite").mkdir()
    with pytest.raises(insitu.DataError, match="it is a folder"):
        trained.export(tmp_path / "net.tflite")
    assert list(tmp_path.iterdir()) == [tmp_path / "net.tflite"]


def test_an_op_that_litert_lacks_is_named_before_anything_is_written(tmp_path):
    class Running(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(6, 5), nn.Linear(5, 3)

        def forward(self, x):
            return self.last(torch.cumsum(self.first(x), 1))

    made = insitu.compile(Running().eval(), data=data(12)[0], precision="int8", scheme="head")
    with pytest.raises(insitu.Unsupported, match="cumsum_s8 cannot be written for LiteRT"):
        made.export(tmp_path / "net.tflite")
    assert not list(tmp_path.iterdir())


def test_erf_is_written_for_inference_as_for_training(tmp_path):
    class Erf(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(6, 5), nn.Linear(5, 3)

        def forward(self, x):
            return self.last(torch.erf(self.first(x)))

    made = insitu.compile(Erf().eval(), example=torch.zeros(1, 6), precision="float", scheme="full")
    x, _ = data(20)
    for scale in (1e-5, 1.0, 100.0):
        path = made.export(tmp_path / "net.tflite").path
        np.testing.assert_allclose(rows(path, scale * x), made.predict(scale * x), atol=1e-6)
    made.export(tmp_path / "more.tflite", to="litert-train")


def test_an_operator_without_a_reference_kernel_is_checked_with_the_plain_ones(tmp_path):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 6), nn.ELU(), nn.Linear(6, 3)).eval()
    x = np.random.default_rng(0).normal(size=(12, 5)).astype(np.float32)
    learner = insitu.compile(net, data=(x, np.arange(12) % 3), precision="float", scheme="head")
    notes = [n for n in learner.export(tmp_path / "net.tflite").notes if n.startswith("LiteRT")]
    assert [n.split(":")[0] for n in notes] == ["LiteRT, XNNPACK kernels", "LiteRT, reference kernels"]


def test_nothing_but_our_own_words_is_printed(tmp_path):
    """LiteRT writes to stderr past Python, once per process."""
    words = ["export", str(learner().save(tmp_path / "own.insitu")), "-o", str(tmp_path / "own.tflite")]
    done = subprocess.run([sys.executable, "-m", "insitu", *words], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
