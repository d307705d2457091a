"""Every op that a model file uses, known or not: `insitu check` lists them if importing fails.

Reads the file's own list of ops and looks each up in its importer's table. Builds no graph, so one unknown op does not
hide the next.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from insitu.errors import ModelError
from insitu.files import check_source
from insitu.importers.safe import child


@dataclass(frozen=True)
class Use:
    """One op of the model: its layer, its foreign name, and whether the importer has a function for it."""

    layer: str
    op: str
    known: bool
    reason: str = ""


def survey(source: str | Path) -> list[Use]:
    """The ops of a file in its order. Raises a ModelError if the file cannot even be listed."""
    path = Path(source)
    check_source(path)
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise ModelError(f"the ops of a {path.suffix or 'nameless'} file cannot be listed", where=str(path))
    return [_use(*found) for found in reader(path)]


def form_of(path: str | Path) -> str:
    """The format that a file's suffix stands for, named as in reports/mapping.py."""
    return {".onnx": "onnx", ".tflite": "tflite", ".pt2": "torch"}.get(Path(path).suffix.lower(), "")


def _use(layer: str, op: str, known: bool) -> Use:
    return Use(layer, op, known, "" if known else f"no importer for {op}")


def _onnx(path: Path):
    from insitu.importers.onnx.file import DOMAINS, read_model
    from insitu.importers.onnx.read import KNOWN

    for record in read_model(path).nodes:
        known = record.type in KNOWN and record.domain in DOMAINS
        yield record.name or next(filter(None, record.outputs), ""), record.type, known


def _tflite(path: Path):
    from insitu.importers.tflite.layout import FOLDS
    from insitu.importers.tflite.ops import OPS
    from insitu.importers.tflite.read import layer_name
    from insitu.importers.tflite.schema import read_model

    subgraph = read_model(path.read_bytes()).subgraphs[0]
    for operator in subgraph.operators:
        result = subgraph.tensors[operator.outputs[0]].name if operator.outputs else ""
        yield layer_name(result) or operator.name, operator.name, operator.name in OPS or operator.name in FOLDS


def _pt2(path: Path):
    """torch's loader may run code of the file's author, so it runs in a child process, as for importing."""
    command = [sys.executable, "-m", "insitu.importers.survey", str(path.resolve())]
    try:
        done = subprocess.run(command, capture_output=True, timeout=child.SECONDS, check=True)
        return json.loads(done.stdout.splitlines()[-1])
    except (subprocess.SubprocessError, ValueError, IndexError) as e:
        raise ModelError("torch's loader cannot list its ops", where=str(path)) from e


def program_ops(program) -> list[tuple[str, str, bool]]:
    """(layer, aten op, known) of a torch.export.ExportedProgram."""
    from insitu.importers.torch.blocks import nodes_of
    from insitu.importers.torch.read import TABLE, _op_name, layer_of

    calls = [n for n in nodes_of(program.graph) if getattr(n.target, "namespace", "") == "aten"]
    named = [(node, _op_name(node.target)) for node in calls]
    return [(layer_of(node, op), op, op in TABLE or op == "sym_size") for node, op in named]


def main(path: str) -> None:
    """The child that reads a .pt2."""
    from insitu.importers.torch.read import torch_export

    load = torch_export().load
    child._limit(child.MEMORY_BYTES)
    print(json.dumps(program_ops(load(path))))


READERS: dict[str, Callable] = {".onnx": _onnx, ".tflite": _tflite, ".pt2": _pt2}

if __name__ == "__main__":
    main(sys.argv[1])
