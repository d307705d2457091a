"""Read an ONNX model into a graph: one table, ONNX op -> small function.

Shapes and constants are computed at import (fold.py); the rest becomes nodes, which clean.py brings into canonical
form. file.py reads the file itself; layout.py, conv.py and math.py say what each op means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from insitu.errors import Error, ModelError, Unsupported
from insitu.graph import Builder, Graph, Type, Value, build, evaluate, quant
from insitu.importers.canonical.clean import clean
from insitu.importers.instead import instead_of
from insitu.importers.onnx import conv, fold, layout, math
from insitu.importers.onnx.file import DOMAINS, OPSETS, Input, OnnxModel, Record, element_name, read_model
from insitu.importers.onnx.node import Call, Comparison, Tensor, as_data, ops
from insitu.importers.sizes import Shapes, example_at, settled

Env = dict[str, Tensor | Comparison]
NAMELESS = ("onnx", "main_graph", "main", "graph", "torch_jit", "torch-jit-export", "tf2onnx")  # of torch, TensorFlow
MAX_FOLDED = 1 << 24  # elements that may be computed to fold one node
# exceptions that a malformed attribute can raise deep inside an op's shape rule
MALFORMED = (ValueError, TypeError, LookupError, ArithmeticError, MemoryError, AttributeError)

TABLE = {
    "Conv": conv.conv,
    "ConvTranspose": conv.conv_transpose,
    "MaxPool": conv.max_pool,
    "AveragePool": conv.avg_pool,
    "GlobalAveragePool": conv.global_pool("mean"),
    "GlobalMaxPool": conv.global_pool("amax"),
    "Resize": conv.resize,
    "Upsample": conv.resize,
    "Gemm": math.gemm,
    "MatMul": math.matmul,
    "Einsum": math.contraction,
    "Add": math.binary("add"),
    "Sub": math.binary("sub"),
    "Mul": math.binary("mul"),
    "Div": math.binary("div"),
    "Sum": math.sum_,
    "Mean": math.mean_,
    "Max": math.extreme(largest=True),
    "Min": math.extreme(largest=False),
    "Pow": math.power,
    "Relu": math.unary("relu"),
    "LeakyRelu": math.leaky_relu,
    "PRelu": math.prelu,
    "Clip": math.clip,
    "Sigmoid": math.unary("sigmoid"),
    "Tanh": math.unary("tanh"),
    "HardSigmoid": math.hard_sigmoid,
    "HardSwish": math.unary("hard_swish"),
    "Swish": math.swish,
    "Mish": math.mish,
    "Elu": math.elu,
    "Selu": math.selu,
    "Celu": math.celu,
    "Softplus": math.unary("softplus"),
    "Gelu": math.gelu,
    "Erf": math.unary("erf"),
    "Exp": math.unary("exp"),
    "Log": math.unary("log"),
    "Sqrt": math.unary("sqrt"),
    "Reciprocal": math.unary("reciprocal"),
    "Neg": math.unary("neg"),
    "Abs": math.unary("abs"),
    "Softmax": math.softmax("softmax"),
    "LogSoftmax": math.softmax("log_softmax"),
    "CumSum": math.cumsum,
    "ReduceMean": math.reduction("mean"),
    "ReduceSum": math.reduction("sum"),
    "ReduceMax": math.reduction("amax", ties="even"),
    "ReduceMin": math.reduction("amax", lambda x: ops.neg(x), lambda y: ops.neg(y), ties="even"),
    "ReduceL1": math.reduction("sum", lambda x: ops.abs(x)),
    "ReduceL2": math.reduction("sum", lambda x: ops.square(x), lambda y: ops.sqrt(y)),
    "ReduceSumSquare": math.reduction("sum", lambda x: ops.square(x)),
    "BatchNormalization": math.batch_norm,
    "LayerNormalization": math.layer_norm,
    "InstanceNormalization": math.instance_norm,
    "GroupNormalization": math.group_norm,
    "Dropout": math.dropout,
    "QuantizeLinear": math.quantize,
    "DequantizeLinear": math.dequantize,
    "Cast": math.cast,
    "Where": math.where,
    "Greater": math.greater,
    "Identity": lambda n: n.any(0),
    "Reshape": layout.as_reshape(layout.reshape_shape),
    "Flatten": layout.as_reshape(layout.flatten_shape),
    "Squeeze": layout.as_reshape(layout.squeeze_shape),
    "Unsqueeze": layout.as_reshape(layout.unsqueeze_shape),
    "Transpose": layout.transpose,
    "Concat": layout.concat,
    "Slice": layout.slice_,
    "Split": layout.split,
    "Gather": layout.gather,
    "Pad": layout.pad,
    "Expand": layout.expand,
    "Tile": layout.tile,
    "DepthToSpace": layout.depth_to_space,
    "SpaceToDepth": layout.space_to_depth,
    "Shape": fold.shape,
    "Size": fold.size,
}
KNOWN = frozenset(TABLE) | frozenset(fold.FOLD)  # every op this importer has a function for
HINTS = {
    "QLinearConv": "export in QDQ form: quantize_static(..., quant_format=QuantFormat.QDQ)",
    "QLinearMatMul": "export in QDQ form: quantize_static(..., quant_format=QuantFormat.QDQ)",
    "ConvInteger": "export in QDQ form: quantize_static(..., quant_format=QuantFormat.QDQ)",
    "MatMulInteger": "quantise statically, in QDQ form",
    "If": "export a model without branches: torch.onnx.export(..., dynamo=True) folds those that are decided",
    "Loop": "unroll the loop before exporting",
    "NonZero": "its result has no fixed shape: rewrite the model without it",
}


def read_onnx(source, *, batch: int = 1, bind: Mapping[str, np.ndarray] | None = None, examples: Shapes = ()) -> Graph:
    """The graph of an ONNX model: a path, the bytes of a file, or an `onnx.ModelProto`.

    A dynamic first dimension of an input becomes `batch`, others become those of `examples`. `bind` gives some inputs
    fixed arrays.
    """
    model = read_model(source)
    if model.carried and batch == 1 and not bind:
        return replace(model.carried, name=_title(source, model.name))
    builder = Builder(_title(source, model.name))
    env: Env = dict(model.arrays)
    env.update({name: np.asarray(array) for name, array in (bind or {}).items()})
    if model.opset not in OPSETS:
        builder.note(f"opset {model.opset} is newer than {OPSETS.stop - 1}, the newest one tested")
    with build(builder):
        _inputs(model, builder, env, batch, examples)
        _walk(model, builder, env)
        outputs = [_output(name, builder, env) for name in model.outputs]
    graph = clean(builder.graph(*outputs))
    width = (graph.outputs[0].shape or (1,))[-1] if graph.outputs else 0
    return replace(graph, classes=model.classes) if any(model.classes) and len(model.classes) == width else graph


def _title(source, name: str) -> str:
    """The model's name: its own, or the file's if the exporter wrote a generic one."""
    return Path(source).stem if name in NAMELESS and isinstance(source, str | Path) else name


# --- inputs and outputs ----------------------------------------------------------------------------

FLOATS, INTEGERS = (1, 10, 11), (2, 3, 5, 6, 7)
INPUT_TYPES = {1: "f32", 10: "f32", 11: "f32", 2: "u8", 3: "s8", 5: "s16", 6: "s32", 7: "s64", 9: "b1"}


def _inputs(model: OnnxModel, builder: Builder, env: Env, batch: int, examples: Shapes) -> None:
    for i, given in enumerate(given for given in model.inputs if given.name not in env):
        asked = given.element
        try:
            given = _made_float(given, model)
            env[given.name] = builder.input(given.name, _input_type(given, model, batch, example_at(examples, i)))
        except Error as e:
            kind = type(e) if isinstance(e, ModelError) else ModelError
            raise kind(e.what, where=f"input {given.name}", hint=e.hint) from e
        if given.element != asked:
            builder.note(f"input {given.name} is {element_name(asked)} in the file and f32 here")
        if given.element in (10, 11):
            builder.note(f"input {given.name} is {element_name(given.element)} in the file and f32 here")


def _made_float(given: Input, model: OnnxModel) -> Input:
    """An input of integers as an input of floats, if the model only casts it to float."""
    uses = [n for n in model.nodes if given.name in n.inputs]
    casts = [n.type == "Cast" and n.attrs.get("to") in FLOATS for n in uses]
    whole = given.element in INTEGERS and given.name not in model.outputs
    return replace(given, element=1) if whole and uses and all(casts) else given


def _input_type(given: Input, model: OnnxModel, batch: int, example: tuple[int, ...] | None) -> Type:
    dtype = INPUT_TYPES.get(given.element)
    if dtype is None:
        raise Unsupported(f"elements of type {element_name(given.element)} are not supported")
    if given.dims is None:
        raise Unsupported("its shape is not in the file", hint="export with fixed shapes, or run shape inference")
    return Type(dtype, settled(given.dims, batch, example), _input_numerics(given, model) if dtype == "s8" else None)


def _input_numerics(given: Input, model: OnnxModel):
    """The meaning of an input's integers: the DequantizeLinear that reads them defines it."""
    for node in model.nodes:
        if node.type == "DequantizeLinear" and node.inputs[:1] == (given.name,):
            scale, zero = (model.arrays.get(name) for name in (*node.inputs[1:3], "", "")[:2])
            if scale is not None and scale.size == 1:
                return quant(scale.reshape(()), 0 if zero is None else int(zero.reshape(-1)[0]))
    return None


