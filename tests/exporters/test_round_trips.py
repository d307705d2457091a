"""Out and in again: a model is imported, trained, exported and imported once more; it predicts the same.

What insitu does not import is run by another reader: .mlmodel by our evaluator in numpy, a trainable .tflite by LiteRT.

The table of all pairs stands in docs/exports.md, between two marks; `--update-golden` writes it.
"""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import insitu
from insitu.exporters.compared import distance

pytest.importorskip("ai_edge_litert", reason="writes .tflite files")
pytest.importorskip("onnxruntime", reason="checks .onnx files")

PAGE = Path(__file__).parents[2] / "docs" / "exports.md"
BETWEEN = re.compile(r"(<!-- round trips -->\n).*?(<!-- end -->)", re.S)
SHAPE, CLASSES = (2, 7, 6), 3
# column -> (arithmetic of the learner, its rounding, suffix, options of the export)
WAYS = {
    ".tflite, float": ("float", None, "tflite", {}),
    ".tflite, int8": ("int8", "single", "tflite", {}),
    ".tflite, int8, `litert`": ("int8", "litert", "tflite", {}),
    ".onnx, float": ("float", None, "onnx", {}),
    ".onnx, int8": ("int8", "single", "onnx", {}),
    ".onnx, int8 (qdq)": ("int8", "single", "onnx", {"form": "qdq"}),
    "torch module, float": ("float", None, "", {}),
    "torch module, int8": ("int8", "single", "", {}),
    ".pt, float": ("float", None, "pt", {}),
    ".pt, int8": ("int8", "single", "pt", {}),
    ".mlmodel, float": ("float", None, "mlmodel", {}),
    "litert-train, float": ("float", None, "tflite", {"to": "litert-train"}),
}
CHECKPOINT = ".pkl (mcunet-5fps)"
OF_TORCH = ("torch module", ".pt2", ".insitu")  # made of the module, with its names
SOURCES = ("torch module", ".pt2", "Keras model", ".keras", ".onnx", ".tflite", ".insitu", CHECKPOINT)


class Net(nn.Module):
    """A convolution with batch norm, a depthwise one, a skip, a flattened image."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(2, 5, 3, 2, 1, bias=False), nn.BatchNorm2d(5), nn.ReLU())
        self.depthwise, self.fc = nn.Conv2d(5, 5, 3, 1, 1, groups=5), nn.Linear(5 * 4 * 3, CLASSES)

    def forward(self, x):
        x = self.stem(x)
        return self.fc(torch.flatten(x + torch.relu(self.depthwise(x)), 1))


@cache
def module() -> nn.Module:
    torch.manual_seed(0)
    made = Net()
    made.train()(torch.randn(16, *SHAPE))  # statistics that are not zero and one
    return made.eval()


@cache
def samples() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(16, *SHAPE)).astype(np.float32)


def keras_model():
    """The same kind of network in Keras, with channels last."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    keras = pytest.importorskip("keras", reason="makes a Keras model")
    L = keras.layers
    keras.utils.set_random_seed(0)
    image = keras.Input((SHAPE[1], SHAPE[2], SHAPE[0]))
    x = L.ReLU()(L.BatchNormalization()(L.Conv2D(5, 3, 2, padding="same", use_bias=False)(image)))
    x = L.Add()([x, L.DepthwiseConv2D(3, padding="same", activation="relu")(x)])
    return keras.Model(image, L.Dense(CLASSES)(L.Flatten()(x)))


@pytest.fixture(scope="module")
def sources(tmp_path_factory, shared_models) -> dict[str, tuple[object, np.ndarray]]:
    """A small network in every form that can be imported, and samples for it."""
    folder, x = tmp_path_factory.mktemp("sources"), samples()
    model = insitu.load(module(), torch.zeros(1, *SHAPE))
    plain = insitu.compile(model, precision="float", scheme="head")
    files = {f".{suffix}": plain.export(folder / f"net.{suffix}").path for suffix in ("onnx", "tflite")}
    found = {"torch module": model, **files, ".insitu": model.save(folder / "net.insitu")}
    found[".pt2"] = folder / "net.pt2"
    torch.export.save(torch.export.export(module(), (torch.zeros(1, *SHAPE),)), found[".pt2"])
    last, theirs = np.ascontiguousarray(x.transpose(0, 2, 3, 1)), keras_model()
    theirs.save(folder / "net.keras")
    photos = np.random.default_rng(0).integers(-128, 128, (16, 128, 128, 3)).astype(np.int8)
    return {
        **{name: (source, x) for name, source in found.items()},
        "Keras model": (theirs, last), ".keras": (folder / "net.keras", last),
        CHECKPOINT: (shared_models / "mcunet-5fps.pkl", photos),
    }  # fmt: skip


