"""The float network that an int8 graph stands for: its weights dequantised, its roundings left out.

Clamps stay where they are activations; a range that ends where int8 does may be one (ReLU6) or only where values
saturate, and stays too, unless the caller wants the network without (`saturated=False`). A table of lut_s8 becomes
the function whose table it is (functions.py); a table of no known function stays int8, between quantize and dequantize.
Layers keep their names.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from insitu.exporters.functions import formula_of
from insitu.graph import Builder, Graph, Node, Op, Value, build, drop_unused
from insitu.ops import arith, conv, depthwise, linear, norm, pool, quant, reduce
from insitu.ops._functions import real
from insitu.ops.activation import clamp, lut_s8, relu
from insitu.ops.normalize import normalize

INTEGER_ONLY = {"lo", "hi", "rounding", "mask"}
# int8 op -> the float op with the same inputs and attributes
TWINS: dict[Op, Op] = {
    conv.conv2d_s8: conv.conv2d, depthwise.depthwise2d_s8: depthwise.depthwise2d, linear.linear_s8: linear.linear,
    linear.matmul_s8: linear.matmul, arith.add_s8: arith.add, arith.sub_s8: arith.sub, arith.mul_s8: arith.mul,
    pool.avg_pool2d_s8: pool.avg_pool2d, reduce.mean_s8: reduce.mean, reduce.cumsum_s8: reduce.cumsum,
    norm.softmax_s8: norm.softmax, normalize: normalize,
}  # fmt: skip
CAPS = (1.0, 6.0)  # where activations end by themselves: ReLU6, Hardtanh
NOTHING = {quant.quantize, quant.dequantize, quant.requantize_s8}


def real_graph(graph: Graph, *, saturated: bool = True) -> Graph:
    """The float graph; integer inputs of the graph are dequantised first, integer outputs stay real numbers.

    Not `saturated`: values go on where int8 ends, as in a module of these weights.
    """
    builder = Builder(graph.name, graph.classes, graph.columns, graph.pixels)
    builder.notes = list(graph.notes)
    made: dict[str, Value] = {}
    with build(builder):
        for v in graph.inputs:
            x = builder.input(v.name, v.type)
            made[v.name] = quant.dequantize(x, name=f"{v.name}.real") if v.dtype == "s8" else x
        for node in graph.nodes:
            for v, y in zip(node.outputs, _many(_written(graph, builder, node, made, saturated))):
                made[v.name] = y
    return drop_unused(replace(builder.graph(*(made[v.name] for v in graph.outputs))))


def _many(x) -> tuple[Value, ...]:
    return x if isinstance(x, tuple) else (x,)


def _written(graph: Graph, builder: Builder, node: Node, made: dict[str, Value], saturated: bool):
    """The node over real numbers."""
    if node.op in NOTHING:
        return made[node.inputs[0].name]
    if node.op is lut_s8:
        return _function(graph, builder, node, made, saturated)
    inputs = [made[v.name] if v.name in made else _constant(graph, builder, node, i) for i, v in enumerate(node.inputs)]
    op = TWINS.get(node.op, node.op)
    attrs = {key: value for key, value in node.attrs.items() if key not in INTEGER_ONLY or key in op.defaults}
    return _clamped(node, op(*inputs, name=node.name, **attrs), saturated)


def _constant(graph: Graph, builder: Builder, node: Node, i: int) -> Value:
    """A constant as real numbers. A bias without a scale has that of the products it is added to."""
    v = node.inputs[i]
    if builder.has(v.name):
        return Value(v.name, builder._types[v.name])
    array = graph.constants[v.name]
    if v.type.quant is not None:
        array = real(array, v.type).astype(np.float32)
    elif v.dtype == "s32" and i == 2 and node.op in TWINS:
        x, w = node.inputs[0].type, node.inputs[1].type
        array = (array * (x.scale * np.array(w.quant.scale if w.quant else 1.0))).astype(np.float32)
    return builder.constant(v.name, array)


def _clamped(node: Node, y, saturated: bool):
    """The activation that an int8 op has as its clamp: a range that starts at zero."""
    t = node.output.type
    if node.op not in TWINS or t.quant is None or not isinstance(y, Value):
        return y
    lo, hi = node.attrs.get("lo", -128), node.attrs.get("hi", 127)
    if (lo, hi) == (-128, 127) and t.zero != -128:
        return y
    ends_with_int8 = hi == 127 and (t.zero != -128 or (not saturated and not _is_cap((hi - t.zero) * t.scale)))
    if lo == t.zero and ends_with_int8:
        return relu(y, name=f"{node.name}.relu")
    return clamp(y, lo=(lo - t.zero) * t.scale, hi=(hi - t.zero) * t.scale, name=f"{node.name}.clamp")


def _is_cap(end: float) -> bool:
    return any(abs(end - cap) < 0.005 * cap for cap in CAPS)


def _function(graph: Graph, builder: Builder, node: Node, made: dict[str, Value], saturated: bool) -> Value:
    x, *arrays = node.inputs
    given = [graph.constants[v.name] for v in arrays]
    formula = formula_of(x.type, node.output.type, *given, saturated=saturated)
    if formula is None:
        return _looked_up(graph, builder, node, made)
    y = made[x.name]
    for i, step in enumerate(formula, 1 - len(formula)):
        y = step.built(builder, y, f"{node.name}.step{-i}" if i else node.name)
    return y


def _looked_up(graph: Graph, builder: Builder, node: Node, made: dict[str, Value]) -> Value:
    x, table, *_ = node.inputs
    q = quant.quantize(made[x.name], name=f"{node.name}.steps", rounding=quant.usual_rounding(x.type), out=x.type)
    entries = builder.constant(table.name, graph.constants[table.name])
    return quant.dequantize(lut_s8(q, entries, name=node.name, out=node.output.type), name=f"{node.name}.real")
