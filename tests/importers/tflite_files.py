"""Small .tflite files made in the test: one operator each, through LiteRT's own object API."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

TYPES = {np.dtype(np.float32): 0, np.dtype(np.float16): 1, np.dtype(np.int32): 2, np.dtype(np.uint8): 3,
         np.dtype(np.int64): 4, np.dtype(np.int16): 7, np.dtype(np.int8): 9}  # fmt: skip


@dataclass
class T:
    """A tensor of the file: computed or fed if it has a shape, constant if it has data."""

    shape: tuple = ()
    dtype: type = np.float32
    scale: tuple | float = ()
    zero: int = 0
    axis: int = 0
    data: np.ndarray | None = None
    signature: tuple | None = None
    name: str = ""


def const(array, scale=(), zero=0, axis=0) -> T:
    array = np.asarray(array)
    return T(array.shape, array.dtype.type, scale, zero, axis, array)


def ints(*numbers) -> T:
    return const(np.array(numbers, np.int32))


@dataclass
class File:
    """Operators over tensors; `op` appends one and returns the index of its (first) output, -1 if it has none."""

    tensors: list[T] = field(default_factory=list)
    operators: list[tuple] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    others: list[File] = field(default_factory=list)  # further subgraphs

    def tensor(self, t: T) -> int:
        self.tensors.append(t)
        return len(self.tensors) - 1

    def op(self, name: str, inputs: list[int], *results: T, **options) -> int:
        outputs = [self.tensor(t) for t in results]
        self.operators.append((name, inputs, outputs, options))
        return outputs[0] if outputs else -1

    def bytes(self) -> bytes:
        import flatbuffers
        from ai_edge_litert import schema_py_generated as schema

        model = schema.ModelT()
        model.version, model.description = 3, "test"
        model.buffers = [schema.BufferT()]
        model.operatorCodes = []
        model.subgraphs = [file._subgraph(schema, model) for file in (self, *self.others)]
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def _subgraph(self, schema, model):
        graph = schema.SubGraphT()
        graph.tensors = [_tensor(schema, model, i, t) for i, t in enumerate(self.tensors)]
        graph.inputs, graph.outputs = self.inputs, self.outputs
        graph.operators = [_operator(schema, model, *o) for o in self.operators]
        return graph


def one(name: str, inputs: list[T | None], *results: T, **options) -> bytes:
    """A file of one operator; inputs without data are fed, None is an omitted optional one."""
    file = File()
    indices = [-1 if t is None else file.tensor(t) for t in inputs]
    file.inputs = [i for i, t in zip(indices, inputs) if t is not None and t.data is None]
    file.op(name, indices, *results, **options)
    file.outputs = file.operators[0][2]
    return file.bytes()


def _tensor(schema, model, index: int, t: T):
    made = schema.TensorT()
    made.name, made.shape, made.type = t.name or f"t{index}", list(t.shape), TYPES[np.dtype(t.dtype)]
    made.shapeSignature = list(t.signature) if t.signature else None
    made.buffer = 0
    if t.data is not None:
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(np.ascontiguousarray(t.data).tobytes(), np.uint8)
        model.buffers.append(buffer)
        made.buffer = len(model.buffers) - 1
    scales = np.atleast_1d(np.asarray(t.scale, np.float32))
    if scales.size:
        made.quantization = schema.QuantizationParametersT()
        made.quantization.scale = scales.tolist()
        made.quantization.zeroPoint = [t.zero] * scales.size
        made.quantization.quantizedDimension = t.axis
    return made


def _operator(schema, model, name: str, inputs, outputs, options):
    made = schema.OperatorT()
    code = schema.OperatorCodeT()
    code.builtinCode = getattr(schema.BuiltinOperator, name)
    code.deprecatedBuiltinCode = min(code.builtinCode, 127)
    code.version = VERSIONS.get(name, 1)
    model.operatorCodes.append(code)
    made.opcodeIndex, made.inputs, made.outputs = len(model.operatorCodes) - 1, inputs, outputs
    kind = OPTIONS.get(name)
    if kind:
        made.builtinOptionsType = getattr(schema.BuiltinOptions, kind)
        made.builtinOptions = getattr(schema, kind + "T")()
        for key, value in options.items():
            setattr(made.builtinOptions, key, value)
    return made


VERSIONS = {"FULLY_CONNECTED": 4, "CONV_2D": 3, "DEPTHWISE_CONV_2D": 3, "RESHAPE": 1}
_BY_TYPE = {
    "Conv2DOptions": "CONV_2D", "DepthwiseConv2DOptions": "DEPTHWISE_CONV_2D", "TransposeConvOptions": "TRANSPOSE_CONV",
    "FullyConnectedOptions": "FULLY_CONNECTED", "Pool2DOptions": "AVERAGE_POOL_2D MAX_POOL_2D",
    "ReducerOptions": "MEAN SUM REDUCE_MAX", "AddOptions": "ADD", "SubOptions": "SUB", "MulOptions": "MUL",
    "DivOptions": "DIV", "SoftmaxOptions": "SOFTMAX", "LeakyReluOptions": "LEAKY_RELU", "GeluOptions": "GELU",
    "ReshapeOptions": "RESHAPE", "SqueezeOptions": "SQUEEZE", "ConcatenationOptions": "CONCATENATION",
    "StridedSliceOptions": "STRIDED_SLICE", "PackOptions": "PACK", "SplitOptions": "SPLIT", "SplitVOptions": "SPLIT_V",
    "ResizeNearestNeighborOptions": "RESIZE_NEAREST_NEIGHBOR", "BatchMatMulOptions": "BATCH_MATMUL",
    "LogSoftmaxOptions": "LOG_SOFTMAX", "ShapeOptions": "SHAPE", "TransposeOptions": "TRANSPOSE", "PadOptions": "PAD",
    "PadV2Options": "PADV2", "MaximumMinimumOptions": "MAXIMUM MINIMUM", "ExpandDimsOptions": "EXPAND_DIMS",
    "SliceOptions": "SLICE", "HardSwishOptions": "HARD_SWISH", "ExpOptions": "EXP", "NegOptions": "NEG",
    "AbsOptions": "ABS", "SquareOptions": "SQUARE", "QuantizeOptions": "QUANTIZE", "DequantizeOptions": "DEQUANTIZE",
    "CallOnceOptions": "CALL_ONCE",
}  # fmt: skip
OPTIONS = {name: kind for kind, names in _BY_TYPE.items() for name in names.split()}


def litert(data: bytes, *inputs: np.ndarray) -> dict[int, np.ndarray]:
    """Every tensor after LiteRT's reference kernels ran on these inputs."""
    interpreter = _interpreter(data)
    interpreter.allocate_tensors()
    for detail, x in zip(interpreter.get_input_details(), inputs):
        interpreter.set_tensor(detail["index"], x)
    interpreter.invoke()
    outputs = [d["index"] for d in interpreter.get_output_details()]
    return {i: interpreter.get_tensor(i).copy() for i in outputs}


def _interpreter(data: bytes):
    """An interpreter with the reference kernels; the few operators without one run on the plain kernels."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    def opened(kernels):
        return Interpreter(
            model_content=data, experimental_op_resolver_type=kernels, experimental_preserve_all_tensors=True
        )

    try:
        return opened(OpResolverType.BUILTIN_REF)
    except ValueError:
        return opened(OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
