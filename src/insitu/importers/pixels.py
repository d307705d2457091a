"""The range of pixels that a model takes, if its first operators tell: `Rescaling(1 / 255)` of Keras takes 0 to 255.

Nothing here changes a graph but for this word about its input; files are read accordingly (data/reading.py).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from insitu.graph import Graph, Node, Value
from insitu.graph.source import BYTES
from insitu.ops.arith import add, div, mul, sub
from insitu.ops.layout import pad, reshape, transpose
from insitu.ops.normalize import normalize

MOVES = (transpose, reshape, pad)
SMALL = 1 / 32  # no image of 0 to 1 is divided by more: by its standard deviation it is multiplied


def with_pixels(graph: Graph) -> Graph:
    """The graph; it says that it takes pixels of 0 to 255 if the first thing it does is to make them small."""
    value = graph.inputs[0] if graph.inputs else None
    if graph.pixels or value is None or value.dtype != "f32" or value.type.rank != 4:
        return graph
    return replace(graph, pixels=BYTES) if 0 < _factor(graph, value) <= SMALL else graph


def _factor(graph: Graph, value: Value) -> float:
    """What the values are multiplied with before anything else happens to them; of several channels the most."""
    factor = 1.0
    while len(users := graph.users.get(value.name, ())) == 1:
        own = _own_factor(graph, users[0], value)
        if own is None:
            break
        factor, value = factor * own, users[0].output
    return factor


def _own_factor(graph: Graph, node: Node, value: Value) -> float | None:
    """The factor of one node; None if it does something else."""
    if node.op in MOVES:
        return 1.0
    if node.op is normalize:
        return 1 / min(node.attrs["std"])
    if node.op not in (add, sub, mul, div):
        return None
    other = next((graph.constant(v) for v in node.inputs if v != value), None)
    if other is None or (node.inputs[0] != value and node.op in (sub, div)):
        return None
    if node.op in (add, sub):
        return 1.0
    size = np.abs(other.astype(np.float64))
    return float(size.max() if node.op is mul else 1 / max(size.min(), 1e-30))
