"""A Core ML network under construction: blobs, layers and the order of their axes.

A blob is [channels, height, width], as in Core ML's own networks for training. A value of our graphs, whose first axis
(of one sample) is left out, lies in a blob in one of two ways:

    plain   the blob has the value's axes in order: [1,A,B,C] -> A,B,C; [1,A,B] -> A,1,B; [1,N] -> N,1,1
    image   the value's last axis are the channels: [1,H,W,C] -> C,H,W; [1,L,C] -> C,1,L

So a transpose between channels first and channels last costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from insitu.errors import Unsupported
from insitu.exporters.coreml.quiet import coremltools
from insitu.graph import Graph, Node


@dataclass(frozen=True)
class Blob:
    """A value in the network: its blob's name, its shape in our graph, and how it lies there."""

    name: str
    shape: tuple[int, ...]
    image: bool = False

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Channels, height, width."""
        return sizes_of(self.shape, self.image)


def sizes_of(shape: tuple[int, ...], image: bool) -> tuple[int, int, int]:
    rest = shape[1:]
    if len(rest) == 3:
        return (rest[2], rest[0], rest[1]) if image else rest
    if len(rest) == 2:
        return (rest[1], 1, rest[0]) if image else (rest[0], 1, rest[1])
    if len(rest) <= 1:
        return (prod(rest), 1, 1)
    raise Unsupported(f"Core ML's networks for training take at most three axes per sample, not {len(rest)}")


class Net:
    """Layers appended to coremltools' builder, one method for each way of moving axes."""

    def __init__(self, builder: Any, graph: Graph):
        self.builder, self.graph = builder, graph
        self.layers: dict[str, str] = {}  # node -> its layer with weights
        self._made = 0

    def array(self, node: Node, index: int) -> np.ndarray | None:
        """The constant that is this input of the node; None if it is computed, or if there is none."""
        if index >= len(node.inputs):
            return None
        return self.graph.constants.get(node.inputs[index].name)

    def fresh(self, word: str) -> str:
        self._made += 1
        return f"{word}_{self._made}"

    def image(self, x: Blob) -> Blob:
        """The value with its last axis as channels."""
        return x if x.image else self._turned(x, (0, 3, 1, 2) if len(x.shape) == 4 else (0, 3, 2, 1), True)

    def plain(self, x: Blob) -> Blob:
        return x if not x.image else self._turned(x, (0, 2, 3, 1) if len(x.shape) == 4 else (0, 3, 2, 1), False)

    def _turned(self, x: Blob, axes: tuple[int, ...], image: bool) -> Blob:
        if len(x.shape) <= 2:
            return Blob(x.name, x.shape, image)
        name = self.fresh("permute")
        self.builder.add_permute(name, list(axes), x.name, name)
        return Blob(name, x.shape, image)

    def activation(self, x: Blob, kind: str, params: Any = None) -> Blob:
        name = self.fresh(kind.lower())
        self.builder.add_activation(name, kind, x.name, name, params)
        return Blob(name, x.shape, x.image)

    def linear(self, x: Blob, factor: float, offset: float) -> Blob:
        return self.activation(x, "LINEAR", [factor, offset])

    def together(self, mode: str, *parts: Blob, shape: tuple[int, ...] = ()) -> Blob:
        """An elementwise layer (ADD, MULTIPLY, CONCAT) of blobs that lie alike."""
        name = self.fresh(mode.lower())
        self.builder.add_elementwise(name, [p.name for p in parts], name, mode)
        return Blob(name, shape or parts[0].shape, parts[0].image)


def builder_for(inputs, outputs, classifier: bool) -> Any:
    """coremltools' builder of a network with these (name, sizes) features."""
    ct = coremltools()
    from coremltools.models.neural_network import NeuralNetworkBuilder

    def feature(sizes):
        return None if sizes is None else ct.models.datatypes.Array(*sizes)

    given, made = ([(name, feature(sizes)) for name, sizes in part] for part in (inputs, outputs))
    return NeuralNetworkBuilder(given, made, mode="classifier" if classifier else None)
