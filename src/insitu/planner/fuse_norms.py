"""On a host, the activation after a batch norm of a training step becomes part of it, in both directions.

fuse.py does the same for layers. Here nodes have several results, so that they are replaced where they stand.
"""

from __future__ import annotations

from dataclasses import replace

from insitu.graph import Graph, Node, Value, drop_unused
from insitu.ops.activation import RANGES, relu, relu6
from insitu.ops.activation_backward import relu6_dx, relu_dx
from insitu.ops.ended_norm import batch_norm_again_ends, batch_norm_dx_ends, batch_norm_train_ends
from insitu.ops.norm_train import batch_norm_again, batch_norm_train, batch_norm_train_dx, is_last

ENDED = {batch_norm_train: batch_norm_train_ends, batch_norm_again: batch_norm_again_ends}
BOUNDS = {relu_dx: RANGES[relu], relu6_dx: RANGES[relu6]}


def fused_norms(graph: Graph) -> Graph:
    """The same results and updates of fewer nodes; the graph itself if it has no batch norm in training mode."""
    if not any(node.op in ENDED for node in graph.nodes):
        return graph
    return drop_unused(_gradients(_forward(graph)))


def _forward(graph: Graph) -> Graph:
    """With the activation that alone reads the first result of a batch norm in the batch norm's place."""
    read, dropped, nodes = _readers(graph), set(), []
    for node in graph.nodes:
        after = _activation(read.get(node.outputs[0].name, []))
        if node.op in ENDED and is_last(node.attrs["axis"], node.inputs[0]) and after is not None:
            lo, hi = RANGES[after.op]
            op = ENDED[node.op]
            attrs = {k: v for k, v in node.attrs.items() if k in op.defaults} | {"lo": lo, "hi": hi}
            node = Node(op, node.inputs, (after.outputs[0], *node.outputs[1:]), attrs)
            dropped.add(after.name)
        nodes.append(node)
    return replace(graph, nodes=tuple(n for n in nodes if n.name not in dropped or n.op not in RANGES))


def _gradients(graph: Graph) -> Graph:
    """With the gradient of such an activation in the gradient of the batch norm."""
    read, made = _readers(graph), {v.name: n for n in graph.nodes for v in n.outputs}
    nodes = []
    for node in graph.nodes:
        mask = made.get(node.inputs[0].name) if node.op is batch_norm_train_dx else None
        if mask is not None and mask.op in BOUNDS and len(read[mask.name]) == 1:
            node = _masked(node, mask, made.get(mask.inputs[1].name)) or node
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes))


def _masked(node: Node, mask: Node, norm: Node | None) -> Node | None:
    """The gradient of both, if `norm` is the batch norm whose result the activation got."""
    if norm is None or norm.op not in ENDED.values():
        return None
    _, x, scale, mean, rstd = node.inputs
    lo, hi = BOUNDS[mask.op]
    statistics = norm.outputs[1:3] if norm.op is batch_norm_train_ends else norm.inputs[3:5]
    if (norm.inputs[:2], statistics) != ((x, scale), (mean, rstd)) or (norm.attrs["lo"], norm.attrs["hi"]) != (lo, hi):
        return None
    inputs = (mask.inputs[0], x, scale, norm.inputs[2], mean, rstd)
    return Node(batch_norm_dx_ends, inputs, node.outputs, {"lo": lo, "hi": hi})


def _activation(readers: list[Node | None]) -> Node | None:
    """The activation that alone reads a value."""
    alone = readers[0] if len(readers) == 1 else None
    return alone if alone is not None and alone.op in RANGES else None


def _readers(graph: Graph) -> dict[str, list[Node | None]]:
    """Value -> the nodes that read it; None stands for the graph, which gives or keeps it."""
    found: dict[str, list[Node | None]] = {}
    pairs: list[tuple[Value, Node | None]] = [(v, n) for n in graph.nodes for v in n.inputs]
    for v, node in [*pairs, *((v, None) for v in graph.results)]:
        found.setdefault(v.name, []).append(node)
    return found
