"""The formats that a learner can be exported to: one row each. The work is done in the folder that a row names.

A format's module has two functions:

    write(learner, options) -> Written       the whole file as bytes, and notes; an error if it cannot be expressed
    check(data, learner, options) -> notes   loads these bytes with a reader that is not ours; an error if they do not
                                             give the learner's predictions
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from insitu.errors import DataError, needs


@dataclass(frozen=True)
class Format:
    """A row: the format's name, its suffix, the module that writes it, the package that this needs, and its options."""

    name: str
    suffix: str
    module: str
    package: str
    extra: str
    what: str
    options: tuple[str, ...]  # of export() that make a difference

    def load(self) -> ModuleType:
        """The module that writes this format; a ToolError if its package is missing."""
        if find_spec(self.package) is None:
            raise needs(self.package, self.extra, f"writing {self.what}")
        return import_module(f"insitu.exporters.{self.module}")


ROWS = (
    Format("litert", ".tflite", "litert", "ai_edge_litert", "tflite", "a LiteRT model",
           ("precision", "data", "mean", "std", "probabilities")),
    Format("litert-train", ".tflite", "litert_train", "ai_edge_litert", "tflite", "a trainable LiteRT model",
           ("precision", "batch", "data", "mean", "std", "probabilities")),
    Format("coreml", ".mlmodel", "coreml", "coremltools", "coreml", "an updatable Core ML model",
           ("batch", "data", "probabilities")),
    Format("coreml-predict", ".mlmodel", "coreml_predict", "coremltools", "coreml", "a Core ML model for inference",
           ("data", "probabilities")),
    Format("onnx", ".onnx", "onnx", "onnx", "onnx", "an ONNX model", ("precision", "form", "data", "probabilities")),
    Format("web", ".mjs", "web", "ziglang", "web", "a learner for web pages", ("data",)),
    Format("page", ".html", "web_page", "ziglang", "web", "a page to try a learner", ("data",)),
    Format("torch", ".pt", "torch", "torch", "torch", "a PyTorch state dict", ("data", "module")),
)  # fmt: skip
FORMATS = {row.name: row for row in ROWS}


def format_of(path: Path, to: str | None) -> Format:
    """The format of this name, or the first one with the suffix of this path."""
    if to is not None:
        if to not in FORMATS:
            raise DataError(f"unknown format {to!r}", hint=", ".join(FORMATS))
        return _fitting(FORMATS[to], path)
    found = next((row for row in ROWS if row.suffix == path.suffix.lower()), None)
    if found is None:
        known = ", ".join(f"{row.suffix} ({row.name})" for row in ROWS)
        raise DataError(f"no format has the suffix {path.suffix!r}", where=str(path), hint=known)
    return found


def _fitting(row: Format, path: Path) -> Format:
    """The row, unless the file's suffix says another format."""
    if path.suffix.lower() != row.suffix:
        what = f"a file for {row.name} must end in {row.suffix}"
        raise DataError(what, where=str(path), hint=str(path.with_suffix(row.suffix)))
    return row