def _output(name: str, builder: Builder, env: Env) -> Value:
    if name not in env:
        raise ModelError("nothing in the graph computes it", where=f"output {name}")
    tensor = env[name]
    if isinstance(tensor, Comparison):
        raise Unsupported("is the result of a comparison, which is not supported", where=f"output {name}")
    return tensor if isinstance(tensor, Value) else builder.constant(name, as_data(tensor))


# --- the walk --------------------------------------------------------------------------------------


def _walk(model: OnnxModel, builder: Builder, env: Env) -> None:
    read = frozenset(name for n in model.nodes for name in n.inputs) | frozenset(model.outputs)
    for record in model.nodes:
        _check_names(record, env, model)
        call = Call(record, model.opset, builder, env, read, frozenset(model.outputs))
        results = _import(call)
        results = results if isinstance(results, tuple) else (results,)
        for name, tensor in zip(record.outputs, results):
            env[name] = np.asarray(tensor) if isinstance(tensor, np.generic) else tensor
        _follow(record, builder, env)
        env.pop("", None)


def _follow(record: Record, builder: Builder, env: Env) -> None:
    """A parameter in another layout is still the same parameter."""
    if record.type in ("Transpose", "Reshape", "Squeeze", "Unsqueeze", "Identity", "Flatten"):
        source, made = record.inputs[0], record.outputs[0]
        if isinstance(env.get(made), np.ndarray):
            builder.parameters[made] = builder.parameters.get(source, source)


