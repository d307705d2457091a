"""A .tflite file as frozen dataclasses: its contents, checked for form but not yet for meaning.

Needs neither LiteRT nor a generated schema: the slots of the few relevant tables are data below. Indices (of tensors,
buffers, operator codes) are checked here, so that readers of the dataclasses may use them. Constants stay views of the
file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from insitu.errors import ModelError
from insitu.importers.tflite.flatbuffer import Table, root

MAX_ENTRIES = 1 << 16  # tensors, operators, buffers of one model
MAX_RANK = 8

_TYPES = (
    "FLOAT32 FLOAT16 INT32 UINT8 INT64 STRING BOOL INT16 COMPLEX64 INT8 FLOAT64 COMPLEX128 UINT64 RESOURCE VARIANT "
    "UINT32 UINT16 INT4 BFLOAT16 INT2 UINT4 FLOAT8_E4M3FN FLOAT8_E5M2"
)
TENSOR_TYPES = tuple(_TYPES.split())
ACTIVATIONS = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT")
PADDINGS = ("SAME", "VALID")

# the builtin operators in the order of their codes
_CODES = (
    "ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE EMBEDDING_LOOKUP FLOOR "
    "FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION LOGISTIC LSH_PROJECTION "
    "LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH SVDF TANH "
    "CONCAT_EMBEDDINGS SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN GATHER "
    "BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE "
    "BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM "
    "ARG_MAX MINIMUM LESS NEG PADV2 GREATER GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE "
    "TILE EXPAND_DIMS EQUAL NOT_EQUAL LOG SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK "
    "LOGICAL_OR ONE_HOT LOGICAL_AND LOGICAL_NOT UNPACK REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL "
    "FLOOR_MOD RANGE RESIZE_NEAREST_NEIGHBOR LEAKY_RELU SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL "
    "REVERSE_V2 ADD_N GATHER_ND COS WHERE RANK ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND "
    "HARD_SWISH IF WHILE NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM "
    "BATCH_MATMUL PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D IMAG REAL COMPLEX_ABS "
    "HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL CONV_3D_TRANSPOSE VAR_HANDLE READ_VARIABLE "
    "ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE RANDOM_UNIFORM MULTINOMIAL GELU "
    "DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_SUM ATAN2 "
    "UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR RIGHT_SHIFT"
)
OPERATORS = tuple(_CODES.split())

_ACTIVATION = {"activation": (0, "s8", 0)}
# operator -> (member of the options union, {field: (slot, kind, default)})
_POOL = (5, {"padding": (0, "s8", 0), "stride_w": (1, "s32", 0), "stride_h": (2, "s32", 0), "filter_w": (3, "s32", 0),
             "filter_h": (4, "s32", 0), "activation": (5, "s8", 0)})  # fmt: skip
_REDUCE = (27, {"keepdims": (0, "bool", False)})
OPTIONS: dict[str, tuple[int, dict[str, tuple]]] = {
    "CONV_2D": (1, {"padding": (0, "s8", 0), "stride_w": (1, "s32", 0), "stride_h": (2, "s32", 0),
                    "activation": (3, "s8", 0), "dilation_w": (4, "s32", 1), "dilation_h": (5, "s32", 1)}),
    "DEPTHWISE_CONV_2D": (2, {"padding": (0, "s8", 0), "stride_w": (1, "s32", 0), "stride_h": (2, "s32", 0),
                              "multiplier": (3, "s32", 0), "activation": (4, "s8", 0),
                              "dilation_w": (5, "s32", 1), "dilation_h": (6, "s32", 1)}),
    "TRANSPOSE_CONV": (49, {"padding": (0, "s8", 0), "stride_w": (1, "s32", 0), "stride_h": (2, "s32", 0),
                            "activation": (3, "s8", 0)}),
    "FULLY_CONNECTED": (8, {"activation": (0, "s8", 0), "weights_format": (1, "s8", 0),
                            "keepdims": (2, "bool", False)}),
    "AVERAGE_POOL_2D": _POOL, "MAX_POOL_2D": _POOL,
    "MEAN": _REDUCE, "SUM": _REDUCE, "REDUCE_MAX": _REDUCE,
    "ADD": (11, _ACTIVATION), "SUB": (28, _ACTIVATION), "MUL": (21, _ACTIVATION), "DIV": (29, _ACTIVATION),
    "SOFTMAX": (9, {"beta": (0, "f32", 0.0)}),
    "LEAKY_RELU": (75, {"alpha": (0, "f32", 0.0)}),
    "GELU": (116, {"approximate": (0, "bool", False)}),
    "RESHAPE": (17, {"shape": (0, "[s32]", ())}),
    "SQUEEZE": (30, {"axes": (0, "[s32]", ())}),
    "CONCATENATION": (10, {"axis": (0, "s32", 0), "activation": (1, "s8", 0)}),
    "STRIDED_SLICE": (32, {"begin_mask": (0, "s32", 0), "end_mask": (1, "s32", 0), "ellipsis_mask": (2, "s32", 0),
                           "new_axis_mask": (3, "s32", 0), "shrink_mask": (4, "s32", 0), "offset": (5, "bool", False)}),
    "PACK": (59, {"count": (0, "s32", 0), "axis": (1, "s32", 0)}),
    "RESIZE_NEAREST_NEIGHBOR": (74, {"align_corners": (0, "bool", False), "half_pixel": (1, "bool", False)}),
    "GATHER": (23, {"axis": (0, "s32", 0), "batch_dims": (1, "s32", 0)}),
    "BATCH_MATMUL": (101, {"adj_x": (0, "bool", False), "adj_y": (1, "bool", False)}),
}  # fmt: skip
_NAMED = {"padding": PADDINGS, "activation": ACTIVATIONS}


@dataclass(frozen=True)
class Tensor:
    index: int
    name: str
    type: str  # one of TENSOR_TYPES
    shape: tuple[int, ...]
    signature: tuple[int, ...]  # the shape, with -1 for dimensions that are not fixed
    buffer: int
    scale: tuple[float, ...]  # empty if it is not quantised
    zero: tuple[int, ...]
    axis: int
    variable: bool
    sparse: bool
    unsigned: bool = False  # uint8 in the file, and 128 lower here (unsigned.py)

    @property
    def where(self) -> str:
        return f"tensor {self.index} ({self.name})"


@dataclass(frozen=True)
class Operator:
    name: str  # CONV_2D, or CUSTOM:name
    inputs: tuple[int, ...]  # -1 for an omitted optional input
    outputs: tuple[int, ...]  # empty for operators on variables only: CALL_ONCE, ASSIGN_VARIABLE
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Subgraph:
    name: str
    tensors: tuple[Tensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[Operator, ...]


@dataclass(frozen=True)
class Signature:
    key: str
    subgraph: int
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class Model:
    description: str
    subgraphs: tuple[Subgraph, ...]
    signatures: tuple[Signature, ...]
    buffers: tuple[np.ndarray | None, ...]  # bytes, as views of the file
    metadata: Mapping[str, int]  # name -> its buffer


def read_model(data: bytes) -> Model:
    """Everything the importer needs from the bytes of a .tflite file."""
    table = root(data, b"TFL3")
    version = table.scalar(0, "u32")
    if version != 3:
        raise ModelError(f"has schema version {version}; only 3 is supported")
    buffers = tuple(_buffer(t, data) for t in table.tables(4, "buffers", MAX_ENTRIES))
    codes = [_code(t) for t in table.tables(1, "operator_codes", MAX_ENTRIES)]
    subgraphs = tuple(_subgraph(t, codes, len(buffers)) for t in table.tables(2, "subgraphs", 256))
    if not subgraphs:
        raise ModelError("has no subgraph")
    signatures = tuple(_signature(t) for t in table.tables(7, "signature_defs", 256))
    metadata = {m.string(0, "name"): m.scalar(1, "u32") for m in table.tables(6, "metadata", MAX_ENTRIES)}
    return Model(table.string(3, "description"), subgraphs, signatures, buffers, metadata)


def _buffer(t: Table, data: bytes) -> np.ndarray | None:
    """The bytes of a buffer: inside the flatbuffer or, in large files, after it."""
    inside = t.array(0, "u8", "data")
    offset, size = t.scalar(1, "u64"), t.scalar(2, "u64")
    if inside is not None and inside.size:
        return inside
    if offset > 1:
        return np.frombuffer(data, np.uint8, size, t.buffer.take(offset, size, t.where))
    return None


def _code(t: Table) -> str:
    """The name of an operator. Codes below 127 are in the old one-byte field, larger ones in the new field."""
    code = max(t.scalar(0, "s8"), t.scalar(3, "s32"))
    if not 0 <= code < len(OPERATORS):
        return f"operator code {code}"
    return f"CUSTOM:{t.string(1, 'custom_code')}" if OPERATORS[code] == "CUSTOM" else OPERATORS[code]


def _subgraph(t: Table, codes: list[str], buffers: int) -> Subgraph:
    tensors = tuple(_tensor(x, i, buffers) for i, x in enumerate(t.tables(0, "tensors", MAX_ENTRIES)))
    operators = tuple(_operator(x, codes, len(tensors)) for x in t.tables(3, "operators", MAX_ENTRIES))
    inputs, outputs = (_indices(t, slot, name, len(tensors)) for slot, name in ((1, "inputs"), (2, "outputs")))
    return Subgraph(t.string(4, "name"), tensors, inputs, outputs, operators)


def _tensor(t: Table, index: int, buffers: int) -> Tensor:
    shape = t.numbers(0, "s32", "shape") or ()
    signature = t.numbers(7, "s32", "shape_signature") or shape
    if len(shape) > MAX_RANK or len(signature) != len(shape):
        raise ModelError(f"has {len(shape)} dimensions, but a signature of {len(signature)}", where=t.where)
    code, buffer = t.scalar(1, "s8"), t.scalar(2, "u32")
    if not 0 <= code < len(TENSOR_TYPES):
        raise ModelError(f"has the unknown element type {code}", where=t.where)
    if buffer >= buffers:
        raise ModelError(f"refers to buffer {buffer} of {buffers}", where=t.where)
    scale, zero, axis = _quantization(t)
    variable, sparse = bool(t.scalar(5, "bool", False)), t.table(6, "sparsity") is not None
    name = t.string(3, "name")
    return Tensor(index, name, TENSOR_TYPES[code], shape, signature, buffer, scale, zero, axis, variable, sparse)


def _quantization(t: Table) -> tuple[tuple[float, ...], tuple[int, ...], int]:
    q = t.table(4, "quantization")
    if q is None:
        return (), (), 0
    scale, zero = q.numbers(2, "f32", "scale") or (), q.numbers(3, "s64", "zero_point") or ()
    if q.scalar(4, "u8") != 0:
        raise ModelError("custom quantisation is not supported", where=t.where)
    if len(zero) not in (0, 1, len(scale)):
        raise ModelError(f"has {len(scale)} scales, but {len(zero)} zero points", where=t.where)
    return scale, zero, q.scalar(6, "s32")


def _operator(t: Table, codes: list[str], tensors: int) -> Operator:
    code = t.scalar(0, "u32")
    if code >= len(codes):
        raise ModelError(f"refers to operator code {code} of {len(codes)}", where=t.where)
    inputs = _indices(t, 1, "inputs", tensors, optional=True)
    outputs = _indices(t, 2, "outputs", tensors)
    return Operator(codes[code], inputs, outputs, _options(t, codes[code]))


def _options(t: Table, name: str) -> dict[str, Any]:
    if name not in OPTIONS:
        return {}
    member, fields = OPTIONS[name]
    found = t.scalar(3, "u8")
    if found not in (0, member):
        raise ModelError(f"{name} carries the options of another operator", where=t.where)
    table = t.table(4, "builtin_options") if found else None
    return {key: _option(table, key, *how) for key, how in fields.items()}


def _option(table: Table | None, key: str, slot: int, kind: str, default) -> Any:
    value: Any
    if table is None:
        value = default
    elif kind == "[s32]":
        value = table.numbers(slot, "s32", key) or default
    else:
        value = table.scalar(slot, kind, default)
    if key not in _NAMED:
        return value
    if not 0 <= value < len(_NAMED[key]):
        raise ModelError(f"unknown {key} {value}", where=table.where if table else "")
    return _NAMED[key][value]


def _indices(t: Table, slot: int, name: str, count: int, optional: bool = False) -> tuple[int, ...]:
    found = t.numbers(slot, "s32", name) or ()
    for i in found:
        if not (0 <= i < count or (optional and i == -1)):
            raise ModelError(f"refers to tensor {i} of {count}", where=f"{t.where}.{name}")
    return found


def _signature(t: Table) -> Signature:
    inputs, outputs = (
        {m.string(0, "name"): m.scalar(1, "u32") for m in t.tables(slot, name, 1024)}
        for slot, name in ((0, "inputs"), (1, "outputs"))
    )
    return Signature(t.string(2, "signature_key"), t.scalar(4, "u32"), inputs, outputs)
