"""A .tflite file in the making: tensors, operators, subgraphs and signatures, packed with flatbuffers alone.

    file = File("net")
    g = file.subgraph("main")
    x = g.tensor("x", (1, 4), "FLOAT32")                      # an index
    y = g.op("RELU", [x], g.tensor("y", (1, 4), "FLOAT32"))   # the index of its first output
    file.signature("serving_default", g, {"x": x}, {"y": y})
    data = file.data()

The same calls give the same bytes. Nothing here knows insitu's graphs or ops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

NUMPY = {
    "FLOAT32": np.float32, "INT32": np.int32, "INT64": np.int64, "INT8": np.int8, "UINT8": np.uint8, "BOOL": np.bool_,
    "INT16": np.int16,
}  # fmt: skip
OLDEST = "1.5.0"
ALIGNED = 16  # every constant starts at a multiple of this, as the schema asks

# operator -> its table of options, if it has one; those of OPTIONS2 are in the second union of the schema
OPTIONS = {
    "ABS": "AbsOptions", "ADD": "AddOptions", "ARG_MAX": "ArgMaxOptions", "AVERAGE_POOL_2D": "Pool2DOptions",
    "BATCH_MATMUL": "BatchMatMulOptions", "BITCAST": "BitcastOptions", "BITWISE_XOR": "BitwiseXorOptions",
    "CALL_ONCE": "CallOnceOptions", "CAST": "CastOptions", "CONCATENATION": "ConcatenationOptions",
    "CONV_2D": "Conv2DOptions", "CUMSUM": "CumsumOptions", "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions",
    "DEQUANTIZE": "DequantizeOptions", "DIV": "DivOptions", "EXP": "ExpOptions", "EXPAND_DIMS": "ExpandDimsOptions",
    "FULLY_CONNECTED": "FullyConnectedOptions", "GATHER": "GatherOptions", "GELU": "GeluOptions",
    "GREATER": "GreaterOptions", "GREATER_EQUAL": "GreaterEqualOptions", "HARD_SWISH": "HardSwishOptions",
    "LEAKY_RELU": "LeakyReluOptions", "LESS": "LessOptions", "LESS_EQUAL": "LessEqualOptions",
    "LOG_SOFTMAX": "LogSoftmaxOptions", "LOGICAL_AND": "LogicalAndOptions",
    "LOGICAL_NOT": "LogicalNotOptions", "LOGICAL_OR": "LogicalOrOptions", "RIGHT_SHIFT": "RightShiftOptions",
    "MAXIMUM": "MaximumMinimumOptions",
    "MAX_POOL_2D": "Pool2DOptions", "MEAN": "ReducerOptions", "MINIMUM": "MaximumMinimumOptions", "MUL": "MulOptions",
    "NEG": "NegOptions", "ONE_HOT": "OneHotOptions", "PAD": "PadOptions", "PADV2": "PadV2Options", "POW": "PowOptions",
    "QUANTIZE": "QuantizeOptions", "READ_VARIABLE": "ReadVariableOptions", "REDUCE_MAX": "ReducerOptions",
    "RESHAPE": "ReshapeOptions", "RESIZE_NEAREST_NEIGHBOR": "ResizeNearestNeighborOptions",
    "REVERSE_V2": "ReverseV2Options", "SELECT_V2": "SelectV2Options", "SLICE": "SliceOptions",
    "SOFTMAX": "SoftmaxOptions", "SPLIT_V": "SplitVOptions", "SQUARE": "SquareOptions",
    "STRIDED_SLICE": "StridedSliceOptions", "SUB": "SubOptions", "SUM": "ReducerOptions", "TILE": "TileOptions",
    "TRANSPOSE": "TransposeOptions", "TRANSPOSE_CONV": "TransposeConvOptions", "VAR_HANDLE": "VarHandleOptions",
    "ASSIGN_VARIABLE": "AssignVariableOptions", "BROADCAST_TO": "BroadcastToOptions",
    "RANDOM_UNIFORM": "RandomOptions", "EQUAL": "EqualOptions", "NOT_EQUAL": "NotEqualOptions",
}  # fmt: skip
OPTIONS2 = {"DILATE": "DilateOptions"}

# the first version of an operator that has what is used here, for int8 and for float tensors; 1 for all others
VERSIONS_S8 = {
    "ADD": 2, "AVERAGE_POOL_2D": 2, "BATCH_MATMUL": 2, "CONCATENATION": 2, "CONV_2D": 3, "DEPTHWISE_CONV_2D": 3,
    "DEQUANTIZE": 2, "FULLY_CONNECTED": 4, "GATHER": 2, "GELU": 2, "LEAKY_RELU": 2, "LOGISTIC": 2, "MAXIMUM": 2,
    "MAX_POOL_2D": 2, "MEAN": 2, "MINIMUM": 2, "MUL": 2, "PAD": 2, "PADV2": 2, "QUANTIZE": 2, "REDUCE_MAX": 2,
    "RELU": 2, "RELU6": 2, "RESIZE_NEAREST_NEIGHBOR": 3, "SLICE": 2, "SOFTMAX": 2, "SPLIT_V": 2, "STRIDED_SLICE": 2,
    "SUB": 2, "TANH": 2, "TRANSPOSE": 2,
}  # fmt: skip
VERSIONS = {
    "RESIZE_NEAREST_NEIGHBOR": 3,
    "TRANSPOSE_CONV": 3,
    "BROADCAST_TO": 2,
    "RESHAPE": 1,
    "DILATE": 1,
    "EXP": 1,
    "SQUARE": 1,
}
# operator and version -> the first release of the runtime that has it; those before 1.14 do not matter today
SINCE = {
    ("BATCH_MATMUL", 1): "2.3.0", ("BATCH_MATMUL", 2): "2.3.0", ("CUMSUM", 1): "2.4.0",
    ("DEPTHWISE_CONV_2D", 3): "1.14.0",
    ("CONV_2D", 3): "1.14.0", ("FULLY_CONNECTED", 4): "1.14.0", ("ADD", 2): "1.14.0", ("AVERAGE_POOL_2D", 2): "1.14.0",
    ("CONCATENATION", 2): "1.14.0", ("DEQUANTIZE", 2): "1.14.0", ("GATHER", 2): "1.14.0", ("GELU", 1): "2.9.0",
    ("GELU", 2): "2.9.0", ("HARD_SWISH", 1): "1.15.0", ("LEAKY_RELU", 2): "2.3.0", ("LOGISTIC", 2): "1.14.0",
    ("MAXIMUM", 2): "1.14.0", ("MINIMUM", 2): "1.14.0", ("MAX_POOL_2D", 2): "1.14.0", ("MEAN", 2): "1.14.0",
    ("MUL", 2): "1.14.0", ("PAD", 2): "1.14.0", ("PADV2", 2): "1.14.0", ("QUANTIZE", 1): "1.14.0",
    ("QUANTIZE", 2): "1.15.0", ("REDUCE_MAX", 2): "1.14.0", ("RELU", 2): "2.1.0", ("RELU6", 2): "1.14.0",
    ("RESIZE_NEAREST_NEIGHBOR", 3): "2.3.0", ("SLICE", 2): "1.14.0", ("SOFTMAX", 2): "1.14.0", ("SPLIT_V", 2): "2.3.0",
    ("STRIDED_SLICE", 2): "1.14.0", ("SUB", 2): "1.14.0", ("TANH", 2): "1.14.0", ("TRANSPOSE", 2): "1.14.0",
    ("TRANSPOSE_CONV", 3): "2.3.0", ("ELU", 1): "1.14.0", ("DILATE", 1): "2.15.0", ("ABS", 1): "1.13.0",
    ("SLICE", 1): "1.14.0", ("MAXIMUM", 1): "1.14.0", ("MINIMUM", 1): "1.14.0", ("TANH", 1): "1.14.0",
    ("LOGISTIC", 1): "1.14.0", ("LOG_SOFTMAX", 1): "1.14.0", ("LOG", 1): "1.14.0", ("PADV2", 1): "1.9.0",
    ("VAR_HANDLE", 1): "2.6.0", ("READ_VARIABLE", 1): "2.6.0", ("ASSIGN_VARIABLE", 1): "2.6.0",
    ("CALL_ONCE", 1): "2.5.0", ("RANDOM_UNIFORM", 1): "2.8.0", ("SELECT_V2", 1): "2.2.0",
}  # fmt: skip


class Builder(flatbuffers.Builder):
    """Aligns numpy vectors, which are the constants of a model, to 16 bytes."""

    def CreateNumpyVector(self, x):  # noqa: N802, the name is that of flatbuffers
        self.StartVector(x.itemsize, x.size, ALIGNED)
        payload = x.tobytes()
        self.head = self.head - len(payload)
        self.Bytes[self.head : self.head + len(payload)] = payload
        self.vectorNumElems = x.size
        return self.EndVector()


@dataclass
class File:
    """A model: constants and operator codes are shared by its subgraphs."""

    name: str
    model: Any = field(default_factory=schema.ModelT)

    def __post_init__(self):
        self.model.version, self.model.description = 3, self.name
        self.model.buffers, self.model.operatorCodes = [schema.BufferT()], []
        self.model.subgraphs, self.model.signatureDefs, self.model.metadata = [], [], []
        self._codes: dict[tuple[str, int], int] = {}
        self._buffers: dict[bytes, int] = {}

    def subgraph(self, name: str) -> Subgraph:
        made = schema.SubGraphT()
        made.name, made.tensors, made.operators, made.inputs, made.outputs = name, [], [], [], []
        self.model.subgraphs.append(made)
        return Subgraph(self, made, len(self.model.subgraphs) - 1)

    def signature(self, key: str, graph: Subgraph, inputs: Mapping[str, int], outputs: Mapping[str, int]) -> None:
        """Name the inputs and outputs of a subgraph; they become its interface, in this order."""
        made = schema.SignatureDefT()
        made.signatureKey, made.subgraphIndex = key, graph.index
        made.inputs = [_named(name, index) for name, index in inputs.items()]
        made.outputs = [_named(name, index) for name, index in outputs.items()]
        graph.made.inputs, graph.made.outputs = list(inputs.values()), list(outputs.values())
        self.model.signatureDefs.append(made)

    def metadata(self, name: str, data: bytes) -> None:
        made = schema.MetadataT()
        made.name, made.buffer = name, self.buffer(data, shared=False)
        self.model.metadata.append(made)

    def buffer(self, data: bytes, shared: bool = True) -> int:
        """The index of a buffer with these bytes; equal ones are stored once."""
        if shared and data in self._buffers:
            return self._buffers[data]
        made: Any = schema.BufferT()  # a numpy vector is written at once, a list byte by byte
        made.data = np.frombuffer(data, np.uint8)
        self.model.buffers.append(made)
        self._buffers[data] = len(self.model.buffers) - 1
        return self._buffers[data]

    def code(self, name: str, version: int) -> int:
        """The index of an operator's code."""
        if (name, version) not in self._codes:
            made = schema.OperatorCodeT()
            made.builtinCode = getattr(schema.BuiltinOperator, name)
            made.deprecatedBuiltinCode, made.version = min(made.builtinCode, 127), version
            self.model.operatorCodes.append(made)
            self._codes[name, version] = len(self.model.operatorCodes) - 1
        return self._codes[name, version]

    @property
    def min_runtime(self) -> str:
        """The oldest release of the runtime that has all operators."""
        found = [SINCE.get(code, OLDEST) for code in self._codes]
        return max(found, key=lambda words: tuple(map(int, words.split("."))), default=OLDEST)

    def data(self) -> bytes:
        builder = Builder(1024)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def _named(name: str, index: int):
    made = schema.TensorMapT()
    made.name, made.tensorIndex = name, index
    return made


