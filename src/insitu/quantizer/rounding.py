"""An int8 graph with another rounding: the same network, its results rounded as another runtime rounds them.

    litert   the bytes of LiteRT's reference kernels, in the generated C and in an exported .tflite
    single   one rounding per result: faster on small cores, and what XNNPACK and onnxruntime compute

Scales become float32, as files store them. LiteRT's average keeps its scale; one that changes it is followed by a
requantisation. Nothing here calibrates.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from insitu.graph import Graph, Node, Type, Value
from insitu.ops._requant import ROUNDINGS
from insitu.ops.activation import lut_s8
from insitu.ops.normalize import normalize
from insitu.ops.pool import avg_pool2d_s8
from insitu.ops.quant import quantize, requantize_s8, usual_rounding

WORDS = tuple(ROUNDINGS)
FROM_FLOATS = {quantize, normalize}
FREE = {"lo": -128, "hi": 127}


def with_rounding(graph: Graph, rounding: str) -> Graph:
    """The graph with this rounding in every op with an int8 result that has one."""
    constants = dict(graph.constants)
    nodes = [made for node in graph.nodes for made in _rounded(_stored_node(node), rounding, constants)]
    inputs, outputs = (tuple(map(_stored, values)) for values in (graph.inputs, graph.outputs))
    return replace(graph, inputs=inputs, outputs=outputs, nodes=tuple(nodes), constants=constants)


def stored(t: Type) -> Type:
    """The type with its scales rounded to float32."""
    if t.quant is None:
        return t
    return replace(t, quant=replace(t.quant, scale=tuple(float(np.float32(s)) for s in t.quant.scale)))


def _stored(value: Value) -> Value:
    return replace(value, type=stored(value.type))


def _stored_node(node: Node) -> Node:
    return Node(node.op, tuple(map(_stored, node.inputs)), tuple(map(_stored, node.outputs)), node.attrs)


def _rounded(node: Node, rounding: str, constants: dict[str, np.ndarray]) -> list[Node]:
    if node.op.defaults.get("rounding") not in WORDS or node.output.dtype != "s8":
        return [node]
    if node.op in FROM_FLOATS and rounding == "single":
        rounding = usual_rounding(node.output.type)
    made = Node(node.op, node.inputs, node.outputs, {**node.attrs, "rounding": rounding})
    scaled = node.op is avg_pool2d_s8 and node.output.type.quant != node.inputs[0].type.quant
    return _average_first(made, constants) if scaled and rounding == "litert" else [made]


def _average_first(node: Node, constants: dict[str, np.ndarray]) -> list[Node]:
    """The average with its input's scale, then the scale of the result, then the clamp if there is one."""
    y = node.output
    mean = Value(f"{y.name}.mean", replace(y.type, quant=node.inputs[0].type.quant))
    lo, hi = node.attrs["lo"], node.attrs["hi"]
    free = {"lo": lo, "hi": hi} == FREE
    scaled = y if free else Value(f"{y.name}.free", y.type)
    nodes = [Node(node.op, node.inputs, (mean,), {**node.attrs, **FREE}),
             Node(requantize_s8, (mean,), (scaled,), requantize_s8.complete({"rounding": "litert"}))]  # fmt: skip
    if free:
        return nodes
    table = Value(f"{y.name}.table", Type("s8", (256,)))
    constants[table.name] = np.clip(np.arange(-128, 128), lo, hi).astype(np.int8)
    return [*nodes, Node(lut_s8, (scaled, table), (y,), {})]
