"""Is a network untrained? Then its weights and results will grow, and int8 scales that fit them now leave no room.

Known from the numbers alone: the largest weight of every layer lies at the bound of a usual uniform initialisation
(torch, Keras), which a single update would move; or the statistics of every batch norm are still 0 and 1. Networks
that were initialised in another way are taken for trained.
"""

from __future__ import annotations

import numpy as np

from insitu.graph import Graph, Node
from insitu.ops.norm import batch_norm
from insitu.quantizer.weights import OUTPUT_AXIS

FEWEST = 48  # weights of a layer that can be told
EDGE = 8  # the largest of n uniform numbers is closer than this / n to the bound, almost always


def is_untrained(graph: Graph) -> bool:
    """Are these the numbers a framework begins with?"""
    norms = [node for node in graph.nodes if node.op is batch_norm]
    if norms:
        return all(is_fresh(graph, node) for node in norms)
    large = [node for node in graph.nodes if _weighted(graph, node) and node.inputs[1].type.size >= FEWEST]
    return bool(large) and all(_as_drawn(graph, node) for node in large)


def is_fresh(graph: Graph, norm: Node) -> bool:
    """Are the statistics of this batch norm those of no sample?"""
    mean, variance = (graph.constants.get(v.name) for v in norm.inputs[3:5])
    return mean is not None and variance is not None and not mean.any() and bool((variance == 1).all())


def _weighted(graph: Graph, node: Node) -> bool:
    return node.op in OUTPUT_AXIS and node.inputs[1].name in graph.constants


def _as_drawn(graph: Graph, node: Node) -> bool:
    """Is the largest weight at the edge of U(-a, a), a of torch, Glorot or He, and no bias beyond?"""
    w, axis = graph.constants[node.inputs[1].name], OUTPUT_AXIS[node.op]
    biases = [graph.constants[v.name] for v in node.inputs[2:3] if v.name in graph.constants]
    inputs = w.size / w.shape[axis]
    taps = inputs / w.shape[-1] if axis == 0 else inputs
    outputs = taps * w.shape[axis]
    largest, bias = float(np.abs(w).max()), max((float(np.abs(b).max()) for b in biases), default=0.0)
    bounds = (np.sqrt(1 / inputs), np.sqrt(6 / (inputs + outputs)), np.sqrt(6 / inputs))
    return any(1 - EDGE / w.size <= largest / a <= 1 + 1e-5 and bias <= a * (1 + 1e-5) for a in bounds)
