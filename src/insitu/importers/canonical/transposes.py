"""Layout rules: importers put a transpose on either side of every NHWC op; these rules make them meet and vanish.

A transpose only ever moves towards the outputs. If it meets its inverse, both vanish. If it only moves axes of size 1,
it becomes a reshape. If it meets a flatten before a linear layer, the weight's columns are permuted instead. Nothing
here touches any other op (clean.py does).

Why this ends: give each transpose the number of ops on the longest path from it to an output. A rule that moves a
transpose replaces it by transposes with smaller numbers (a multiset that shrinks); the other rules remove one.
`_reshape` leaves above a reshape only a transpose inside its groups of axes, which no rule moves again. The only rule
that uses a transposed twin of another operand (`_aligned`) uses one that already exists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from insitu.graph import Node, Value, building, lookup
from insitu.graph.rewrite import Rewriter
from insitu.importers.canonical.computed import computed

CHANGED = ":changed"  # marks a value that a rule recreated; clean() restores its name
Perm = tuple[int, ...]


def make(op: str, *inputs: Value, name: str | None = None, out=None, **attrs) -> Any:
    return lookup(op)(*inputs, name=name, out=out, **attrs)


@dataclass(frozen=True)
class Transposed:
    """A value that is `transpose(source, perm)`."""

    source: Value
    perm: Perm


def transposed(rw: Rewriter, v: Value) -> Transposed | None:
    node = rw.producer(v, lookup("transpose"))
    return None if node is None else Transposed(node.inputs[0], node.attrs["perm"])


def inverse(perm: Sequence[int]) -> Perm:
    return tuple(int(i) for i in np.argsort(perm))


def permute(items: Sequence, perm: Sequence[int]) -> tuple:
    """The effect of `transpose(x, perm)` on a sequence with one entry per axis."""
    return tuple(items[p] for p in perm)


def only_moves_ones(shape: Sequence[int], perm: Sequence[int]) -> bool:
    """Do the data stay in order? They do if the axes longer than 1 keep their order."""
    long = [p for p in perm if shape[p] > 1]
    return long == sorted(long)


def relayout(x: Value, perm: Sequence[int], name: str) -> Value:
    """transpose(x, perm), or x if that is the same."""
    if tuple(perm) == tuple(range(len(perm))):
        return x
    return make("transpose", x, perm=tuple(perm), name=name + CHANGED)


def again(node: Node, inputs: Sequence[Value], out_shape: Sequence[int] = (), second: bool = False, **attrs) -> Any:
    """The same op on other inputs, under its own name (`second`: that name is already taken)."""
    out = node.output.type.with_shape(*out_shape) if out_shape else node.output.type
    name = node.name + CHANGED if second else node.name
    return building().add(node.op, inputs, {**node.attrs, **attrs}, name=name, out=out)


def canonical_axis(axis: int, rank: int) -> int:
    """-1 for the last axis; other axes are counted from the front."""
    axis %= rank
    return -1 if axis == rank - 1 else axis


# the rules for a transpose itself


def trivial(node: Node, rw: Rewriter):
    """A transpose that only moves axes of size 1 becomes a reshape. This rule runs last: first a transpose sinks."""
    if node.op.name != "transpose" or not only_moves_ones(node.inputs[0].shape, node.attrs["perm"]):
        return None
    return make("reshape", node.inputs[0], shape=node.output.shape, name=node.name)


def absorb(node: Node, rw: Rewriter):
    """A transpose that only moves axes of size 1 becomes part of the reshape next to it."""
    if node.op.name == "reshape":
        t = transposed(rw, node.inputs[0])
        if t is not None and only_moves_ones(t.source.shape, t.perm):
            return make("reshape", t.source, shape=node.output.shape, name=node.name)
    if rw.producer(node.inputs[0], lookup("reshape")) if node.inputs else None:
        return trivial(node, rw)
    return None


def merge(node: Node, rw: Rewriter):
    """Two transposes become one; inverse ones vanish."""
    if node.op.name != "transpose":
        return None
    if node.attrs["perm"] == tuple(range(len(node.attrs["perm"]))):
        return node.inputs[0]
    t = transposed(rw, node.inputs[0])
    return None if t is None else relayout(t.source, permute(t.perm, node.attrs["perm"]), node.name)


def reuse(node: Node, rw: Rewriter):
    """Reuse the same transpose of the same value for a second branch."""
    if node.op.name != "transpose":
        return None
    return _existing(rw, node.inputs[0], node.attrs["perm"])


def _existing(rw: Rewriter, x: Value, perm: Sequence[int]) -> Value | None:
    found = computed(rw.builder, "transpose", (x,), {"perm": tuple(perm)})
    return found.output if found else None


def _lasts(rw: Rewriter, v: Value) -> bool:
    """Did it exist before this round? A value made during the round may be gone at its end."""
    node = rw.source.producer.get(v.name)
    return node is not None and node.op.name == "transpose"


# sinking: op(transpose(x)) -> transpose(op(x)), one small function per kind of op


def sink(node: Node, rw: Rewriter):
    kind = SINKS.get(node.op.name)
    return kind(node, rw) if kind else None


def _unary(node: Node, rw: Rewriter):
    t = transposed(rw, node.inputs[0])
    if t is None or _per_channel(node):
        return None
    y = again(node, (t.source,), t.source.shape)
    return relayout(y, t.perm, node.name)


def _per_channel(node: Node) -> bool:
    return any(v.type.quant and v.type.quant.per_channel for v in (*node.inputs, *node.outputs))


def _elementwise(node: Node, rw: Rewriter):
    """Any operand of the output's rank may carry the transpose; the others must be able to follow."""
    rank = node.output.type.rank
    for v in node.inputs:
        t = transposed(rw, v)
        if t is None or len(t.perm) != rank:
            continue
        own = t.source.name if inverse(t.perm) == t.perm else ""  # x + transpose(x): this twin is the one that sinks
        operands = [_aligned(rw, o, t.perm, rw.uses(v) == 1 and o.name != own) for o in node.inputs]
        if all(o is not None for o in operands):
            return relayout(again(node, [o for o in operands if o]), t.perm, node.name)
    return None


