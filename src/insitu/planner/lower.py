"""While the peak is above the goal: take the steps there and try the rows of the table of changes, cheapest first.

A change (changes/table.py) is tried on the node at the peak, and on the nodes that make or read large values there. It
is kept if it reduces the bytes beyond the goal. Stripes are chosen for the whole graph at once, and come first. At the
end, changes that turned out not to be needed are undone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from insitu.graph import Graph, Node
from insitu.planner.changes.change import Tools
from insitu.planner.changes.stripes.cuts import cut_up
from insitu.planner.changes.stripes.node import Loops, able, streams
from insitu.planner.changes.table import CHANGES, DEAREST, TRIED

if TYPE_CHECKING:
    from insitu.planner.plan import Plan

Measure = Callable[[Graph], "Plan"]  # the order that needs least, unplaced

AT_ONCE = 0.99  # of the peak is the next goal: steps that need almost as much are changed together with it
LARGE = 1 / 16  # of the peak: smaller values are not worth trying


def lowered(graph: Graph, measure: Measure, loops: Loops, tools: Tools, enough: int = 0, stripes: bool = True) -> Graph:
    """The graph with changes at its peak; `enough` bytes are low enough. Without `stripes`, the peak is the highest of
    the steps that cannot run in stripes."""
    work = _Work(measure, loops, tools, stripes)
    best = measure(graph)
    if stripes:  # directly down to where something else needs as much
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
    tools: Tools
    stripes: bool
    dearest: bool = True  # whether the dearest changes are also tried

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
        """The plan with every step above the goal changed until it is not, as far as possible."""
        while self.peak(plan) > goal:
            now = self.excess(plan, goal)
            better = next((p for p in self.tried(plan, goal) if self.excess(p, goal) < now), None)
            if better is None:
                break
            plan = better
        return plan

    def tried(self, plan: Plan, goal: int) -> Iterator[Plan]:
        """One more change, first where most is needed."""
        needed, striped = self.needed(plan), able(plan.graph)
        if self.stripes and any(b > goal and n.name in striped for n, b in zip(plan.graph.nodes, needed)):
            found = self.cut(plan, goal)
            if found:
                yield found
        above = sorted((s for s, bytes in enumerate(needed) if bytes > goal), key=lambda s: -needed[s])
        around = {n.name: n for step in above for n in _around(plan, step)}.values()
        for tries in (TRIED, DEAREST) if self.dearest else (TRIED,):
            for node in around:
                for do in tries:
                    yield from self.fewest(plan, do(plan.graph, node, self.tools), goal)

    def cut(self, plan: Plan, goal: int) -> Plan | None:
        """Other parts in stripes, for this goal."""
        found = cut_up(plan.graph, self.loops, goal)
        return self.measure(found) if found and streams(found) != streams(plan.graph) else None

    def undone(self, plan: Plan, node: Node, goal: int, dear: bool) -> Iterator[Plan]:
        """This node changed back, the cheapest way first; instead of a dear change, others may bring the peak down."""
        for change in (c for c in CHANGES if c.dear == dear):
            for i, graph in enumerate(change.undo(plan.graph, node, self.tools)):
                found = self.measure(graph)
                yield replace(self, dearest=False).brought_down(found, goal) if dear and not i else found

    def fewest(self, plan: Plan, finer: Iterable[Graph], goal: int) -> Iterator[Plan]:
        """Of graphs that need less and less, the last one that improves on the one before: nothing, or one."""
        best = plan
        for found in map(self.measure, finer):
            if self.excess(found, goal) < self.excess(best, goal):
                best = found
            elif best is not plan:
                break
        if best is not plan:
            yield best


def _around(plan: Plan, step: int) -> list[Node]:
    """The node of a step, and the nodes that make or read a large value there, the largest first."""
    graph = plan.graph
    large = [b for b in plan.buffers if b.first <= step <= b.last and b.size(step) > LARGE * plan.lower_bound_bytes]
    found = {graph.nodes[step].name: graph.nodes[step]}
    for b in sorted(large, key=lambda b: -b.bytes):
        for name in b.names:
            touched = [graph.producer.get(name), *graph.users.get(name, ())]
            found |= {n.name: n for n in touched if n is not None}
    return list(found.values())


def _relaxed(best: Plan, work: _Work, enough: int) -> Plan:
    """The plan without the changes that later ones made unnecessary."""
    most = max(best.lower_bound_bytes, enough)
    found = work.cut(best, most)
    best = found if found and found.lower_bound_bytes <= most else best
    for dear in (True, False):
        for node in best.graph.nodes:
            found = (plan for plan in work.undone(best, node, most, dear) if plan.lower_bound_bytes <= most)
            best = next(found, best)
    return best
