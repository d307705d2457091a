"""Transfer learning: take the classifier off a model and put a new one on, in float on dequantised features.

`find_head` looks for the last linear layer or 1x1 convolution before the output; where it cannot tell, the
error names the candidates.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Builder, Graph, Node, Value, build, drop_unused, lookup
from insitu.training.layers import layers

# what may stand between the last layer and the output without being part of what was learned
TAILS = {
    "softmax",
    "log_softmax",
    "softmax_s8",
    "sigmoid",
    "reshape",
    "transpose",
    "dequantize",
    "quantize",
    "requantize_s8",
    "dropout",
}
HEADS = {"linear", "linear_s8", "conv2d", "conv2d_s8"}


def find_head(graph: Graph, after: str | None = None) -> Node:
    """The layer that is the classifier."""
    if after is not None:
        return _named(graph, after)
    node = graph.producer.get(graph.outputs[0].name)
    while node is not None and node.op.name in TAILS:
        node = graph.producer.get(node.inputs[0].name)
    if node is None or len(graph.outputs) != 1 or not _is_head(node):
        names = ", ".join(layer.name for layer in layers(graph) if layer.node.op.name in HEADS)
        raise GraphError(
            "cannot tell which layer is the classifier", where=graph.name, hint=f"--head-after LAYER, one of: {names}"
        )
    return node


def replace_head(
    graph: Graph, classes: int | None, *, after: str | None = None, init: str = "zero", seed: int = 0
) -> Graph:
    """The graph up to its classifier, then a new one: `head` = linear(features), in float, `classes` outputs.

    With classes=None the old classifier stays, in float, its weights dequantised. `after` names the layer whose
    output becomes the features.
    """
    if classes is not None and classes < 1:
        raise GraphError(f"{classes} classes", where="replace_head")
    old = None if after else find_head(graph)
    features = _named(graph, after).output if after else _head_of(old).inputs[0]
    builder = Builder.of(graph)
    with build(builder):
        flat = _flatten(features)
        weight, bias = _first_weights(graph, old, flat.shape[-1], classes, init, seed)
        w, b = builder.constant("head.weight", weight), builder.constant("head.bias", bias)
        logits = lookup("linear")(flat, w, b, name="head")
    return drop_unused(replace(builder.graph(logits), outputs=(logits,)))


def _head_of(node: Node | None) -> Node:
    assert node is not None
    return node


def _named(graph: Graph, name: str) -> Node:
    node = graph.producer.get(name)
    if node is None:
        names = ", ".join(layer.name for layer in layers(graph)[-8:])
        raise GraphError("the model has no such layer", where=name, hint=names)
    return node


def _is_head(node: Node) -> bool:
    return node.op.name in HEADS and (node.inputs[1].type.rank == 2 or node.inputs[1].shape[1:3] == (1, 1))


def _flatten(features: Value) -> Value:
    """Features as f32[samples, n]: maps are averaged, integers become the reals they stand for."""
    x = lookup("dequantize")(features, name="features") if features.dtype == "s8" else features
    if x.type.rank == 4 and x.shape[1:3] != (1, 1):
        x = lookup("mean")(x, axes=(1, 2), name="features.mean")
    if x.type.rank != 2:
        x = lookup("reshape")(x, shape=(x.shape[0], -1), name="features.flat")
    return x


def _first_weights(graph: Graph, old: Node | None, width: int, classes: int | None, init: str, seed: int):
    if classes is None:
        if old is None:
            raise GraphError("a new head after a layer needs a number of classes", hint="--classes N")
        return _old_weights(graph, old, width)
    if init == "zero":
        return np.zeros((classes, width), np.float32), np.zeros(classes, np.float32)
    if init == "uniform":
        limit = 1 / np.sqrt(width)
        rng = np.random.default_rng(seed)
        return rng.uniform(-limit, limit, (classes, width)).astype(np.float32), np.zeros(classes, np.float32)
    raise GraphError(f"unknown first content of a head {init!r}", hint="zero or uniform")


def _old_weights(graph: Graph, old: Node, width: int):
    arrays = []
    for v in old.inputs[1:3]:
        array = graph.constants[v.name]
        if v.type.quant is not None:
            array = (array - v.type.zero) * v.type.quant.scales(v.type.rank)
        arrays.append(array.astype(np.float32))
    w = arrays[0].reshape(-1, width)
    return w, arrays[1] if len(arrays) > 1 else np.zeros(len(w), np.float32)