def _aligned(rw: Rewriter, v: Value, perm: Perm, twins: bool) -> Value | None:
    """v before `transpose(.., perm)`, if that costs nothing.

    `twins`: an existing transpose of v may be used. This is only allowed if the transpose that sinks has no other user:
    it is gone then, and cannot be the twin that turns everything back.
    """
    t = transposed(rw, v)
    if t is not None and t.perm == perm:
        return t.source
    if v.type.size == 1 and v.type.rank == 0:
        return v
    back, shape = inverse(perm), (1,) * (len(perm) - v.type.rank) + v.shape
    array = rw.array(v)
    if array is not None:
        return rw.constant(v.name + CHANGED, np.ascontiguousarray(array.reshape(shape).transpose(back)), None)
    if only_moves_ones(shape, back):
        return make("reshape", v, shape=permute(shape, back), name=v.name + CHANGED)
    twin = _existing(rw, v, back) if twins and v.type.rank == len(perm) else None
    return twin if twin is not None and _lasts(rw, twin) else None


def _axis(node: Node, rw: Rewriter):
    """softmax, cumsum, batch_norm: they work along one axis, and so do their other inputs, if any."""
    t = transposed(rw, node.inputs[0])
    if t is None:
        return None
    axis = canonical_axis(t.perm[node.attrs["axis"]], len(t.perm))
    return relayout(again(node, (t.source, *node.inputs[1:]), axis=axis), t.perm, node.name)


def _reduce(node: Node, rw: Rewriter):
    t = transposed(rw, node.inputs[0])
    if t is None:
        return None
    axes = sorted(t.perm[a % len(t.perm)] for a in node.attrs["axes"])
    y = again(node, (t.source,), axes=tuple(axes))
    if node.attrs["keepdims"]:
        return relayout(y, t.perm, node.name)
    kept = [p for p in t.perm if p not in axes]
    return relayout(y, inverse(inverse(kept)), node.name)  # the kept axes, renumbered


