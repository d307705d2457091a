"""ONNX models damaged where it hurts: fields (a dimension, an axis, a name, an op) are changed, not bytes.

Most changed bytes only break the protobuf; these models parse, and reach the importer.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx

from insitu.importers.onnx.read import KNOWN

INTEGERS = (0, 1, -1, 2, -2, 3, 5, 64, 255, 65536, 1 << 24, 1 << 31, 1 << 40, (1 << 63) - 1, -(1 << 63), -(1 << 31))
FLOATS = (0.0, -1.0, float("nan"), float("inf"), float("-inf"), 1e38, 1e-38, 0.3)
OPS = sorted(KNOWN)


def damaged(data: bytes, count: int, seed: int) -> Iterator[bytes]:
    """The same `count` damaged versions of a model for the same seed; each has one to three changes."""
    rng = np.random.default_rng([seed, len(data)])
    for _ in range(count):
        model = onnx.ModelProto.FromString(data)
        for _ in range(int(rng.integers(1, 4))):
            WOUNDS[rng.integers(len(WOUNDS))](model, rng)
        yield model.SerializeToString()


def pick(items, rng):
    return items[int(rng.integers(len(items)))] if len(items) else None


def _attribute(model, rng) -> None:
    a = pick([a for n in model.graph.node for a in n.attribute], rng)
    if a is None:
        return
    if a.ints and rng.integers(4):
        a.ints[int(rng.integers(len(a.ints)))] = pick(INTEGERS, rng)
    elif a.type == a.INTS:
        a.ints.append(pick(INTEGERS, rng))
    elif a.type == a.INT:
        a.i = pick(INTEGERS, rng)
    elif a.type == a.FLOAT:
        a.f = pick(FLOATS, rng)
    elif a.type == a.STRING:
        a.s = pick((b"", b"SAME_UPPER", b"\xff", b"cubic", b"reflect"), rng)
    else:
        _tensor(a.t, rng)


def _attribute_kind(model, rng) -> None:
    a = pick([a for n in model.graph.node for a in n.attribute], rng)
    if a is not None:
        a.type = int(rng.integers(0, 12))


def _attribute_name(model, rng) -> None:
    n = pick([n for n in model.graph.node if n.attribute], rng)
    if n is not None:
        pick(n.attribute, rng).name = pick(("axis", "axes", "pads", "group", "perm", "value", "to", "gone"), rng)


def _tensor(t, rng) -> None:
    kind = int(rng.integers(4))
    if kind == 0 and t.dims:
        t.dims[int(rng.integers(len(t.dims)))] = pick(INTEGERS, rng)
    elif kind == 1:
        t.data_type = int(rng.integers(0, 20))
    elif kind == 2:
        t.raw_data = t.raw_data[: int(rng.integers(len(t.raw_data) + 1))]
    elif t.data_type == 7 and len(t.raw_data) >= 8 and len(t.raw_data) % 8 == 0:
        values = np.frombuffer(t.raw_data, np.int64).copy()
        values[int(rng.integers(len(values)))] = pick(INTEGERS, rng)
        t.raw_data = values.tobytes()


def _weights(model, rng) -> None:
    if model.graph.initializer:
        _tensor(pick(model.graph.initializer, rng), rng)


def _edge(model, rng) -> None:
    """Read something else: another tensor, the node's own result (a cycle), or nothing."""
    n = pick([n for n in model.graph.node if n.input], rng)
    names = [o for m in model.graph.node for o in m.output] + [t.name for t in model.graph.initializer]
    if n is not None:
        n.input[int(rng.integers(len(n.input)))] = pick([*names, n.output[0], "", "nowhere"], rng)


def _inputs(model, rng) -> None:
    n = pick(model.graph.node, rng)
    if n.input and rng.integers(2):
        n.input.pop()
    else:
        n.input.append(pick([*n.input, ""], rng) or "")


def _outputs(model, rng) -> None:
    n = pick(model.graph.node, rng)
    if rng.integers(2):
        n.output.append(pick([*n.output, "more", ""], rng) or "")
    else:
        n.output[0] = pick([o for m in model.graph.node for o in m.output], rng)


def _op(model, rng) -> None:
    pick(model.graph.node, rng).op_type = pick(OPS, rng)


def _order(model, rng) -> None:
    nodes = list(model.graph.node)
    i, j = (int(k) for k in rng.integers(len(nodes), size=2))
    nodes[i], nodes[j] = nodes[j], nodes[i]
    copies = [onnx.NodeProto.FromString(n.SerializeToString()) for n in nodes]
    del model.graph.node[:]
    model.graph.node.extend(copies)


def _input_shape(model, rng) -> None:
    shape = model.graph.input[0].type.tensor_type.shape
    if shape.dim and rng.integers(4):
        pick(shape.dim, rng).dim_value = pick(INTEGERS, rng)
    else:
        model.graph.input[0].type.tensor_type.elem_type = int(rng.integers(0, 20))


def _opset(model, rng) -> None:
    model.opset_import[0].version = int(rng.integers(0, 30))


WOUNDS = (
    _attribute, _attribute, _attribute, _attribute_kind, _attribute_name, _weights, _weights, _edge, _edge,
    _inputs, _outputs, _op, _op, _order, _input_shape, _opset,
)  # fmt: skip
