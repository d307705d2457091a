"""Read an ONNX file into plain records: nodes, arrays, inputs, outputs. Nothing here knows our ops.

The file may be broken or hostile. Every size is checked before anything is allocated, external data are read only from
the file's own folder, and anything wrong raises a `ModelError`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from insitu.errors import DataError, ModelError, Unsupported, needs
from insitu.graph import Graph
from insitu.graph.classes import checked
from insitu.importers.onnx.carried import carried_graph

MAX_FILE_BYTES = 1 << 30
MAX_NODES = 20_000
MAX_NAMES = 1 << 20  # characters of class names
MAX_ELEMENTS = 1 << 28  # in one array
MAX_RANK = 16
DOMAINS = ("", "ai.onnx")
OPSETS = range(7, 27)  # tested; a newer one is tried, with a note

# ONNX element type -> numpy; the others (strings, 4-bit, complex) are not supported
ELEMENTS = {
    1: np.float32, 2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16, 6: np.int32, 7: np.int64, 9: np.bool_,
    10: np.float16, 11: np.float64, 12: np.uint32, 13: np.uint64,
}  # fmt: skip
# the field of a TensorProto that holds the elements if raw_data does not
FIELDS = {1: "float_data", 7: "int64_data", 11: "double_data", 12: "uint64_data", 13: "uint64_data"}


@dataclass(frozen=True)
class Input:
    name: str
    element: int
    dims: tuple[int | str | None, ...] | None  # a number, the name of a dynamic dimension, or None


@dataclass(frozen=True, eq=False)
class Record:
    """One node of the file."""

    type: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any]
    domain: str = ""

    @property
    def label(self) -> str:
        """The name of this node in errors: its op, and its own name or that of its output."""
        given = self.name or next((o for o in self.outputs if o), "")
        return f"{self.type} {given}".strip()


@dataclass(frozen=True, eq=False)
class OnnxModel:
    name: str
    opset: int
    inputs: tuple[Input, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Record, ...]
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    carried: Graph | None = None  # the graph that insitu wrote the file from, if that is known
    classes: tuple[str, ...] = ()  # names that the file carries in its property `classes`, a JSON list


def read_model(source) -> OnnxModel:
    """From a path, the bytes of a file, or an `onnx.ModelProto`."""
    proto, folder = _parse(source)
    graph = proto.graph
    _check_proto(proto)
    initializers = {t.name: _array(t, folder, f"tensor {t.name}") for t in graph.initializer}
    return OnnxModel(
        name=graph.name or "onnx",
        opset=_opset(proto),
        inputs=tuple(_input(v) for v in graph.input if v.name not in initializers),
        outputs=tuple(v.name for v in graph.output),
        nodes=tuple(_record(n, folder) for n in graph.node),
        arrays=initializers,
        carried=carried_graph(proto, initializers),
        classes=_classes(proto),
    )


def _classes(proto) -> tuple[str, ...]:
    """The names of classes; a property of another form, or with names that are no names, gives none."""
    text = next((p.value for p in proto.metadata_props if p.key == "classes"), "")
    try:
        found = json.loads(text[:MAX_NAMES]) if text else []
        return checked(found) if isinstance(found, list) else ()
    except (ValueError, RecursionError, DataError):
        return ()


def _onnx():
    try:
        import onnx
    except ImportError:
        raise needs("onnx", "onnx", "reading an .onnx file") from None
    return onnx


def _parse(source):
    """The protobuf message, and the folder that may hold external data (None: no folder)."""
    onnx = _onnx()
    if isinstance(source, onnx.ModelProto):
        return source, None
    if isinstance(source, bytes | bytearray | memoryview):
        return _decode(onnx, bytes(source), "onnx bytes"), None
    path = Path(source)
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise ModelError(f"the file has {size:,} bytes, more than {MAX_FILE_BYTES:,}", where=str(path))
        data = path.read_bytes()
    except OSError as e:
        raise ModelError(f"cannot be read: {e.strerror or e}", where=str(path)) from e
    return _decode(onnx, data, str(path)), path.parent


def _decode(onnx, data: bytes, where: str):
    from google.protobuf.message import DecodeError

    if len(data) > MAX_FILE_BYTES:
        raise ModelError(f"{len(data):,} bytes, over {MAX_FILE_BYTES:,}", where=where)
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except (DecodeError, RuntimeError, ValueError) as e:
        raise ModelError("is not an ONNX file, or is damaged", where=where, hint="export it again") from e
    return proto


def _check_proto(proto) -> None:
    graph = proto.graph
    if not graph.node and not graph.output:
        raise ModelError("contains no graph", where="onnx", hint="check that this is an ONNX model")
    if len(graph.node) > MAX_NODES:
        raise ModelError(f"{len(graph.node):,} nodes, over {MAX_NODES:,}", where="onnx")
    if not graph.output:
        raise ModelError("the graph has no output", where="onnx")
    if len(proto.functions):
        hint = "onnx.inliner.inline_local_functions(model) inlines them"
        raise Unsupported("the model defines functions of its own", where=proto.functions[0].name, hint=hint)
    if len(graph.sparse_initializer):
        raise Unsupported("sparse tensors are not read", where="onnx", hint="store the weights as dense tensors")


def _opset(proto) -> int:
    versions = [o.version for o in proto.opset_import if o.domain in DOMAINS]
    version = max(versions, default=1)
    if version < OPSETS.start:
        hint = f"onnx.version_converter.convert_version(model, {OPSETS.start + 6})"
        raise Unsupported(f"opset {version} is older than {OPSETS.start}", where="onnx", hint=hint)
    return version


def _input(info) -> Input:
    kind = info.type.WhichOneof("value")
    if kind != "tensor_type":
        raise Unsupported(f"is a {kind or 'value without a type'}, not a tensor", where=f"input {info.name}")
    tensor = info.type.tensor_type
    dims = tuple(_dim(d) for d in tensor.shape.dim) if tensor.HasField("shape") else None
    return Input(info.name, tensor.elem_type, dims)


def _dim(d) -> int | str | None:
    kind = d.WhichOneof("value")
    return d.dim_value if kind == "dim_value" else (d.dim_param or None) if kind == "dim_param" else None


def _record(node, folder) -> Record:
    record = Record(node.op_type, node.name, tuple(node.input), tuple(node.output), {}, node.domain)
    attrs = {a.name: _attribute(a, folder, record.label) for a in node.attribute}
    return Record(record.type, record.name, record.inputs, record.outputs, attrs, record.domain)


def _attribute(a, folder, where: str):
    """A plain value: float, int, str, array or tuple; None for subgraphs and the like, which no supported op has."""
    readers = {
        1: lambda: plain_float(a.f),
        2: lambda: int(a.i),
        3: lambda: a.s.decode("utf-8", "replace"),
        4: lambda: _array(a.t, folder, where),
        6: lambda: tuple(plain_float(f) for f in a.floats),
        7: lambda: tuple(int(i) for i in a.ints),
        8: lambda: tuple(s.decode("utf-8", "replace") for s in a.strings),
    }
    return readers[a.type]() if a.type in readers else None


def plain_float(value: float) -> float:
    """ONNX stores 32 bits: 9.999999747378752e-06 was written as 1e-05, and means 1e-05."""
    with np.errstate(over="ignore"):
        return float(str(np.float32(value)))


def _array(tensor, folder, where: str) -> np.ndarray:
    """The elements of a TensorProto, once its declared sizes match its data."""
    dtype = ELEMENTS.get(tensor.data_type)
    if dtype is None:
        raise Unsupported(f"elements of ONNX type {element_name(tensor.data_type)} are not supported", where=where)
    shape = tuple(int(d) for d in tensor.dims)
    if len(shape) > MAX_RANK or any(d < 0 for d in shape) or prod(shape) > MAX_ELEMENTS:
        raise ModelError(f"the shape {_short(shape)} is not possible", where=where)
    wanted = prod(shape) * np.dtype(dtype).itemsize
    if tensor.data_location == 1:
        raw = _external(tensor, folder, wanted, where)
    elif tensor.HasField("raw_data"):
        raw = tensor.raw_data
    else:
        return _typed(tensor, np.dtype(dtype), shape, where)
    if len(raw) != wanted:
        raise ModelError(f"has {len(raw):,} bytes of data, but its shape {_short(shape)} needs {wanted:,}", where=where)
    little = np.dtype(dtype).newbyteorder("<")
    return np.frombuffer(raw, little).reshape(shape).astype(dtype)


def _typed(tensor, dtype: np.dtype, shape, where: str) -> np.ndarray:
    values = getattr(tensor, FIELDS.get(tensor.data_type, "int32_data"))
    if len(values) != prod(shape):
        raise ModelError(f"{len(values):,} elements do not fit the shape {_short(shape)}", where=where)
    if dtype == np.float16:  # each stored as its 16 bits in an int32
        return np.array(values, np.int64).astype(np.uint16).view(np.float16).reshape(shape)
    return np.array(values).astype(dtype).reshape(shape)


def _external(tensor, folder, wanted: int, where: str) -> bytes:
    """External data: a plain file name in the model's own folder, never a path that leads out of it."""
    entries = {e.key: e.value for e in tensor.external_data}
    if folder is None:
        raise ModelError("its data are in another file", where=where, hint="give the model's path, not its bytes")
    root = Path(folder).resolve()
    try:
        path = (root / entries.get("location", "")).resolve()
        offset = int(entries.get("offset", 0))
        length = int(entries.get("length", wanted))
        if not path.is_relative_to(root) or not path.is_file():
            raise ModelError(f"its data file {entries.get('location', '')!r} is not beside the model", where=where)
        if length != wanted or offset < 0 or offset + wanted > path.stat().st_size:
            raise ModelError(f"its data file does not have {wanted:,} bytes at offset {offset:,}", where=where)
        with path.open("rb") as f:
            f.seek(offset)
            return f.read(wanted)
    except (OSError, ValueError) as e:
        raise ModelError(f"its data file cannot be read: {e}", where=where) from e


def element_name(element: int) -> str:
    onnx = _onnx()
    try:
        return onnx.TensorProto.DataType.Name(element)
    except ValueError:
        return str(element)


def _short(shape) -> str:
    return "x".join(map(str, shape[:8])) + ("..." if len(shape) > 8 else "")
