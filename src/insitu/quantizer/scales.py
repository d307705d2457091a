"""A scale and zero point for every value, from its range.

Values that an op only moves (reshape, max_pool2d, ...) share one scale, so that no requantisation is needed between
them; so do the inputs of a concat, if it is their only use. lower.py decides which ops run on these types.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Graph, Node, Quant, quant
from insitu.graph.check import FLOATS
from insitu.ops.activation import RANGES, clamp, sigmoid, tanh
from insitu.ops.layout import concat
from insitu.ops.linear import linear
from insitu.ops.norm import softmax
from insitu.quantizer.calibrate import Ranges

# op -> the scale of its output, whatever the data: its whole range is known
FIXED = {sigmoid: quant(1 / 256, -128), softmax: quant(1 / 256, -128), tanh: quant(1 / 128, 0)}
FLOOR = 2.0**-26  # the smallest scale: requantisation multipliers stay within 31 bits


def activation_quant(low: float, high: float) -> Quant:
    """Asymmetric int8 for [low, high]; zero is always in the range, and exact."""
    low, high = min(low, 0.0), max(high, 0.0)
    if high == low:
        high = 1.0  # always zero: any scale is right
    scale = float(np.float32(max((high - low) / 255, FLOOR)))
    return quant(scale, int(np.clip(round(-128 - low / scale), -128, 127)))


def rescaled(q: Quant, scale: float) -> Quant:
    """The same range with a scale that is little larger."""
    return quant(scale, int(np.clip(round(-128 + (128 + q.zero) * q.scale[0] / scale), -128, 127)))


def choose_scales(graph: Graph, ranges: Ranges, room: float = 1.0) -> dict[str, Quant]:
    """The quantisation of every float value; `room` widens what is computed, not the graph's inputs."""
    groups, ranges = list({id(g): g for g in groups_of(graph).values()}.values()), _signed(graph, ranges)
    fixed = {n.name: FIXED[n.op] for n in graph.nodes if n.op in FIXED}
    given = {v.name for v in graph.inputs}
    rooms = [1.0 if given & set(group) else room for group in groups]
    return {name: q for g, wide in zip(groups, rooms) for name, q in _one_scale(g, fixed, ranges, wide).items()}


def _signed(graph: Graph, ranges: Ranges) -> Ranges:
    """One step below zero for a linear layer without a ReLU that calibration saw positive only.

    Its results may well be negative for other samples, and its int8 type should not look like that of a ReLU.
    """
    seen = {
        n.name: ranges[n.name] for n in graph.nodes if n.op is linear and n.name in ranges and not _clamped(graph, n)
    }
    more = {name: (-high / 254, high) for name, (low, high) in seen.items() if 0 <= low < high}
    return replace(ranges, bounds={**ranges.bounds, **more}) if more else ranges


def _clamped(graph: Graph, node: Node) -> bool:
    return any(n.op is clamp or n.op in RANGES for n in graph.users.get(node.name, ()))


def _one_scale(group: list[str], fixed: dict[str, Quant], ranges: Ranges, room: float) -> dict[str, Quant]:
    known = [fixed[name] for name in group if name in fixed]
    seen = [ranges[name] for name in group if name in ranges]
    if not known and not seen:
        raise GraphError(
            "was not seen in calibration", where=f"%{group[0]}", hint="calibrate this graph, then quantize"
        )
    if known:
        return dict.fromkeys(group, known[0])
    low, high = min(lo for lo, _ in seen), max(hi for _, hi in seen)
    return dict.fromkeys(group, activation_quant(room * low, room * high))


def groups_of(graph: Graph) -> dict[str, list[str]]:
    """Each float value with those that must share its scale."""
    values = [*graph.inputs, *(v for n in graph.nodes for v in n.outputs)]
    group = {v.name: [v.name] for v in values if v.dtype in FLOATS}
    fixed = {n.name for n in graph.nodes if n.op in FIXED}
    for node in graph.nodes:
        if node.op.facts.moves:
            _join(group, node, node.inputs)
    for node in graph.nodes:
        if node.op is concat:
            alone = [v for v in node.inputs if _uses(graph, v.name) == 1]
            # sigmoid and tanh keep their own scale: a union of ranges would be coarser without need
            _join(group, node, [v for v in alone if not fixed & set(group.get(v.name, ()))])
    return group


def _join(group: dict[str, list[str]], node: Node, inputs) -> None:
    names = [v.name for v in (*inputs, *node.outputs) if v.name in group]
    together = sorted({n for name in names for n in group[name]})
    for name in together:
        group[name] = together


def _uses(graph: Graph, name: str) -> int:
    outputs = sum(v.name == name for v in graph.outputs)
    return outputs + sum(v.name == name for n in graph.users.get(name, ()) for v in n.inputs)
