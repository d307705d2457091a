"""In which order the nodes run: several legal orders are tried, and the one with the lowest peak wins.

An order is legal when every value is made before it is used and every lasting value is read before its update
overwrites it. The candidates differ in what they prefer among the nodes that could run next; updates always
run as soon as their gradient is there, because that frees it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from insitu.graph import Graph, Node
from insitu.planner.lifetimes import state_homes


def candidates(graph: Graph) -> Iterator[tuple[str, Graph]]:
    """(name, the graph in that order), the given order first."""
    yield "given", graph
    problem = _Problem(graph)
    for name, preference in PREFERENCES.items():
        order = problem.schedule(preference)
        yield name, replace(graph, nodes=tuple(graph.nodes[i] for i in order))


class _Problem:
    """Who must come before whom, and what running a node does to the bytes that are alive."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.homes = state_homes(graph)
        self.before = dependencies(graph, self.homes)
        self.kept = {v.name for v in graph.outputs}
        self.bytes = {v.name: v.type.bytes for n in graph.nodes for v in n.outputs if v.name not in self.homes} | {
            v.name: v.type.bytes for v in graph.inputs if v.name != graph.by_rows
        }

    def schedule(self, preference: Callable) -> list[int]:
        """List scheduling: of the nodes whose predecessors are done, run the one the preference ranks first."""
        waiting = {i: set(p) for i, p in enumerate(self.before)}
        uses = self._uses()
        live = sum(self.bytes.get(v.name, 0) for v in self.graph.inputs)
        order: list[int] = []
        while waiting:
            ready = [i for i, p in waiting.items() if not p]
            effects = {i: self._effect(self.graph.nodes[i], uses) for i in ready}
            chosen = min(ready, key=lambda i: preference(i, live, *effects[i]))
            live += effects[chosen][1]
            del waiting[chosen]
            for p in waiting.values():
                p.discard(chosen)
            for name in {v.name for v in self.graph.nodes[chosen].inputs}:
                if name in uses:
                    uses[name].discard(chosen)
            order.append(chosen)
        return order

    def _uses(self) -> dict[str, set[int]]:
        found: dict[str, set[int]] = {name: set() for name in self.bytes}
        for i, node in enumerate(self.graph.nodes):
            for v in node.inputs:
                if v.name in found:
                    found[v.name].add(i)
        return found

    def _effect(self, node: Node, uses: dict[str, set[int]]) -> tuple[int, int]:
        """(bytes a node needs while it runs beyond what is alive, bytes that stay alive after it)."""
        needed = sum(self.bytes.get(v.name, 0) for v in node.outputs)
        dying = {v.name for v in node.inputs if v.name in uses and len(uses[v.name]) == 1 and v.name not in self.kept}
        shared = sum(
            self.bytes.get(out, 0)
            for out, source in node.shared().items()
            if source.name in dying and out in self.bytes
        )
        return needed - shared, needed - sum(self.bytes[name] for name in dying)


def dependencies(graph: Graph, homes: dict[str, str]) -> list[set[int]]:
    """For each node, the nodes that must run before it."""
    made = {v.name: i for i, n in enumerate(graph.nodes) for v in n.outputs}
    readers: dict[str, set[int]] = {}
    for i, node in enumerate(graph.nodes):
        for v in node.inputs:
            readers.setdefault(v.name, set()).add(i)
    before: list[set[int]] = []
    first = readers.get(graph.by_rows, set())  # rows arrive before anything else is done: see docs/streaming.md
    for i, node in enumerate(graph.nodes):
        found = set() if i in first else set(first)
        found |= {made[v.name] for v in node.inputs if v.name in made}
        for out, source in node.shared().items():
            if out in homes:  # overwrites what is at `source`: everyone else must have read it
                found |= readers.get(source.name, set())
        before.append(found - {i})
    return before


# preference(index, live bytes, extra bytes while it runs, net bytes after it): lowest runs first
PREFERENCES = {
    "free first": lambda i, live, extra, net: (0, net, i) if net <= 0 else (1, i, 0),
    "least net": lambda i, live, extra, net: (net, i),
    "least peak": lambda i, live, extra, net: (live + extra, net, i),
    "free first, late": lambda i, live, extra, net: (0, net, i) if net <= 0 else (1, net, i),
}
