"""The inference form of a graph: no dropout, no batch_norm, no op that does nothing.

batch_norm, and any mul, add, sub or div with one constant per channel, is folded into the convolution or linear before
it (or after it, if that is exact); otherwise it becomes mul + add. Layers keep their names: a convolution with a folded
batch_norm still has the name of the convolution. Nothing here knows about int8.
"""

from __future__ import annotations

import re
from dataclasses import replace
from math import inf
from typing import Protocol

import numpy as np

from insitu.graph import Graph, Node, Value, check, rewrite
from insitu.graph.rewrite import Rewriter
from insitu.ops.activation import clamp, relu, relu6
from insitu.ops.arith import add, div, mul, sub
from insitu.ops.conv import conv1d, conv2d
from insitu.ops.depthwise import depthwise2d
from insitu.ops.layout import pad
from insitu.ops.norm import batch_norm, dropout
from insitu.ops.normalize import normalize
from insitu.ops.pool import max_pool2d
from insitu.quantizer.weights import ALONG_INPUT, SCALED, response


def fold(graph: Graph) -> Graph:
    """The same function with fewer ops; the same object if there is nothing to fold."""
    folded = keep_names(graph, rewrite(graph, *RULES))
    check(folded, "int8" if is_int8(folded) else "inference")
    return graph if _shape_of(folded) == _shape_of(graph) else folded


def is_int8(graph: Graph) -> bool:
    return any(node.op.kind == "int8" for node in graph.nodes)


# --- rules ---------------------------------------------------------------------------------------------


def drop_dropout(node: Node, rw: Rewriter):
    return node.inputs[0] if node.op is dropout else None


def compute_constants(node: Node, rw: Rewriter):
    """A node whose inputs are all constant is a constant."""
    arrays = [rw.array(v) for v in node.inputs]
    if not arrays or any(a is None for a in arrays):
        return None
    wide = [a.astype(np.float64) if a.dtype == np.float32 else a for a in arrays if a is not None]
    results = node.rule("eval", *wide)
    many = results if isinstance(results, tuple) else (results,)
    return tuple(rw.constant(v.name, np.asarray(r, v.type.numpy), v.type) for v, r in zip(node.outputs, many))


def affine_into_producer(node: Node, rw: Rewriter):
    """conv, then y = a x + b per channel: one conv."""
    found = affine(node, rw)
    before = rw.producer(found[0]) if found else None
    if found is None or before is None or before.op not in SCALED or rw.uses(found[0]) != 1:
        return None
    weights = _parameters(before, rw)
    if weights is None:
        return None
    (w, b), (_, a, shift) = weights, found
    scaled = SCALED[before.op](w, a, before.attrs)
    return _again(before, rw, before.inputs[0], scaled, b * a + shift, node)


def affine_into_consumer(node: Node, rw: Rewriter):
    """y = a x + b per channel, then conv without padding (or b = 0): one conv."""
    if node.op not in ALONG_INPUT or rw.uses(node.inputs[0]) != 1:
        return None
    before = rw.producer(node.inputs[0])
    found = affine(before, rw) if before else None
    weights = _parameters(node, rw)
    if before is None or found is None or weights is None:
        return None
    (w, b), (x, a, shift) = weights, found
    if np.any(shift) and any(np.ravel(node.attrs.get("padding", ()))):
        return None  # the padding is zero after the shift, not before it
    scaled = w * ALONG_INPUT[node.op](w, a, node.attrs)
    return _again(node, rw, x, scaled, b + response(node.op, w, shift, node.attrs), before)


def scaled_input(node: Node, rw: Rewriter):
    """x / 255 of the network's input stays apart: y = (x - mean) / std.

    Folded into the first layer, it would make its weights 255 times smaller and their gradients 255 times larger: no
    rate would suit that layer and the others.
    """
    x, a, shift = _after_normalize(node, rw) or affine(node, rw) or (None, np.ones(1), np.zeros(1))
    if x is None or x.name not in {v.name for v in rw.source.inputs} or x.dtype != "f32":
        return None
    if np.ptp(a) or np.ptp(shift) or not (0 < a[0] < 1 / FAR or a[0] > FAR):
        return None
    return normalize(x, mean=(float(-shift[0] / a[0]),), std=(float(1 / a[0]),), name=node.name)


def _after_normalize(node: Node, rw: Rewriter) -> tuple[Value, np.ndarray, np.ndarray] | None:
    """An affine node and the normalize before it, as one."""
    found = affine(node, rw)
    before = rw.producer(found[0], normalize) if found else None
    if found is None or before is None or len(before.attrs["std"]) > 1 or rw.uses(found[0]) != 1:
        return None
    first = 1 / before.attrs["std"][0]
    return before.inputs[0], first * found[1], found[2] - first * before.attrs["mean"][0] * found[1]


