"""A learned network's numbers as constants of the module's own graph: what compile() folded is taken apart again.

A scale or a batch norm that was folded into a layer keeps its numbers; the layer is divided by them. The rest goes into
the bias of the batch norm, if there is one, else of the layer. Nothing here writes into the module (places.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from insitu.errors import DataError
from insitu.exporters.torch.affines import Affine, Arrays, folded, folded_above, safe, theirs, with_scale, with_shift
from insitu.exporters.torch.places import Places
from insitu.exporters.torch.standing import standing
from insitu.graph import Graph, Node
from insitu.ops.arith import add, sub
from insitu.ops.conv import conv2d
from insitu.ops.conv_transpose import conv_transpose2d
from insitu.ops.norm import batch_norm
from insitu.quantizer.weights import ALONG_INPUT, SCALED, response
from insitu.training.head import HEAD, find_head


@dataclass(frozen=True)
class Layer:
    """A layer of the module's graph, and its weight and bias as learned, with all that was folded into it."""

    node: Node
    weight: np.ndarray
    bias: np.ndarray


def learned_arrays(places: Places, learned: Graph) -> Arrays:
    """Every constant that both networks have, and the layers with their folded parts, by the module's names."""
    layers = list(learned_layers(places.graph, learned))
    apart = {v.name for layer in layers for v in layer.node.inputs[1:]}
    known = {name: learned.constants.get(theirs(name, learned)) for name in places.graph.constants if name not in apart}
    arrays = {name: array for name, array in known.items() if array is not None and _alike(array, places, name)}
    for node in places.graph.nodes:
        arrays |= standing(places, learned, node)
    for layer in layers:
        arrays |= unfolded(places, learned, layer)
    return arrays


def _alike(array: np.ndarray, places: Places, name: str) -> bool:
    """The same shape, but for axes of one."""
    return _long(array.shape) == _long(places.graph.constants[name].shape)


def _long(shape: tuple[int, ...]) -> list[int]:
    return [d for d in shape if d != 1]


def learned_layers(own: Graph, learned: Graph) -> Iterator[Layer]:
    """The layers of the module that the learned network has, under the names of the module's graph."""
    head = find_head(own).name if HEAD in learned.producer else ""
    for node in own.nodes:
        if node.op in SCALED:
            name = HEAD if node.name == head else theirs(node.name, learned)
            found = learned.producer.get(f"{name}.conv2d") or learned.producer.get(name)  # a 1-D one is lowered
            if found is not None and len(found.inputs) > 1 and found.inputs[1].name in learned.constants:
                yield _layer(node, found, learned.constants)


def _layer(node: Node, found: Node, constants: Mapping[str, np.ndarray]) -> Layer:
    """Weight and bias in the shapes of the module's graph."""
    w, shape = constants[found.inputs[1].name], node.inputs[1].shape
    outputs = node.output.shape[-1]
    bias = constants[found.inputs[2].name] if len(found.inputs) > 2 else np.zeros(outputs)
    if w.size != np.prod(shape) or bias.size != outputs:
        what = f"the learner has {bias.size} outputs here, the module {outputs}"
        raise DataError(what, where=node.name, hint=f"a module with {bias.size} classes")
    if node.op is conv_transpose2d and found.op is conv2d:
        w = turned_back(w, node.attrs["groups"])
    elif w.ndim == 3 and len(shape) == 3 and w.shape != shape:  # a depthwise convolution over an image of one row
        w = w[0].T
    return Layer(node, w.reshape(shape).astype(np.float64), bias.astype(np.float64))


