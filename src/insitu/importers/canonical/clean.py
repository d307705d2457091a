"""Bring an imported graph into canonical form: the same network gives the same graph, whoever wrote the file.

Constants are folded, layout ops cancelled or merged, pads moved into windows, and convolutions with one channel per
group named depthwise. batch_norm and dropout stay: training needs them, and the quantizer folds them.
Each rule is a small function `rule(node, rw)` that keeps what the graph computes. It removes something (a node, a pad,
a reshape, a leading 1) or moves a transpose down (transposes.py explains why that ends). No rule restores what another
one removes, so rewriting ends.
"""

from __future__ import annotations

import re
from dataclasses import replace
from math import inf

import numpy as np

from insitu.graph import Graph, Node, Value, lookup, rewrite
from insitu.graph.rewrite import Rewriter
from insitu.importers.canonical.patterns import PATTERNS
from insitu.importers.canonical.transposes import (
    CHANGED,
    LAYOUT,
    again,
    canonical_axis,
    make,
    permute,
    relayout,
    split_name,
    transposed,
    trivial,
)

FOLD_LIMIT = 1 << 10  # elements that a folded constant may have beyond four times those of its inputs
REDUCTIONS = ("mean", "sum", "amax")


def clean(graph: Graph) -> Graph:
    """The canonical form after import."""
    return _restore_names(_mark(rewrite(rewrite(graph, *RULES), trivial, *RULES)))


def _mark(graph: Graph) -> Graph:
    """A parameter in another layout is still the same parameter."""
    known = {name: graph.parameters.get(name, graph.parameters.get(_base(name))) for name in graph.constants}
    return replace(graph, parameters={name: of for name, of in known.items() if of is not None})


# constants


def fold(node: Node, rw: Rewriter):
    """Compute nodes that depend only on constants, unless that makes them much larger (an expanded scalar)."""
    arrays = [rw.array(v) for v in node.inputs]
    if not arrays or any(a is None for a in arrays) or any(v.type.quant for v in (*node.inputs, *node.outputs)):
        return None
    made = sum(v.type.size for v in node.outputs)
    if made > FOLD_LIMIT + 4 * sum(a.size for a in arrays if a is not None):
        return None
    with np.errstate(all="ignore"):  # the model itself computes log(0), too
        found = node.rule("eval", *(_wide(a) for a in arrays if a is not None))
    found = found if isinstance(found, tuple) else (found,)
    same_size = node.op.name == "expand" and node.inputs[0].type.size == made
    if node.op.name in ("reshape", "transpose") or same_size:  # the same parameter, in another layout
        return _constant(rw, node.inputs[0].name + CHANGED, node.output, found[0])
    results = tuple(_constant(rw, v.name, v, a) for v, a in zip(node.outputs, found))
    _computed_parameters(node, results, rw)
    return results


def _computed_parameters(node: Node, results: tuple[Value, ...], rw: Rewriter) -> None:
    """A constant computed from a parameter at import is trained in place of that parameter."""
    known = rw.builder.parameters
    of = next((known[n] for v in node.inputs for n in (v.name, _base(v.name)) if n in known), None)
    if of is not None:
        known.update({v.name: of for v in results})


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if array.dtype == np.float32 else array


def _constant(rw: Rewriter, name: str, v: Value, array) -> Value:
    return rw.constant(name, np.ascontiguousarray(array, v.type.numpy).reshape(v.shape), v.type)


def drop_leading_ones(node: Node, rw: Rewriter):
    """A constant operand [1,1,1,C] becomes [C], and [1] a scalar: broadcasting does the rest."""
    if node.op.name not in ("add", "sub", "mul", "div", "prelu"):
        return None
    inputs = [_without_leading_ones(v, rw) for v in node.inputs]
    if all(a is b for a, b in zip(inputs, node.inputs)) or _broadcast(inputs) != node.output.shape:
        return None
    return again(node, inputs)


def _without_leading_ones(v: Value, rw: Rewriter) -> Value:
    array = rw.array(v)
    if array is None or not v.shape or v.shape[0] != 1 or v.type.quant:
        return v
    long = [i for i, d in enumerate(v.shape) if d > 1]
    return rw.constant(v.name + CHANGED, array.reshape(v.shape[long[0] if long else len(v.shape) :]))


def _broadcast(values) -> tuple[int, ...]:
    return np.broadcast_shapes(*(v.shape for v in values))


def drop_expansion(node: Node, rw: Rewriter):
    """x * ones, where broadcasting would give x that shape anyway."""
    if node.op.name not in ("add", "sub", "mul", "div"):
        return None
    inputs = [_unexpanded(v, rw) for v in node.inputs]
    if all(a is b for a, b in zip(inputs, node.inputs)) or _broadcast(inputs) != node.output.shape:
        return None
    return again(node, inputs)


