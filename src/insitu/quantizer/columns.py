"""Tables whose columns have very different ranges: normalised in front of the first layer, which makes up for it.

An int8 input has one scale. If one column goes to 1,500 and another only from 0 to 30, the second keeps five values. So
the columns are normalised in float first, y = (x - mean) / std, and the first layers take that into their weights: w
std, and b + w mean. In float the function stays the same, but random weights learn it sooner. `absorbed` undoes it.
"""

from __future__ import annotations

import numpy as np

from insitu.graph import Graph, Node, rewrite
from insitu.graph.rewrite import Rewriter
from insitu.ops.linear import linear
from insitu.ops.normalize import normalize

LEVELS = 16  # of 255: a column with fewer is normalised, and so are all others


def with_even_columns(graph: Graph, x: np.ndarray) -> Graph:
    """The folded float graph; its columns are normalised if these samples show that some would lose their values."""
    if len(graph.inputs) != 1 or graph.inputs[0].type.rank != 2 or graph.inputs[0].dtype != "f32":
        return graph
    users = graph.users.get(graph.inputs[0].name, ())
    if not users or any(n.op is not linear or n.inputs[1].name not in graph.constants for n in users):
        return graph
    return rewrite(graph, lambda n, rw: _even(n, rw, x.astype(np.float64))) if uneven(x) else graph


def uneven(x: np.ndarray) -> bool:
    """Would a column have only a few of the 255 steps of an int8 input?"""
    ranges, whole = np.ptp(x, axis=0), max(float(x.max()), 0.0) - min(float(x.min()), 0.0)
    ranges = ranges[ranges > 0]
    return bool(ranges.size and ranges.min() * 255 < LEVELS * whole)


def _even(node: Node, rw: Rewriter, x: np.ndarray):
    if node.op is not linear or node.inputs[0].name != rw.source.inputs[0].name:
        return None
    mean, std = x.mean(0), x.std(0)
    std = np.where(std > 1e-6 * np.maximum(np.abs(mean), 1e-6), std, 1.0)
    even = normalize(node.inputs[0], mean=tuple(map(float, mean)), std=tuple(map(float, std)), name=f"{node.name}.even")
    return _with_weights(node, rw, even, std, mean)


def _with_weights(node: Node, rw: Rewriter, x, scale: np.ndarray, shift: np.ndarray):
    """The layer on x, with weights w scale and the bias b + w shift."""
    w = rw.array(node.inputs[1])
    assert w is not None
    bias = [rw.array(v) for v in node.inputs[2:3]] or [np.zeros(len(w), np.float32)]
    weight = rw.constant(node.inputs[1].name, (w * scale).astype(np.float32))
    name = node.inputs[2].name if node.inputs[2:] else f"{node.name}.bias"
    return linear(x, weight, rw.constant(name, (bias[0] + w @ shift).astype(np.float32)), name=node.name)


def usual(graph: Graph, x: np.ndarray) -> np.ndarray:
    """Numbers around zero as usual values of this graph's columns."""
    found = next((n for n in graph.nodes if n.op is normalize and n.name.endswith(".even")), None)
    if found is None:
        return x
    return (x * np.array(found.attrs["std"]) + np.array(found.attrs["mean"])).astype(np.float32)


def absorbed(graph: Graph) -> Graph:
    """The float graph without such a normalisation: its first layers take the columns as they are."""
    return rewrite(graph, _absorb)


def _absorb(node: Node, rw: Rewriter):
    before = rw.producer(node.inputs[0], normalize) if node.op is linear else None
    if before is None or not before.name.endswith(".even") or rw.array(node.inputs[1]) is None:
        return None
    mean, std = (np.array(before.attrs[word]) for word in ("mean", "std"))
    return _with_weights(node, rw, before.inputs[0], 1 / std, -mean / std)
