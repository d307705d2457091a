"""ONNX exports by torch: made once per network and process, with torch's table of operators read once."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from unittest import mock

import torch


@cache
def exported(module: torch.nn.Module, *example: torch.Tensor) -> torch.export.ExportedProgram:
    """What torch makes of a network; the importer and the ONNX exporter both begin with it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.export(module, example)


def write_onnx(source, example: tuple[torch.Tensor, ...] | None, path: Path, **options) -> Path:
    """The file that torch.onnx.export writes for a network or an exported program."""
    with warnings.catch_warnings(), one_table():
        warnings.simplefilter("ignore")
        torch.onnx.export(source, example, path, dynamo=True, verbose=False, **options)
    return path


@contextmanager
def one_table() -> Iterator[None]:
    """torch reads the source of 500 functions for every export, two thirds of its time: here once."""
    try:
        from torch.onnx._internal.exporter._registration import ONNXRegistry
    except ImportError:  # another version of torch: slower, and the same
        yield
        return
    with mock.patch.object(ONNXRegistry, "from_torchlib", _table(ONNXRegistry)):
        yield


@cache
def _table(registry):
    return staticmethod(cache(registry.from_torchlib))
