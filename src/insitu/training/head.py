"""Transfer learning: replace a model's classifier with a new one, in float on dequantised features.

`find_head` looks for the last linear layer or 1x1 convolution before the output; if it cannot tell, the
error says where a new one could go.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Builder, Graph, Node, Op, Type, Value, build, drop_unused
from insitu.graph.classes import fitting
from insitu.ops.activation import lut_s8, relu, relu6, sigmoid
from insitu.ops.conv import conv2d, conv2d_s8
from insitu.ops.layout import reshape, transpose
from insitu.ops.linear import linear, linear_s8
from insitu.ops.norm import dropout, log_softmax, softmax, softmax_s8
from insitu.ops.quant import dequantize, quantize, requantize_s8
from insitu.ops.reduce import mean, mean_s8
from insitu.quantizer.correct import is_correction
from insitu.schemes.layers import layers, leading
from insitu.terminal.wording import option

# ops without parameters that may follow the classifier
TAILS = {
    softmax, log_softmax, softmax_s8, sigmoid, reshape, transpose, dequantize, quantize, requantize_s8, dropout, mean,
    mean_s8,
}  # fmt: skip
POOLS = {mean, mean_s8}
PROBABLE = {softmax, log_softmax, softmax_s8, sigmoid, lut_s8}  # as tails, what makes probabilities
ACTIVATIONS = {relu, relu6}
HEADS = {linear, linear_s8, conv2d, conv2d_s8}
HEAD = "head"  # the name of the new classifier
UNUSED = -1e9  # the bias of a row that no class uses yet: its probability is exactly 0


def find_head(graph: Graph) -> Node:
    """The layer that is the classifier."""
    node, tail = _before_tail(graph)
    if node is not None and node.op in ACTIVATIONS and set(tail) & (POOLS | PROBABLE):
        node = graph.producer.get(node.inputs[0].name)  # SqueezeNet, NiN: a 1x1 convolution, ReLU, the mean of the map
    if len(graph.outputs) != 1:
        what = f"has {len(graph.outputs)} outputs, and a classifier has one"
        hint = f"a model that returns only the scores to learn, or {_ways_out(graph)}"
        raise GraphError(what, where=graph.name, hint=hint)
    if node is None or not _is_head(node):
        raise GraphError("cannot tell which layer is the classifier", where=graph.name, hint=_ways_out(graph))
    return node


def _before_tail(graph: Graph) -> tuple[Node | None, list[Op]]:
    """What the first output is made of, and the ops that stand behind it."""
    node, tail = graph.producer.get(graph.outputs[0].name), []
    while node is not None and (node.op in TAILS or _is_int8_sigmoid(node)):
        tail.append(node.op)
        node = graph.producer.get(node.inputs[0].name)
    return node, tail


def _is_int8_sigmoid(node: Node) -> bool:
    return node.op is lut_s8 and is_share(node.output.type)


def is_share(t: Type) -> bool:
    """Does this int8 type represent exactly 0 to 1, like the type of a sigmoid?"""
    return t.quant is not None and t.zero == -128 and t.scale == 1 / 256


def _ways_out(graph: Graph) -> str:
    """Where a new classifier could go, by the names that `head_after` takes."""
    end, _ = _before_tail(graph)
    last = next((layer for layer in reversed(layers(graph)) if layer.name in leading(graph)), None)
    if end is None or last is None:
        return "a model with a layer that has parameters"
    before = graph.producer.get(last.node.inputs[0].name)
    instead = f"   or   {option(classes='N', head_after=before.name)} (in place of {last.name})" if before else ""
    behind = f"behind {end.name}, its end" if instead else f"behind its end; its only layer is {last.name}"
    return f"{option(classes='N', head_after=end.name)} ({behind}){instead}"


def replace_head(
    graph: Graph, classes: int | None, *, after: str | None = None, init: str = "zero", seed: int = 0
) -> Graph:
    """The graph up to its classifier, then a new one: `head` = linear(features), in float, `classes` outputs.

    With classes=None the old classifier stays, in float, its weights dequantised; it has a bias only if the model's
    own has one. `after` names the layer whose output becomes the features.
    """
    if classes is not None and classes < 1:
        raise GraphError(f"a head needs at least one class, not {classes}", where="replace_head")
    old = None if after else find_head(graph)
    if old and classes is None and _is_activated(graph, old):
        what = "the classifier ends in a ReLU, so it cannot be trained as it is"
        raise GraphError(what, where=old.name, hint=f"{option(classes='N')} puts a new one without it in its place")
    features = old.inputs[0] if old else _named(graph, str(after)).output
    body = _body(graph, features)
    builder = Builder.of(body)
    with build(builder):
        flat = _flatten(body.outputs[0])
    weight, bias = _first_weights(graph, old, flat.shape[-1], classes, init, seed)
    if old and classes is None:  # still the model's own parameters, which it may also use elsewhere
        for word, v in zip(("weight", "bias")[: 2 if bias is not None else 1], old.inputs[1:]):
            builder.parameters[f"{HEAD}.{word}"] = graph.parameters.get(v.name, v.name)
    return _finish(builder, flat, weight, bias)


def _body(graph: Graph, features: Value) -> Graph:
    """Only the part that computes the features; none of its names collides with the head's."""
    body = drop_unused(replace(graph, outputs=(features,)))
    taken = {name for name in body.values if name == HEAD or name.startswith(f"{HEAD}.")}

    def free(v: Value) -> Value:
        return Value(f"body.{v.name}", v.type) if v.name in taken else v

    nodes = [Node(n.op, tuple(map(free, n.inputs)), tuple(map(free, n.outputs)), n.attrs) for n in body.nodes]
    constants = {f"body.{k}" if k in taken else k: a for k, a in body.constants.items()}
    parameters = {f"body.{k}" if k in taken else k: of for k, of in body.parameters.items()}
    return replace(body, inputs=tuple(map(free, body.inputs)), nodes=tuple(nodes), constants=constants,
                   parameters=parameters, outputs=(free(features),))  # fmt: skip


