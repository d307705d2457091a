"""Names and rules that many gradients share, such as those of functions of one value. No op is declared here."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Node, Op, Type, Value, building
from insitu.graph.op import Grads


def from_output(backward: Op) -> Callable[..., Grads]:
    """grad: backward(g, y), so that x need not be kept."""

    def grad(g: Value, y: Value, x: Value, *, node: Node) -> Grads:
        return (_apply(backward, g, y, x, node),)

    return grad


def from_input(backward: Op) -> Callable[..., Grads]:
    """grad: backward(g, x)."""

    def grad(g: Value, y: Value, x: Value, *, node: Node) -> Grads:
        return (_apply(backward, g, x, x, node),)

    return grad


def _apply(backward: Op, g: Value, known: Value, x: Value, node: Node) -> Value:
    """Call a backward op with those attributes of the forward node that it also has."""
    return backward(g, known, **{k: node.attrs[k] for k in backward.defaults}, name=f"{x.name}.grad")


def straight(g: Value, y: Value, x: Value) -> Grads:
    """grad: passes through unchanged."""
    return (g,)


REACH = 3  # neighbours on each side for fitting a slope: a single difference is mostly rounding


def table_slope(table: np.ndarray, x: Type, y: Type) -> np.ndarray:
    """f32[256]: the slope in real units of the line fitted to each entry and its neighbours; 0 where clamped."""
    entries = table.astype(np.float64)
    slopes = np.zeros(256)
    for i in range(256):
        near = np.arange(max(i - REACH, 0), min(i + REACH, 255) + 1)
        slopes[i] = np.polyfit(near, entries[near], 1)[0]
    flat = np.pad(entries, 1, mode="edge")
    rail = (np.abs(entries + 0.5) == 127.5) & (flat[:-2] == entries) & (flat[2:] == entries)
    return np.where(rail, 0, slopes * y.scale / x.scale).astype(np.float32)


def fitted_slope(table: Value, x: Value, y: Value) -> Value:
    """The slopes of a constant table, as a constant."""
    entries = building().array(table)
    if entries is None:
        raise GraphError("the gradient of a table needs a constant table", where=f"%{table.name}")
    return building().constant(f"{y.name}.slope", table_slope(entries, x.type, y.type))
