"""Post-training int8: a calibrated float graph in, an int8 graph out.

Activations are int8 with one scale and zero point, weights are int8 with one scale per output channel, biases are
int32, and every result is rounded once. An op without an int8 kernel runs as dequantize, float op, quantize; the
graph's notes say so, and `fallbacks` lists them. lower.py says what each op becomes; this file walks over the graph.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from insitu.graph import Graph, Node, build, check, drop_unused
from insitu.graph.fixed import is_fixed
from insitu.quantizer.calibrate import Ranges
from insitu.quantizer.correct import is_correction
from insitu.quantizer.equalize import equalize
from insitu.quantizer.fold import fold, is_int8
from insitu.quantizer.fuse import find_fusions
from insitu.quantizer.lower import lowering_of
from insitu.quantizer.lowering import Lowering, Options, is_float
from insitu.quantizer.prepare import prepare
from insitu.quantizer.scales import choose_scales
from insitu.terminal.wording import layer_words


def quantize(
    graph: Graph,
    ranges: Ranges,
    *,
    bias_correction: bool = True,
    per_channel: bool = True,
    clip_weights: bool = False,
    equalize_channels: bool = True,
    float_io: bool = True,
    room: float = 1.0,
) -> Graph:
    """The int8 graph; a graph that is already int8 is returned unchanged.

    bias_correction   subtract the mean error of rounded weights from the bias
    per_channel       one weight scale per output channel instead of one per tensor
    clip_weights      let each channel's scale clip its largest weights if that lowers the squared error
    equalize_channels give the channels before a depthwise convolution the same range (exact, free)
    float_io          inputs and outputs stay float and are quantised inside; False: they are s8 with their scale
    room              scales for weights and results this many times as large, if training will let them grow
    """
    if is_int8(graph):
        return graph
    source, ranges = _source(graph, ranges, equalize_channels and per_channel)
    options = Options(bias_correction, per_channel, clip_weights, room)
    low = Lowering(source, choose_scales(source, ranges, room), ranges, find_fusions(source), options)
    low.builder.notes = list(graph.notes)
    with build(low.builder) as b:
        _inputs(low, float_io)
        for node in source.nodes:
            if node.name not in low.fusions.absorbed:
                _lower(low, node)
        outputs = [low.s8(v) if is_float(v) and not float_io else low.float(v) for v in source.outputs]
    return check(drop_unused(_copies(b.graph(*outputs))), "int8")


def _copies(graph: Graph) -> Graph:
    """The graph with marks only on parameters that several layers have copies of (trained, these would drift apart),
    and on weights and biases that are none of the model's."""
    count = Counter(graph.parameters.values())
    made = {name for name in graph.parameters if is_correction(graph, name) or is_fixed(graph, name)}
    return replace(graph, parameters={k: of for k, of in graph.parameters.items() if count[of] > 1 or k in made})


def reference(graph: Graph, ranges: Ranges) -> Graph:
    """The float graph that the values of `quantize(graph, ranges)` stand for: the same function, equalised."""
    return _source(graph, ranges, True)[0]


def _source(graph: Graph, ranges: Ranges, equalized: bool) -> tuple[Graph, Ranges]:
    source = prepare(fold(graph))
    return equalize(source, ranges) if equalized else (source, ranges)


def fallbacks(graph: Graph) -> list[Node]:
    """The nodes of an int8 graph that run in float because they have no int8 kernel."""
    return [node for node in graph.nodes if node.op.kind == "float"] if is_int8(graph) else []


def _inputs(low: Lowering, float_io: bool) -> None:
    for v in low.graph.inputs:
        if is_float(v) and not float_io:
            low.set_s8(v, low.builder.input(v.name, low.type(v)))
        else:
            low.set_float(v, low.builder.input(v.name, v.type))


def _lower(low: Lowering, node: Node) -> None:
    """Build the int8 form of a node, or the node itself if there is none."""
    rule = lowering_of(low, node)
    moved_in_float = node.op.facts.moves and low.came_in_float(node.inputs[0])
    made = rule(low, node) if rule and all(map(is_float, node.inputs)) and not moved_in_float else None
    if made is None:
        _fall_back(low, node)
        return
    for v, result in zip(low.result(node), made if isinstance(made, tuple) else (made,)):
        low.set_s8(v, result)


def _fall_back(low: Lowering, node: Node) -> None:
    made = node.op(*map(low.float, node.inputs), name=low.stem(node), **node.attrs)
    for v, result in zip(node.outputs, made if isinstance(made, tuple) else (made,)):
        low.set_float(v, result)
    if node.op.kind == "float":
        low.builder.note(f"{layer_words(node.name)}: {node.op.name} has no int8 kernel, it runs in float")
    clamp = low.fusions.clamp.get(node.name)
    if clamp is not None:  # the clamp was not fused into an int8 op: it runs in float too
        low.set_float(clamp.output, clamp.op(low.float(clamp.inputs[0]), name=clamp.name, **clamp.attrs))