def _finish(builder: Builder, features: Value, weight: np.ndarray, bias: np.ndarray | None) -> Graph:
    with build(builder):
        given = {"weight": weight} if bias is None else {"weight": weight, "bias": bias}
        parameters = [builder.constant(f"{HEAD}.{word}", array) for word, array in given.items()]
        logits = linear(features, *parameters, name=HEAD)
    builder.classes = fitting(builder.classes, len(weight))
    return drop_unused(builder.graph(logits))


def _named(graph: Graph, name: str) -> Node:
    node = graph.producer.get(name)
    if node is None:
        names = ", ".join(layer.name for layer in layers(graph)[-8:])
        raise GraphError("the model has no such layer", where=name, hint=names)
    return node


def _is_head(node: Node) -> bool:
    return node.op in HEADS and (node.inputs[1].type.rank == 2 or node.inputs[1].shape[1:3] == (1, 1))


def _is_activated(graph: Graph, node: Node) -> bool:
    """Is there a ReLU behind it? In int8 it is part of the layer, whose results are never negative then."""
    t = node.output.type
    if t.quant is not None:
        return node.attrs.get("lo", -128) >= t.zero
    return any(n.op in ACTIVATIONS for n in graph.users.get(node.name, ()))


def _flatten(features: Value) -> Value:
    """Features as f32[samples, n]: feature maps are averaged, integers are dequantised."""
    x = dequantize(features, name="features") if features.dtype == "s8" else features
    if x.type.rank == 4 and x.shape[1:3] != (1, 1):
        x = mean(x, axes=(1, 2), name="features.mean")
    if x.type.rank != 2:
        x = reshape(x, shape=(x.shape[0], -1), name="features.flat")
    return x


def _first_weights(graph: Graph, old: Node | None, width: int, classes: int | None, init: str, seed: int):
    if classes is None:
        if old is None:
            raise GraphError("a new head after a layer needs a number of classes", hint=option(classes="N"))
        return _old_weights(graph, old, width)
    if init == "zero":
        return np.zeros((classes, width), np.float32), np.zeros(classes, np.float32)
    if init == "uniform":
        limit = 1 / np.sqrt(width)
        rng = np.random.default_rng(seed)
        return rng.uniform(-limit, limit, (classes, width)).astype(np.float32), np.zeros(classes, np.float32)
    raise GraphError(f"unknown initial weights of a head {init!r}", hint="zero, uniform or prototypes")


def _old_weights(graph: Graph, old: Node, width: int) -> tuple[np.ndarray, np.ndarray | None]:
    """The old classifier's weights, dequantised; no bias if the model has none there."""
    x, w, *rest = old.inputs
    weight = graph.constants[w.name].astype(np.float64)
    scales = np.ones(())
    if w.type.quant is not None:
        weight = (weight - w.type.zero) * w.type.quant.scales(w.type.rank)
        scales = np.array(w.type.quant.scale) * x.type.scale  # the scales of the bias, which is stored as integers
    own = [v for v in rest if not is_correction(graph, v.name)]
    bias = (graph.constants[own[0].name] * scales).astype(np.float32) if own else None
    return weight.reshape(-1, width).astype(np.float32), bias