@dataclass
class Subgraph:
    """Tensors and operators, in order. `made` is the schema's own object."""

    file: File
    made: Any
    index: int

    def tensor(self, name: str, shape: Sequence[int], kind: str = "FLOAT32", *, scale: Sequence[float] = (),
               zero: int = 0, axis: int = 0) -> int:  # fmt: skip
        """A tensor that is fed or computed."""
        t = schema.TensorT()
        t.name, t.shape, t.type, t.hasRank = name, [int(d) for d in shape], getattr(schema.TensorType, kind), True
        if len(scale):
            q = schema.QuantizationParametersT()
            q.scale, q.zeroPoint = [float(np.float32(s)) for s in scale], [int(zero)] * len(scale)
            q.quantizedDimension = axis
            t.quantization = q
        self.made.tensors.append(t)
        return len(self.made.tensors) - 1

    def constant(self, name: str, array: np.ndarray, kind: str | None = None, **numerics) -> int:
        """A constant tensor; its type is that of the array."""
        array = np.asarray(array, order="C")
        kind = kind or next(word for word, dtype in NUMPY.items() if array.dtype == dtype)
        made = self.tensor(name, array.shape, kind, **numerics)
        self.made.tensors[made].buffer = self.file.buffer(array.tobytes())
        return made

    def ints(self, *numbers: int) -> int:
        """A constant list of int32: a shape, axes, paddings."""
        return self.constant("", np.array(numbers, np.int32))

    def op(self, name: str, inputs: Sequence[int], *outputs: int, version: int | None = None, **options) -> int:
        """Append an operator; options have the schema's names. Returns its first output, -1 if it has none."""
        made = schema.OperatorT()
        made.opcodeIndex = self.file.code(name, version or self._version(name, [*inputs, *outputs]))
        made.inputs, made.outputs = list(inputs), list(outputs)
        table = OPTIONS.get(name) or OPTIONS2.get(name)
        if table:
            given = getattr(schema, f"{table}T")()
            for key, value in options.items():
                if not hasattr(given, key):
                    raise AttributeError(f"{name} has no option {key}")
                setattr(given, key, value)
            if name in OPTIONS:
                made.builtinOptionsType, made.builtinOptions = getattr(schema.BuiltinOptions, table), given
            else:
                made.builtinOptions2Type, made.builtinOptions2 = getattr(schema.BuiltinOptions2, table), given
        self.made.operators.append(made)
        return outputs[0] if outputs else -1

    def _version(self, name: str, tensors: Sequence[int]) -> int:
        int8 = any(self.made.tensors[i].type == schema.TensorType.INT8 for i in tensors if i >= 0)
        return max(VERSIONS.get(name, 1), VERSIONS_S8.get(name, 1) if int8 else 1)
