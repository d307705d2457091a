"""Turn composite patterns back into the single op they spell out: gelu from erf, silu, hard_swish, layer_norm, linear.

Exporters write one function in many ways. Functions of a single value are recognised by their behaviour: the nodes
between two values are evaluated on sample points and compared with the functions that have a name.
Products and normalisations are recognised by their structure. clean.py runs these rules with its own.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from insitu.graph import Node, Value, lookup
from insitu.graph.rewrite import Rewriter, Rule
from insitu.importers.canonical.synonyms import SYNONYMS
from insitu.importers.canonical.transposes import CHANGED, again, make

# --- functions of one value, by behaviour ----------------------------------------------------------

NAMED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("silu", {}),
    ("hard_swish", {}),
    ("hard_sigmoid", {"alpha": 1 / 6, "beta": 0.5}),
    ("gelu", {"approximate": "none"}),
    ("gelu", {"approximate": "tanh"}),
    ("sigmoid", {}),
    ("relu6", {}),
    ("relu", {}),
)
ROOTS = {"mul", "div", "reciprocal", "clamp", "relu6", "relu"}  # the last op of each way to spell them
ARITHMETIC = {"add", "sub", "mul", "div"}
UNARY = set("relu relu6 clamp sigmoid tanh hard_sigmoid erf exp neg square reciprocal sqrt abs".split())
MAX_CONE = 10  # nodes; the tanh form of gelu has nine
CLOSE = 1e-6
POINTS = np.concatenate([np.linspace(-12, 12, 193), [-400.0, -50.0, -1e-3, 1e-3, 50.0, 400.0]])


def named_function(node: Node, rw: Rewriter):
    """The smallest set of nodes above this one that computes a named function of a single value."""
    if node.op.name not in ROOTS or node.output.dtype != "f32":
        return None
    cone = [node]
    while len(cone) <= MAX_CONE:
        sources = _sources(cone, rw)
        if len(sources) == 1 and len(cone) > 1:
            found = _recognise(cone, sources[0], rw)
            if found:
                name, attrs = found
                return make(name, sources[0], name=node.name, **attrs)
        above = next((p for v in sources if (p := _inside(v, cone, rw))), None)
        if above is None:
            return None
        cone.append(above)
    return None


def _sources(cone: list[Node], rw: Rewriter) -> list[Value]:
    """The values that the nodes read and do not compute themselves, constants excluded."""
    made = {n.output.name for n in cone}
    found = {v.name: v for n in cone for v in n.inputs if v.name not in made and rw.array(v) is None}
    return list(found.values())


def _inside(v: Value, cone: list[Node], rw: Rewriter) -> Node | None:
    """The node that made v, if it is elementwise and no node outside reads it."""
    node = rw.producer(v)
    if node is None or not _elementwise(node, cone[0].output.shape, rw):
        return None
    return node if rw.uses(v) == sum(i.name == v.name for n in cone for i in n.inputs) else None


def _elementwise(node: Node, shape, rw: Rewriter) -> bool:
    if node.op.name not in UNARY | ARITHMETIC or node.output.shape != shape:
        return False
    return all(v.type.size == 1 if rw.array(v) is not None else v.shape == shape for v in node.inputs)


def _recognise(cone: list[Node], x: Value, rw: Rewriter) -> tuple[str, dict[str, Any]] | None:
    if x.shape != cone[0].output.shape or not _elementwise(cone[0], x.shape, rw):
        return None
    known: dict[str, np.ndarray] = {x.name: POINTS}
    with np.errstate(all="ignore"):
        for node in reversed(cone):  # a node joins the cone after all nodes that read it
            known[node.output.name] = node.rule("eval", *(_points(v, known, rw) for v in node.inputs))
        y = known[cone[0].output.name]
        for i, (name, attrs) in enumerate(NAMED):
            wanted = _behaviour(i)
            if np.all(np.abs(y - wanted) <= CLOSE * np.maximum(1, np.abs(wanted))):
                return name, attrs
    return None


def _points(v: Value, known: dict[str, np.ndarray], rw: Rewriter) -> np.ndarray:
    array = rw.array(v)
    return known[v.name] if array is None else array.astype(np.float64).reshape(())


@cache
def _behaviour(i: int) -> np.ndarray:
    name, attrs = NAMED[i]
    op = lookup(name)
    return op.apply("eval", (POINTS,), op.complete(attrs))


# --- products --------------------------------------------------------------------------------------

BIASED = ("linear", "conv2d", "depthwise2d", "conv1d", "conv_transpose2d")


def constant_right(node: Node, rw: Rewriter):
    """add and mul get their constant on the right."""
    if node.op.name not in ("add", "mul") or rw.array(node.inputs[0]) is None or rw.array(node.inputs[1]) is not None:
        return None
    return again(node, node.inputs[::-1])


def linear_from_matmul(node: Node, rw: Rewriter):
    """matmul(x, w) with a constant matrix: linear(x, w')."""
    if node.op.name != "matmul":
        return None
    x, w = node.inputs
    array = rw.array(w)
    if array is None or array.ndim != 2 or rw.array(x) is not None:
        return None
    return make("linear", x, rw.constant(w.name + CHANGED, np.ascontiguousarray(array.T)), name=node.name)


def bias_into_product(node: Node, rw: Rewriter):
    """add(linear(x, w), b) with one constant per channel: linear(x, w, b); convolutions too."""
    return _biased(rw.producer(node.inputs[0]), node, rw) if node.op.name == "add" else None


def bias_before_slice(node: Node, rw: Rewriter):
    """add(slice(conv(x, w)), b): the slice of conv(x, w, b). Keras crops a transposed convolution before its bias."""
    cut = rw.producer(node.inputs[0], lookup("slice")) if node.op.name == "add" else None
    if cut is None or rw.uses(cut.output) != 1 or not _keeps_channels(cut):
        return None
    made = _biased(rw.producer(cut.inputs[0]), node, rw)
    return None if made is None else again(cut, (made,), second=True)


def _keeps_channels(cut: Node) -> bool:
    return cut.output.shape[-1] == cut.inputs[0].shape[-1] and cut.attrs["steps"][-1] == 1


def bias_before_reshape(node: Node, rw: Rewriter):
    """add(reshape(linear(x, w)), b), where b has the axes that were the last one: the reshape of linear(x, w, b)."""
    cut = rw.producer(node.inputs[0], lookup("reshape")) if node.op.name == "add" else None
    bias = rw.array(node.inputs[1]) if cut is not None else None
    if cut is None or bias is None or rw.uses(cut.output) != 1 or node.output.shape != cut.output.shape:
        return None
    last = cut.inputs[0].shape[-1:]
    if bias.size == 1 or (bias.size,) != last or bias.shape != cut.output.shape[-bias.ndim :]:
        return None
    made = _biased(rw.producer(cut.inputs[0]), node, rw, bias.reshape(-1))
    return None if made is None else again(cut, (made,), second=True)


def _biased(above: Node | None, node: Node, rw: Rewriter, bias: np.ndarray | None = None) -> Any:
    """The product with the constant that this node adds to its result; `bias` is that constant in another shape."""
    bias = rw.array(node.inputs[1]) if bias is None else bias
    if above is None or bias is None or above.op.name not in BIASED or rw.uses(above.output) != 1:
        return None
    flat = _last_axis(bias, above.output.shape)
    old = [rw.array(v) for v in above.inputs[2:]]
    if flat is None or any(b is None for b in old):
        return None
    for b in old:
        flat = flat + b
    name = above.inputs[2].name if old else node.inputs[1].name
    made = rw.constant(name + CHANGED, np.ascontiguousarray(flat))
    return again(above, (*above.inputs[:2], made), second=True)


def _last_axis(array: np.ndarray, shape) -> np.ndarray | None:
    """The constant as one number per entry of the last axis, if it has that form."""
    if array.ndim > len(shape) or array.size not in (1, shape[-1]) or array.size != (array.shape or (1,))[-1]:
        return None
    return np.broadcast_to(array.reshape(-1), (shape[-1],))


# --- layer norm ------------------------------------------------------------------------------------


def layer_norm_from_parts(node: Node, rw: Rewriter):
    """(x - mean) / sqrt(mean((x - mean)^2) + epsilon), also written as a product with the reciprocal."""
    split = _normalised(node, rw)
    if split is None:
        return None
    centred, spread = split
    minus = rw.producer(centred, lookup("sub"))
    plus = rw.producer(spread, lookup("add"))
    epsilon = rw.array(plus.inputs[1]) if plus else None
    if minus is None or plus is None or epsilon is None or epsilon.size != 1:
        return None
    x, mean = minus.inputs[0], rw.producer(minus.inputs[1], lookup("mean"))
    variance = rw.producer(plus.inputs[0], lookup("mean"))
    dims = _trailing(mean, x)
    if not dims or mean is None or mean.inputs[0] != x or _trailing(variance, x) != dims:
        return None
    if variance is None or not _squared(variance.inputs[0], minus, rw):
        return None
    number = float(str(np.float32(epsilon.reshape(()))))  # 1e-05 in 32 bits stands for 1e-05
    return make("layer_norm", x, dims=dims, epsilon=number, name=node.name)


def _normalised(node: Node, rw: Rewriter) -> tuple[Value, Value] | None:
    """(a, b) of a / sqrt(b), a * rsqrt(b) or a * reciprocal(sqrt(b))."""
    if node.op.name == "div":
        root = rw.producer(node.inputs[1], lookup("sqrt"))
        return (node.inputs[0], root.inputs[0]) if root else None
    if node.op.name != "mul":
        return None
    for a, b in (node.inputs, node.inputs[::-1]):
        inverse = rw.producer(b)
        if inverse is not None and inverse.op.name == "reciprocal":
            root = rw.producer(inverse.inputs[0], lookup("sqrt"))
            if root:
                return a, root.inputs[0]
        if inverse is not None and inverse.op.name == "rsqrt":
            return a, inverse.inputs[0]
    return None


def _trailing(mean: Node | None, x: Value) -> int:
    """The number of last axes that this mean is over; 0 if it is not such a mean."""
    if mean is None or not mean.attrs["keepdims"] or mean.inputs[0].shape != x.shape:
        return 0
    axes = sorted(a % x.type.rank for a in mean.attrs["axes"])
    return len(axes) if axes == list(range(x.type.rank - len(axes), x.type.rank)) else 0


def _squared(v: Value, minus: Node, rw: Rewriter) -> bool:
    """Is v the square of the value of `minus`, either of the same node or of an equal one?"""
    node = rw.producer(v)
    if node is None or node.op.name not in ("square", "mul") or len(set(node.inputs)) != 1:
        return False
    other = rw.producer(node.inputs[0], minus.op)
    return other is not None and other.inputs == minus.inputs


def scale_into_layer_norm(node: Node, rw: Rewriter):
    """layer_norm(x) * scale, then + bias, with constants over the normalised axes."""
    if node.op.name not in ("mul", "add"):
        return None
    above, array = rw.producer(node.inputs[0], lookup("layer_norm")), rw.array(node.inputs[1])
    if above is None or array is None or rw.uses(above.output) != 1:
        return None
    have = len(above.inputs) - 1
    shape = above.output.shape[-above.attrs["dims"] :]
    if array.size != int(np.prod(shape)) or array.shape[-len(shape) :] != shape or have > (node.op.name == "add"):
        return None
    made = rw.constant(node.inputs[1].name + CHANGED, np.ascontiguousarray(array.reshape(shape)))
    if node.op.name == "add" and have == 0:
        ones = rw.constant(above.name + ".scale", np.ones(shape, np.float32))
        return again(above, (above.inputs[0], ones, made), second=True)
    return again(above, (*above.inputs, made), second=True)


PATTERNS: tuple[Rule, ...] = (
    constant_right,
    linear_from_matmul,
    bias_into_product,
    bias_before_slice,
    bias_before_reshape,
    layer_norm_from_parts,
    scale_into_layer_norm,
    named_function,
    *SYNONYMS,
)
