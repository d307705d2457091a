"""A LiteRT file under construction: subgraphs, tensors, operators, constants, variables and signatures.

Nothing here knows what an operator computes: tensor.py has arithmetic, and the tables of operators stand beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ai_edge_litert.schema_py_generated as schema
import flatbuffers
import numpy as np

IDENTIFIER = b"TFL3"
KINDS = {  # dtype -> LiteRT's name
    "f32": "FLOAT32", "s32": "INT32", "u32": "UINT32", "s64": "INT64", "b1": "BOOL", "u8": "UINT8", "s8": "INT8",
    "resource": "RESOURCE",
}  # fmt: skip
DTYPES = {"float32": "f32", "int32": "s32", "uint32": "u32", "int64": "s64", "bool": "b1", "uint8": "u8", "int8": "s8"}
VERSIONS = {"BROADCAST_TO": 2}  # whose first version LiteRT does not have


@dataclass(frozen=True, eq=False)
class Place:
    """A tensor of a subgraph: its number there, its element type and its shape."""

    sheet: Sheet
    index: int
    dtype: str
    shape: tuple[int, ...]


class Sheet:
    """One subgraph. `add` appends an operator and returns what it computes."""

    def __init__(self, file: File, name: str):
        self.file, self.name = file, name
        self.tensors: list[schema.TensorT] = []
        self.operators: list[schema.OperatorT] = []
        self.inputs: dict[str, Place] = {}
        self.outputs: dict[str, Place] = {}
        self._constants: dict[int, Place] = {}

    def input(self, name: str, dtype: str, shape: Sequence[int]) -> Place:
        self.inputs[name] = made = self._tensor(dtype, shape, name)
        return made

    def output(self, name: str, value: Place) -> None:
        self.outputs[name] = value

    def constant(self, array: np.ndarray) -> Place:
        """A constant; equal ones are stored once in the file."""
        array = np.ascontiguousarray(array).reshape(np.shape(array))  # numpy makes a scalar one-dimensional
        buffer, dtype = self.file.buffer(array), DTYPES[array.dtype.name]
        known = self._constants.get(buffer)
        if known is None or (known.dtype, known.shape) != (dtype, array.shape):
            known = self._constants[buffer] = self._tensor(dtype, array.shape, buffer=buffer)
        return known

    def add(self, op: str, inputs: Sequence[Place], dtype: str, shape: Sequence[int], **options) -> Place:
        """Append an operator with one output of this type; `options` is a row of its options, if it has any."""
        made = self._tensor(dtype, shape)
        self._operator(op, [v.index for v in inputs], [made.index], **options)
        return made

    def do(self, op: str, inputs: Sequence[Place] = (), **options) -> None:
        """Append an operator that gives nothing."""
        self._operator(op, [v.index for v in inputs], [], **options)

    def _operator(self, op: str, inputs: list[int], outputs: list[int], options: str = "", **fields) -> None:
        made = schema.OperatorT()
        made.opcodeIndex, made.inputs, made.outputs = self.file.code(op), inputs, outputs
        if options:
            made.builtinOptionsType = getattr(schema.BuiltinOptions, options)
            made.builtinOptions = getattr(schema, f"{options}T")()
            for name, value in fields.items():
                setattr(made.builtinOptions, name, value)
        self.operators.append(made)

    def _tensor(self, dtype: str, shape: Sequence[int], name: str = "", buffer: int = 0) -> Place:
        made, index = schema.TensorT(), len(self.tensors)
        made.name, made.type = name or f"{self.name}/{index}", getattr(schema.TensorType, KINDS[dtype])
        made.shape, made.buffer, made.hasRank = [int(n) for n in shape], buffer, True
        self.tensors.append(made)
        return Place(self, index, dtype, tuple(int(n) for n in shape))

    # variables ------------------------------------------------------------------------------------

    def read(self, name: str, dtype: str, shape: Sequence[int]) -> Place:
        """The content of a variable."""
        return self.add("READ_VARIABLE", [self._handle(name)], dtype, shape, options="ReadVariableOptions")

    def assign(self, name: str, value: Place) -> None:
        self.do("ASSIGN_VARIABLE", [self._handle(name), value], options="AssignVariableOptions")

    def _handle(self, name: str) -> Place:
        return self.add("VAR_HANDLE", [], "resource", (), options="VarHandleOptions", sharedName=name, container="")

    def once(self, start: int) -> None:
        """Run subgraph `start` before anything else, once in the life of an interpreter."""
        self.do("CALL_ONCE", options="CallOnceOptions", initSubgraphIndex=start)


@dataclass
class File:
    """All subgraphs of a file, and what they share."""

    sheets: list[Sheet] = field(default_factory=list)
    signatures: dict[str, Sheet] = field(default_factory=dict)
    metadata: dict[str, bytes] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)  # operator -> its number in this file
    buffers: list[bytes] = field(default_factory=lambda: [b""])  # the first one is always empty
    _known: dict[bytes, int] = field(default_factory=dict)

    def sheet(self, name: str, *, signature: bool = False) -> Sheet:
        made = Sheet(self, name)
        self.sheets.append(made)
        if signature:
            self.signatures[name] = made
        return made

    def buffer(self, array: np.ndarray) -> int:
        data = array.tobytes()
        if data not in self._known:
            self._known[data] = len(self.buffers)
            self.buffers.append(data)
        return self._known[data]

    def code(self, op: str) -> int:
        return self.codes.setdefault(op, len(self.codes))

    def written(self, description: str) -> bytes:
        """The file's bytes; the same file gives the same bytes."""
        model = schema.ModelT()
        model.version, model.description = 3, description
        model.operatorCodes = [_code(op) for op in self.codes]
        model.subgraphs = [_subgraph(sheet) for sheet in self.sheets]
        model.signatureDefs = [_signature(key, s, self.sheets.index(s)) for key, s in self.signatures.items()]
        model.metadata = [_metadata(name, len(self.buffers) + i) for i, name in enumerate(self.metadata)]
        model.buffers = [_buffer(data) for data in (*self.buffers, *self.metadata.values())]
        builder = flatbuffers.Builder(1 << 16)
        builder.Finish(model.Pack(builder), IDENTIFIER)
        return bytes(builder.Output())


