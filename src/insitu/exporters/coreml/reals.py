"""The real numbers that an int8 graph computes with: the same network in float, its weights dequantised.

Rounding is gone; clamping that is an activation (int8 has ReLU as the lower end of its range) becomes one again.
"""

from __future__ import annotations

import math

import numpy as np

from insitu.errors import Unsupported
from insitu.graph import REGISTRY, Builder, Graph, Node, Op, Type, Value, build
from insitu.ops import activation as a
from insitu.ops.activation import clamp, lut_s8, relu
from insitu.ops.quant import dequantize, quantize, requantize_s8

SAME = {quantize, dequantize, requantize_s8}
TABLES = (a.relu, a.relu6, a.hard_swish, a.hard_sigmoid, a.sigmoid, a.tanh, a.silu, a.elu, a.softplus, a.leaky_relu)


def real_graph(graph: Graph) -> Graph:
    """The graph in float; a float graph stays as it is."""
    if not any(v.type.quant is not None for v in graph.values.values()):
        return graph
    floats = {op.facts.int8: op for op in REGISTRY.values() if op.facts.int8 is not None}
    builder = Builder(graph.name, graph.classes, graph.columns)
    new: dict[str, Value] = {}
    with build(builder):
        for v in graph.inputs:
            new[v.name] = builder.input(v.name, v.type if v.type.quant is None else Type("f32", v.shape))
        for node in graph.nodes:
            new[node.output.name] = _real(builder, graph, node, new, floats)
    return builder.graph(*(new[v.name] for v in graph.outputs))


def _real(builder: Builder, graph: Graph, node: Node, new: dict[str, Value], floats: dict[Op, Op]) -> Value:
    if node.op in SAME:
        return new[node.inputs[0].name]
    if node.op is lut_s8:
        return _function(graph, node)(new[node.inputs[0].name], name=node.name)
    op = floats.get(node.op, node.op)
    inputs = [new[v.name] if v.name in new else _constant(builder, graph, node, v) for v in node.inputs]
    attrs = {k: v for k, v in node.attrs.items() if k in op.defaults}
    y = op(*inputs, name=node.name, **attrs)
    return y if op is node.op else _activated(y, node)


def _constant(builder: Builder, graph: Graph, node: Node, v: Value) -> Value:
    array, q = graph.constants[v.name], v.type.quant
    if array.dtype == np.int32 and len(node.inputs) > 2 and v == node.inputs[2]:  # a bias, in units of s_x s_w
        w = node.inputs[1].type.quant
        assert w is not None  # weights of an int8 layer have a scale
        array = array * np.array(w.scale) * node.inputs[0].type.scale
    elif q is not None:
        array = (array.astype(np.float64) - q.zero) * q.scales(v.type.rank)
    return builder.constant(v.name, array.astype(np.float32))


def _activated(y: Value, node: Node) -> Value:
    t, lo, hi = node.output.type, node.attrs.get("lo", -128), node.attrs.get("hi", 127)
    if t.quant is None or lo != t.zero:
        return y
    top = (hi - t.zero) * t.scale
    return clamp(y, lo=0.0, hi=top, name=f"{y.name}.act") if math.isfinite(top) else relu(y)


def _function(graph: Graph, node: Node) -> Op:
    """The function whose table this is; an error if it is none of the usual ones."""
    tx, ty = node.inputs[0].type, node.output.type
    table = graph.constants[node.inputs[1].name].astype(np.int32)
    x = (np.arange(-128, 128) - tx.zero) * tx.scale
    for op in TABLES:
        y = op.apply("eval", (x,), op.complete({}))
        if np.abs(np.clip(np.round(y / ty.scale) + ty.zero, -128, 127) - table).max() <= 1:
            return op
    raise Unsupported("this table of an int8 function is none that Core ML has", where=f"%{node.name}")