def _check_names(record: Record, env: Env, model: OnnxModel) -> None:
    for name in record.inputs:
        if name and name not in env:
            later = any(name in n.outputs for n in model.nodes)
            what = "is computed only later, or by this node itself" if later else "is nowhere in the file"
            raise ModelError(f"reads {name!r}, which {what}", where=record.label)
    for name in record.outputs:
        if name and name in env:
            raise ModelError(f"writes {name!r}, which already exists", where=record.label)
    if record.domain not in DOMAINS:
        raise Unsupported(f"ops of the domain {record.domain!r} are not supported", where=record.label)


def _import(call: Call):
    """Import one node; any error becomes one that names the node."""
    record = call.record
    known = all(isinstance(call.env[name], np.ndarray) for name in record.inputs if name)
    try:
        with np.errstate(all="ignore"):
            return _folded(call) if known else _table(record.type)(call)
    except Error as e:
        kind = type(e) if isinstance(e, ModelError) else Unsupported
        raise kind(e.what, where=record.label, hint=e.hint) from e
    except MALFORMED as e:
        raise ModelError(f"cannot be read: {e or type(e).__name__}", where=record.label) from e


def _table(op_type: str):
    if op_type in fold.FOLD and op_type not in TABLE:
        raise Unsupported("is only supported on constants, but this one reads values that the network computes")
    if op_type not in TABLE:
        raise Unsupported("is not supported", hint=HINTS.get(op_type) or instead_of(op_type))
    return TABLE[op_type]


def _folded(call: Call):
    if call.record.type in fold.FOLD:
        return fold.FOLD[call.record.type](call)
    builder = Builder("folded")
    with build(builder):
        made = _table(call.record.type)(Call(call.record, call.opset, builder, call.env, call.read, call.results))
    many = made if isinstance(made, tuple) else (made,)
    if sum(v.type.size for n in builder.nodes for v in n.outputs) > MAX_FOLDED:
        raise ModelError("has too many elements to compute at import")
    values = [v for v in many if isinstance(v, Value)]
    found: Any = evaluate(builder.graph(*values)) if values else ()
    arrays = iter(found if isinstance(found, tuple) else (found,))
    return tuple(next(arrays) if isinstance(v, Value) else v for v in many)
