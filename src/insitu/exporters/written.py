"""What an exporter is given and what it returns. Nothing here writes a file or knows a format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Options:
    """What a user may say about an export; None: as the learner has it."""

    precision: str | None = None  # "float": a float file of an int8 learner
    form: str | None = None  # of an ONNX file: exact or qdq
    batch: int | None = None  # samples per call, where a format fixes them
    data: Any = None  # samples to compare the file with the learner; None: a few drawn ones
    mean: tuple[float, ...] | None = None  # what a float input expects of pixels: (pixel - mean) / std, for metadata
    std: tuple[float, ...] | None = None
    module: Any = None  # a torch module whose state dict is written
    probabilities: bool | None = None  # True: the file ends in what makes probabilities of the outputs


@dataclass(frozen=True)
class Written:
    """The bytes of a file, and notes for the user: one sentence each."""

    data: bytes
    notes: tuple[str, ...] = ()
