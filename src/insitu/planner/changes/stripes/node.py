"""A part of a graph that runs in stripes (loop.py), as one node, `stream`.

Its inputs and outputs exist whole; values inside have buffers of a few rows. To the rest of the planner it is an
ordinary node with scratch. cuts.py decides which parts these are, and how high a stripe is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, TypeGuard

from insitu.graph import Graph, Node
from insitu.graph.call import Call
from insitu.graph.loops import Loop
from insitu.planner.changes.change import Change
from insitu.planner.changes.less_scratch import at_level, level_of
from insitu.planner.changes.looped import Looped, loop_op
from insitu.planner.changes.stripes.estimate import Scratches, Sketch
from insitu.planner.changes.stripes.loop import Emit, Known, grows_over, loop_of
from insitu.planner.changes.stripes.region import Region, identity, reads, region_of
from insitu.planner.changes.stripes.schedule import Paces, Schedule

HEIGHTS = tuple(Fraction(n) for n in ("1/4", "1/2", "1", "2", "4", "8"))  # rows of the last value per stripe


def _in_place(*values, node: Looped) -> tuple[int | None, ...]:
    """The result may overwrite an input row by row: only where input rows have been read for the last time."""
    found: list[int | None] = [None] * len(node.outputs)
    arriving = node.loop.source
    read = {p.value.name for w in node.loop.windows for p in w.read} - {arriving and arriving.name}
    for i, v in enumerate(node.inputs):
        if v.name in read and grows_over(node.loop, node.output, v):
            found[0] = i
    return tuple(found)


STREAM = loop_op("stream", "Several ops in stripes of rows")
STREAM.may(in_place=_in_place)


CHANGE = Change(
    "stripes", ("part in stripes", "parts in stripes"), "loop", "more calls, weights read again for each, rows moved",
    done=lambda n: n.op is STREAM,
)  # fmt: skip


def is_streamed(node: Node) -> TypeGuard[Looped]:
    return node.op is STREAM


def regions(graph: Graph, peak: Node | None = None) -> Iterator[Region]:
    """Every part that could run in stripes and contains the peak: everything that leads to some node."""
    striped = {n.name for n in graph.nodes if frozen(graph, n) and reads(n)}
    before: dict[str, set[str]] = {}  # node -> all nodes before it
    for node in graph.nodes:
        made = {graph.producer[v.name].name for v in node.inputs if v.name in graph.producer}
        before[node.name] = made.union(*(before[m] for m in made))
        if node.name not in striped:
            continue
        unable = before[node.name] - striped
        behind = unable.union(*(before[m] for m in unable))
        inside = (before[node.name] | {node.name}) - behind
        if len(inside) > 1 and (peak is None or peak.name in inside):
            region = region_of(graph, (n for n in graph.nodes if n.name in inside))
            if region.by_rows and (not region.nodes[0].op.facts.arrives or takes_rows(graph, region)):
                yield region


def takes_rows(graph: Graph, region: Region) -> bool:
    """Can this part take rows as they arrive? Nothing else may read them, and its other inputs are constants."""
    known = {graph.by_rows, *graph.constants}
    return region.nodes[0].name not in region.whole and all(v.name in known for v in region.inputs)


def able(graph: Graph) -> set[str]:
    """The nodes whose memory stripes can reduce, or have reduced."""
    return {n.name for n in graph.nodes if n.op is STREAM or (reads(n) and frozen(graph, n))}


def frozen(graph: Graph, node: Node) -> bool:
    """Do its weights stay the same until the step is over?"""
    return graph.updates.keys().isdisjoint(node.reads)


@dataclass(frozen=True, eq=False)
class Made:
    """Results so far: graphs of the same layers are examined more than once."""

    calls: dict[Node, Call] = field(default_factory=dict)
    parts: Known = field(default_factory=dict)  # calls on some rows
    nodes: dict[tuple[Any, ...], Looped] = field(default_factory=dict)
    sketches: dict[tuple[Any, ...], Sketch] = field(default_factory=dict)
    paces: Paces = field(default_factory=dict)
    scratch: Scratches = field(default_factory=dict)


class Loops:
    """Loops and calls for one graph."""

    def __init__(self, emit: Emit, made: Made | None = None):
        self._emit, self._made = emit, made or Made()
        self.waste: Counter[Sketch] = Counter()  # bytes lost in placement, once that is known

    def call(self, node: Node) -> Call:
        """The kernel call of a node."""
        if node not in self._made.calls:
            self._made.calls[node] = self._emit(node)
        return self._made.calls[node]

    def node(self, region: Region, height: Fraction) -> Looped:
        """The region as one node."""
        key = (height, region.whole, *((identity(n), level_of(n)) for n in region.nodes))
        if key not in self._made.nodes:
            self._made.nodes[key] = streamed(region, loop_of(region, height, self._emit, self._made.parts))
        return self._made.nodes[key]

    def sketch(self, region: Region, height: Fraction, weights: Callable[[Node], int]) -> Sketch:
        """What the region would need; `weights` is the function for the bytes of constants that a node reads."""
        key = (height, region.whole, *map(identity, region.nodes))
        if key not in self._made.sketches:
            constants = {n.name: weights(n) for n in region.nodes}
            schedule = Schedule(region, height, self._made.paces)
            self._made.sketches[key] = Sketch(schedule, constants, self._emit, self._made.parts, self._made.scratch)
        return self._made.sketches[key]


def fused(graph: Graph, region: Region, loop: Loop) -> Graph:
    """The graph with one node in place of the region's."""
    return put(graph, streamed(region, loop))


def streamed(region: Region, loop: Loop) -> Looped:
    attrs = {"stripes": len(loop.stripes), "of": [n.name for n in region.nodes]}
    # the last value names the node: it is the purpose of the part
    outputs = (region.nodes[-1].output, *(v for v in region.outputs if v != region.nodes[-1].output))
    return Looped(STREAM, region.inputs, outputs, attrs, loop)


def put(graph: Graph, node: Looped) -> Graph:
    """The graph with this node in place of the nodes it is made of."""
    inside = {n.name for n in node.nodes}
    made = {v.name for v in node.outputs}
    if node.loop.source:  # it reads only constants: it can come first, and must
        return replace(graph, nodes=(node, *(n for n in graph.nodes if n.name not in inside)))
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


def unrolled(graph: Graph) -> Graph:
    """The graph with everything in stripes replaced by its nodes, called as usual: to choose again."""
    nodes = [
        n for node in graph.nodes
        for n in ((at_level(inner, 0) for inner in node.nodes) if is_streamed(node) else (node,))
    ]  # fmt: skip
    return replace(graph, nodes=tuple(nodes))


def streams(graph: Graph) -> set[Node]:
    """The parts of a graph that run in stripes."""
    return {n for n in graph.nodes if n.op is STREAM}
