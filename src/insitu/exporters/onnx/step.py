"""One node of a graph on its way into an ONNX model, as the functions of ops.py see it.

ONNX has the channels of images first, insitu has them last. A value may exist in either layout, or in both: a
Transpose is only written where a reader needs the layout that is missing, so chains of convolutions have none inside.
Which operators a node becomes is said in ops.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from insitu.errors import Unsupported
from insitu.exporters.at_node import AtNode
from insitu.graph import Graph, Node, Type, Value

KINDS = {
    "f32": TensorProto.FLOAT, "s8": TensorProto.INT8, "u8": TensorProto.UINT8, "s32": TensorProto.INT32,
    "s64": TensorProto.INT64, "b1": TensorProto.BOOL, "s16": TensorProto.INT16,
}  # fmt: skip


@dataclass
class Emitter:
    """The model in the making: its nodes and constants, and the name that each value has in each layout."""

    graph: Graph
    nodes: list[NodeProto] = field(default_factory=list)
    initializers: dict[str, TensorProto] = field(default_factory=dict)
    last: dict[str, str] = field(default_factory=dict)  # value -> its name, channels last
    first: dict[str, str] = field(default_factory=dict)  # value -> its name, channels first
    reals: dict[str, str] = field(default_factory=dict)  # a name of integers -> the name of the reals they stand for
    notes: list[str] = field(default_factory=list)

    def fresh(self, stem: str) -> str:
        """A name that nothing has yet."""
        name, n = stem, 1
        while name in self.taken:
            name, n = f"{stem}_{n}", n + 1
        self.taken.add(name)
        return name

    def __post_init__(self):
        self.taken: set[str] = {v.name for v in (*self.graph.inputs, *self.graph.outputs)}

    def constant(self, array: np.ndarray, stem: str) -> str:
        name = self.fresh(stem)
        self.initializers[name] = numpy_helper.from_array(np.asarray(array, order="C"), name)
        return name

    def add(self, op: str, inputs: Sequence[str], stem: str, **attributes) -> str:
        """Append a node; its result has a name of its own."""
        name = self.fresh(stem)
        self.nodes.append(helper.make_node(op, list(inputs), [name], name, **attributes))
        return name

    def plain(self, v: Value) -> str:
        """The value with its channels last."""
        if v.name not in self.last:
            array = self.graph.constants.get(v.name)
            if array is not None:
                self.last[v.name] = self.constant(array.reshape(v.shape), v.name)
            else:
                self.last[v.name] = self.add("Transpose", [self.first[v.name]], f"{v.name}.last",
                                             perm=to_last(v.type.rank))  # fmt: skip
        return self.last[v.name]

    def turned(self, v: Value) -> str:
        """The value with its channels first."""
        if v.name not in self.first:
            array = self.graph.constants.get(v.name)
            if array is not None:
                self.first[v.name] = self.constant(array.transpose(to_first(v.type.rank)), f"{v.name}.first")
            else:
                self.first[v.name] = self.add("Transpose", [self.plain(v)], f"{v.name}.first",
                                              perm=to_first(v.type.rank))  # fmt: skip
        return self.first[v.name]

    def real(self, name: str, t: Type) -> str:
        """The real numbers of a tensor: integers are dequantised, once per tensor."""
        if t.quant is None:
            return name
        if name not in self.reals:
            scale, zero = self.numerics(t)
            self.reals[name] = self.add("DequantizeLinear", [name, scale, zero], f"{name}.real")
        return self.reals[name]

    def numerics(self, t: Type) -> tuple[str, str]:
        """The constants that hold a type's scale and zero point; equal ones are written once."""
        key = f"scale={t.scale!r} zero={t.zero}"
        if key not in self.reals:
            scale = self.constant(np.array(t.scale, np.float32), "scale")
            self.reals[key] = f"{scale}|{self.constant(np.array(t.zero, t.numpy), 'zero')}"
        scale, _, zero = self.reals[key].partition("|")
        return scale, zero


def to_first(rank: int) -> list[int]:
    return [0, rank - 1, *range(1, rank - 1)]


def to_last(rank: int) -> list[int]:
    return [0, *range(2, rank), 1]


@dataclass(frozen=True)
class Step(AtNode):
    emitter: Emitter
    node: Node

    def x(self, i: int = 0) -> str:
        """An input with its channels last."""
        return self.emitter.plain(self.node.inputs[i])

    def image(self, i: int = 0) -> str:
        """An input with its channels first."""
        return self.emitter.turned(self.node.inputs[i])

    def has_image(self, i: int = 0) -> bool:
        """Is there an input with its channels first already?"""
        return self.node.inputs[i].name in self.emitter.first

    def real(self, i: int = 0, image: bool = False) -> str:
        """The real numbers of an input."""
        return self.emitter.real(self.image(i) if image else self.x(i), self.type(i))

    def array(self, i: int) -> np.ndarray:
        """The data of an input that must be constant."""
        found = self.emitter.graph.constants.get(self.node.inputs[i].name)
        if found is None:
            what = f"{self.node.op.name} with weights that are computed cannot be written for ONNX"
            raise Unsupported(what, where=self.node.name)
        return found

    def constant(self, array: np.ndarray, word: str) -> str:
        return self.emitter.constant(array, f"{self.node.name}.{word}")

    def ints(self, numbers: Sequence[int], word: str) -> str:
        return self.constant(np.array(numbers, np.int64), word)

    def number(self, value: float, word: str) -> str:
        return self.constant(np.array(value, np.float32), word)

    def op(self, name: str, inputs: Sequence[str], word: str = "", **attributes) -> str:
        """Append a node; its result is named after this step."""
        stem = f"{self.node.name}.{word}" if word else self.node.name
        return self.emitter.add(name, inputs, stem, **attributes)

    def give(self, name: str, image: bool = False, i: int = 0) -> None:
        """This tensor is the node's result."""
        (self.emitter.first if image else self.emitter.last)[self.node.outputs[i].name] = name

    def finish(self, real: str, image: bool = False) -> None:
        """Real numbers as the node's result: clamped and quantised if the result is int8."""
        if not self.int8:
            return self.give(real, image)
        scale, zero = self.emitter.numerics(self.out)
        return self.give(self.op("QuantizeLinear", [self.clamped(real), scale, zero]), image)

    def clamped(self, real: str) -> str:
        """The clamp to lo..hi, before the rounding: these ends are exact, so the order does not matter."""
        lo, hi = self.node.attrs.get("lo", -128), self.node.attrs.get("hi", 127)
        if (lo, hi) == (-128, 127):
            return real
        if (lo, hi) == (self.out.zero, 127):
            return self.op("Relu", [real], "relu")
        ends = [self.number((end - self.out.zero) * self.out.scale, word) for end, word in ((lo, "lo"), (hi, "hi"))]
        return self.op("Clip", [real, *ends], "clip")

    def note(self, words: str) -> None:
        if words not in self.emitter.notes:
            self.emitter.notes.append(words)
