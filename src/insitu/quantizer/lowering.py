"""The int8 graph while it is being built: every float value in s8, in f32, or both, made on first use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite

import numpy as np

from insitu.graph import Builder, Graph, Node, Quant, Type, Value
from insitu.graph.check import FLOATS
from insitu.ops.quant import dequantize, quantize, requantize_s8, usual_rounding
from insitu.quantizer.agree import Ends
from insitu.quantizer.calibrate import Ranges
from insitu.quantizer.fuse import Fusions, clamp_bounds
from insitu.quantizer.scales import FIXED, activation_quant, groups_of, rescaled


@dataclass(frozen=True)
class Options:
    bias_correction: bool = True
    per_channel: bool = True
    clip_weights: bool = False
    room: float = 1.0  # how far weights may grow, as a multiple of their largest


class Lowering:
    def __init__(self, graph: Graph, scales: dict[str, Quant], ranges: Ranges, fusions: Fusions, options: Options):
        self.graph, self.scales, self.ranges = graph, dict(scales), ranges
        self.groups, self.fixed = groups_of(graph), {node.name for node in graph.nodes if node.op in FIXED}
        self.fusions, self.options = fusions, options
        self.builder = Builder(graph.name, graph.classes, graph.columns, graph.pixels)
        self._s8: dict[str, Value] = {}
        self._float: dict[str, Value] = {}

    def s8(self, value: Value) -> Value:
        """The value in s8; quantised here if it exists only in float."""
        if value.name not in self._s8:
            out = self.type(value)
            if value.name in self.graph.constants:
                self._s8[value.name] = self._constant(value, out)
            else:
                name = f"{value.name}.s8"
                x, rounding = self._float[value.name], usual_rounding(out)
                self._s8[value.name] = quantize(x, rounding=rounding, name=name, out=out)
        return self._s8[value.name]

    def s8_as(self, value: Value, out: Type) -> Value:
        """The value in s8 with the numerics of `out`."""
        if value.name in self.graph.constants:
            return self._constant(value, out)
        x = self.s8(value)
        if x.type.quant == out.quant:
            return x
        return requantize_s8(x, name=f"{value.name}.again", out=out)

    def float(self, value: Value) -> Value:
        """The value in float (or in its own type, if it was never a float); dequantised here if needed."""
        if value.name not in self._float:
            if value.name in self.graph.constants:
                array = self.graph.constants[value.name]
                self._float[value.name] = self.builder.constant(value.name, array, value.type)
            else:
                self._float[value.name] = dequantize(self._s8[value.name], name=f"{value.name}.f32")
        return self._float[value.name]

    def came_in_float(self, value: Value) -> bool:
        """Was it computed by a float op? Inputs do not count: they are quantised first, to save memory."""
        inside = value.name in self._float and value.name not in self._s8
        return inside and all(v.name != value.name for v in self.graph.inputs)

    def set_s8(self, value: Value, made: Value) -> None:
        self._s8[value.name] = made

    def set_float(self, value: Value, made: Value) -> None:
        self._float[value.name] = made

    def array(self, value: Value) -> np.ndarray | None:
        return self.graph.constant(value)

    def mean(self, value: Value) -> np.ndarray:
        """E[x] per channel of the last axis; zero if calibration does not know it."""
        return self.ranges.means.get(value.name, np.zeros(value.shape[-1:]))

    def type(self, value: Value) -> Type:
        """The s8 type of a float value."""
        array = self.array(value)
        q = self.scales[value.name] if array is None else activation_quant(float(array.min()), float(array.max()))
        return Type("s8", value.shape, q)

    def output(self, node: Node) -> tuple[Type, dict[str, int]]:
        """The output of a node's int8 op, with a following clamp fused: its type, and `lo` and `hi`."""
        clamp = self.fusions.clamp.get(node.name)
        out = self.type(clamp.output if clamp else node.output)
        lo, hi = (_integer(bound, out) for bound in clamp_bounds(self.fusions, node))
        return out, {"lo": lo, "hi": hi}

    def settle(self, node: Node, choose: Callable[[Type, Ends], float]) -> None:
        """Let `choose` name a larger scale for a node's result, unless something that shares it exists already."""
        value = self.result(node)[0]
        group, (out, clamp) = self.groups[value.name], self.output(node)
        if not any(name in self._s8 or name in self.fixed for name in group):
            wider = rescaled(self.scales[value.name], choose(out, ends_of(out, **clamp)))
            self.scales.update(dict.fromkeys(group, wider))

    def result(self, node: Node) -> tuple[Value, ...]:
        """The values of the float graph that lowering this node produces."""
        clamp = self.fusions.clamp.get(node.name)
        return clamp.outputs if clamp else node.outputs

    def stem(self, node: Node) -> str:
        """The name that was given to the op: with several outputs these are `name.0`, `name.1`."""
        return node.name.removesuffix(".0") if len(node.outputs) > 1 else node.name

    def stands_for(self, made: Value, name: str) -> None:
        """Record that an integer constant is this parameter of the model. Each layer that reads it has its own copy."""
        self.builder.parameters[made.name] = self.graph.parameters.get(name, name)

    def _constant(self, value: Value, out: Type) -> Value:
        q = np.rint(self.graph.constants[value.name] / out.scale) + out.zero
        return self.builder.constant(value.name, np.clip(q, -128, 127).astype(np.int8), out.with_shape(*value.shape))


def ends_of(t: Type, lo: int = -128, hi: int = 127) -> Ends:
    """The results of an op with this clamp, without the zero point."""
    return lo - t.zero, hi - t.zero


def is_float(value: Value) -> bool:
    return value.dtype in FLOATS


def _integer(bound: float, out: Type) -> int:
    if not isfinite(bound):
        return -128 if bound < 0 else 127
    return int(np.clip(np.rint(bound / out.scale) + out.zero, -128, 127))