def _concat(node: Node, rw: Rewriter):
    for v in node.inputs:
        t = transposed(rw, v)
        if t is None:
            continue
        parts = [_aligned(rw, o, t.perm, rw.uses(v) == 1) for o in node.inputs]
        if all(p is not None for p in parts):
            axis = canonical_axis(t.perm[node.attrs["axis"]], len(t.perm))
            return relayout(again(node, [p for p in parts if p], axis=axis), t.perm, node.name)
    return None


def _split(node: Node, rw: Rewriter):
    t = transposed(rw, node.inputs[0])
    if t is None:
        return None
    axis = canonical_axis(t.perm[node.attrs["axis"]], len(t.perm))
    parts = make("split", t.source, sizes=node.attrs["sizes"], axis=axis, name=split_name(node))
    return tuple(relayout(p, t.perm, p.name) for p in parts)


def split_name(node: Node) -> str:
    """The name from which a builder makes `name.0`, `name.1`, ..."""
    return node.name[:-2] if node.name.endswith(".0") else node.name


def _entry_an_axis(*keys: str):
    """slice, pad: attributes with one entry per axis."""

    def rule(node: Node, rw: Rewriter):
        t = transposed(rw, node.inputs[0])
        if t is None:
            return None
        attrs: dict[str, Any] = {k: permute(node.attrs[k], inverse(t.perm)) for k in keys}
        shape = permute(node.output.shape, inverse(t.perm))
        return relayout(again(node, (t.source,), shape, **attrs), t.perm, node.name)

    return rule


def _last_axes(node: Node, rw: Rewriter):
    """linear, layer_norm: they work on the last axes; the leading axes may be in any order."""
    t = transposed(rw, node.inputs[0])
    own = node.attrs.get("dims", 1)
    rank = len(t.perm) if t else 0
    if t is None or t.perm[rank - own :] != tuple(range(rank - own, rank)):
        return None
    return relayout(again(node, (t.source, *node.inputs[1:])), t.perm, node.name)


def _reshape(node: Node, rw: Rewriter):
    """Axes that are split or joined among themselves stay so below the transpose.

    The part of the transpose inside such a group stays above the reshape, the rest goes below it:
    reshape(transpose(x)) = transpose(reshape(transpose'(x))).
    """
    t = transposed(rw, node.inputs[0])
    if t is None:
        return None
    groups = shape_groups(node.inputs[0].shape, node.output.shape)
    # ranked by their last axis: axes joined with the channels end up where the channels are
    ranked = sorted(range(len(groups)), key=lambda g: max(t.perm[a] for a in groups[g][0]))
    if ranked == list(range(len(groups))):
        return None  # nothing would sink
    inner = [t.perm[a] for g in ranked for a in groups[g][0]]
    outer = [a for g in ranked for a in groups[g][1]]  # axes of the result, in their order above the reshape
    x = relayout(t.source, inner, node.name)
    y = make("reshape", x, shape=permute(node.output.shape, outer), name=node.name)
    return relayout(y, inverse(outer), node.name)


