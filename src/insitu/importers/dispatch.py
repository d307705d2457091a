"""`load(x)`: a graph from whatever the user has. A table lists the kinds; each reader is in a file of its own."""

from __future__ import annotations

import sys
from pathlib import Path

from insitu.errors import ModelError
from insitu.files import check_source
from insitu.graph import Graph, check
from insitu.graph.file import SUFFIX
from insitu.graph.file import read as read_graph
from insitu.importers.foreign import refused
from insitu.importers.pixels import with_pixels
from insitu.importers.sizes import Shapes, shapes_of
from insitu.terminal.wording import either

SPANS = {"Conv1d": ", 128", "Conv2d": ", 32, 32"}  # a window of 128 readings, a photo of 32x32


def load(source, example=None, *, batch: int = 1) -> Graph:
    """The graph of a model: a path, a torch module (with an example input), a Keras model, or a graph.

    An example also settles the sizes that a file or a Keras model leaves open.
    """
    if isinstance(source, Graph):
        return source
    if isinstance(source, str | Path):
        return with_pixels(check(_load_file(Path(source), batch, shapes_of(example))))
    kind = _object_kind(source)
    if type(source).__name__ == "Learner":
        hint = 'insitu.compile(learner, ...) links it for a board; learner.save("learned.insitu") keeps it'
        raise ModelError("is a learner, not a model", hint=hint)
    if kind is None:
        raise ModelError(f"cannot load a {type(source).__name__}", hint="give a path, a torch module or a Keras model")
    return with_pixels(check(OBJECTS[kind](source, example, batch)))


def _load_file(path: Path, batch: int, examples: Shapes) -> Graph:
    check_source(path)
    if (path / "insitu.json").is_file():
        how = either(shell=f"insitu run {path}", python=f'insitu.open("{path}")')
        raise ModelError("is a board's folder, not a model file", where=str(path), hint=f"{how} runs its program")
    if not path.is_file():
        path = _from_zoo(str(path))
    reader = FILES.get(path.suffix.lower())
    if reader is None:
        raise refused(path, list(FILES))
    return reader(path, batch, examples)


def _from_zoo(name: str) -> Path:
    """The cached file that a name of the zoo stands for."""
    from insitu.zoo import ENTRIES, find

    if not name.startswith("zoo:") and name not in ENTRIES:
        raise ModelError("no such file", where=name)
    return find(name)


def _object_kind(source) -> str | None:
    """The table row of an object. Imports no framework that is not in use already."""
    bases = {f"{c.__module__.split('.')[0]}.{c.__name__}" for c in type(source).__mro__}
    if bases & {"keras.Model", "keras.Functional", "keras.Sequential"}:
        return "keras"
    if "torch" in sys.modules and bases & {"torch.Module", "torch.ExportedProgram"}:
        return "torch"
    if "onnx.ModelProto" in bases or type(source).__name__ == "ModelProto":
        return "onnx"
    return None


def _onnx(source, example, batch):
    return _onnx_file(source, batch, shapes_of(example))


def _onnx_file(source, batch, examples):
    from insitu.importers.onnx.read import read_onnx

    return read_onnx(source, batch=batch, examples=examples)


def _tflite(path, batch, examples):
    from insitu.importers.tflite.read import read_tflite

    return read_tflite(path, batch=batch, examples=examples)


def _pt2(path, batch, examples):
    from insitu.importers.torch.read import read_pt2

    return read_pt2(path, batch=batch, examples=examples)


def _checkpoint(path, batch, examples):
    from insitu.importers.checkpoint.read import read_checkpoint

    return read_checkpoint(path)


def _torch(source, example, batch):
    from insitu.importers.torch.read import read_torch

    if type(source).__name__ == "ExportedProgram":
        return read_torch(source, example)
    if example is None:
        hint = f"example=torch.zeros({_likely_shape(source)}): one input with its batch axis"
        raise ModelError("a torch module needs an example input", hint=hint)
    return read_torch(source, _tensors(example))


def _likely_shape(module) -> str:
    """What the first layer with weights takes, as far as it says."""
    for layer in module.modules():
        kind, taken = type(layer).__name__, getattr(layer, "in_channels", getattr(layer, "in_features", None))
        if taken is not None:
            return f"1, {taken}{SPANS.get(kind, '')}"
    return "1, 3, 32, 32"


def _tensors(example):
    """The example, with numpy arrays converted to tensors."""
    import torch

    if isinstance(example, list | tuple) and not all(isinstance(e, int | float) for e in example):
        return tuple(map(_tensors, example))
    if type(example).__module__ == "numpy":
        return torch.as_tensor(example)
    if not isinstance(example, torch.Tensor):
        raise ModelError(
            f"the example input is a {type(example).__name__}, not a tensor or array",
            hint="insitu.load(module, torch.zeros(1, 3, 32, 32))",
        )
    return example


def _keras(source, example, batch):
    from insitu.importers.keras.read import read_keras

    return read_keras(source, batch=batch, examples=shapes_of(example))


def _keras_file(path, batch, examples):
    from insitu.importers.keras.read import read_keras_file

    return read_keras_file(path, batch=batch, examples=examples)


FILES = {
    ".onnx": _onnx_file,
    ".tflite": _tflite,
    ".pt2": _pt2,
    ".keras": _keras_file,
    ".pkl": _checkpoint,
    SUFFIX: lambda path, batch, examples: read_graph(path),
}
OBJECTS = {"torch": _torch, "keras": _keras, "onnx": _onnx}
