"""The model that a verb works on: its argument, and the sizes that its file leaves open."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from insitu.cli.values import shape
from insitu.errors import ModelError
from insitu.graph import Graph

FILES = ".onnx, .tflite, .pt2, .keras, .pkl or .insitu"


def add_model(parser: ArgumentParser, help: str = FILES) -> None:
    parser.add_argument("model", metavar="MODEL", help=help)


def add_shape(group) -> None:
    """Add --shape to a parser or a group of its options."""
    words = "one sample's shape in the file's own order of axes, where the file leaves sizes open: 3x224x224"
    group.add_argument("--shape", type=shape, metavar="AxBxC", help=words)


def taking(graph: Graph, pixels: tuple[float, float] | None) -> Graph:
    """The graph; it remembers the range of pixels that it was given on the command line."""
    return replace(graph, pixels=pixels) if pixels else graph


def loaded(arguments, load: Callable[..., Any], **more) -> Any:
    """What `load` makes of the model, a graph or a Model; a --shape that contradicts the file is an error."""
    asked = arguments.shape
    if asked is None:
        return load(arguments.model, **more)
    made = load(arguments.model, np.broadcast_to(np.float32(0), (1, *asked)), **more)
    has = getattr(made, "graph", made).inputs[0].shape[1:]
    if has != asked:
        written = "x".join(map(str, asked))
        raise ModelError(f"takes {'x'.join(map(str, has))} by its own file, not {written}", where=str(arguments.model),
                         hint="leave out --shape")  # fmt: skip
    return made