def shape_groups(before: Sequence[int], after: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Cut two shapes of equal size into the shortest runs of axes with the same number of elements."""
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(before) and j < len(after):
        left, right = [i], [j]
        i, j = i + 1, j + 1
        while _size(before, left) != _size(after, right):
            if _size(before, left) < _size(after, right):
                left.append(i)
                i += 1
            else:
                right.append(j)
                j += 1
        groups.append((left, right))
    if groups:  # the remaining axes have size 1
        groups[-1][0].extend(range(i, len(before)))
        groups[-1][1].extend(range(j, len(after)))
    return groups


def _size(shape: Sequence[int], axes: Sequence[int]) -> int:
    return prod(shape[a] for a in axes)


# where a transpose cannot vanish: move it into the weights of a linear layer


def into_linear(node: Node, rw: Rewriter):
    """linear(flatten(transpose(x)), w): permute the columns of w instead."""
    flat = rw.producer(node.inputs[0], lookup("reshape")) if node.op.name == "linear" else None
    t = transposed(rw, flat.inputs[0]) if flat else None
    w = rw.array(node.inputs[1]) if t else None
    if flat is None or t is None or w is None or rw.uses(node.inputs[1]) > 1:
        return None
    rows, axes = _flattened(flat)
    if axes is None or t.perm[:rows] != tuple(range(rows)):
        return None
    back = [b - rows for b in inverse(t.perm)[rows:]]
    columns = w.reshape(-1, *(flat.inputs[0].shape[a] for a in axes))
    columns = columns.transpose(0, *(1 + b for b in back)).reshape(w.shape)
    x = make("reshape", t.source, shape=flat.output.shape, name=flat.name + CHANGED)
    weight = rw.constant(node.inputs[1].name + CHANGED, np.ascontiguousarray(columns))
    return again(node, (x, weight, *node.inputs[2:]))


def _flattened(flat: Node) -> tuple[int, list[int] | None]:
    """How many leading axes a reshape leaves alone, and which axes it joins into the last one."""
    before, after = flat.inputs[0].shape, flat.output.shape
    rows = len(after) - 1
    if len(before) <= rows or before[:rows] != tuple(after[:rows]):
        return rows, None
    return rows, list(range(rows, len(before)))


def out_of_linear(node: Node, rw: Rewriter):
    """transpose(unflatten(linear(x, w, b))): permute the rows of w and b instead."""
    if node.op.name != "transpose":
        return None
    found = _unflattened_linear(node.inputs[0], rw)
    perm = node.attrs["perm"]
    if found is None or perm[0] != 0:
        return None
    chain, linear = found
    parameters = [rw.array(v) for v in linear.inputs[1:]]
    if any(a is None or rw.uses(v) > 1 for a, v in zip(parameters, linear.inputs[1:])):
        return None
    split = node.inputs[0].shape[1:]
    back = [p - 1 for p in perm[1:]]
    changed = [_rows(a, split, back) for a in parameters if a is not None]
    made = [rw.constant(v.name + CHANGED, a) for v, a in zip(linear.inputs[1:], changed)]
    y = again(linear, (linear.inputs[0], *made), second=True)
    for step in reversed(chain):
        y = again(step, (y,), second=True)
    return make("reshape", y, shape=node.output.shape, name=node.name)


def _rows(array: np.ndarray, split: Sequence[int], back: Sequence[int]) -> np.ndarray:
    rest = array.shape[1:]
    axes = (*back, *(len(back) + i for i in range(len(rest))))
    return np.ascontiguousarray(array.reshape(*split, *rest).transpose(axes).reshape(array.shape))


def _unflattened_linear(v: Value, rw: Rewriter) -> tuple[list[Node], Node] | None:
    """The unary ops and the linear layer of rank 2 that v is a reshape of, if nothing else reads them."""
    step = rw.producer(v, lookup("reshape"))
    if step is None or rw.uses(v) > 1 or step.inputs[0].type.rank != 2 or v.shape[0] != step.inputs[0].shape[0]:
        return None
    chain: list[Node] = []
    here = step.inputs[0]
    while rw.uses(here) == 1 and (node := rw.producer(here)) is not None:
        if node.op.name == "linear":
            return chain, node
        if node.op.name not in UNARY:
            return None
        chain.append(node)
        here = node.inputs[0]
    return None


_UNARY = (
    "relu relu6 leaky_relu clamp sigmoid tanh hard_sigmoid hard_swish silu gelu elu softplus exp log sqrt rsqrt "
    "reciprocal neg abs square erf dropout quantize dequantize"
)
UNARY = frozenset(_UNARY.split())
SINKS: dict[str, Callable] = {
    **dict.fromkeys(UNARY, _unary),
    **dict.fromkeys(("add", "sub", "mul", "div", "prelu"), _elementwise),
    **dict.fromkeys(("softmax", "log_softmax", "cumsum", "batch_norm"), _axis),
    **dict.fromkeys(("mean", "sum", "amax"), _reduce),
    **dict.fromkeys(("linear", "layer_norm"), _last_axes),
    "concat": _concat,
    "split": _split,
    "slice": _entry_an_axis("starts", "stops", "steps"),
    "pad": _entry_an_axis("pads"),
    "reshape": _reshape,
}
LAYOUT = (merge, absorb, reuse, into_linear, out_of_linear, sink)
