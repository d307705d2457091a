"""The subgraphs of a LiteRT file that trains: inputs, outputs, operators, constants and variables by name.

How tensors, operators and signatures are stored is in litert/file.py. Nothing here knows what an operator computes:
tensor.py has arithmetic, and the tables of operators stand beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from insitu.exporters.litert import file as litert

KINDS = {  # dtype -> LiteRT's name
    "f32": "FLOAT32", "s32": "INT32", "u32": "UINT32", "s64": "INT64", "b1": "BOOL", "u8": "UINT8", "s8": "INT8",
    "resource": "RESOURCE",
}  # fmt: skip
DTYPES = {"float32": "f32", "int32": "s32", "uint32": "u32", "int64": "s64", "bool": "b1", "uint8": "u8", "int8": "s8"}


@dataclass(frozen=True, eq=False)
class Place:
    """A tensor of a subgraph: its number there, its element type and its shape."""

    sheet: Sheet
    index: int
    dtype: str
    shape: tuple[int, ...]


class Sheet:
    """One subgraph. `add` appends an operator and returns what it computes."""

    def __init__(self, graph: litert.Subgraph, name: str):
        self.graph, self.name = graph, name
        self.inputs: dict[str, Place] = {}
        self.outputs: dict[str, Place] = {}
        self._constants: dict[tuple[bytes, str, tuple[int, ...]], Place] = {}

    def input(self, name: str, dtype: str, shape: Sequence[int]) -> Place:
        self.inputs[name] = made = self._tensor(dtype, shape, name)
        return made

    def output(self, name: str, value: Place) -> None:
        self.outputs[name] = value

    def constant(self, array: np.ndarray) -> Place:
        """A constant; equal ones are stored once in the file."""
        dtype, key = DTYPES[array.dtype.name], (array.tobytes(), array.dtype.name, array.shape)
        if key not in self._constants:
            index = self.graph.constant(self._next, array, KINDS[dtype])
            self._constants[key] = Place(self, index, dtype, array.shape)
        return self._constants[key]

    def add(self, op: str, inputs: Sequence[Place], dtype: str, shape: Sequence[int], **options) -> Place:
        """Append an operator with one output of this type."""
        made = self._tensor(dtype, shape)
        self.graph.op(op, [v.index for v in inputs], made.index, **options)
        return made

    def do(self, op: str, inputs: Sequence[Place] = (), **options) -> None:
        """Append an operator that gives nothing."""
        self.graph.op(op, [v.index for v in inputs], **options)

    def _tensor(self, dtype: str, shape: Sequence[int], name: str = "") -> Place:
        index = self.graph.tensor(name or self._next, shape, KINDS[dtype])
        return Place(self, index, dtype, tuple(int(n) for n in shape))

    @property
    def _next(self) -> str:
        """A name for the next tensor."""
        return f"{self.name}/{len(self.graph.made.tensors)}"

    # variables ------------------------------------------------------------------------------------

    def read(self, name: str, dtype: str, shape: Sequence[int]) -> Place:
        """The content of a variable."""
        return self.add("READ_VARIABLE", [self._handle(name)], dtype, shape)

    def assign(self, name: str, value: Place) -> None:
        self.do("ASSIGN_VARIABLE", [self._handle(name), value])

    def _handle(self, name: str) -> Place:
        return self.add("VAR_HANDLE", [], "resource", (), sharedName=name, container="")

    def once(self, start: int) -> None:
        """Run subgraph `start` before anything else, once in the life of an interpreter."""
        self.do("CALL_ONCE", initSubgraphIndex=start)


@dataclass
class File:
    """All subgraphs of a file, and what they share."""

    file: litert.File = field(default_factory=lambda: litert.File(""))
    metadata: dict[str, bytes] = field(default_factory=dict)
    _signatures: dict[str, Sheet] = field(default_factory=dict)

    def sheet(self, name: str, *, signature: bool = False) -> Sheet:
        made = Sheet(self.file.subgraph(name), name)
        if signature:
            self._signatures[name] = made
        return made

    def written(self, description: str) -> bytes:
        """The file's bytes; the same file gives the same bytes."""
        self.file.model.description = description
        for key, sheet in self._signatures.items():
            inputs, outputs = ({name: v.index for name, v in kept.items()} for kept in (sheet.inputs, sheet.outputs))
            self.file.signature(key, sheet.graph, inputs, outputs)
        for name, content in self.metadata.items():
            self.file.metadata(name, content)
        return self.file.data()