def _unexpanded(v: Value, rw: Rewriter) -> Value:
    above = rw.producer(v, lookup("mul"))
    ones = rw.array(above.inputs[1]) if above else None
    return above.inputs[0] if above is not None and ones is not None and np.all(ones == 1) else v


# ops that do nothing, or the same as the next one


def drop_identity(node: Node, rw: Rewriter):
    """Layout ops that change nothing."""
    test = IDENTITIES.get(node.op.name)
    return node.inputs[0] if test and test(node) else None


IDENTITIES = {
    "reshape": lambda n: n.inputs[0].shape == n.output.shape,
    "pad": lambda n: n.inputs[0].shape == n.output.shape,
    "slice": lambda n: n.inputs[0].shape == n.output.shape,
    "concat": lambda n: len(n.inputs) == 1,
    "split": lambda n: len(n.outputs) == 1,
    "resize": lambda n: n.inputs[0].shape == n.output.shape,
}


def merge_reshapes(node: Node, rw: Rewriter):
    """reshape(reshape(x)): the last shape counts."""
    above = rw.producer(node.inputs[0], node.op) if node.op.name == "reshape" else None
    return None if above is None else make("reshape", above.inputs[0], shape=node.output.shape, name=node.name)


def explicit_shape(node: Node, rw: Rewriter):
    """No -1 in a reshape."""
    if node.op.name != "reshape" or -1 not in node.attrs["shape"]:
        return None
    return make("reshape", node.inputs[0], shape=node.output.shape, name=node.name)


def flatten_reduction(node: Node, rw: Rewriter):
    """reshape(mean(x, keepdims)) that removes the kept axes of size 1: mean(x)."""
    above = rw.producer(node.inputs[0]) if node.op.name == "reshape" else None
    if above is None or above.op.name not in REDUCTIONS or not above.attrs["keepdims"]:
        return None
    axes = {a % above.inputs[0].type.rank for a in above.attrs["axes"]}
    bare = tuple(d for a, d in enumerate(above.inputs[0].shape) if a not in axes)
    if bare != node.output.shape:
        return None
    return make(above.op.name, above.inputs[0], **{**above.attrs, "keepdims": False}, name=above.name + CHANGED)


def keep_reduced(node: Node, rw: Rewriter):
    """reshape(mean(x)) that restores the axes of size 1: mean(x, keepdims). The reverse of the rule above, for
    another shape: neither makes a pattern that the other one matches."""
    above = rw.producer(node.inputs[0]) if node.op.name == "reshape" else None
    if above is None or above.op.name not in REDUCTIONS or above.attrs["keepdims"]:
        return None
    axes = {a % above.inputs[0].type.rank for a in above.attrs["axes"]}
    kept = tuple(1 if a in axes else d for a, d in enumerate(above.inputs[0].shape))
    if kept != node.output.shape:
        return None
    return make(above.op.name, above.inputs[0], **{**above.attrs, "keepdims": True}, name=above.name + CHANGED)


def reduce_axes(node: Node, rw: Rewriter):
    """Axes of a reduction: counted from the front, ascending."""
    if node.op.name not in REDUCTIONS:
        return None
    axes = tuple(sorted({a % node.inputs[0].type.rank for a in node.attrs["axes"]}))
    return None if axes == node.attrs["axes"] else again(node, node.inputs, axes=axes)


def axis_from_the_end(node: Node, rw: Rewriter):
    """The last axis becomes -1; any other axis is counted from the front."""
    if "axis" not in node.attrs or not node.inputs:
        return None
    axis = canonical_axis(node.attrs["axis"], node.inputs[0].type.rank)
    if axis == node.attrs["axis"]:
        return None
    if node.op.name == "split":
        return make("split", *node.inputs, sizes=node.attrs["sizes"], axis=axis, name=split_name(node))
    return again(node, node.inputs, axis=axis)


def name_clamps(node: Node, rw: Rewriter):
    """clamp(0, inf) is relu, clamp(0, 6) is relu6."""
    if node.op.name != "clamp":
        return None
    op = {(0.0, inf): "relu", (0.0, 6.0): "relu6"}.get((node.attrs["lo"], node.attrs["hi"]))
    return make(op, node.inputs[0], name=node.name) if op else None


# windows


def pad_into_window(node: Node, rw: Rewriter):
    """A pad that the window op below can do itself, also if there is a transpose between them."""
    window = WINDOWS.get(node.op.name)
    found = _pad_above(node.inputs[0], rw) if window else None
    if window is None or found is None:
        return None
    pad, perm = found
    axes, value, allowed = window
    pads = permute(pad.attrs["pads"], perm)
    if pad.attrs["value"] != value or not allowed(node) or any(p != (0, 0) for p in _others(pads, axes)):
        return None
    added = tuple(p for a in axes for p in pads[a])
    padding = tuple(p + q for p, q in zip(node.attrs["padding"], added))
    if not _fits(node, padding):
        return None
    x = relayout(pad.inputs[0], perm, node.inputs[0].name)
    return again(node, (x, *node.inputs[1:]), padding=padding, **_counted(node))


