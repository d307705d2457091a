"""Which part of a graph runs in stripes, and how high they are: what lowers the peak most, and of equals the quickest.

A part that runs in stripes (stripes.py) becomes one node, `stream`, whose inputs and outputs exist whole and whose
inner values have buffers of a few rows. To the rest of the planner it is a node like any other, with scratch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from insitu.graph import Graph, Node, Op
from insitu.graph.stripes import Loop, row_bytes
from insitu.planner.arena import lower_bound
from insitu.planner.lifetimes import buffers
from insitu.planner.stripes import Emit, Region, loop_of, reads, region_of

HEIGHTS = tuple(Fraction(n) for n in ("8", "4", "2", "1", "1/2", "1/4"))  # rows of the last value a stripe
EQUAL = 1.005  # peaks this close count as one: then instructions decide
CALL_COST = 500  # what a call costs beside its arithmetic, in the unit of a byte read


@dataclass(frozen=True, eq=False)
class Streamed(Node):
    """Several nodes as one."""

    loop: Loop = None  # type: ignore[assignment]  # always given; a default, because Node's fields have some

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self.loop.nodes


def _eval(*arrays, node: Streamed):
    """The meaning: node after node, on whole values."""
    known = {v.name: a for v, a in zip(node.inputs, arrays)}
    for inner in node.nodes:
        known[inner.name] = np.asarray(inner.rule("eval", *(known[v.name] for v in inner.inputs)))
    results = [known[v.name] for v in node.outputs]
    return tuple(results) if len(results) > 1 else results[0]


def _macs(*values, node: Streamed) -> int:
    return sum(int(n.rule("macs", n.output, *n.inputs)) for n in node.nodes if n.op.has("macs"))


STREAM = Op(
    name="stream",
    doc="Several ops in stripes of rows; made by the planner.",
    defaults={},
    rules={"eval": _eval, "emit": lambda *values, node: node.loop, "macs": _macs},
    cases=(), kind="any", source=__file__, overwrites=False, domain=None,
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Candidate:
    graph: Graph
    bound_bytes: int  # the least its order needs
    cost: int  # what running in stripes adds, roughly in instructions


def best_stream(graph: Graph, peak: Node, emit: Emit, enough: int = 0) -> Graph | None:
    """The graph with the part around its peak in stripes, where that lowers the peak; `enough` bytes are low enough."""
    known = _Remembered(emit)
    now = lower_bound(buffers(graph, tuple(known(n) for n in graph.nodes)))
    found = [c for region in regions(graph, peak) for c in _heights(graph, region, known)]
    if not found:
        return None
    least = max(min(c.bound_bytes for c in found), enough)
    chosen = min((c for c in found if c.bound_bytes <= least * EQUAL), key=lambda c: c.cost)
    return chosen.graph if max(chosen.bound_bytes, enough) < max(now, enough) else None


def regions(graph: Graph, peak: Node | None = None) -> Iterator[Region]:
    """Every part that could run in stripes and has the peak inside: all that leads to some node."""
    able = {n.name for n in graph.nodes if _frozen(graph, n) and reads(n)}
    before: dict[str, set[str]] = {}  # node -> all nodes before it
    for node in graph.nodes:
        made = {graph.producer[v.name].name for v in node.inputs if v.name in graph.producer}
        before[node.name] = made.union(*(before[m] for m in made))
        if node.name not in able:
            continue
        unable = before[node.name] - able
        behind = unable.union(*(before[m] for m in unable))
        inside = (before[node.name] | {node.name}) - behind
        if len(inside) > 1 and (peak is None or peak.name in inside):
            yield region_of(graph, (n for n in graph.nodes if n.name in inside))


def _frozen(graph: Graph, node: Node) -> bool:
    return not any(v.name in graph.updates for v in node.inputs)


def _heights(graph: Graph, region: Region, emit: _Remembered) -> Iterator[Candidate]:
    rows = region.nodes[-1].output.shape[1]
    for height in HEIGHTS:
        if 2 * height > rows:
            continue
        loop = loop_of(region, height, emit.window)
        made = fused(graph, region, loop)
        calls = tuple(emit(n) for n in made.nodes)
        yield Candidate(made, lower_bound(buffers(made, calls)), cost(graph, loop))


class _Remembered:
    """Kernel calls by node, and by the rows of a node: the same for many candidates."""

    def __init__(self, emit: Emit):
        self.emit, self.known = emit, {}

    def __call__(self, node: Node):
        return node.loop if isinstance(node, Streamed) else self.window(node)

    def window(self, node: Node):
        key = (node.name, tuple(v.shape for v in (*node.outputs, *node.inputs)), node.attrs.get("padding"))
        if key not in self.known:
            self.known[key] = self.emit(node)
        return self.known[key]


def fused(graph: Graph, region: Region, loop: Loop) -> Graph:
    """The graph with one node in place of the region's."""
    inside = {n.name for n in region.nodes}
    made = {v.name for v in region.outputs}
    attrs = {"stripes": len(loop.stripes), "of": [n.name for n in region.nodes]}
    # the last value names the node: it is what the part is run for
    outputs = (region.nodes[-1].output, *(v for v in region.outputs if v != region.nodes[-1].output))
    node = Streamed(STREAM, region.inputs, outputs, attrs, loop)
    last = max(i for i, n in enumerate(graph.nodes) if n.name in inside)
    first: list[Node] = []
    rest: list[Node] = []
    for i, n in enumerate(graph.nodes):
        if n.name in inside:
            continue
        late = i > last or any(v.name in made for v in n.inputs)
        made |= {v.name for v in n.outputs} if late else set()
        (rest if late else first).append(n)
    return replace(graph, nodes=(*first, node, *rest))


def cost(graph: Graph, loop: Loop) -> int:
    """Calls, weights read again for each of them, rows read again, and rows moved."""
    weights = {n.name: sum(graph.values[v.name].type.bytes for v in n.inputs if v.name in graph.constants)
               for n in loop.nodes}  # fmt: skip
    read = sum(p.count * row_bytes(p.value) for w in loop.windows for p in w.read)
    return sum(CALL_COST + weights[w.made.value.name] for w in loop.windows) + read + loop.moved_bytes
