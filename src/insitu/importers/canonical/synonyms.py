"""Replace equivalent forms by one: exporters differ in taste, graphs should not.

Each rule replaces a node by a plainer one that computes exactly the same. Patterns of several nodes that have an op of
their own are in patterns.py.
"""

from __future__ import annotations

from math import inf

import numpy as np

from insitu.graph import Node, Value, lookup
from insitu.graph.rewrite import Rewriter, Rule
from insitu.importers.canonical.computed import computed
from insitu.importers.canonical.transposes import again, make
from insitu.ops._functions import COORDINATES, ROUNDINGS, nearest

# --- duplicate nodes --------------------------------------------------------------------------------


def share(node: Node, rw: Rewriter):
    """A node that computes the same as an earlier one. Two dropouts stay two: each draws its own numbers."""
    if node.op.name == "dropout":
        return None
    found = computed(rw.builder, node.op.name, node.inputs, node.attrs)
    if found is None or [v.type for v in found.outputs] != [v.type for v in node.outputs]:
        return None
    return found.outputs


# --- slices ----------------------------------------------------------------------------------------


def split_from_slices(node: Node, rw: Rewriter):
    """Slices that cut a value into disjoint pieces covering all of it: a split. `share` then merges equal splits."""
    mine = _piece(node)
    source = rw.source.producer.get(node.output.name)
    if mine is None or source is None:
        return None
    pieces = sorted({p for n in rw.source.users[source.inputs[0].name] if (p := _piece(n))})
    axis, size = mine[0], node.inputs[0].shape[mine[0]]
    ends = [0, *(stop for _, _, stop in pieces)]
    starts = [*(start for _, start, _ in pieces), size]
    if len(pieces) < 2 or any(a != axis for a, _, _ in pieces) or ends != starts:
        return None
    sizes = tuple(stop - start for _, start, stop in pieces)
    parts = make("split", node.inputs[0], sizes=sizes, axis=axis, name=node.inputs[0].name + ".split")
    return parts[pieces.index(mine)]


def _piece(node: Node) -> tuple[int, int, int] | None:
    """(axis, start, stop) of a slice along a single axis."""
    if node.op.name != "slice" or set(node.attrs["steps"]) != {1}:
        return None
    spans = zip(node.attrs["starts"], node.attrs["stops"], node.inputs[0].shape)
    cut = [(axis, a, b) for axis, (a, b, size) in enumerate(spans) if (a, b) != (0, size)]
    return cut[0] if len(cut) == 1 else None


def merge_slices(node: Node, rw: Rewriter):
    """slice(slice(x)): one slice."""
    above = rw.producer(node.inputs[0], node.op) if node.op.name == "slice" else None
    if above is None:
        return None
    a, b = above.attrs, node.attrs
    steps = tuple(s * t for s, t in zip(a["steps"], b["steps"]))
    starts = tuple(i + s * j for i, s, j in zip(a["starts"], a["steps"], b["starts"]))
    last = [i + (d - 1) * s for i, d, s in zip(starts, node.output.shape, steps)]
    attrs = {"starts": starts, "stops": tuple(i + 1 for i in last), "steps": steps}
    return make("slice", above.inputs[0], name=node.name, **attrs)


# --- element by element ------------------------------------------------------------------------------

CLAMPS = {"relu": (0.0, inf), "relu6": (0.0, 6.0)}


def merge_clamps(node: Node, rw: Rewriter):
    """clamp(clamp(x)): one clamp."""
    outer = _bounds(node)
    above = rw.producer(node.inputs[0]) if outer else None
    inner = _bounds(above) if above else None
    if outer is None or above is None or inner is None:
        return None
    lo, hi = (float(np.clip(b, *outer)) for b in inner)
    return make("clamp", above.inputs[0], lo=lo, hi=hi, name=node.name)


def _bounds(node: Node) -> tuple[float, float] | None:
    if node.op.name == "clamp":
        return (node.attrs["lo"], node.attrs["hi"]) if node.attrs["lo"] <= node.attrs["hi"] else None
    return CLAMPS.get(node.op.name)


def square_from_mul(node: Node, rw: Rewriter):
    """x * x"""
    if node.op.name != "mul" or node.inputs[0] != node.inputs[1]:
        return None
    return make("square", node.inputs[0], name=node.name)


# --- windows and reductions --------------------------------------------------------------------------


def uncounted_padding(node: Node, rw: Rewriter):
    """Without padding, it does not matter whether an average counts it."""
    if node.op.name != "avg_pool2d" or not node.attrs["count_include_pad"] or any(node.attrs["padding"]):
        return None
    return again(node, node.inputs, count_include_pad=False)


def global_pool(node: Node, rw: Rewriter):
    """A float pool over the whole image is a reduction."""
    op = {"avg_pool2d": "mean", "max_pool2d": "amax"}.get(node.op.name)
    if op is None or node.output.dtype != "f32" or any(node.attrs["padding"]):
        return None
    if node.attrs["kernel"] != node.inputs[0].shape[1:3]:
        return None
    return make(op, node.inputs[0], axes=(1, 2), keepdims=True, name=node.name)


def reduce_before_reshape(node: Node, rw: Rewriter):
    """A reduction of a reshape that only adds or removes axes of size 1: a reduction of the reshape's input."""
    above = rw.producer(node.inputs[0], lookup("reshape")) if node.op.name in ("mean", "sum", "amax") else None
    if above is None or node.attrs["keepdims"]:
        return None
    x = above.inputs[0]
    places = _long_axes(x), _long_axes(above.output)
    if [x.shape[a] for a in places[0]] != [above.output.shape[a] for a in places[1]]:
        return None
    reduced = {a % above.output.type.rank for a in node.attrs["axes"]}
    axes = {a for a, b in zip(*places) if b in reduced}
    # remove axes of size 1 until the result has the wanted shape; the first one, of the samples, only if asked to
    for a in [a for a in range(0 if 0 in reduced else 1, x.type.rank) if x.shape[a] == 1]:
        if _kept(x, axes) == node.output.shape:
            break
        axes.add(a)
    if _kept(x, axes) != node.output.shape or not axes:
        return None
    return make(node.op.name, x, **{**node.attrs, "axes": tuple(sorted(axes))}, name=node.name)


def _long_axes(v: Value) -> list[int]:
    return [a for a, d in enumerate(v.shape) if d > 1]


def _kept(x: Value, axes: set[int]) -> tuple[int, ...]:
    return tuple(d for a, d in enumerate(x.shape) if a not in axes)


RESIZES = [(c, r) for c in COORDINATES for r in ROUNDINGS]


def plainest_resize(node: Node, rw: Rewriter):
    """The first name for a way of copying: two ways that copy the same elements are the same."""
    if node.op.name != "resize":
        return None
    pairs = list(zip(node.inputs[0].shape[1:3], node.attrs["size"]))
    now = (node.attrs["coordinates"], node.attrs["rounding"])
    for way in RESIZES[: RESIZES.index(now)]:
        if all(np.array_equal(nearest(a, b, *way), nearest(a, b, *now)) for a, b in pairs):
            return again(node, node.inputs, coordinates=way[0], rounding=way[1])
    return None


SYNONYMS: tuple[Rule, ...] = (
    share,
    split_from_slices,
    merge_slices,
    merge_clamps,
    square_from_mul,
    uncounted_padding,
    global_pool,
    reduce_before_reshape,
    plainest_resize,
)
