"""A classifier in int8, if every byte counts: a quarter of the float head's weights, about two points less accurate.

Takes a graph whose `head` is a float linear on dequantised features, and returns one whose head is a linear_s8 on the
features themselves; the logits are dequantised for the loss.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Builder, Graph, Node, Value, build, drop_unused, s8, s32
from insitu.ops.layout import reshape
from insitu.ops.linear import linear, linear_s8
from insitu.ops.quant import dequantize
from insitu.training.head import HEAD

LOGIT_SCALE = 0.125  # logits within +-16: a softmax saturates well before that
ROOM = 2.0  # weights may grow to this multiple of the usual initial ones, 1/sqrt(features)


def integer_head(graph: Graph) -> Graph:
    """The same classifier in int8, its weights rounded; they keep learning through their residuals."""
    head = graph.producer.get(HEAD)
    if head is None or head.op is not linear:
        raise GraphError("the graph has no float head to make int8", where=graph.name)
    features = _int8_features(graph, head)
    weight, *bias = (graph.constants[v.name] for v in head.inputs[1:])
    body = drop_unused(replace(graph, outputs=(features,)))
    builder = Builder.of(body)
    with build(builder):
        x = features if features.type.rank == 2 else reshape(features, shape=(1, -1), name="features")
        limit = max(ROOM / np.sqrt(weight.shape[1]), float(np.abs(weight).max()))
        y = linear_s8(x, *_stored(builder, weight, bias, limit / 127, x.type.scale), out=s8(s=LOGIT_SCALE), name=HEAD)
        return builder.graph(dequantize(y, name="logits"))


def _stored(builder: Builder, weight, bias: list[np.ndarray], scale: float, x_scale: float) -> list[Value]:
    """The weight and, if there is one, the bias as integers."""
    w = np.clip(np.round(weight / scale), -127, 127).astype(np.int8)
    stored = [builder.constant(f"{HEAD}.weight", w, s8(*w.shape, s=scale))]
    for array in bias:
        b = np.round(array / (scale * x_scale)).astype(np.int32)
        stored.append(builder.constant(f"{HEAD}.bias", b, s32(*b.shape, s=scale * x_scale)))
    return stored


def _int8_features(graph: Graph, head: Node) -> Value:
    """The s8 value behind the head's features: through reshapes, to the dequantize."""
    node = graph.producer.get(head.inputs[0].name)
    while node is not None and node.op is reshape:
        node = graph.producer.get(node.inputs[0].name)
    if node is None or node.op is not dequantize:
        raise GraphError(
            "the head's features are computed in float",
            where=graph.name,
            hint="use a float head, or pool in int8 before it",
        )
    return node.inputs[0]