def widen_head(graph: Graph, classes: int) -> Graph:
    """The graph with more classes: existing classes keep their weights, a new one starts with the mean of theirs.

    Its output is then the mean of the others: never the largest, whatever the head. Zeros would win wherever all others
    are negative.
    """
    node = graph.producer.get(HEAD)
    if node is None or node.op is not linear:
        raise GraphError("the graph has no head to widen", where=graph.name, hint="replace_head first")
    arrays = [graph.constants[v.name] for v in node.inputs[1:]]
    grow = classes - len(arrays[0])
    if grow < 0:
        raise GraphError(f"cannot reduce the {len(arrays[0])} classes to {classes}", where=HEAD)
    return with_head(graph, *(np.concatenate([a, np.repeat(mean_row(a), grow, 0)]) for a in arrays))


def mean_row(array: np.ndarray) -> np.ndarray:
    """The mean of the rows of a head, as one row."""
    return array.mean(0, dtype=np.float64, keepdims=True).astype(array.dtype)


def reserve_head(graph: Graph, most: int) -> Graph:
    """The graph with room for `most` classes: rows that no class uses yet never win, and no gradient reaches them."""
    wide = widen_head(graph, most)
    node, used = wide.producer[HEAD], graph.producer[HEAD].output.shape[-1]
    weight, *own = (wide.constants[v.name].copy() for v in node.inputs[1:])
    bias = own[0] if own else np.zeros(most, np.float32)
    weight[used:], bias[used:] = 0, UNUSED
    return with_head(wide, weight, bias)


def in_use(bias: np.ndarray) -> np.ndarray:
    """Which rows of a head belong to a class, by their biases."""
    return bias > UNUSED / 10


def with_head(graph: Graph, weight: np.ndarray, bias: np.ndarray | None = None) -> Graph:
    """The graph with these weights in its head; the number of classes may change."""
    features = graph.producer[HEAD].inputs[0]
    rest = replace(graph, nodes=tuple(n for n in graph.nodes if n.name != HEAD), outputs=(features,))
    builder = Builder.of(drop_unused(rest))
    return _finish(builder, features, weight, bias)


SURE, LEFT = 0.05, 0.02  # how much more a softer head of prototypes may be surprised than the best; and must be


def prototypes(features: np.ndarray, labels: np.ndarray, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights and biases of a head that picks the class with the nearest mean: one pass, no training.

    logit[c] = -|f - mean[c]|^2 / (2 t), without the terms that are the same for all classes. t is the softest of a few
    that explain these samples about as well as the best, each compared with its class's mean without itself. And some
    surprise must be left: from a head that is sure of every sample, training would move nothing. A class without
    samples gets zeros.
    """
    f, centre = features.astype(np.float64), features.mean(0, dtype=np.float64)
    counts = np.bincount(labels, minlength=classes)[:, None]
    sums = np.zeros((classes, f.shape[1]))
    np.add.at(sums, labels, f - centre)
    means = sums / np.maximum(counts, 1)
    spread = max(float(((f - centre - means[labels]) ** 2).sum(1).mean()), float((means**2).sum(1).mean()), 1e-12)
    logits = (f - centre) @ means.T - (means**2).sum(1) / 2
    others = (sums[labels] - (f - centre)) / np.maximum(counts[labels] - 1, 1)
    alone = logits.copy()
    alone[np.arange(len(f)), labels] = ((f - centre) * others).sum(1) - (others**2).sum(1) / 2
    tried = {t: surprise(alone / t, labels) for t in (spread * 2.0**-k for k in range(8))}
    t = max(t for t, found in tried.items() if found <= min(tried.values()) + SURE)
    while t < 8 * spread and surprise(logits / t, labels) < LEFT:
        t *= 2
    weight = means / t
    bias = -(means**2).sum(1) / (2 * t) - weight @ centre
    return weight.astype(np.float32), np.where(counts[:, 0] > 0, bias, 0).astype(np.float32)


def surprise(z: np.ndarray, labels: np.ndarray) -> float:
    """The mean cross-entropy of these logits."""
    top = z.max(1)
    return float((np.log(np.exp(z - top[:, None]).sum(1)) + top - z[np.arange(len(z)), labels]).mean())
