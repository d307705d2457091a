"""A graph for inference as a .tflite file, op by op. ops.py says what each op becomes.

All ops are looked up before the first operator is written, so that an op LiteRT lacks is named at once.
"""

from __future__ import annotations

from insitu.errors import Unsupported
from insitu.exporters.litert.file import File
from insitu.exporters.litert.ops import OPS
from insitu.exporters.litert.step import RELU, RELU6, Emitter, Step
from insitu.graph import Graph, Node
from insitu.ops import arith
from insitu.ops.activation import relu, relu6
from insitu.ops.conv import conv1d, conv2d
from insitu.ops.conv_transpose import conv_transpose2d
from insitu.ops.depthwise import depthwise2d
from insitu.ops.linear import linear
from insitu.terminal.wording import option

SIGNATURE = "serving_default"
FUSING = {
    conv2d, conv1d, depthwise2d, linear, conv_transpose2d, arith.add, arith.sub, arith.mul, arith.div,
}  # fmt: skip
FUSED = {relu: RELU, relu6: RELU6}


def translate(graph: Graph, name: str = "") -> Emitter:
    """The file of this graph, with one signature; `.file.data()` gives its bytes, `.tensors` the values' tensors."""
    refuse_unknown(graph)
    file = File(name or graph.name)
    emitter = Emitter(graph, file, file.subgraph("main"), after=find_fused(graph))
    inputs = {v.name: emitter.value(v) for v in graph.inputs}
    behind = {relu.name for relu, _ in emitter.after.values()}
    for node in graph.nodes:
        if node.name not in behind:
            OPS[node.op](Step(emitter, node))
    file.signature(SIGNATURE, emitter.sub, inputs, {v.name: emitter.value(v) for v in graph.outputs})
    return emitter


def refuse_unknown(graph: Graph) -> None:
    missing = {node.op.name: node.name for node in reversed(graph.nodes) if node.op not in OPS}
    if missing:
        names, where = ", ".join(sorted(missing)), next(reversed(missing.values()))
        raise Unsupported(
            f"{names} cannot be written for LiteRT", where=where, hint=f"{option(to='onnx')} has more ops"
        )


def find_fused(graph: Graph) -> dict[str, tuple[Node, int]]:
    """Float nodes whose only reader is a relu, which LiteRT computes with them."""
    outputs, found = {v.name for v in graph.outputs}, {}
    for node in graph.nodes:
        before = graph.producer.get(node.inputs[0].name) if node.op in FUSED else None
        if before and before.op in FUSING and len(graph.users[before.name]) == 1 and before.name not in outputs:
            found[before.name] = (node, FUSED[node.op])
    return found
