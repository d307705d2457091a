"""A trained learner as an .onnx file: its predictions, its integers, its names."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch

import insitu

from ..learners import data, learner

onnxruntime = pytest.importorskip("onnxruntime", reason="runs the files in onnxruntime")


@pytest.fixture(scope="module")
def trained() -> insitu.Learner:
    x, y = data(40)
    made = learner(precision="int8", data=x, classes=["rest", "tap", "wave", "fist"])
    made.fit(x, y, epochs=2, rate=0.05)
    return made


def rows(path, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return np.concatenate([session.run(None, {name: sample[None]})[0] for sample in x])


def test_the_file_predicts_what_the_learner_predicts(trained, tmp_path):
    made = trained.export(tmp_path / "net.onnx")
    x, _ = data(20, seed=5)
    np.testing.assert_allclose(rows(made.path, x), trained.predict(x), atol=1e-5)
    assert [note for note in made.notes if "int8 values equal" in note and note.startswith("onnxruntime")]


def test_every_constant_of_the_file_is_read(trained, tmp_path):
    for form in ("exact", "qdq"):
        trained.export(tmp_path / "m.onnx", form=form)
        graph = onnx.load(tmp_path / "m.onnx").graph
        assert {c.name for c in graph.initializer} <= {name for node in graph.node for name in node.input}


def test_plain_qdq_is_close(trained, tmp_path):
    made = trained.export(tmp_path / "net.onnx", form="qdq")
    x, _ = data(20, seed=5)
    np.testing.assert_allclose(rows(made.path, x), trained.predict(x), atol=0.1)


def test_a_float_learner_gives_a_float_file(tmp_path):
    x, y = data(40)
    made = learner()
    made.fit(x, y, epochs=1, rate=0.1)
    np.testing.assert_allclose(rows(made.export(tmp_path / "net.onnx").path, x), made.predict(x), atol=1e-5)


def test_the_same_learner_gives_the_same_bytes(trained, tmp_path):
    first, second = (trained.export(tmp_path / name).path.read_bytes() for name in ("a.onnx", "b.onnx"))
    assert first == second


def test_class_names_are_a_property_of_the_model(trained, tmp_path):
    path = trained.export(tmp_path / "net.onnx", form="qdq").path
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    assert session.get_modelmeta().custom_metadata_map["classes"] == '["rest", "tap", "wave", "fist"]'
    assert insitu.load(path).classes == ("rest", "tap", "wave", "fist")


LITERTS = "the learner rounds as LiteRT does"


@pytest.mark.parametrize("rounding", ["single", "litert"])
def test_a_note_says_that_the_integers_are_rounded_twice_only_if_they_are(rounding, tmp_path):
    """The columns are normalised in float, which no rounding of integers is."""
    x = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32) * np.float32([1, 100, 3000])
    module = torch.nn.Sequential(torch.nn.Linear(3, 6), torch.nn.ReLU(), torch.nn.Linear(6, 2)).eval()
    made = insitu.compile(module, data=(x, np.arange(40) % 2), scheme="head", rounding=rounding)
    assert any(node.op.name == "normalize" for node in made.graphs["predict"].nodes)
    notes = made.export(tmp_path / "table.onnx").notes
    assert any(note.startswith(LITERTS) for note in notes) == (rounding == "litert")
    assert not any(n.startswith(LITERTS) for n in made.export(tmp_path / "qdq.onnx", form="qdq").notes)


def test_an_unknown_form_is_an_error(trained, tmp_path):
    with pytest.raises(insitu.DataError, match="has no form 'integer'"):
        trained.export(tmp_path / "net.onnx", form="integer")


def test_an_int8_layer_over_rows_runs_with_every_optimisation(tmp_path):
    torch.manual_seed(0)
    x = np.random.default_rng(0).normal(size=(8, 7, 6)).astype(np.float32)
    module = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Flatten(), torch.nn.Linear(35, 3))
    made = insitu.compile(module.eval(), example=torch.zeros(1, 7, 6), data=x, scheme="head")
    notes = made.export(tmp_path / "rows.onnx", form="qdq").notes
    assert any(note.startswith("onnxruntime, optimisations on: all") for note in notes)