def spell_out_batch_norm(node: Node, rw: Rewriter):
    """batch_norm is mul + add."""
    found = _batch_norm(node, rw) if node.op is batch_norm else None
    if found is None:
        return None
    x, a, shift = found
    shape = [-1] + [1] * (x.type.rank - 1 - node.attrs["axis"] % x.type.rank)
    dtype, name = x.type.numpy, node.name
    y = mul(x, rw.constant(f"{name}.scale", a.reshape(shape).astype(dtype)), name=f"{name}.mul")
    return add(y, rw.constant(f"{name}.shift", shift.reshape(shape).astype(dtype)), name=name)


def drop_identity(node: Node, rw: Rewriter):
    """x * 1, x + 0."""
    found = affine(node, rw) if node.op in BINARY else None
    return found[0] if found and np.all(found[1] == 1) and np.all(found[2] == 0) else None


def drop_clamp(node: Node, rw: Rewriter):
    """A clamp of a value that is already within its bounds."""
    if node.op not in CLAMPS:
        return None
    lo, hi = bounds(node)
    before = rw.producer(node.inputs[0])
    low, high = bounds(before) if before else (-inf, inf)
    return node.inputs[0] if lo <= low and high <= hi else None


def name_clamp(node: Node, rw: Rewriter):
    """clamp(0, 6) is relu6, clamp(0, inf) is relu: one name for one function."""
    if node.op is not clamp or bounds(node) not in NAMED:
        return None
    return NAMED[bounds(node)](node.inputs[0], name=node.name)


def pad_into_conv(node: Node, rw: Rewriter):
    """Zeros around an image, then a convolution: becomes the convolution's own padding."""
    before = rw.producer(node.inputs[0], pad) if node.op in PADDED else None
    if before is None or before.attrs["value"] != 0 or rw.uses(before.output) != 1:
        return None
    pads = before.attrs["pads"]
    if any(pads[0]) or any(pads[-1]):  # of the batch or the channels
        return None
    padding = tuple(int(p) for p in np.add(node.attrs["padding"], np.ravel(pads[1:-1])))
    return node.op(before.inputs[0], *node.inputs[1:], name=node.name, **{**node.attrs, "padding": padding})


def pad_into_max_pool(node: Node, rw: Rewriter):
    """The lowest number around an image, or zeros if it has no negatives, then max_pool2d: becomes its own padding."""
    before = rw.producer(node.inputs[0], pad) if node.op is max_pool2d else None
    if before is None or rw.uses(before.output) != 1:
        return None
    pads, value, x = before.attrs["pads"], before.attrs["value"], rw.producer(before.inputs[0])
    never_wins = value <= LOWEST or (value == 0 and x is not None and bounds(x)[0] >= 0)
    padding = tuple(int(p) for p in np.add(node.attrs["padding"], np.ravel(pads[1:-1])))
    kernel = node.attrs["kernel"]
    # a window that is entirely in the padding would have no maximum
    if (
        not never_wins
        or any(pads[0])
        or any(pads[-1])
        or max(padding[:2]) >= kernel[0]
        or max(padding[2:]) >= kernel[1]
    ):
        return None
    return node.op(before.inputs[0], name=node.name, **{**node.attrs, "padding": padding})


LOWEST = -1e30
FAR = 8.0  # times: an input that is scaled by more is in another unit than what the network was made for
RULES = (
    drop_dropout,
    compute_constants,
    drop_identity,
    scaled_input,
    affine_into_producer,
    affine_into_consumer,
    spell_out_batch_norm,
    name_clamp,
    drop_clamp,
    pad_into_conv,
    pad_into_max_pool,
)
CLAMPS = (relu, relu6, clamp)
NAMED = {(0.0, 6.0): relu6, (0.0, inf): relu}
PADDED = (conv2d, depthwise2d, conv1d)


def bounds(node: Node) -> tuple[float, float]:
    """The bounds of its result for any input."""
    found = node.op.facts.bounds
    return node.ask(found) if callable(found) else found or (-inf, inf)


# --- y = a x + b, one a and b for each channel of the last axis -------------------------------------------

# op -> (a, b) of op(x, c) and, if it is affine in x, of op(c, x)
BINARY = {
    add: (lambda c: (1.0, c), lambda c: (1.0, c)),
    sub: (lambda c: (1.0, -c), lambda c: (-1.0, c)),
    mul: (lambda c: (c, 0.0), lambda c: (c, 0.0)),
    div: (lambda c: (1 / c, 0.0), None),
}


class Arrays(Protocol):
    """Whatever knows which values are constant."""

    def array(self, value: Value) -> np.ndarray | None: ...


