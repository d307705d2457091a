"""Instructions spent to lower the peak: what runs at the step that needs most is changed, as long as that helps.

A change (changes/) is a function of a graph and one of its nodes that gives another graph with the same results, or
None: less scratch, in place, a weight read in two parts, an update in tiles, a block in groups of channels; the last
two offer several sizes. It is tried on the node at the peak, and on those that make or read what is large there.
Stripes come first. What turned out not to be needed is taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from insitu.graph import Graph, Node
from insitu.planner.changes.channel_groups.chain import Known, grouped, ungrouped
from insitu.planner.changes.in_place import laid_over
from insitu.planner.changes.less_scratch import loosened, loosest, tightened, tightest
from insitu.planner.changes.looped import Looped
from insitu.planner.changes.stripes.cuts import cut_up
from insitu.planner.changes.stripes.node import Loops, able, streams
from insitu.planner.changes.update_tiles import tiled, untiled
from insitu.planner.changes.weight_parts import layer_apart, taken_apart

if TYPE_CHECKING:
    from insitu.planner.plan import Plan

Measure = Callable[[Graph], "Plan"]  # the order that needs least, unplaced

# the cheapest first
CHANGES: tuple[Callable[[Graph, Node], Graph | None], ...] = (laid_over, layer_apart, tightened, taken_apart, tightest)
BACK = (loosest, loosened, untiled)
AT_ONCE = 0.99  # of the peak is the next goal: steps that need almost as much are changed with it
LARGE = 1 / 16  # of the peak: smaller values are not worth a look


def lowered(graph: Graph, measure: Measure, loops: Loops, enough: int = 0, stripes: bool = True) -> Graph:
    """The graph with changes at its peak; `enough` bytes are low enough. Without `stripes`, at the highest of the steps
    that cannot run in stripes."""
    work = _Work(measure, loops, stripes)
    best = measure(graph)
    if stripes:  # at once to where something else needs as much
        best = work.cut(best, max(enough, replace(work, stripes=False).peak(best))) or best
    while work.peak(best) > enough:
        found = work.brought_down(best, max(enough, int(work.peak(best) * AT_ONCE)))
        if work.peak(found) >= work.peak(best):
            break
        best = found
    return (_relaxed(best, work, enough) if stripes else best).graph


@dataclass(frozen=True)
class _Work:
    measure: Measure
    loops: Loops
    stripes: bool
    groups: bool = True
    known: Known = field(default_factory=dict)

    def needed(self, plan: Plan) -> list[int]:
        """Bytes at each step that counts."""
        others = set() if self.stripes else able(plan.graph)
        return [0 if node.name in others else bytes for node, bytes in zip(plan.graph.nodes, plan.live)]

    def peak(self, plan: Plan) -> int:
        return max(self.needed(plan), default=0)

    def excess(self, plan: Plan, goal: int) -> int:
        """Bytes beyond the goal, over all steps."""
        return sum(max(0, bytes - goal) for bytes in self.needed(plan))

    def brought_down(self, plan: Plan, goal: int) -> Plan:
        """With every step that needs more than the goal changed until it needs no more, as far as that goes."""
        while self.peak(plan) > goal:
            now = self.excess(plan, goal)
            better = next((p for p in self.tried(plan, goal) if self.excess(p, goal) < now), None)
            if better is None:
                break
            plan = better
        return plan

    def tried(self, plan: Plan, goal: int) -> Iterator[Plan]:
        """One change more, where most is needed first."""
        needed, striped = self.needed(plan), able(plan.graph)
        if self.stripes and any(b > goal and n.name in striped for n, b in zip(plan.graph.nodes, needed)):
            found = self.cut(plan, goal)
            if found:
                yield found
        above = sorted((s for s, bytes in enumerate(needed) if bytes > goal), key=lambda s: -needed[s])
        around = {n.name: n for step in above for n in _around(plan, step)}.values()
        for node in around:
            for change in CHANGES:
                found = change(plan.graph, node)
                if found:
                    yield self.measure(found)
            yield from self.fewest(plan, map(self.measure, tiled(plan.graph, node, self.loops.call)), goal)
        for node in around if self.groups else ():  # more is made again than by all others
            yield from self.fewest(plan, map(self.measure, self.grouped(plan.graph, node)), goal)

    def cut(self, plan: Plan, goal: int) -> Plan | None:
        """Other parts in stripes, as this goal asks for."""
        found = cut_up(plan.graph, self.loops, goal)
        return self.measure(found) if found and streams(found) != streams(plan.graph) else None

    def instead(self, plan: Plan, node: Node, goal: int) -> Iterator[Plan]:
        """Cheaper ways than these groups, the cheapest first: other changes in their place, or fewer groups."""
        found = ungrouped(plan.graph, node)
        if found is None or not isinstance(node, Looped):
            return
        yield replace(self, groups=False).brought_down(self.measure(found), goal)
        yield from map(self.measure, self.grouped(found, node.nodes[0]))

    def grouped(self, graph: Graph, node: Node) -> Iterator[Graph]:
        return grouped(graph, node, self.loops.call, self.known)

    def fewest(self, plan: Plan, finer: Iterator[Plan], goal: int) -> Iterator[Plan]:
        """Of plans with more and more tiles, the last that is better than the one before: nothing, or one."""
        best = plan
        for found in finer:
            if self.excess(found, goal) < self.excess(best, goal):
                best = found
            elif best is not plan:
                break
        if best is not plan:
            yield best


def _around(plan: Plan, step: int) -> list[Node]:
    """The node of a step, and those that make or read a large value there, the largest first."""
    graph = plan.graph
    large = [b for b in plan.buffers if b.first <= step <= b.last and b.size(step) > LARGE * plan.lower_bound_bytes]
    found = {graph.nodes[step].name: graph.nodes[step]}
    for b in sorted(large, key=lambda b: -b.bytes):
        for name in b.names:
            touched = [graph.producer.get(name), *graph.users.get(name, ())]
            found |= {n.name: n for n in touched if n is not None}
    return list(found.values())


def _relaxed(best: Plan, work: _Work, enough: int) -> Plan:
    """Without the groups, the calls with less scratch and the tiles that later changes made needless."""
    most = max(best.lower_bound_bytes, enough)
    found = work.cut(best, most)
    best = found if found and found.lower_bound_bytes <= most else best
    for node in best.graph.nodes:
        found = (plan for plan in work.instead(best, node, most) if plan.lower_bound_bytes <= most)
        best = next(found, best)
    for node in best.graph.nodes:
        found = (work.measure(graph) for graph in (change(best.graph, node) for change in BACK) if graph)
        best = next((plan for plan in found if plan.lower_bound_bytes <= most), best)
    return best