def _pad_above(v: Value, rw: Rewriter) -> tuple[Node, tuple[int, ...]] | None:
    t = transposed(rw, v)
    pad = rw.producer(t.source if t else v, lookup("pad"))
    return None if pad is None else (pad, t.perm if t else tuple(range(v.type.rank)))


def _others(pads, axes):
    return [p for a, p in enumerate(pads) if a not in axes]


def _fits(node: Node, padding: tuple[int, ...]) -> bool:
    """No window of a pool may lie entirely in the padding."""
    kernel = node.attrs.get("kernel")
    return kernel is None or all(p < kernel[i // 2] for i, p in enumerate(padding))


def _counted(node: Node) -> dict:
    """To an average, the zeros of a pad are ordinary elements."""
    return {"count_include_pad": True} if node.op.name == "avg_pool2d" else {}


def _always(node: Node) -> bool:
    return True


def _counts_padding(node: Node) -> bool:
    return node.attrs["count_include_pad"] or not any(node.attrs["padding"])


# op -> (its spatial axes, the padding value it implies, and when that is exact)
WINDOWS = {
    "conv2d": ((1, 2), 0.0, _always),
    "depthwise2d": ((1, 2), 0.0, _always),
    "conv1d": ((1,), 0.0, _always),
    "max_pool2d": ((1, 2), -inf, _always),
    "avg_pool2d": ((1, 2), 0.0, _counts_padding),
}


def forget_padding_count(node: Node, rw: Rewriter):
    """Without padding, it does not matter whether padding counts."""
    if node.op.name != "avg_pool2d" or not node.attrs["count_include_pad"] or any(node.attrs["padding"]):
        return None
    return again(node, node.inputs, count_include_pad=False)


def depthwise(node: Node, rw: Rewriter):
    """conv2d with one input channel per group: depthwise2d, whose weights are [KH,KW,O]."""
    if node.op.name != "conv2d" or node.attrs["groups"] == 1:
        return None
    x, w, *bias = node.inputs
    array = rw.array(w)
    if array is None or w.shape[3] != 1 or node.attrs["groups"] != x.shape[3]:
        return None
    weight = rw.constant(w.name + CHANGED, np.ascontiguousarray(array[..., 0].transpose(1, 2, 0)))
    attrs = {k: node.attrs[k] for k in ("stride", "padding", "dilation")}
    return make("depthwise2d", x, weight, *bias, name=node.name, **attrs)


# names


def _restore_names(graph: Graph) -> Graph:
    """A value that a rule recreated gets the original name back, if that is free."""
    taken = {v.name for v in graph.values.values() if CHANGED not in v.name}
    names = {}
    for v in graph.values.values():
        base = _base(v.name)
        if base == v.name:
            continue
        producer = graph.producer.get(v.name)
        kind = producer.op.name if producer else "permuted"
        names[v.name] = _free(base, kind, taken)
        taken.add(names[v.name])
    return rename(graph, names) if names else graph


def _base(name: str) -> str:
    """A name without the marks of the rules that recreated its value."""
    return re.sub(rf"({CHANGED}(_\d+)?)+$", "", name)


def _free(base: str, kind: str, taken: set[str]) -> str:
    candidates = [base, f"{base}.{kind}"]
    n = 1
    while candidates[-1] in taken:
        n += 1
        candidates.append(f"{base}.{kind}{n}")
    return next(c for c in candidates if c not in taken)


def rename(graph: Graph, names: dict[str, str]) -> Graph:
    def new(v: Value) -> Value:
        return Value(names.get(v.name, v.name), v.type)

    nodes = tuple(Node(n.op, tuple(map(new, n.inputs)), tuple(map(new, n.outputs)), n.attrs) for n in graph.nodes)
    constants = {names.get(k, k): a for k, a in graph.constants.items()}
    parameters = {names.get(k, k): of for k, of in graph.parameters.items()}
    inputs, outputs = tuple(map(new, graph.inputs)), tuple(map(new, graph.outputs))
    return replace(graph, inputs=inputs, outputs=outputs, nodes=nodes, constants=constants, parameters=parameters)


RULES = (
    fold,
    drop_identity,
    explicit_shape,
    merge_reshapes,
    flatten_reduction,
    keep_reduced,
    reduce_axes,
    axis_from_the_end,
    name_clamps,
    drop_leading_ones,
    drop_expansion,
    pad_into_window,
    forget_padding_count,
    depthwise,
    *PATTERNS,
    *LAYOUT,
)
