"""An input that arrives row by row: the part in stripes that takes it, or the reason why there is none.

The input becomes the source of a node `arrive`, which copies its rows into a line buffer. The part that starts there is
chosen like any other (cuts.py), but it must exist, must run first, and may only read constants. So an image that stops
half way has changed nothing but scratch.
"""

from __future__ import annotations

from dataclasses import replace

from insitu.errors import GraphError
from insitu.graph import Graph, Node, Op, Value
from insitu.graph.call import Call
from insitu.graph.loops import Rows
from insitu.ops.layout import reshape, transpose
from insitu.ops.pixels import yuv420
from insitu.planner.changes.stripes.cuts import cut_up
from insitu.planner.changes.stripes.node import Loops, regions
from insitu.planner.changes.stripes.region import reads

WHOLE = "give the input whole (without rows)"

OP = Op("arrive", "Rows of an input, as they arrive; made by the planner.")
OP.eval(lambda x: x)
OP.emit(lambda y, x: Call("copy_bytes", y, x, y.type.bytes, alias=True))
OP.may(stripes=lambda y, x: (Rows(),), arrives=True)


def arriving(graph: Graph, loops: Loops, enough: int, stream: bool) -> Graph:
    """The graph with the part that takes the rows of its input in stripes, and with `stream` other parts, too: with as
    few bytes as possible, or `enough`."""
    graph = with_source(graph)
    _check_layout(graph)
    found = cut_up(graph, loops, enough, only_first=not stream)
    if found is None:
        raise why_not(graph, graph.nodes[0])
    return found


def can_arrive(graph: Graph) -> bool:
    """Can a part of this graph take its input row by row? This is quick: nothing is planned."""
    made = with_source(graph)
    try:
        _check_layout(made)
    except GraphError:
        return False
    return next(regions(made, made.nodes[0]), None) is not None


def _check_layout(graph: Graph) -> None:
    """A camera's rows have all channels of their pixels: an input that is transposed first comes channel by channel."""
    same, image = {graph.nodes[0].name}, graph.nodes[0].output
    for node in graph.nodes[1:]:
        if not any(v.name in same for v in node.inputs):
            continue
        if node.op is transpose:
            raise GraphError(
                f"is {image.type}, channel by channel: it would arrive as planes, not rows",
                where=f"%{graph.by_rows}",
                hint="use a model that takes height x width x channels: in torch, begin with x.permute(0, 3, 1, 2)",
            )
        if node.op is reshape and any(n.op is yuv420 for n in graph.nodes):
            raise GraphError(
                "is i420: its colours come in two planes after all luma, two of their rows in one row of the frame",
                where=f"%{graph.by_rows}",
                hint=f"nv12 and nv21 can arrive row by row, if the camera has them; or {WHOLE}",
            )
        if node.output.shape == image.shape:
            same.add(node.name)


def with_source(graph: Graph) -> Graph:
    """The graph with a node between the input and all its readers."""
    x = next(v for v in graph.inputs if v.name == graph.by_rows)
    y = Value(_fresh(f"{x.name}.rows", graph), x.type)

    def swap(v: Value) -> Value:
        return y if v == x else v

    nodes = [replace(n, inputs=tuple(map(swap, n.inputs))) if x in n.inputs else n for n in graph.nodes]
    outputs = tuple(map(swap, graph.outputs))
    updates = {name: swap(v) for name, v in graph.updates.items()}
    return replace(graph, nodes=(Node(OP, (x,), (y,)), *nodes), outputs=outputs, updates=updates)


def _fresh(name: str, graph: Graph) -> str:
    while name in graph.values:
        name += "_"
    return name


def why_not(graph: Graph, first: Node) -> GraphError:
    """Why no part of this graph can take its input row by row."""
    x = first.inputs[0]
    where = f"%{x.name}"
    if len(x.shape) != 4 or x.shape[0] != 1:
        what = f"is {x.type}: only one image at a time (1 x height x width x channels) can arrive row by row"
        return GraphError(what, where=where, hint=f"batch 1, or {WHOLE}")
    if first.output in graph.results:
        return GraphError("is also an output, so it cannot arrive row by row", where=where, hint=WHOLE)
    readers = graph.users.get(first.name, ())
    for node in readers:
        complaint = _complaint(graph, node)
        if complaint:
            return GraphError(f"cannot arrive row by row: {complaint}", where=where, hint=WHOLE)
    names = ", ".join(n.name for n in readers) or "nobody"
    return GraphError(f"cannot arrive row by row: no part in stripes contains all its readers ({names})", where=where,
                      hint=WHOLE)  # fmt: skip


def _complaint(graph: Graph, node: Node) -> str:
    """What prevents one reader of the input."""
    others = [v.name for v in node.inputs if v.name in graph.state or v.name in {i.name for i in graph.inputs}]
    if reads(node) is None:
        return f"{node.name} ({node.op.name}) cannot run in stripes and needs it whole"
    if others:
        return f"{node.name} is trained (it reads %{others[0]}), and a trained layer needs its input again"
    return ""
