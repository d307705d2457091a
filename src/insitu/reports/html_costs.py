"""The cost of each layer in a training step: counts per op of the training graph, grouped by layer and pass."""

from __future__ import annotations

from collections.abc import Mapping

from insitu.graph import Graph, Node
from insitu.reports.html_data import LayerCost

REST = "everything else"


def layer_costs(graph: Graph, counts: Mapping[str, int], layers: tuple[str, ...]) -> tuple[LayerCost, ...]:
    """One cost per layer, in the order of the layers, from counts by node name; nodes without a layer come last."""
    nodes = {n.name: n for n in graph.nodes}
    found = {layer: {"forward": 0, "backward": 0, "update": 0} for layer in (*layers, REST)}
    for name, count in counts.items():
        node = nodes.get(name)
        layer, part = (layer_of(node, layers), pass_of(node)) if node else (REST, "forward")
        found[layer][part] += count
    return tuple(cost for cost in (LayerCost(layer, **parts) for layer, parts in found.items()) if cost.total)


def layer_of(node: Node, layers: tuple[str, ...]) -> str:
    """The layer whose weight an op uses, else the layer its name begins with."""
    used = {v.name for v in node.inputs}
    for layer in layers:
        if {f"{layer}.weight", f"{layer}.bias"} & used:
            return layer
    prefixes = [layer for layer in layers if node.name == layer or node.name.startswith(f"{layer}.")]
    return max(prefixes, key=len, default=REST)


def pass_of(node: Node) -> str:
    names = [v.name for v in node.outputs]
    if any(".new" in n for n in names):
        return "update"
    return "backward" if any(".grad" in n for n in names) else "forward"


def multiply_adds(graph: Graph) -> dict[str, int]:
    """Node name -> multiply-adds, from the ops' own rules, without running anything."""
    return {n.name: int(n.rule("macs", n.outputs[0], *n.inputs)) for n in graph.nodes if n.op.has("macs")}
