"""Turn the parameters that a scheme updates into persistent state.

A whole weight or bias moves from the constants to the state under its own name. `full` trains every parameter of
the model, wherever it is: a factor of a product, a term of a sum. If only part of a weight is trained, the chosen
input channels become state `<weight>.trained`, the rest stays constant `<weight>.fixed`, and a merge_channels op puts
them together where the weight is used. Of a low-rank update the factors are state (low_rank.py), the weight is not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Builder, Graph, Node, Type, Value, build, quant
from insitu.graph.fixed import is_fixed
from insitu.ops.arith import add, sub
from insitu.ops.channels import channels_type, merge_channels, rest_of
from insitu.ops.conv import conv2d
from insitu.ops.linear import linear
from insitu.ops.norm import batch_norm
from insitu.schemes.layers import Layer, layers, leading
from insitu.schemes.scheme import Scheme, choose_channels
from insitu.training.low_rank import check_own, put_beside
from insitu.training.passes.ties import tie

STATISTICS = {batch_norm: 3}  # op -> its first input that is measured, not trained


@dataclass(frozen=True)
class Trained:
    """A persistent value that a training step updates."""

    value: Value
    layer: str
    kind: str  # "weight" or "bias"
    head: bool = False  # of the classifier, which learns at the rate itself
    size: float = (
        0.0  # the norm of the weights before training, in real units; of a bias, that of its layer's weights too
    )


def make_trainable(graph: Graph, scheme: Scheme, *, head: str | None = "head", choose="magnitude", scores=None):
    """The graph with its trained parameters as state, and the list of them."""
    graph = tie(graph, _trained_values(graph, scheme), everything=scheme.name == "full")
    by_name = {layer.name: layer for layer in layers(graph, norms=True)}
    builder = Builder(graph.name, graph.classes, graph.columns, graph.pixels)
    builder.inputs, builder.notes = list(graph.inputs), list(graph.notes)
    builder.constants, builder.state = dict(graph.constants), dict(graph.state)
    builder.parameters = dict(graph.parameters)
    builder._types = {name: v.type for name, v in graph.values.items()}
    found: list[Trained] = []
    wanted = {u.layer: u for u in scheme.updates}
    leads = leading(graph)
    with build(builder):
        for node in graph.nodes:
            layer, u = by_name.get(node.name), wanted.get(node.name)
            if scheme.name == "full" and node.name not in leads:  # another output, which no loss is computed from
                builder.append(node)
                continue
            if layer and node.name == head:
                node = _whole(builder, node, layer, found, weight=True, bias=True)
            elif layer and u:
                channels = () if not (u.share or u.channels) else _channels(graph, layer, u, choose, scores)
                whole = bool(u.share or u.channels) and not channels
                if channels:
                    node = _part(builder, node, layer, found, channels)
                node = _whole(builder, node, layer, found, weight=whole, bias=u.bias)
                if u.rank:
                    check_own(graph, layer)
                    found += [Trained(v, layer.name, "weight") for v in put_beside(builder, node, layer, u.rank)]
                    continue
            elif layer and scheme.name == "full" and node.op not in (conv2d, linear):
                node = _whole(builder, node, layer, found, weight=True, bias=True)  # norms are trained too
            if scheme.name == "full":
                found += _operands(builder, node)
            builder.append(node)
    sizes = {name: _norm(graph, layer.weight) for name, layer in by_name.items()}
    made = builder.graph(*graph.outputs)
    return made, [replace(t, head=t.layer == head, size=_size(made, t, sizes.get(t.layer, 0.0))) for t in found]


def _size(graph: Graph, t: Trained, of_layer: float) -> float:
    own = _norm(graph, t.value)
    return max(own, of_layer) if t.kind == "bias" or not own else own  # factors that begin as zeros: the layer's


def _norm(graph: Graph, value: Value) -> float:
    return float(np.linalg.norm(real_weight(graph, value).astype(np.float64)))


def _trained_values(graph: Graph, scheme: Scheme) -> set[str]:
    """The constants that the scheme's updates train, in part or whole."""
    found, by_name = set(), {layer.name: layer for layer in layers(graph)}
    for u in scheme.updates:
        layer = by_name.get(u.layer)
        found |= {layer.weight.name} if layer and (u.share or u.channels) else set()
        found |= {layer.bias.name} if layer and layer.bias and u.bias else set()
    return found