def affine(node: Node, rw: Arrays) -> tuple[Value, np.ndarray, np.ndarray] | None:
    """(x, a, b) in float64, one a and b per channel; None if the node is something else."""
    if node.op is batch_norm:
        found = _batch_norm(node, rw)
        last = node.attrs["axis"] % node.output.type.rank == node.output.type.rank - 1
        return found if last else None
    if node.op not in BINARY:
        return None
    for side, form in enumerate(BINARY[node.op]):
        x, c = node.inputs[side], rw.array(node.inputs[1 - side])
        channel = _per_channel(c, x.shape) if c is not None and rw.array(x) is None else None
        if form is not None and channel is not None and x.type == node.output.type:
            a, b = (np.broadcast_to(np.float64(f), channel.shape) for f in form(channel))
            return (x, a, b) if np.isfinite(a).all() else None
    return None


def _batch_norm(node: Node, rw: Arrays):
    arrays = [rw.array(v) for v in node.inputs[1:]]
    if any(v is None for v in arrays):
        return None
    scale, bias, mean, var = (np.asarray(v, np.float64) for v in arrays)
    a = scale / np.sqrt(var + node.attrs["epsilon"])
    return node.inputs[0], a, bias - mean * a


def _per_channel(array: np.ndarray, shape) -> np.ndarray | None:
    """The constant as one float64 per channel of the last axis, or None if it varies otherwise."""
    channels = shape[-1] if shape else 1
    if array.size == 1 or (array.ndim <= len(shape) and array.size == array.shape[-1] == channels):
        return np.broadcast_to(array.reshape(-1).astype(np.float64), (channels,))
    return None


def _parameters(node: Node, rw: Rewriter) -> tuple[np.ndarray, np.ndarray] | None:
    """Constant weights and bias in float64 (a missing bias is zeros)."""
    w = rw.array(node.inputs[1])
    b = rw.array(node.inputs[2]) if len(node.inputs) > 2 else np.zeros(node.output.shape[-1])
    return None if w is None or b is None else (w.astype(np.float64), b.astype(np.float64))


def _again(node: Node, rw: Rewriter, x: Value, w: np.ndarray, b: np.ndarray, affine: Node) -> Value:
    """The same op with other weights, which keep their names: those of this affine node are in them.

    Other nodes may read the same weights: each gets its own folded copy, and ties.py must know that they are copies.
    """
    old, parameters = node.inputs[1], rw.builder.parameters
    weight = rw.constant(old.name, w.astype(old.type.numpy))
    bias = rw.constant(node.inputs[2].name if len(node.inputs) > 2 else f"{node.name}.bias", b.astype(old.type.numpy))
    if _is_shared(rw, old):
        made_of = (*node.inputs[1:], *(v for v in affine.inputs if rw.array(v) is not None))
        parameters[bias.name] = "*".join(_of(rw, v) for v in made_of)  # copies made of the same are the same
        parameters[weight.name] = _of(rw, old)
    elif old.name in parameters:
        parameters[weight.name] = parameters[old.name]
    return node.op(x, weight, bias, name=node.name, **node.attrs)


def _of(rw: Rewriter, v: Value) -> str:
    """The model's name for this constant; a file does not repeat equal names."""
    return rw.builder.parameters.get(v.name, v.name)


def _is_shared(rw: Rewriter, weight: Value) -> bool:
    """Do several nodes read this parameter, or copies of it?"""
    of, known = _of(rw, weight), rw.builder.parameters
    copies = {weight.name, *(name for name, other in known.items() if other == of)}
    return sum(len(rw.source.users.get(name, ())) for name in copies) > 1


# --- names ------------------------------------------------------------------------------------------------


def keep_names(before: Graph, after: Graph) -> Graph:
    """Undo the `_1` that a rewrite appends if the replaced value still existed."""
    taken: set[str] = set(after.values)
    names: dict[str, str] = {}
    for name in after.values:
        stem = name
        while stem not in before.values and re.fullmatch(r".+_\d+", stem):
            stem = stem[: stem.rindex("_")]
        if stem not in taken:
            names[name] = stem
            taken.add(stem)
    return rename(after, names)


def rename(graph: Graph, names: dict[str, str]) -> Graph:
    def new(values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(Value(names.get(v.name, v.name), v.type) for v in values)

    nodes = tuple(Node(n.op, new(n.inputs), new(n.outputs), n.attrs) for n in graph.nodes)
    constants = {names.get(k, k): a for k, a in graph.constants.items()}
    ends = {"inputs": new(graph.inputs), "outputs": new(graph.outputs)}
    parameters = {names.get(k, k): of for k, of in graph.parameters.items() if k in graph.constants}
    return replace(graph, **ends, nodes=nodes, constants=constants, parameters=parameters)


def _shape_of(graph: Graph) -> list:
    """A structure that is equal for two graphs if nothing was rewritten between them."""
    nodes = [
        (n.op.name, tuple(v.name for v in n.inputs), tuple(v.name for v in n.outputs), n.attrs) for n in graph.nodes
    ]
    return [*nodes, tuple(v.name for v in graph.outputs)]
