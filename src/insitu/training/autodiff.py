"""Reverse mode: append the gradients of a loss to the graph it was computed in.

The same autodiff serves float and int8 graphs: the differences are in the ops' own `grad` rules. Gradients are f32,
in real units, and are added up if a value has several readers. Only the paths from a wanted value to the loss are
differentiated; prune.py removes anything the rules build beyond that.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Builder, Node, Value, build
from insitu.ops.arith import add
from insitu.terminal.wording import option


def differentiate(builder: Builder, loss: Value, wanted: Iterable[Value]) -> dict[str, Value]:
    """Name of each wanted value -> the gradient of `loss` with respect to it."""
    wanted = list(wanted)
    nodes = list(builder.nodes)
    needed = depend_on(nodes, {v.name for v in wanted})
    grads: dict[str, list[Value]] = {}
    with build(builder):
        grads[loss.name] = [builder.constant("loss.grad", np.ones(loss.shape, np.float32))]
        for node in reversed(nodes):
            if any(v.name in needed for v in node.inputs) and any(v.name in grads for v in node.outputs):
                _backward(node, grads, needed)
        return {v.name: _total(grads, v.name) for v in wanted if v.name in grads}


def depend_on(nodes: Iterable[Node], names: set[str]) -> set[str]:
    """These names and every value computed from one of them."""
    found = set(names)
    for node in nodes:
        if any(v.name in found for v in node.inputs):
            found.update(v.name for v in node.outputs)
    return found


def _backward(node: Node, grads: dict[str, list[Value]], needed: set[str]) -> None:
    """Apply a node's rule and add its results to the gradients of its inputs."""
    if not node.op.has("grad"):
        raise GraphError(
            f"{node.op.name} has no gradient",
            where=f"%{node.name}",
            hint=f"train only layers after it ({option(scheme='last:N')})",
        )
    total = tuple(_total(grads, v.name) if v.name in grads else None for v in node.outputs)
    single = len(node.outputs) == 1
    g, y = (total[0], node.output) if single else (total, node.outputs)
    results = node.rule("grad", g, y, *node.inputs)
    results = results if isinstance(results, tuple) else (results,)
    for v, d in zip(node.inputs, results):
        if d is None or v.name not in needed:
            continue
        if d.shape != v.shape:
            raise GraphError(f"the gradient rule of {node.op.name} gave {d.type} for {v.type}", where=f"%{v.name}")
        grads.setdefault(v.name, []).append(d)


def _total(grads: dict[str, list[Value]], name: str) -> Value:
    """The sum of all gradients that arrived at a value, built once."""
    parts = grads[name]
    while len(parts) > 1:
        a, b, *rest = parts
        parts = [add(a, b, name=f"{name}.grad"), *rest]
    grads[name] = parts
    return parts[0]
