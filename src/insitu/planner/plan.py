"""The plan: an ordered graph, the kernel call of each step, and a place for every value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, combinations

from insitu.errors import GraphError
from insitu.graph import Graph, Node
from insitu.graph.call import Call, Scratch
from insitu.graph.graph import shown_in_notebook
from insitu.graph.loops import Loop
from insitu.planner.changes.change import Tools
from insitu.planner.changes.kept_channels import narrowed
from insitu.planner.changes.less_scratch import level_of
from insitu.planner.changes.stripes.arrive import arriving
from insitu.planner.changes.stripes.node import Loops, Made, able
from insitu.planner.changes.stripes.region import identity
from insitu.planner.fuse import fused
from insitu.planner.lifetimes import Buffer, buffers, lower_bound, scratch_name, state_homes
from insitu.planner.lower import lowered
from insitu.planner.order import candidates
from insitu.planner.place.placer import ALIGN, place

GAP = 1.002  # an arena this close to the lower bound is good enough
SEARCH_ROUNDS = 300
QUICK = ("free first",)  # orders to try if a graph in a good order was changed a little
TARGETS = ("host", "mcu")  # a wide machine with caches and plenty of memory, or a small one that reads flash in place


@dataclass(frozen=True, eq=False)
class Plan:
    graph: Graph
    calls: tuple[Call, ...]  # one per node, in order
    buffers: tuple[Buffer, ...]
    offsets: dict[str, int]  # value or scratch name -> byte of the arena
    arena_bytes: int
    lower_bound_bytes: int  # of this order: no placement needs less
    best_bound_bytes: int  # the lowest over all orders that were tried
    order: str = "given"
    target: str = "host"  # the kind of machine for which kernels were chosen

    def __repr__(self) -> str:
        """One line: a notebook shows the memory map, as `reports.memory.memory_map` prints it."""
        bytes_ = f"arena {self.arena_bytes:,} B, lower bound {self.lower_bound_bytes:,} B"
        return f"<Plan of {self.graph.name}: {len(self.calls)} steps, {bytes_}, for {self.target}>"

    def _repr_html_(self) -> str:
        import insitu  # reports stand after planners, so they are asked for by their public name

        return shown_in_notebook(repr(self), insitu.reports.map_text(self))

    @cached_property
    def homes(self) -> dict[str, str]:
        """Value -> the state it is written into."""
        return state_homes(self.graph)

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Every node that runs, including those inside loops."""
        pairs = zip(self.graph.nodes, self.calls)
        return tuple(n for node, call in pairs for n in (call.nodes if isinstance(call, Loop) else (node,)))

    @cached_property
    def scratch_bytes(self) -> dict[str, int]:
        return {b.names[0]: b.bytes for b in self.buffers if b.names[0].startswith("scratch ")}

    def scratch_of(self, step: int) -> list[str]:
        wanted = [a for a in self.calls[step].args if isinstance(a, Scratch)]
        return [scratch_name(step, i) for i, a in enumerate(wanted) if a.bytes]

    @cached_property
    def life(self) -> dict[str, tuple[int, int]]:
        """Value -> first and last step of its buffer."""
        return {n: (b.first, b.last) for b in self.buffers for n in b.names}

    @cached_property
    def live(self) -> list[int]:
        """Live bytes at each step."""
        change = [0] * (len(self.calls) + 2)
        for b in self.buffers:
            for first, last, size in b.pieces:
                change[max(first, 0)] += size
                change[min(last, len(self.calls)) + 1] -= size
        return list(accumulate(change[: len(self.calls)]))

    @cached_property
    def peak_step(self) -> int:
        """The first step with the most live bytes."""
        return max(range(len(self.live)), key=self.live.__getitem__, default=0)

    def peak_of(self, names: set[str]) -> int:
        """The most live bytes at the steps of these nodes."""
        return max((bytes for node, bytes in zip(self.graph.nodes, self.live) if node.name in names), default=0)


def plan(
    graph: Graph,
    align: int = ALIGN,
    target: str = "host",
    *,
    stream: bool | None = None,
    enough: int = 0,
    made: Made | None = None,
) -> Plan:
    """The best of several orders, with calls and offsets; proven by verify/replay.py.

    stream   spend instructions to lower the peak: stripes, less scratch, tiles (lower.py); None: on small machines
    enough   the arena size in bytes below which no more instructions are spent
    made     results for graphs that agree with this one
    """
    from insitu.planner.verify import verify

    if stream is False:
        graph = replace(graph, by_rows="")
    stream = target == "mcu" if stream is None else stream
    if target == "host" and not stream and not graph.by_rows:
        graph = fused(graph)
    loops = Loops(lambda n: call_of(n, graph, target), made or Made())
    tools = Tools(loops.call)
    if stream:
        whole = replace(graph, by_rows="")  # it is not known yet whether its input can arrive row by row
        if _unplaced(whole, target, loops).lower_bound_bytes > enough:
            whole = narrowed(whole)
        graph = replace(_without_stripes(whole, loops, tools, target, enough), by_rows=graph.by_rows)
    if graph.by_rows:
        graph = arriving(graph, loops, enough, stream)
    if stream:
        graph = _lowered(graph, loops, tools, target, enough)
    return verify(plan_ordered(graph, align, target))


