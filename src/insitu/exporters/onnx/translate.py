"""A graph for inference as an ONNX model, op by op. ops.py says what each op becomes.

All ops are looked up before the first node is written. The same graph gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from onnx import ModelProto, helper
from onnx.checker import check_model

from insitu.errors import Unsupported
from insitu.exporters.onnx.carried import PROPERTY, carried
from insitu.exporters.onnx.exact import EXACT
from insitu.exporters.onnx.ops import OPS
from insitu.exporters.onnx.step import KINDS, Emitter, Step
from insitu.graph import Graph, Node, Value
from insitu.quantizer.fold import is_int8

OPSET, IR = 21, 10
CLASSES, COLUMNS = "classes", "columns"  # the properties that hold names, JSON lists
RATE = "sample_rate"  # of sound


@dataclass(frozen=True)
class Translated:
    """The model, and for each int8 value its tensor and whether that has the channels first."""

    model: ModelProto
    tensors: dict[str, tuple[str, bool]]
    notes: tuple[str, ...]


def translate(graph: Graph, exact: bool = True, rate: int | None = None) -> Translated:
    """The model of this graph. `exact`: our very integers, where the graph rounds once; else plain QDQ. rate: of the
    sound that it takes."""
    missing = {node.op.name: node.name for node in reversed(graph.nodes) if node.op not in OPS}
    if missing:
        where = next(reversed(missing.values()))
        raise Unsupported(f"{', '.join(sorted(missing))} cannot be written for ONNX", where=where)
    emitter = Emitter(graph)
    for v in graph.inputs:
        emitter.last[v.name] = v.name
    for node in graph.nodes:
        writer_of(node, exact)(Step(emitter, node))
    for v in graph.outputs:
        emitter.nodes.append(helper.make_node("Identity", [emitter.plain(v)], [v.name], f"{v.name}.output"))
    return Translated(
        modelled(graph, emitter, exact and is_int8(graph), rate), found(graph, emitter), tuple(emitter.notes)
    )


def writer_of(node: Node, exact: bool) -> Callable[[Step], None]:
    """The function that writes this node."""
    return EXACT[node.op] if exact and rounds_once(node) and node.op in EXACT else OPS[node.op]


def rounds_once(node: Node) -> bool:
    return node.attrs.get("rounding", "single") == "single" or node.output.dtype != "s8"


def modelled(graph: Graph, emitter: Emitter, carries: bool, rate: int | None = None) -> ModelProto:
    ends = [[_info(v) for v in values] for values in (graph.inputs, graph.outputs)]
    read = {name for node in emitter.nodes for name in node.input}
    constants = [made for name, made in emitter.initializers.items() if name in read]  # some ops need no zero point
    made = helper.make_graph(emitter.nodes, graph.name, *ends, initializer=constants)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="insitu")
    model.ir_version = IR
    properties = {CLASSES: json.dumps(list(graph.classes), ensure_ascii=False)} if any(graph.classes) else {}
    if graph.columns:
        properties[COLUMNS] = json.dumps(list(graph.columns), ensure_ascii=False)
    if rate:
        properties[RATE] = str(rate)
    if carries:
        properties[PROPERTY] = carried(graph, made)
    helper.set_model_props(model, properties)
    check_model(model, full_check=True)
    return model


def _info(v: Value):
    return helper.make_tensor_value_info(v.name, KINDS[v.dtype], v.shape)


def found(graph: Graph, emitter: Emitter) -> dict[str, tuple[str, bool]]:
    values = [v for n in graph.nodes for v in n.outputs if v.dtype == "s8"]
    return {v.name: (emitter.first[v.name], True) if v.name in emitter.first else (emitter.last[v.name], False)
            for v in values}  # fmt: skip
