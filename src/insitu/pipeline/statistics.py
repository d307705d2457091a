"""Statistics for batch norms that have seen no sample yet.

A norm begins with mean 0 and variance 1. In a framework every batch of a training brings its own; here statistics are
frozen, and with these a norm would do nothing: through several of them nothing reaches the last layer. So they become
those of the samples that the model is compiled with, each after the norms before it, as in a first batch. Norms that
were trained stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Graph, Node
from insitu.graph.eval import run_step
from insitu.ops.norm import batch_norm
from insitu.quantizer.untrained import is_fresh
from insitu.training.passes.mode import hold_statistics, train_mode
from insitu.training.passes.rebatch import rebatch

MEMORY = 4 << 20  # numbers that the largest value may have, over all samples that are looked at
FEWEST, MOST = 8, 256  # of these samples
STEADY = 1e-10  # of the square of its mean: a channel that varies less is constant in these samples


def with_statistics(graph: Graph, inputs: Sequence[np.ndarray]) -> Graph:
    """The graph with the statistics of these samples in each norm that has none."""
    fresh = {node.name for node in graph.nodes if is_unused(graph, node)}
    if not fresh or len(inputs[0]) < 2:
        return graph
    rows = _rows(graph, len(inputs[0]))
    try:
        whole = rebatch(hold_statistics(graph), len(rows))
    except GraphError:  # an op that moves the sample axis
        return graph
    moving = train_mode(_at_once(whole, fresh), chosen=lambda node: node.name in fresh)
    _, state = run_step(moving, dict(moving.state), *(x[rows] for x in inputs))
    return replace(graph, constants={**graph.constants, **_found(graph, fresh, state)})


def is_unused(graph: Graph, node: Node) -> bool:
    """Is this a norm as a framework makes it? Files may spell scales and shifts as norms with mean 0 and variance 1."""
    if node.op is not batch_norm or not is_fresh(graph, node):
        return False
    scale, shift = (graph.constants.get(v.name) for v in node.inputs[1:3])
    return scale is not None and shift is not None and not shift.any() and bool(np.isin(scale, (0, 1)).all())


def _rows(graph: Graph, count: int) -> np.ndarray:
    """Samples from all over the data, which may be sorted."""
    largest = max(v.type.size for node in graph.nodes for v in node.outputs)
    most = min(count, max(FEWEST, min(MOST, MEMORY // largest)))
    return np.unique(np.linspace(0, count - 1, most).astype(int))


def _at_once(graph: Graph, fresh: set[str]) -> Graph:
    """The graph whose fresh norms take over all of a batch's statistics, not a tenth."""
    nodes = [replace(n, attrs={**n.attrs, "momentum": 1.0}) if n.name in fresh else n for n in graph.nodes]
    return replace(graph, nodes=tuple(nodes))


def _found(graph: Graph, fresh: set[str], state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    found = {}
    for node in graph.nodes:
        if node.name in fresh:
            mean, variance = (v.name for v in node.inputs[3:5])
            constant = state[variance] <= STEADY * np.square(state[mean])
            found |= {mean: state[mean], variance: np.where(constant, 1, state[variance]).astype(np.float32)}
    return found
