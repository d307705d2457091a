"""Compute again what is cheap, instead of keeping it from the forward to the backward pass.

The result of a batch norm in training mode, and of functions of one value that follow it, can be had again from the
batch norm's input, which the backward pass needs anyway. So only that is kept: half of what a network of
convolutions, norms and activations would need. The results are the same bits.
"""

from __future__ import annotations

from dataclasses import replace

from insitu.graph import Builder, Graph, Node, Value, build
from insitu.ops.norm_train import batch_norm_again, batch_norm_train


def recompute(graph: Graph, loss: Value) -> Graph:
    """The training graph with such values computed again where the backward pass first needs them."""
    last = max((i for i, n in enumerate(graph.nodes) if loss in n.outputs), default=len(graph.nodes))
    cheap = _cheap(graph.nodes[:last])
    if not cheap:
        return graph
    builder = Builder.of(replace(graph, nodes=()))
    builder._types = {name: v.type for name, v in graph.values.items()}
    again = _Again(cheap)
    with build(builder):
        for i, node in enumerate(graph.nodes):
            inputs = node.inputs if i <= last else tuple(again(v) for v in node.inputs)
            builder.append(Node(node.op, inputs, node.outputs, node.attrs))
    return builder.graph(*graph.outputs)


def _cheap(nodes: tuple[Node, ...]) -> dict[str, Node]:
    """Value -> its producer, where that is a batch norm or a function of one value after it."""
    found: dict[str, Node] = {}
    for node in nodes:
        if node.op is batch_norm_train or (_is_unary(node) and node.inputs[0].name in found):
            found[node.outputs[0].name] = node
    return found


def _is_unary(node: Node) -> bool:
    """Element by element, from one value alone."""
    shapes = {v.shape for v in (*node.inputs, *node.outputs)}
    return len(node.inputs) == len(node.outputs) == len(shapes) == 1 and bool(node.op.facts.in_place)


class _Again:
    """Appends the nodes that give a value once more; the same value for all who ask."""

    def __init__(self, cheap: dict[str, Node]):
        self.cheap, self.made = cheap, {}

    def __call__(self, v: Value) -> Value:
        if v.name not in self.cheap:
            return v
        if v.name not in self.made:
            self.made[v.name] = self._make(self.cheap[v.name], f"{v.name}.again")
        return self.made[v.name]

    def _make(self, node: Node, name: str) -> Value:
        if node.op is not batch_norm_train:
            return node.op(self(node.inputs[0]), **node.attrs, name=name)
        x, scale, bias, *_ = node.inputs
        _, mean, rstd, *_ = node.outputs
        return batch_norm_again(x, scale, bias, mean, rstd, axis=node.attrs["axis"], name=name)
