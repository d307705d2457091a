"""The layers of a graph that have parameters to train: their node, weight and bias, in forward order."""

from __future__ import annotations

from dataclasses import dataclass

from insitu.graph import Graph, Node, Value

# op -> (index of its weight, index of its bias) among the inputs
PARAMETERS = {
    "conv2d": (1, 2), "depthwise2d": (1, 2), "conv1d": (1, 2), "conv_transpose2d": (1, 2), "linear": (1, 2),
    "conv2d_s8": (1, 2), "depthwise2d_s8": (1, 2), "linear_s8": (1, 2),
    "batch_norm": (1, 2), "layer_norm": (1, 2), "prelu": (1, None),
}  # fmt: skip
NORMS = ("batch_norm", "layer_norm", "prelu")  # trained along with `full`, not counted as layers


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
        whole = self.node.op.name.startswith(("conv_transpose", *NORMS)) or self.node.attrs.get("groups", 1) > 1
        return None if whole else self.weight.shape[-1]


def layers(graph: Graph, norms: bool = False) -> list[Layer]:
    """Every layer with constant parameters. Norms only if `norms`: schemes do not count them."""
    found = []
    for node in graph.nodes:
        indices = PARAMETERS.get(node.op.name)
        if indices and (norms or node.op.name not in NORMS):
            layer = _layer(graph, node, *indices)
            if layer:
                found.append(layer)
    return found


def _layer(graph: Graph, node: Node, weight: int, bias: int | None) -> Layer | None:
    stored = {**graph.constants, **graph.state}
    if len(node.inputs) <= weight or node.inputs[weight].name not in stored:
        return None  # the weight is computed: nothing to train here
    has_bias = bias is not None and len(node.inputs) > bias and node.inputs[bias].name in stored
    return Layer(node, node.inputs[weight], node.inputs[bias] if has_bias and bias is not None else None)
