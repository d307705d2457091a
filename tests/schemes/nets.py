"""Networks to choose from: an int8 mobilenet with a head for four classes, and an MLP."""

from functools import cache

import numpy as np

import insitu
from insitu.graph import Graph
from insitu.schemes.layers import Layer, layers
from insitu.training.head import HEAD, replace_head

from ..models import imported


@cache
def mobilenet() -> Graph:
    """Random weights, calibrated on random images."""
    model = insitu.Model(imported("mobilenet_v2"))
    x = np.random.default_rng(0).normal(size=(4, *model.graph.inputs[0].shape[1:])).astype(np.float32)
    return replace_head(model.quantize(x).graph, 4)


@cache
def mlp() -> Graph:
    return replace_head(imported("mlp"), 4)


def body(graph: Graph) -> list[Layer]:
    return [layer for layer in layers(graph) if layer.name != HEAD]