def _operands(builder: Builder, node: Node) -> list[Trained]:
    """The parameters a node reads that are not a layer's weight or bias: they become state."""
    found = []
    for v in node.inputs[: STATISTICS.get(node.op)]:
        own = v.name in builder.parameters and not is_fixed(builder, v.name)
        if own and v.name in builder.constants and v.dtype == "f32":
            builder.state[v.name] = builder.constants.pop(v.name)
            found.append(Trained(v, node.name, "bias" if node.op in (add, sub) else "weight"))
    return found


def _channels(graph: Graph, layer: Layer, u, choose: str, scores) -> tuple[int, ...]:
    if layer.channels is None:
        return ()
    score = None if scores is None else scores.get(layer.name)
    return choose_channels(u, real_weight(graph, layer.weight), choose, score)


def real_weight(graph: Graph, weight: Value) -> np.ndarray:
    array = graph.constants[weight.name] if weight.name in graph.constants else graph.state[weight.name]
    return array if weight.type.quant is None else array * weight.type.quant.scales(weight.type.rank)


def _whole(builder: Builder, node: Node, layer: Layer, found: list[Trained], weight: bool, bias: bool) -> Node:
    for value, kind, wanted in ((layer.weight, "weight", weight), (layer.bias, "bias", bias)):
        if wanted and value is not None and value.name in builder.constants:
            lasting = Value(value.name, bias_type(node, value.type) if kind == "bias" else value.type)
            builder.state[value.name] = builder.constants.pop(value.name)
            builder._types[value.name] = lasting.type
            found.append(Trained(lasting, layer.name, kind))
            node = Node(node.op, tuple(lasting if v == value else v for v in node.inputs), node.outputs, node.attrs)
    return node


def bias_type(node: Node, bias: Type) -> Type:
    """The bias of an int8 layer is in units of s_x s_w; with that in its type, it can be updated in real units."""
    x, w = node.inputs[0].type, node.inputs[1].type
    if bias.dtype != "s32" or w.quant is None:
        return bias
    scales = x.scale * np.broadcast_to(np.array(w.quant.scale), bias.shape)
    return replace(bias, quant=quant(scales, 0, axis=0))


def _part(builder: Builder, node: Node, layer: Layer, found: list[Trained], channels: tuple[int, ...]) -> Node:
    w = layer.weight
    if w.name not in builder.constants:
        raise GraphError("is shared with another layer: it can be trained as a whole, not in part", where=f"%{w.name}")
    array = builder.constants[w.name]
    rest = rest_of(channels, w.shape[-1])
    part = channels_type(w.type, channels)
    trained = builder.lasting(f"{w.name}.trained", np.ascontiguousarray(array[..., list(channels)]), part)
    fixed_type = channels_type(w.type, tuple(rest))
    fixed = builder.constant(f"{w.name}.fixed", np.ascontiguousarray(array[..., rest]), fixed_type)
    merged = merge_channels(trained, fixed, channels=channels, name=f"{w.name}.merged")
    found.append(Trained(trained, layer.name, "weight"))
    inputs = tuple(merged if v.name == w.name else v for v in node.inputs)
    return Node(node.op, inputs, node.outputs, node.attrs)


def remerge(graph: Graph) -> Graph:
    """Merge a weight again where the backward pass needs it, instead of keeping it until then."""
    builder = Builder.of(replace(graph, nodes=()))
    builder._types = {name: v.type for name, v in graph.values.items()}
    merges = {n.output.name: n for n in graph.nodes if n.op is merge_channels}
    used: set[str] = set()
    with build(builder):
        for node in graph.nodes:
            inputs = []
            for v in node.inputs:
                if v.name in merges and v.name in used:
                    m = merges[v.name]
                    v = merge_channels(*m.inputs, channels=m.attrs["channels"], name=f"{v.name}.again")
                elif v.name in merges:
                    used.add(v.name)
                inputs.append(v)
            builder.append(Node(node.op, tuple(inputs), node.outputs, node.attrs))
    return builder.graph(*graph.outputs)
