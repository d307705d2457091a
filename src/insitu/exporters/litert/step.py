"""One node of a graph on its way into a .tflite file, as the functions of ops.py see it.

A Step gives the indices of the node's tensors in the file, and appends operators. It knows types and constants, but no
op: which operators a node becomes is said in ops.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from insitu.errors import Unsupported
from insitu.exporters.at_node import AtNode
from insitu.exporters.litert.file import File, Subgraph
from insitu.graph import Graph, Node, Type, Value

KINDS = {"f32": "FLOAT32", "s8": "INT8", "u8": "UINT8", "s32": "INT32", "s64": "INT64", "b1": "BOOL", "s16": "INT16"}
NONE, RELU, RELU_N1_TO_1, RELU6 = range(4)  # the schema's fused activations


@dataclass
class Emitter:
    """The file in the making, and the tensor that each value of the graph has become."""

    graph: Graph
    file: File
    sub: Subgraph
    tensors: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    after: dict[str, tuple[Node, int]] = field(default_factory=dict)  # node -> the relu fused into it, its number

    def value(self, v: Value) -> int:
        """The tensor of a value; a constant is written on first use."""
        if v.name not in self.tensors:
            array = self.graph.constants.get(v.name)
            self.tensors[v.name] = self.define(v.name, v.type) if array is None else self.stored(v.name, array, v.type)
        return self.tensors[v.name]

    def define(self, name: str, t: Type) -> int:
        return self.sub.tensor(name, t.shape, self.kind(t, name), **numerics(t))

    def stored(self, name: str, array: np.ndarray, t: Type) -> int:
        return self.sub.constant(name, array.reshape(t.shape), self.kind(t, name), **numerics(t))

    def kind(self, t: Type, where: str) -> str:
        if t.dtype not in KINDS:
            raise Unsupported(f"LiteRT has no tensors of {t}", where=where)
        return KINDS[t.dtype]

    def note(self, words: str) -> None:
        if words not in self.notes:
            self.notes.append(words)


def numerics(t: Type) -> dict:
    """Scale, zero point and axis of a tensor."""
    q = t.quant
    return {} if q is None else {"scale": q.scale, "zero": q.zero, "axis": q.axis or 0}


@dataclass(frozen=True)
class Step(AtNode):
    emitter: Emitter
    node: Node

    @property
    def graph(self) -> Graph:
        return self.emitter.graph

    def x(self, i: int = 0) -> int:
        """The tensor of an input."""
        return self.emitter.value(self.node.inputs[i])

    def y(self, i: int = 0) -> int:
        """The tensor of an output; behind a fused relu if there is one."""
        found = self.emitter.after.get(self.node.name)
        return self.emitter.value(found[0].output if found else self.node.outputs[i])

    @property
    def activation(self) -> int:
        """The number of the relu that is fused into this node."""
        found = self.emitter.after.get(self.node.name)
        return found[1] if found else NONE

    def array(self, i: int) -> np.ndarray:
        """The data of an input that must be constant."""
        found = self.graph.constants.get(self.node.inputs[i].name)
        if found is None:
            what = f"{self.node.op.name} with weights that are computed cannot be written for LiteRT"
            raise Unsupported(what, where=self.node.name)
        return found

    def temp(self, t: Type, word: str) -> int:
        """A tensor between two operators of this node."""
        return self.emitter.define(f"{self.node.name}/{word}", t)

    def constant(self, array: np.ndarray, word: str, **numbers) -> int:
        return self.emitter.sub.constant(f"{self.node.name}/{word}", array, **numbers)

    def like(self, i: int, shape: Sequence[int]) -> Type:
        """The type of an input with another shape."""
        return self.type(i).with_shape(*shape)

    def ints(self, *numbers: int) -> int:
        return self.emitter.sub.ints(*numbers)

    def op(self, name: str, inputs: Sequence[int], *outputs: int, **options) -> int:
        return self.emitter.sub.op(name, inputs, *outputs, **options)

    def via(self, name: str, inputs: Sequence[int], t: Type, word: str = "", **options) -> int:
        """Append an operator whose result is only used inside this node."""
        return self.op(name, inputs, self.temp(t, word or name.lower()), **options)

    def note(self, words: str) -> None:
        self.emitter.note(words)

    def refuse(self, why: str) -> Unsupported:
        return Unsupported(f"{self.node.op.name} {why}, which LiteRT does not have", where=self.node.name)


def plain(t: Type, dtype: str) -> Type:
    return replace(t, dtype=dtype, quant=None)


def fused_end(real: float, t: Type) -> int:
    """A real bound as an integer of this type, rounded as LiteRT rounds the ends of its activations."""
    quotient = np.float32(real) / np.float32(t.scale)
    return t.zero + int(np.sign(quotient) * np.floor(min(abs(float(quotient)), 1e6) + 0.5))


def clamp_number(lo: int, hi: int, t: Type) -> int | None:
    """The fused activation that clamps the integers of this type to lo..hi; None if there is none."""
    ends = {NONE: (-128, 127), RELU: (fused_end(0.0, t), 127), RELU6: (fused_end(0.0, t), fused_end(6.0, t)),
            RELU_N1_TO_1: (fused_end(-1.0, t), fused_end(1.0, t))}  # fmt: skip
    for number, (low, high) in ends.items():
        if (max(low, -128), min(high, 127)) == (lo, hi):
            return number
    return None


def finish(s: Step, name: str, inputs: Sequence[int], **options) -> None:
    """Append the operator that gives the node's result, with its clamp: fused if LiteRT has it, else behind it."""
    if not s.int8:
        s.op(name, inputs, s.y(), fusedActivationFunction=s.activation, **options)
        return
    number = clamp_number(s["lo"], s["hi"], s.out)
    if number is not None:
        s.op(name, inputs, s.y(), fusedActivationFunction=number, **options)
        return
    x = s.via(name, inputs, s.out, "unclamped", fusedActivationFunction=NONE, **options)
    clamp_integers(s, x, s["lo"], s["hi"])


def clamp_integers(s: Step, x: int, lo: int, hi: int) -> None:
    """x as the node's result, clamped to these integers."""
    ends = [(name, end) for name, end, free in (("MAXIMUM", lo, -128), ("MINIMUM", hi, 127)) if end != free]
    for k, (name, end) in enumerate(ends):
        bound = s.constant(np.array([end], np.int8), name.lower() + "_end", **numerics(s.out))
        y = s.y() if k == len(ends) - 1 else s.temp(s.out, "clamped")
        x = s.op(name, [x, bound], y)
