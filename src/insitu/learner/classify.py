"""Scores as probabilities with the names of their classes. If the model has a softmax, it is not applied again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from insitu.errors import DataError, GraphError
from insitu.graph import Graph
from insitu.graph.classes import word
from insitu.ops.activation import lut_s8, sigmoid
from insitu.ops.layout import reshape, transpose
from insitu.ops.norm import log_softmax, softmax, softmax_s8
from insitu.ops.quant import dequantize, quantize, requantize_s8
from insitu.training.head import in_use, is_share

Classified = dict[str, float]  # name (or number) of a class -> its probability, the likeliest first
PROBABILITY = "1 / (1 + exp(-logit)) is the probability"
SAME = {dequantize, quantize, requantize_s8, reshape, transpose}  # the same numbers, in another form


def classified(graph: Graph, outputs: np.ndarray, names: Sequence[str], top: int | None = None) -> list[Classified]:
    """For each sample, its classes with their probabilities."""
    if not len(outputs):
        return []
    chances, used = probabilities(graph, outputs), _used(graph, outputs)
    return [_ranked(row, names, top, used) for row in chances]


def yes_or_no(loss: str, graph: Graph) -> tuple[str, str]:
    """The classes of a single output that is 0 or 1; with other targets there are none."""
    out = graph.outputs[0].type
    if loss == "binary_cross_entropy" and out.size == out.shape[0]:
        return "0", "1"
    chance = f" (logits: {PROBABILITY} of each)" if loss == "binary_cross_entropy" else ""
    raise DataError(f"a learner with the loss {loss} has no classes", hint=f"predict(x) gives its outputs{chance}")


def probabilities(graph: Graph, outputs: np.ndarray) -> np.ndarray:
    """[samples, classes], from the values of the graph's first output."""
    scores = real(graph, outputs).reshape(len(outputs), -1).astype(np.float64)
    each = graph.outputs[0].type.size // (graph.outputs[0].shape or (1,))[0]
    if graph.outputs[0].shape[-1:] != (each,):
        raise GraphError(f"the output {graph.outputs[0].type} is not one score per class", where=graph.name)
    given = last_op(graph)
    if each == 1:
        yes = scores if given is sigmoid else 1 / (1 + np.exp(-np.clip(scores, -500, 500)))
        return np.concatenate([1 - yes, yes], axis=1)
    if given in (softmax, softmax_s8, sigmoid):
        return np.clip(scores, 0, None)
    return _softmax(scores)  # of logits; after a log_softmax it only undoes the logarithm


def real(graph: Graph, outputs: np.ndarray) -> np.ndarray:
    """The real numbers that the output's integers represent."""
    q = graph.outputs[0].type.quant
    return outputs if q is None or outputs.dtype.kind == "f" else (outputs.astype(np.float64) - q.zero) * q.scale[0]


def last_op(graph: Graph):
    """The op that makes the output, if it is one of the functions that give probabilities."""
    node = graph.producer.get(graph.outputs[0].name)
    while node is not None and node.op in SAME:
        node = graph.producer.get(node.inputs[0].name)
    if node is None:
        return None
    if node.op is lut_s8 and is_share(node.output.type):
        return sigmoid
    return node.op if node.op in (softmax, softmax_s8, log_softmax, sigmoid) else None


def _softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _used(graph: Graph, outputs: np.ndarray) -> np.ndarray | None:
    """The classes in use; None for all. Rows of a head that are kept for later classes have a hopeless score."""
    used = in_use(outputs.reshape(len(outputs), -1)).any(0) if graph.outputs[0].dtype == "f32" else np.ones(1, bool)
    return None if used.all() else np.flatnonzero(used)


def _ranked(row: np.ndarray, names: Sequence[str], top: int | None, used: np.ndarray | None) -> Classified:
    order = np.argsort(-row, kind="stable")
    order = (order if used is None else order[np.isin(order, used)])[:top]
    return {word(names, int(k)): float(f"{row[k]:.6g}") for k in order}  # the last digits of exp differ by machine
