"""An input that arrives row by row: the part in stripes that takes it, or why there can be none.

The input becomes the source of a node `arrive`, which copies rows of it into a line buffer. The part that starts there
is chosen as any other is (stream.py), but it must exist, be the first thing that runs, and read nothing that can change
or come later: constants only. So an image that stops coming half way has changed nothing but scratch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from insitu.errors import GraphError
from insitu.graph import Graph, Node, Op, Value
from insitu.graph.call import Call
from insitu.graph.stripes import ARRIVE, Rows
from insitu.planner.lifetimes import Buffer
from insitu.planner.stream import EQUAL, Loops, able, quickest, regions
from insitu.planner.stripes import reads

if TYPE_CHECKING:
    from insitu.planner.plan import Plan

WHOLE = "give the input whole (without rows)"

OP = Op(
    name=ARRIVE,
    doc="Rows of an input, as they come; made by the planner.",
    defaults={},
    rules={
        "eval": lambda x: x,
        "emit": lambda y, x: Call("copy_bytes", y, x, y.type.bytes, alias=True),
        "stripe": lambda y, x: (Rows(),),
    },
    cases=(), kind="any", source=__file__, overwrites=False, domain=None,
)  # fmt: skip


def arriving(graph: Graph, loops: Loops, enough: int, finish: Callable[[Graph], Plan]) -> Graph:
    """The graph with the part that takes the rows of its input in stripes; `finish` does the rest of it, unplaced.

    First the part that lowers the peak most, all else being whole. Where that is not low enough, other parts, those
    that need least themselves first: what follows may go down further once that is in stripes, too. A part that needs
    more than the best has in all is not worth trying.
    """
    graph = with_source(graph)
    _check_layout(graph)
    parts = list(regions(graph, graph.nodes[0]))
    chosen = quickest(graph, parts, loops, inf, enough)
    if chosen is None:
        raise why_not(graph, graph.nodes[0])
    best = finish(chosen.graph)
    enough = max(enough, fixed_bytes(best))
    if best.lower_bound_bytes > enough * EQUAL:
        starts = filter(None, (quickest(graph, [part], loops, inf, enough, at_first) for part in parts))
        for start in sorted(starts, key=lambda c: c.bound_bytes):
            if start.bound_bytes < best.lower_bound_bytes:
                best = min(best, finish(start.graph), key=lambda p: p.lower_bound_bytes)
    return best.graph


def can_arrive(graph: Graph) -> bool:
    """Is there a part of this graph that can take its input row by row? Quick: nothing is planned."""
    made = with_source(graph)
    try:
        _check_layout(made)
    except GraphError:
        return False
    return next(regions(made, made.nodes[0]), None) is not None


def _check_layout(graph: Graph) -> None:
    """A camera's rows have all channels of their pixels: an input that is turned first comes channel by channel."""
    same, image = {graph.nodes[0].name}, graph.nodes[0].output
    for node in graph.nodes[1:]:
        if not any(v.name in same for v in node.inputs):
            continue
        if node.op.name == "transpose":
            raise GraphError(
                f"is {image.type}, channel by channel: what would arrive are planes, not rows",
                where=f"%{graph.by_rows}",
                hint="a model that takes height x width x channels: in torch, begin with x.permute(0, 3, 1, 2)",
            )
        if node.output.shape == image.shape:
            same.add(node.name)


def at_first(found: tuple[Buffer, ...]) -> int:
    """Bytes alive in the first step."""
    return sum(b.size(0) for b in found if b.first <= 0 <= b.last)


def fixed_bytes(made: Plan) -> int:
    """The most that is alive where nothing can run in stripes."""
    return made.peak_of({n.name for n in made.graph.nodes} - able(made.graph))


def with_source(graph: Graph) -> Graph:
    """The graph with a node between the input and all who read it."""
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
        return GraphError("is an output as well, so it cannot arrive row by row", where=where, hint=WHOLE)
    readers = graph.users.get(first.name, ())
    for node in readers:
        complaint = _complaint(graph, node)
        if complaint:
            return GraphError(f"cannot arrive row by row: {complaint}", where=where, hint=WHOLE)
    names = ", ".join(n.name for n in readers) or "nobody"
    return GraphError(f"cannot arrive row by row: no part in stripes has all who read it ({names})", where=where,
                      hint=WHOLE)  # fmt: skip


def _complaint(graph: Graph, node: Node) -> str:
    """What is wrong with one who reads the input."""
    others = [v.name for v in node.inputs if v.name in graph.state or v.name in {i.name for i in graph.inputs}]
    if reads(node) is None:
        return f"{node.name} ({node.op.name}) cannot run in stripes and needs it whole"
    if others:
        return f"{node.name} is trained (it reads %{others[0]}), and what is trained needs its input again"
    return ""