def _code(op: str) -> schema.OperatorCodeT:
    made, number = schema.OperatorCodeT(), getattr(schema.BuiltinOperator, op)
    made.builtinCode, made.deprecatedBuiltinCode = number, min(number, 127)  # old readers know the second field only
    made.version = VERSIONS.get(op, 1)
    return made


def _subgraph(sheet: Sheet) -> schema.SubGraphT:
    made = schema.SubGraphT()
    made.name, made.tensors, made.operators = sheet.name, sheet.tensors, sheet.operators
    made.inputs = [v.index for v in sheet.inputs.values()]
    made.outputs = [v.index for v in sheet.outputs.values()]
    return made


def _signature(key: str, sheet: Sheet, index: int) -> schema.SignatureDefT:
    made = schema.SignatureDefT()
    made.signatureKey, made.subgraphIndex = key, index
    made.inputs, made.outputs = _map(sheet.inputs), _map(sheet.outputs)
    return made


def _map(values: Mapping[str, Place]) -> list[schema.TensorMapT]:
    found = []
    for name in sorted(values):
        made = schema.TensorMapT()
        made.name, made.tensorIndex = name, values[name].index
        found.append(made)
    return found


def _buffer(data: bytes) -> schema.BufferT:
    made: Any = schema.BufferT()  # its stub says that data are a list, but `Pack` is quick with an array
    made.data = np.frombuffer(data, np.uint8) if data else None
    return made


def _metadata(name: str, buffer: int) -> schema.MetadataT:
    made = schema.MetadataT()
    made.name, made.buffer = name, buffer
    return made
