"""What many gradient rules share: names, and the rules of functions of one value. No op is declared here.

Backward ops are looked up by name: they are declared in files that import those of the forward ops.
"""

from __future__ import annotations

import numpy as np

from insitu.graph import Value, building, lookup


def from_output(backward: str):
    """grad: backward(g, y), so that x need not be kept."""

    def grad(g, y, x, *, node):
        return (_apply(backward, g, y, x, node),)

    return grad


def from_input(backward: str):
    """grad: backward(g, x)."""

    def grad(g, y, x, *, node):
        return (_apply(backward, g, x, x, node),)

    return grad


def _apply(backward: str, g: Value, known: Value, x: Value, node) -> Value:
    """Call a backward op with those attributes of the forward node that it has too."""
    op = lookup(backward)
    return op(g, known, **{k: node.attrs[k] for k in op.defaults}, name=f"{x.name}.grad")


def straight(g, y, x):
    """grad: passes through unchanged."""
    return (g,)


def scaled(g: Value, factor: float) -> Value:
    """factor * g, for rules too rare to deserve a kernel."""
    constant = building().constant("factor", np.array(factor, np.float32))
    return lookup("mul")(g, constant)


def fitted(g: Value, x: Value) -> Value:
    """The gradient of x, which was broadcast to the shape of g: summed over the axes it was repeated along."""
    if g.shape == x.shape:
        return g
    return lookup("unbroadcast")(g, shape=x.shape, name=f"{x.name}.grad")
