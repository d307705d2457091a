"""Weights that are no parameter of the model: an importer made them (interpolation as a product with a matrix).

A scheme neither counts nor trains their layers. The mark is the name that the constant has in `Graph.parameters`, so
it survives every rewrite that keeps these names.
"""

from __future__ import annotations

from insitu.graph.graph import Builder, Graph, Value

FIXED = ":fixed"  # the model's own parameters cannot be named so


def mark_fixed(builder: Builder, weight: Value) -> Value:
    builder.parameters[weight.name] = f"{weight.name}{FIXED}"
    return weight


def is_fixed(graph: Graph | Builder, weight: str) -> bool:
    return graph.parameters.get(weight, "").endswith(FIXED)