def _without_stripes(graph: Graph, loops: Loops, tools: Tools, target: str, enough: int) -> Graph:
    """First the peak that stripes cannot lower: they need not go below it.

    This matters if rows arrive: their part in stripes is chosen before the other changes. Without this round
    proxyless-w0.3/49kb by rows needs 4.1 % more; the others hardly change (docs/planner.md).
    """
    return _lowered(graph, loops, tools, target, enough, stripes=False)


def _lowered(graph: Graph, loops: Loops, tools: Tools, target: str, enough: int, stripes: bool = True) -> Graph:
    start = _unplaced(graph, target, loops).graph
    return lowered(start, lambda g: _unplaced(g, target, loops, QUICK), loops, tools, enough, stripes)


def plan_all(
    graphs: Mapping[str, Graph], target: str = "host", enough: int = 0, made: Made | None = None
) -> dict[str, Plan]:
    """Plans of functions that share one arena: none is made slower to need less than the largest, or `enough`.

    `made` are results of planning the same graphs before, with another `enough`."""
    plans: dict[str, Plan] = {}
    shared = (made or Made()) if all(agree(a, b) for a, b in combinations(graphs.values(), 2)) else None
    for verb in sorted(graphs, key=lambda verb: -len(graphs[verb].nodes)):
        most = max([enough, *(p.arena_bytes for p in plans.values())])
        plans[verb] = plan(graphs[verb], target=target, enough=most, made=shared)
    return {verb: plans[verb] for verb in graphs}


def agree(graph: Graph, other: Graph) -> bool:
    """Are nodes of two graphs equal if they have the same name and inputs? Then they can share calls and loops."""
    twins = ((graph.producer.get(node.name, node), node) for node in other.nodes)
    return all(
        (a.inputs, a.outputs, a.attrs) == (b.inputs, b.outputs, b.attrs)
        and all((v.name in graph.constants) == (v.name in other.constants) for v in b.inputs)
        for a, b in twins if a is not b and identity(a) == identity(b)
    )  # fmt: skip


def _unplaced(graph: Graph, target: str, loops: Loops, orders: Iterable[str] | None = None) -> Plan:
    """The order that needs least if nothing can run in stripes, without places: quick, and close."""
    tried = [_ordered(g, name, loops.call, target) for name, g in candidates(graph, orders)]
    fixed = {n.name for n in graph.nodes} - able(graph)
    return min(tried, key=lambda p: (p.peak_of(fixed), p.lower_bound_bytes))


def plan_ordered(graph: Graph, align: int = ALIGN, target: str = "host") -> Plan:
    """The best of several orders, with the nodes as they are; not proven."""
    calls = {id(node): call_of(node, graph, target) for node in graph.nodes}
    tried = [_ordered(g, name, lambda n: calls[id(n)], target) for name, g in candidates(graph)]
    least = min(tried, key=lambda p: p.lower_bound_bytes)
    best = _placed(tried[0], align)
    for order in tried[1:]:
        if order.lower_bound_bytes < best.arena_bytes:  # else it cannot be better
            best = min(best, _placed(order, align), key=lambda p: p.arena_bytes)
    if best.arena_bytes > least.lower_bound_bytes * GAP:  # worth a search, in the most promising order
        best = min(best, _placed(least, align, SEARCH_ROUNDS), key=lambda p: p.arena_bytes)
    return replace(best, best_bound_bytes=least.lower_bound_bytes)


def _ordered(graph: Graph, order: str, call: Callable[[Node], Call], target: str) -> Plan:
    """A plan without places."""
    calls = tuple(map(call, graph.nodes))
    found = buffers(graph, calls)
    bound = lower_bound(found)
    return Plan(graph, calls, found, {}, bound, bound, bound, order, target)


def _placed(plan: Plan, align: int, rounds: int = 0) -> Plan:
    offsets, total = place(plan.buffers, align, rounds)
    by_name = {name: at for b, at in offsets.items() for name in b.names}
    return replace(plan, offsets=by_name, arena_bytes=total)


def call_of(node: Node, graph: Graph, target: str = "host") -> Call:
    """The kernel call of a node; `fixed` tells the op which inputs are constants, `target` the kind of machine."""
    if not node.op.has("emit"):
        raise GraphError(f"op {node.op.name} has no C kernel", where=f"%{node.name}")
    fixed = {i for i, v in enumerate(node.inputs) if v.name in graph.constants}  # state is not constant: it changes
    args = (*node.outputs, *node.inputs)
    reserved = {"node": node, "fixed": fixed, "target": target, "tight": level_of(node)}
    return node.op.apply("emit", args, dict(node.attrs), **reserved)
