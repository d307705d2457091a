"""A .tflite file, float or int8, as a graph. The table in ops.py says what each operator becomes.

    graph = read_tflite("model.tflite")                  # or its bytes
    graph = read_tflite("model.tflite", batch=4)         # if the file leaves the batch open

int8 operators become the `_s8` ops with LiteRT's rounding, so that they give the bytes of its reference kernels; a file
that insitu wrote says which rounding it has (origin.py). uint8 tensors are read as int8 ones (unsigned.py). A
float operator with int8 weights (dynamic-range quantisation) is imported with dequantised weights, and a note in the
graph says so. Tensors keep the names of their layers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from insitu.errors import Error, ModelError, Unsupported
from insitu.graph import Builder, Graph, Quant, Type, Value, build
from insitu.importers.instead import instead_of
from insitu.importers.sizes import Shapes, example_at, settled
from insitu.importers.tflite.labels import labels
from insitu.importers.tflite.origin import Origin, origin_of
from insitu.importers.tflite.schema import Model, Operator, Subgraph, Tensor, read_model
from insitu.importers.tflite.unsigned import OUTPUTS, bytes_in, moved, signed

# element type -> (our dtype, its form in the file)
ELEMENTS = {
    "FLOAT32": ("f32", "<f4"),
    "FLOAT16": ("f32", "<f2"),
    "INT8": ("s8", "i1"),
    "UINT8": ("u8", "u1"),
    "INT32": ("s32", "<i4"),
    "INT64": ("s64", "<i8"),
    "BOOL": ("b1", "?"),
}
MAX_FILE = 1 << 30
# last parts of TensorFlow's names that say what was computed, not in which layer
SUFFIXES = frozenset(
    "Conv2D depthwise MatMul BiasAdd ReadVariableOp resource Relu Relu6 FusedBatchNormV3 AvgPool MaxPool Reshape Mean "
    "Softmax add Add AddV2 concat Pad convolution conv2d_transpose Sigmoid Tanh BiasAdd;".split(" ")
)
KERNELS = ("Conv2D", "depthwise", "MatMul", "convolution", "conv2d_transpose")
WEIGHTED = ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED", "PRELU")


@dataclass(frozen=True)
class Imported:
    """A graph, and the value that each tensor of the file became."""

    graph: Graph
    names: dict[int, str]


def read_tflite(source, *, batch: int = 1, examples: Shapes = ()) -> Graph:
    """The graph of a .tflite file, given as a path or as bytes."""
    return import_tflite(source, batch=batch, examples=examples).graph


def import_tflite(source, *, batch: int = 1, examples: Shapes = ()) -> Imported:
    """The same, with the value that each tensor became."""
    name, data = _bytes(source)
    try:
        model = read_model(data)
        made = _Importer(model, Builder(name), batch, examples, room=(1 << 20) + 16 * len(data)).run()
        classes = labels(data, (made.graph.outputs[0].shape or (1,))[-1])
        return replace(made, graph=replace(made.graph, classes=classes)) if classes else made
    except Unsupported as e:
        raise Unsupported(e.what, where=_join(name, e.where), hint=e.hint) from e
    except Error as e:
        raise ModelError(e.what, where=_join(name, e.where), hint=e.hint) from e


class _Importer:
    """The state of one import: the values made so far, and the constants not yet used."""

    def __init__(self, model: Model, builder: Builder, batch: int, examples: Shapes, room: int):
        self.model, self.builder, self.batch, self.examples = model, builder, batch, examples
        self.subgraph: Subgraph = signed(model.subgraphs[0])
        self.origin: Origin = origin_of(model)
        self.pending: dict[int, Any] = {}  # casts whose meaning is not known yet (lookups.Pending)
        self.values: dict[int, Value] = {}
        self.folded: dict[int, np.ndarray] = {}  # results known at import: shapes, dequantised weights
        self._constants: dict[int, Value] = {}
        self._room = room  # bytes of copies that may be made of the file's constants

    def run(self) -> Imported:
        from insitu.importers.tflite.layout import FOLDS
        from insitu.importers.tflite.ops import OPS

        with build(self.builder):
            self._inputs()
            for operator in self.subgraph.operators:
                if not operator.outputs:
                    raise _without_result(operator, operator.name in OPS or operator.name in FOLDS)
                step = Step(self, operator, self._stem(operator))
                step.located(lambda s=step: self._apply(s, FOLDS, OPS))
            outputs = [self.value(i) for i in self.subgraph.outputs]
        if any(self.tensor(i).unsigned for i in self.subgraph.outputs):
            self.builder.note(OUTPUTS)
        if not outputs or not self.subgraph.inputs:
            raise ModelError("has no inputs or no outputs")
        names = {i: v.name for i, v in self.values.items()}
        return Imported(self.builder.graph(*outputs), names)

    def tensor(self, index: int) -> Tensor:
        return self.subgraph.tensors[index]

    def value(self, index: int) -> Value:
        """The value of a tensor: already computed, or a constant of the file."""
        if index in self.pending and index not in self.values:
            self.define(index, self.pending[index].made())
        if index in self.values:
            return self.values[index]
        if index not in self._constants:
            t, array = self.tensor(index), self.array(index)
            if array is None:
                what = "is used, but no earlier operator computes it and it has no data"
                raise ModelError(what, where=t.where)
            type = Type(dtype_of(t), array.shape, tensor_quant(t) if array.dtype == np.int8 else None)
            value = self.builder.constant(layer_name(t.name) or f"tensor{index}", array, type)
            self._constants[index] = self.parameter(value, index)
        return self._constants[index]

    def parameter(self, value: Value, index: int) -> Value:
        """A file does not tell parameters from other constants: floats of more than one element count as parameters."""
        if value.dtype == "f32" and value.type.size > 1:
            self.builder.parameters[value.name] = f"tensor{index}"
        return value

    def array(self, index: int) -> np.ndarray | None:
        """The data of a constant tensor, None for a computed one."""
        if index in self.folded:
            return self.folded[index]
        t = self.tensor(index)
        data = self.model.buffers[t.buffer]
        if index in self.values or data is None:
            return None
        dtype_of(t)
        form = np.dtype(ELEMENTS[t.type][1])
        if any(d < 0 for d in t.shape) or prod(t.shape) * form.itemsize != data.size:
            raise ModelError(f"has {data.size} bytes of data, which do not fit its shape {t.shape}", where=t.where)
        array = data.view(form).reshape(t.shape) if form != np.dtype("?") else (data != 0).reshape(t.shape)
        if t.unsigned:
            return self.copied(moved(array))
        return self.copied(array.astype(np.float32)) if t.type == "FLOAT16" else self._aligned(array)

    def copied(self, array: np.ndarray) -> np.ndarray:
        """Count the bytes of a copy: operators that share weights must not make a small file huge."""
        self._room -= array.nbytes
        if self._room < 0:
            raise ModelError("uses its constants far too often for a file of this size")
        return array

    def define(self, index: int, value: Value) -> None:
        t = self.tensor(index)
        if index in self.values:
            raise ModelError("is computed twice", where=t.where)
        self._compare(t, value)
        self.values[index] = value

    def quant(self, index: int) -> Quant | None:
        return tensor_quant(self.tensor(index))

    def _aligned(self, array: np.ndarray) -> np.ndarray:
        return array if array.flags.aligned else self.copied(array.copy())

    def _inputs(self) -> None:
        named = {i: n for s in self.model.signatures if s.subgraph == 0 for n, i in s.inputs.items()}
        for i, index in enumerate(self.subgraph.inputs):
            t = self.tensor(index)
            type = Type(dtype_of(t), self._input_shape(t, example_at(self.examples, i)), tensor_quant(t))
            name = named.get(index) or t.name or f"input{index}"
            made = bytes_in(self.builder, name, t, type) if t.unsigned else self.builder.input(name, type)
            self.define(index, made)

    def _input_shape(self, t: Tensor, example: tuple[int, ...] | None) -> tuple[int, ...]:
        """The shape with the batch and other open sizes filled in."""
        if any(size < 0 for size in t.signature):
            return settled(t.signature, self.batch, example, t.where)
        if self.batch not in (1, *t.shape[:1]):
            raise Unsupported(f"the file fixes the batch at {t.shape[0]}, not {self.batch}", where=t.where)
        return t.shape

    def _stem(self, operator: Operator) -> str:
        """The layer that an operator belongs to: that of its weights, else that of its result."""
        weights = operator.inputs[1:2] if operator.name in WEIGHTED else ()
        index = weights[0] if weights and weights[0] >= 0 else operator.outputs[0]
        name = layer_name(self.tensor(index).name) or f"tensor{operator.outputs[0]}"
        stem, n = name, 1
        while self.builder.has(stem):
            stem, n = f"{name}_{n}", n + 1
        return stem

    def _apply(self, step: Step, folds: dict[str, Callable], ops: dict[str, Callable]) -> None:
        from insitu.importers.tflite.lookups import Pending, continued

        operator = step.operator
        fold = folds.get(operator.name)
        known = fold(step) if fold else None
        if known is not None:
            self.folded[operator.outputs[0]] = known
            return
        if operator.name not in ops:
            raise unsupported(operator)
        results = continued(step) or ops[operator.name](step)
        if isinstance(results, Pending):
            self.pending[operator.outputs[0]] = results
            return
        results = results if isinstance(results, tuple) else (results,)
        if len(results) != len(operator.outputs):
            raise ModelError(f"{operator.name} has {len(operator.outputs)} outputs, not {len(results)}")
        for index, value in zip(operator.outputs, results):
            self.define(index, value)

    def _compare(self, t: Tensor, value: Value) -> None:
        """The inferred type must be that of the file; dimensions that the file leaves open may be anything."""
        if value.dtype != dtype_of(t) or value.type.quant != tensor_quant(t):
            raise ModelError(f"is computed as {value.type}, but the file has another type or scale", where=t.where)
        free = {d for d, size in enumerate(t.signature) if size < 0} | ({0} if self.batch != 1 else set())
        same = len(t.shape) == value.type.rank
        if t.shape and not (same and all(a == b or d in free for d, (a, b) in enumerate(zip(t.shape, value.shape)))):
            raise ModelError(f"is computed as {value.type}, but the file has the shape {t.shape}", where=t.where)


def unsupported(operator: Operator) -> Unsupported:
    return Unsupported(f"the operator {operator.name} is not supported", hint=instead_of(operator.name))


def _without_result(operator: Operator, known: bool) -> ModelError:
    return ModelError(f"the operator {operator.name} has no outputs") if known else unsupported(operator)


@dataclass(frozen=True)
class Step:
    """One operator being imported, as the functions of ops.py see it."""

    importer: _Importer
    operator: Operator
    name: str  # for its result
    as_float: bool = False  # int8 inputs are dequantised: the op has no int8 kernel

    @property
    def builder(self) -> Builder:
        return self.importer.builder

    @property
    def int8(self) -> bool:
        return not self.as_float and self.output.type == "INT8"

    @property
    def output(self) -> Tensor:
        return self.importer.tensor(self.operator.outputs[0])

    @property
    def out(self) -> Type:
        """The numerics that the file gives for the result."""
        return Type(dtype_of(self.output), (), tensor_quant(self.output))

    @property
    def rounding(self) -> str:
        """Of int8 results."""
        return self.importer.origin.rounding

    def __getitem__(self, option: str):
        return self.operator.options[option]

    @property
    def count(self) -> int:
        return len(self.operator.inputs)

    def has(self, i: int) -> bool:
        return i < self.count and self.operator.inputs[i] >= 0

    def tensor(self, i: int) -> Tensor:
        if not self.has(i):
            raise ModelError(f"{self.operator.name} has no input {i}")
        return self.importer.tensor(self.operator.inputs[i])

    def x(self, i: int) -> Value:
        """An input as a value; dequantised where the operator runs in float."""
        value = self.importer.value(self.tensor(i).index)
        if self.as_float and value.dtype == "s8":
            from insitu.ops.quant import dequantize

            return dequantize(value, name=f"{self.name}.float{i}")
        return value

    def known(self, i: int) -> np.ndarray | None:
        """The data of an input that is a constant, None for any other."""
        return self.importer.array(self.tensor(i).index)

    def array(self, i: int) -> np.ndarray:
        """The data of an input that must be constant."""
        array = self.known(i)
        if array is None:
            raise Unsupported(
                f"{self.operator.name} needs a constant here, but this tensor is computed", where=self.tensor(i).where
            )
        return array

    def integers(self, i: int) -> list[int]:
        """A short constant list of integers: shapes, axes, paddings."""
        array = self.array(i)
        if array.dtype.kind != "i" or array.size > 64:
            raise ModelError(f"is not a short list of integers: {array.dtype}{array.shape}", where=self.tensor(i).where)
        return array.reshape(-1).tolist()

    def located(self, work: Callable):
        """Run, and add the place to every error."""
        try:
            return work()
        except Error as e:
            where = f"{self.operator.name} for {self.output.where}"
            place = e.where if e.where and not e.where.startswith("%") else ""
            place = "" if place in (self.output.where, self.name) else place
            kind = Unsupported if isinstance(e, Unsupported) else ModelError
            raise kind(e.what, where=_join(where, place), hint=e.hint) from e


def dtype_of(t: Tensor) -> str:
    """Our element type, or an error that names the tensor and what to do."""
    if t.type == "INT16" and t.scale:
        hint = "convert the model again with int8 inputs, outputs and activations"
        raise Unsupported("is quantised to INT16; only int8 and uint8 are supported", where=t.where, hint=hint)
    if t.type not in ELEMENTS or t.sparse or t.variable:
        kind = "sparse" if t.sparse else "a variable" if t.variable else f"of type {t.type}"
        raise Unsupported(f"is {kind}, which is not supported", where=t.where)
    return ELEMENTS[t.type][0]


def tensor_quant(t: Tensor) -> Quant | None:
    """The scale of an int8 activation; other types carry none."""
    if t.type != "INT8":
        return None
    if len(t.scale) != 1:
        raise Unsupported(f"an int8 activation must have one scale, not {len(t.scale)}", where=t.where)
    return Quant(t.scale, zero_of(t))


def zero_of(t: Tensor) -> int:
    zeros = set(t.zero) or {0}
    if len(zeros) > 1 or not -128 <= min(zeros) <= 127:
        raise Unsupported(f"the zero points {sorted(zeros)[:4]} are not supported", where=t.where)
    return zeros.pop()


def layer_name(name: str) -> str:
    """`a/relu/Relu;a/conv2d/Conv2D` -> `a/conv2d`: a fused tensor has a list of names; the kernel's is the layer's."""
    parts = [p for p in name.split(";") if p]
    kernel = [p for p in parts if p.rsplit("/", 1)[-1] in KERNELS]
    words = (kernel or parts or [""])[0].split("/")
    while len(words) > 1 and words[-1] in SUFFIXES:
        words.pop()
    return "/".join(words)


def _bytes(source) -> tuple[str, bytes]:
    if isinstance(source, bytes | bytearray | memoryview):
        return "model", bytes(source)
    path = Path(source)
    try:
        if path.stat().st_size > MAX_FILE:
            raise ModelError(f"is larger than {MAX_FILE:,} bytes", where=str(path))
        return path.stem, path.read_bytes()
    except OSError as e:
        raise ModelError(f"cannot be read: {e.strerror}", where=str(path)) from e


def _join(*places: str) -> str:
    return ": ".join(p for p in places if p)
