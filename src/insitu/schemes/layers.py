"""The layers of a graph that have parameters to train: their node, weight and bias, in forward order."""

from __future__ import annotations

from dataclasses import dataclass, replace

from insitu.graph import Graph, Node, Value, drop_unused
from insitu.graph.fixed import is_fixed


@dataclass(frozen=True, eq=False)
class Layer:
    node: Node
    weight: Value
    bias: Value | None

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def channels(self) -> int | None:
        """The number of channels (of the last axis) to choose from; None if only the whole weight can be trained."""
        known = self.node.op.facts.parameters
        by_channel = known is not None and known.by_channel and self.node.attrs.get("groups", 1) == 1
        return self.weight.shape[-1] if by_channel else None


def layers(graph: Graph, norms: bool = False) -> list[Layer]:
    """Every layer with constant parameters. Norms only if `norms`: schemes do not count them."""
    found = []
    for node in graph.nodes:
        known = node.op.facts.parameters
        layer = _layer(graph, node, known.weight, known.bias) if known and (norms or known.layer) else None
        if layer:
            found.append(layer)
    return found


def leading(graph: Graph) -> set[str]:
    """The nodes that the first output depends on: the loss is computed from that one."""
    return {n.name for n in drop_unused(replace(graph, outputs=graph.outputs[:1], updates={})).nodes}


def _layer(graph: Graph, node: Node, weight: int, bias: int | None) -> Layer | None:
    stored = {**graph.constants, **graph.state}
    if len(node.inputs) <= weight or node.inputs[weight].name not in stored:
        return None  # the weight is computed: nothing to train here
    if is_fixed(graph, node.inputs[weight].name):
        return None
    has_bias = bias is not None and len(node.inputs) > bias and node.inputs[bias].name in stored
    return Layer(node, node.inputs[weight], node.inputs[bias] if has_bias and bias is not None else None)
