"""Which exporter a file gets, and what is said if there is none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import insitu
from insitu.exporters.formats import FORMATS, format_of

from ..learners import data, learner


@pytest.mark.parametrize(("name", "to", "format"), [
    ("a.tflite", None, "litert"), ("a.TFLITE", "litert-train", "litert-train"), ("a.onnx", None, "onnx"),
    ("a.mlmodel", None, "coreml"), ("a.pt", "torch", "torch"),
])  # fmt: skip
def test_the_suffix_or_the_name_chooses_the_format(name: str, to: str | None, format: str):
    assert format_of(Path(name), to) is FORMATS[format]


@pytest.mark.parametrize(("name", "to", "words"), [
    ("a.h5", None, "no format has the suffix '.h5'"), ("a.tflite", "tf", "unknown format 'tf'"),
    ("a.onnx", "litert", "a file for litert must end in .tflite"),
])  # fmt: skip
def test_a_wrong_name_is_an_error_with_the_right_ones(name: str, to: str | None, words: str):
    with pytest.raises(insitu.DataError, match=words) as found:
        format_of(Path(name), to)
    assert found.value.hint


@pytest.mark.parametrize(("format", "package", "extra"), [
    ("litert", "ai_edge_litert", "tflite"), ("litert-train", "ai_edge_litert", "tflite"), ("onnx", "onnx", "onnx"),
    ("coreml", "coremltools", "coreml"), ("coreml-predict", "coremltools", "coreml"), ("torch", "torch", "torch"),
])  # fmt: skip
def test_a_missing_package_is_named_with_its_extra(format: str, package: str, extra: str, monkeypatch):
    monkeypatch.setattr("insitu.exporters.formats.find_spec", lambda name: None)
    with pytest.raises(insitu.ToolError, match=rf'needs {package}(.|\n)*pip install "insitu\[{extra}\]"'):
        FORMATS[format].load()


def test_every_format_has_a_missing_package_that_an_extra_brings():
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    for row in FORMATS.values():
        assert f'\n{row.extra} = ["{row.package.replace("_", "-")}' in project, row.name


@pytest.mark.parametrize(("suffix", "options", "note"), [
    ("onnx", {"form": "qdq"}, "form qdq has no effect: a float file has only one"),
    ("onnx", {"mean": 127.5, "batch": 3}, "no effect on an ONNX model: batch, mean"),
    ("tflite", {"form": "qdq"}, "no effect on a LiteRT model: form"),
    ("pt", {"precision": "int8"}, "no effect on a PyTorch state dict: precision"),
])  # fmt: skip
def test_an_option_without_effect_is_said(suffix: str, options: dict, note: str, tmp_path):
    pytest.importorskip({"onnx": "onnx", "tflite": "ai_edge_litert", "pt": "torch"}[suffix], reason="writes the file")
    assert note in learner().export(tmp_path / f"net.{suffix}", **options).notes


@pytest.mark.parametrize(("loss", "said"), [("cross_entropy", "softmax"), ("mse", "")])
def test_a_file_of_logits_says_what_makes_probabilities_of_them(loss: str, said: str, tmp_path):
    notes = learner(recipe=insitu.Recipe(loss=loss)).export(tmp_path / "net.onnx").notes
    assert any("logits" in note for note in notes) == bool(said) and said in " ".join(notes)


@pytest.mark.parametrize("options", [{}, {"precision": "int8"}, {"precision": "int8", "head": "int8"}], ids=str)
@pytest.mark.parametrize("suffix", ["onnx", "tflite"])
def test_a_file_ends_in_probabilities_if_that_is_asked_for(suffix: str, options: dict, tmp_path):
    x, _ = data(12)
    made = learner(**options, data=x, classes=["rest", "tap", "wave", "fist"])
    exported = made.export(tmp_path / f"net.{suffix}", probabilities=True, data=x)
    assert not any("logits" in note or "no effect" in note for note in exported.notes)
    want = [[chances[name] for name in made.names] for chances in made.classify(x)]
    np.testing.assert_allclose(outputs(exported.path, x), want, atol=1e-5)


@pytest.mark.parametrize("loss", ["mse", "binary_cross_entropy"])
def test_only_scores_of_classes_become_probabilities(loss: str, tmp_path):
    made = learner(recipe=insitu.Recipe(loss=loss))
    x, _ = data(5)
    path = made.export(tmp_path / "net.onnx", probabilities=True).path
    want = made.predict(x) if loss == "mse" else 1 / (1 + np.exp(-made.predict(x)))
    np.testing.assert_allclose(outputs(path, x), want, atol=1e-5)


def outputs(path: Path, x: np.ndarray) -> np.ndarray:
    """What the frameworks' own runtimes give, sample by sample."""
    if path.suffix == ".onnx":
        runtime = pytest.importorskip("onnxruntime", reason="runs the file")
        session = runtime.InferenceSession(str(path))
        name = session.get_inputs()[0].name
        return np.concatenate([session.run(None, {name: sample[None]})[0] for sample in x])
    interpreter = pytest.importorskip("ai_edge_litert.interpreter", reason="runs the file")
    runner = interpreter.Interpreter(str(path)).get_signature_runner()
    (name,) = runner.get_input_details()
    return np.concatenate([next(iter(runner(**{name: sample[None]}).values())) for sample in x])
