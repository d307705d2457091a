"""Which part of a graph runs in stripes, and how high they are: what lowers the peak most, and of equals the quickest.

A part that runs in stripes (stripes.py) becomes one node, `stream`, whose inputs and outputs exist whole and whose
inner values have buffers of a few rows. To the rest of the planner it is a node like any other, with scratch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from insitu.graph import Graph, Node, Op
from insitu.graph.call import Call
from insitu.graph.stripes import ARRIVE, Loop, row_bytes
from insitu.planner.arena import lower_bound
from insitu.planner.fused import one_by_one
from insitu.planner.lifetimes import Buffer, buffers
from insitu.planner.stripes import Emit, Known, Region, grows_over, loop_of, reads, region_of

HEIGHTS = tuple(Fraction(n) for n in ("1/4", "1/2", "1", "2", "4", "8"))  # rows of the last value a stripe
EQUAL = 1.005  # peaks this close count as one: then instructions decide
Need = Callable[[tuple[Buffer, ...]], int]  # the bytes to judge a graph by
CALL_COST = 500  # what a call costs beside its arithmetic, in the unit of a byte read


@dataclass(frozen=True, eq=False)
class Streamed(Node):
    """Several nodes as one."""

    loop: Loop = None  # type: ignore[assignment]  # always given; a default, because Node's fields have some

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self.loop.nodes


def _macs(*values, node: Streamed) -> int:
    return sum(int(n.rule("macs", n.output, *n.inputs)) for n in node.nodes if n.op.has("macs"))


def _in_place(*values, node: Streamed) -> tuple[int | None, ...]:
    """The result may grow over an input: each of its rows only where input rows lie that have been read for good."""
    found: list[int | None] = [None] * len(node.outputs)
    arriving = node.loop.source
    read = {p.value.name for w in node.loop.windows for p in w.read} - {arriving and arriving.name}
    for i, v in enumerate(node.inputs):
        if v.name in read and grows_over(node.loop, node.output, v):
            found[0] = i
    return tuple(found)


STREAM = Op(
    name="stream",
    doc="Several ops in stripes of rows; made by the planner.",
    defaults={},
    rules={"eval": one_by_one, "emit": lambda *values, node: node.loop, "macs": _macs, "in_place": _in_place},
    cases=(), kind="any", source=__file__, overwrites=False, domain=None,
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Candidate:
    graph: Graph
    bound_bytes: int  # the least its order needs
    cost: int  # what running in stripes adds, roughly in instructions


def best_stream(graph: Graph, peak: Node, loops: Loops, enough: int = 0) -> Graph | None:
    """The graph with the part around its peak in stripes, where that lowers the peak; `enough` bytes are low enough."""
    now = lower_bound(buffers(graph, tuple(loops.emit(n) for n in graph.nodes)))
    parts = [region for region in regions(graph, peak) if not _wider(region, peak)]
    chosen = quickest(graph, parts, loops, now, enough)
    return chosen.graph if chosen and max(chosen.bound_bytes, enough) < max(now, enough) else None


def quickest(
    graph: Graph, parts: Iterable[Region], loops: Loops, now: float, enough: int, need: Need = lower_bound
) -> Candidate | None:
    """Of all parts and heights that need least, or no more than `enough`, the quickest; none may need more than now."""
    calls = {n.name: loops.emit(n) for n in graph.nodes}
    least, found = now, []
    for region in parts:
        for c in _heights(graph, region, loops, calls, need):
            if max(c.bound_bytes, enough) > least * EQUAL:
                break  # a higher stripe needs more
            found.append(c)
            least = max(min(least, c.bound_bytes), enough)
    return min((c for c in found if c.bound_bytes <= least * EQUAL), key=lambda c: c.cost, default=None)


def regions(graph: Graph, peak: Node | None = None) -> Iterator[Region]:
    """Every part that could run in stripes and has the peak inside: all that leads to some node."""
    striped = {n.name for n in graph.nodes if _frozen(graph, n) and reads(n)}
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
            if region.nodes[0].op.name != ARRIVE or takes_rows(graph, region):
                yield region


def takes_rows(graph: Graph, region: Region) -> bool:
    """Can this part take rows of the input as they come? Nobody else reads them, and all else it reads is constant."""
    known = {graph.by_rows, *graph.constants}
    return region.nodes[0].name not in region.whole and all(v.name in known for v in region.inputs)


def _wider(region: Region, peak: Node) -> bool:
    """Its last node makes more of one value: ending before it is at least as good."""
    last = region.nodes[-1]
    inside = [v for v, _ in region.reads[last.name] if v.name in region.made]
    return len(inside) == 1 and inside[0].type.bytes <= last.output.type.bytes and last.name != peak.name


def able(graph: Graph) -> set[str]:
    """The nodes whose memory stripes can lower, or have lowered."""
    return {n.name for n in graph.nodes if isinstance(n, Streamed) or (_frozen(graph, n) and reads(n))}


def _frozen(graph: Graph, node: Node) -> bool:
    """Its weights stay as they are until the step is over."""
    return not any(v.name in graph.updates for v in node.inputs)


class Loops:
    """Loops that were made already, and how calls are made: a graph is asked about more than once."""

    def __init__(self, emit: Emit):
        self.emit = emit
        self._calls: Known = {}
        self._loops: dict[tuple, tuple[Loop, int]] = {}

    def loop(self, graph: Graph, region: Region, height: Fraction) -> tuple[Loop, int]:
        """The loop of a region, and its cost."""
        key = (height, region.whole, *region.nodes)
        if key not in self._loops:
            made = loop_of(region, height, self.emit, self._calls)
            self._loops[key] = made, cost(graph, made)
        return self._loops[key]


def _heights(graph: Graph, region: Region, loops: Loops, calls: dict[str, Call], need: Need) -> Iterator[Candidate]:
    rows = region.nodes[-1].output.shape[1]
    for height in HEIGHTS:
        if 2 * height > rows:
            continue
        loop, price = loops.loop(graph, region, height)
        made = fused(graph, region, loop)
        ordered = tuple(loop if n.op is STREAM and n.loop is loop else calls[n.name] for n in made.nodes)  # type: ignore
        yield Candidate(made, need(buffers(made, ordered)), price)


def fused(graph: Graph, region: Region, loop: Loop) -> Graph:
    """The graph with one node in place of the region's."""
    inside = {n.name for n in region.nodes}
    made = {v.name for v in region.outputs}
    attrs = {"stripes": len(loop.stripes), "of": [n.name for n in region.nodes]}
    # the last value names the node: it is what the part is run for
    outputs = (region.nodes[-1].output, *(v for v in region.outputs if v != region.nodes[-1].output))
    node = Streamed(STREAM, region.inputs, outputs, attrs, loop)
    if loop.source:  # reads constants alone: it can come first, and must
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


def unrolled(graph: Graph, step: int) -> tuple[Graph, Node]:
    """The graph with the node of this step as the nodes it was made of, if it was, and one of them: to choose again."""
    node = graph.nodes[step]
    if not isinstance(node, Streamed):
        return graph, node
    return replace(graph, nodes=(*graph.nodes[:step], *node.nodes, *graph.nodes[step + 1 :])), node.nodes[0]


def cost(graph: Graph, loop: Loop) -> int:
    """Calls, weights read again for each of them, rows read again, and rows moved."""
    weights = {n.name: sum(graph.values[v.name].type.bytes for v in n.inputs if v.name in graph.constants)
               for n in loop.nodes}  # fmt: skip
    read = sum(p.count * row_bytes(p.value) for w in loop.windows for p in w.read)
    return sum(CALL_COST + weights[w.made.value.name] for w in loop.windows) + read + loop.moved_bytes