def turned_back(w: np.ndarray, groups: int) -> np.ndarray:
    """w[O, KH, KW, C/g] of the convolution that a transposed one is in int8 as its own w[C, KH, KW, O/g]."""
    o, kh, kw, c = w.shape
    w = w.reshape(groups, o // groups, kh, kw, c)[:, :, ::-1, ::-1]
    return w.transpose(0, 4, 2, 3, 1).reshape(groups * c, kh, kw, o // groups)


def unfolded(places: Places, learned: Graph, layer: Layer) -> Arrays:
    """The module's constants for this layer and what was folded into it."""
    node, w, target = layer.node, layer.weight, layer.bias
    weight, *bias = node.inputs[1:]
    after = _after(places, learned, node)
    used = _used(layer)
    scales = {k: v for step in after if _stops(step, used) for k, v in _let_through(places, step).items()}
    after = [_passing(places, step) if _stops(step, used) else step for step in after]
    for step in after:
        w = SCALED[node.op](w, 1 / safe(step.a), node.attrs)
    w, offset = _without(_before(places, learned, node), node, w)
    w = _kept_where_stopped(places, layer, after, w)
    carrier = _carrier(after, bool(bias))
    for step in reversed(after if carrier is None else after[carrier + 1 :]):
        target = (target - step.b) / safe(step.a)
    if carrier is None:
        return scales | {weight.name: w, **({bias[0].name: target - offset} if bias else {})}
    first = places.array(bias[0]) if bias else None
    offset = offset + (0.0 if first is None else first.astype(np.float64))
    for step in after[:carrier]:
        offset = offset * step.a + step.b
    step = after[carrier]
    return scales | {weight.name: w, **with_shift(places, step.node, step.a, target - step.a * offset)}


def _channels(layer: Layer) -> np.ndarray:
    """The output channel of every weight."""
    numbers = np.arange(layer.node.output.shape[-1])
    return SCALED[layer.node.op](np.ones_like(layer.weight), numbers, layer.node.attrs).astype(int)


def _used(layer: Layer) -> np.ndarray:
    """The channels that the learned layer has weights for."""
    count = layer.node.output.shape[-1]
    return np.bincount(_channels(layer)[layer.weight != 0], minlength=count) > 0


def _stops(step: Affine, used: np.ndarray) -> bool:
    """Is a channel that was learned multiplied by zero here? The last norm of a residual branch often starts there."""
    return bool(np.any((step.a == 0) & used))


def _passing(places: Places, step: Affine) -> Affine:
    """The same with a scale of one instead of zero."""
    a = safe(step.a)
    mean = places.array(step.node.inputs[3]) if step.node.op is batch_norm else None
    return replace(step, a=a, b=step.b if mean is None else step.b - mean * (a - step.a))


def _let_through(places: Places, step: Affine) -> Arrays:
    return with_scale(places, step.node, safe(step.a))


def _kept_where_stopped(places: Places, layer: Layer, after: list[Affine], w: np.ndarray) -> np.ndarray:
    """The module's own weights of channels that are multiplied by zero: the learned network does not have them."""
    own, count = places.array(layer.node.inputs[1]), layer.node.output.shape[-1]
    stopped = np.any([np.broadcast_to(step.a == 0, count) for step in after] or [np.zeros(count, bool)], axis=0)
    return w if own is None else np.where(stopped[_channels(layer)], own, w)


def _carrier(after: list[Affine], bias: bool) -> int | None:
    """Which of the folded nodes takes up the rest of the bias; None: the layer itself."""
    for ops in ((batch_norm,), () if bias else (add, sub)):
        found = next((i for i, step in enumerate(after) if step.node.op in ops), None)
        if found is not None:
            return found
    return None


def _without(before: list[Affine], node: Node, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The weights without what was folded into their input, and what its shift adds to the bias."""
    if not before:
        return w, np.zeros(node.output.shape[-1])
    a, b = np.ones(1), np.zeros(1)
    for step in before:  # nearest to the layer first: a (a2 x + b2) + b
        a, b = a * step.a, b + a * step.b
    w = w * ALONG_INPUT[node.op](w, 1 / safe(a), node.attrs)
    return w, response(node.op, w, b, node.attrs)


def _after(places: Places, learned: Graph, node: Node) -> list[Affine]:
    """The folded nodes behind a layer, in order."""
    found = []
    while len(users := places.graph.users.get(node.name, ())) == 1 and (step := folded(places, learned, users[0])):
        found.append(step)
        node = users[0]
    return found


def _before(places: Places, learned: Graph, node: Node) -> list[Affine]:
    """The folded nodes in front of a layer, nearest first; none if they belong to the layer in front of them."""
    found = folded_above(places, learned, node.inputs[0]) if node.op in ALONG_INPUT else []
    start = found[-1].x if found else node.inputs[0]
    above = places.graph.producer.get(start.name)
    owned = above is not None and above.op in SCALED and len(places.graph.users[start.name]) == 1
    return [] if owned else found
