"""Every op a model file uses, whether we know it or not: what `insitu check` lists when importing fails.

Reads the file's own list of ops and looks each up in its importer's table. Builds no graph, so one op
nobody knows does not hide the next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from insitu.errors import ModelError


@dataclass(frozen=True)
class Use:
    """One op of the model: in which layer, by which foreign name, and whether the importer has a function for it."""

    layer: str
    op: str
    known: bool
    reason: str = ""


def survey(source: str | Path) -> list[Use]:
    """The ops of a file in its order; a ModelError where the file cannot even be listed."""
    path = Path(source)
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise ModelError(f"the ops of a {path.suffix or 'nameless'} file cannot be listed", where=str(path))
    return [_use(*found) for found in reader(path)]


def form_of(path: str | Path) -> str:
    """The format a file's suffix stands for, as reports/mapping.py names it."""
    return {".onnx": "onnx", ".tflite": "tflite", ".pt2": "torch"}.get(Path(path).suffix.lower(), "")


def _use(layer: str, op: str, known: bool) -> Use:
    return Use(layer, op, known, "" if known else f"no importer for {op}")


def _onnx(path: Path):
    from insitu.importers.from_onnx import TABLE
    from insitu.importers.onnx_reader import read_model

    for record in read_model(path).nodes:
        yield record.name or next(filter(None, record.outputs), ""), record.type, record.type in TABLE


def _tflite(path: Path):
    from insitu.importers.from_tflite import layer_name
    from insitu.importers.tflite_layout import FOLDS
    from insitu.importers.tflite_ops import OPS
    from insitu.importers.tflite_schema import read_model

    subgraph = read_model(path.read_bytes()).subgraphs[0]
    for operator in subgraph.operators:
        result = subgraph.tensors[operator.outputs[0]].name if operator.outputs else ""
        yield layer_name(result), operator.name, operator.name in OPS or operator.name in FOLDS


READERS: dict[str, Callable] = {".onnx": _onnx, ".tflite": _tflite}