def round_trip(source, x: np.ndarray, way: str, folder: Path) -> float:
    """How far the predictions of the model that came back are from the learner's."""
    precision, rounding, suffix, options = WAYS[way]
    classes = CLASSES if x.dtype == np.int8 else None  # the checkpoint has a thousand of its own
    how = {"data": x, "precision": precision, "scheme": "last:1", "rounding": rounding}
    learner = insitu.compile(source, classes=classes, **how)
    learner.fit(x, np.arange(16) % CLASSES, epochs=1, rate=0.02)
    off = distance(predictions(learner, x, suffix, options, folder), learner.predict(x))
    assert off < 0.1
    return off


def predictions(learner: insitu.Learner, x: np.ndarray, suffix: str, options: dict, folder: Path) -> np.ndarray:
    """What the exported file, or the module, computes for these samples."""
    if suffix in ("", "pt"):
        return insitu.load(of_torch(learner, suffix, folder), torch.zeros(1, *SHAPE)).predict(x)
    path = learner.export(folder / f"net.{suffix}", **options).path
    if suffix == "mlmodel":
        return of_coreml(path, x)
    return of_litert(path, x) if "to" in options else insitu.load(path).predict(x)


def of_torch(learner: insitu.Learner, suffix: str, folder: Path) -> nn.Module:
    """The module, written into, or with the state dict of the file."""
    mine = Net()
    mine.load_state_dict(module().state_dict())
    if not suffix:
        return insitu.export.into(mine.eval(), learner)
    path = learner.export(folder / "net.pt", module=mine.eval()).path
    fresh = Net()
    fresh.load_state_dict(torch.load(path, weights_only=True))
    return fresh.eval()


def of_coreml(path: Path, x: np.ndarray) -> np.ndarray:
    """The logits, which the file turns into probabilities with its last layer."""
    pytest.importorskip("coremltools", reason="reads .mlmodel files")
    from insitu.exporters.coreml.evaluate import evaluated, network
    from insitu.exporters.coreml.export import loaded
    from insitu.exporters.coreml.net import sizes_of

    spec = loaded(path.read_bytes())
    logits = network(spec).layers[-1].input[0]
    return np.stack([evaluated(spec, {"x": a.reshape(sizes_of((1, *a.shape), False))})[logits].reshape(-1) for a in x])


def of_litert(path: Path, x: np.ndarray) -> np.ndarray:
    from ai_edge_litert.interpreter import Interpreter

    infer = Interpreter(model_content=path.read_bytes()).get_signature_runner("infer")
    return np.concatenate([infer(x=a[None])["logits"] for a in x])


def words(off: float) -> str:
    return "equal" if off < 1e-5 else f"within {1 if off < 0.01 else 10} %"


def possible(name: str, way: str) -> bool:
    """A state dict needs the module's names; the checkpoint is int8, and so is its input, unlike in QDQ."""
    whole = way.startswith((".tflite, int8", ".onnx, int8")) and "qdq" not in way
    return (name in OF_TORCH or not way.startswith(("torch", ".pt"))) and (name != CHECKPOINT or whole)


@pytest.mark.slow
def test_every_model_comes_back(sources, tmp_path, request):
    rows = []
    for name in SOURCES:
        found = [words(round_trip(*sources[name], way, tmp_path)) if possible(name, way) else "-" for way in WAYS]
        rows.append(f"| {name} | {' | '.join(found)} |")
    table = "\n".join([f"| imported from | {' | '.join(WAYS)} |", f"|---{'|---' * len(WAYS)}|", *rows]) + "\n"
    page = PAGE.read_text()
    made = BETWEEN.sub(lambda m: m[1] + table + m[2], page)
    if request.config.getoption("--update-golden"):
        PAGE.write_text(made)
    assert PAGE.read_text() == made, "docs/exports.md is out of date: pytest --update-golden"
