"""The order of the nodes: several legal orders are tried, and the one with the lowest peak wins.

An order is legal if every value is made before it is used, and every persistent value is read before its update
overwrites it. The candidates differ in which of the possible next nodes they prefer; updates always run as soon as
their gradient exists, because that frees it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from heapq import heappop, heappush

from insitu.errors import GraphError
from insitu.graph import Graph
from insitu.planner.lifetimes import state_homes

Preference = Callable[[int, int, int], tuple[int, ...]]
Readers = Mapping[str, list[int]]  # value -> the nodes that read it


def candidates(graph: Graph, names: Iterable[str] | None = None) -> Iterator[tuple[str, Graph]]:
    """(name, the graph in that order), the given order first; no order twice. All, or only those with these names."""
    yield "given", graph
    problem, known = _Problem(graph), {tuple(range(len(graph.nodes)))}
    for name in PREFERENCES if names is None else names:
        order = tuple(problem.schedule(PREFERENCES[name]))
        if order not in known:
            known.add(order)
            yield name, replace(graph, nodes=tuple(graph.nodes[i] for i in order))


def settled(graph: Graph) -> Graph:
    """The graph in a legal order, as close to its own as possible: for graphs whose nodes were changed."""
    before = dependencies(graph, state_homes(graph))
    after, missing = successors(before), [len(needed) for needed in before]
    ready, order = [i for i, count in enumerate(missing) if not count], []
    while ready:
        order.append(heappop(ready))
        for i in after[order[-1]]:
            missing[i] -= 1
            if not missing[i]:
                heappush(ready, i)
    if len(order) < len(before):
        raise GraphError("no order makes every value before it is used and reads every state before its update")
    return replace(graph, nodes=tuple(graph.nodes[i] for i in order))


class _Problem:
    """Which nodes must come before which, and how running a node changes the live bytes."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.homes = state_homes(graph)
        readers = readers_of(graph)
        self.needed = dependencies(graph, self.homes, readers)
        self.before = readers_first(graph, self.needed, self.homes, readers)
        self.after = successors(self.before)
        self.kept = {v.name for v in graph.outputs}
        self.bytes = {v.name: v.type.bytes for n in graph.nodes for v in n.outputs if v.name not in self.homes} | {
            v.name: v.type.bytes for v in graph.inputs if v.name != graph.by_rows
        }

    def schedule(self, preference: Preference) -> list[int]:
        """List scheduling: of the nodes whose predecessors are done, run the one the preference ranks first."""
        missing, uses = [len(p) for p in self.before], self._uses()
        ready = {i: preference(i, *self._effect(i, uses)) for i, count in enumerate(missing) if not count}
        order: list[int] = []
        while ready:
            chosen = min(ready, key=ready.__getitem__)
            del ready[chosen]
            order.append(chosen)
            new = self._used(chosen, uses) & ready.keys()
            for i in self.after[chosen]:
                missing[i] -= 1
                if not missing[i]:
                    new.add(i)
            for i in new:
                ready[i] = preference(i, *self._effect(i, uses))
        return order

    def _used(self, chosen: int, uses: dict[str, set[int]]) -> set[int]:
        """A node has run; returns the nodes that are now the last reader of something, which then dies with them."""
        found: set[int] = set()
        for name in self.read[chosen]:
            uses[name].discard(chosen)
            if len(uses[name]) == 1:
                found |= uses[name]
        return found

    def _uses(self) -> dict[str, set[int]]:
        found: dict[str, set[int]] = {name: set() for name in self.bytes}
        for i, names in enumerate(self.read):
            for name in names:
                found[name].add(i)
        return found

    @cached_property
    def read(self) -> list[list[str]]:
        """The values in the arena that each node reads."""
        return [[name for name in n.reads if name in self.bytes] for n in self.graph.nodes]

    @cached_property
    def made(self) -> list[int]:
        """Bytes that each node makes."""
        return [sum(self.bytes.get(v.name, 0) for v in n.outputs) for n in self.graph.nodes]

    def _effect(self, i: int, uses: dict[str, set[int]]) -> tuple[int, int]:
        """(extra bytes that a node needs while it runs, bytes that stay alive after it)."""
        needed, dying = self.made[i], [n for n in self.read[i] if len(uses[n]) == 1 and n not in self.kept]
        if not dying:
            return needed, needed
        pairs = self.graph.nodes[i].shared().items()
        shared = sum(self.bytes.get(out, 0) for out, source in pairs if source.name in dying)
        return needed - shared, needed - sum(map(self.bytes.__getitem__, dying))


def dependencies(graph: Graph, homes: dict[str, str], readers: Readers | None = None) -> list[set[int]]:
    """For each node, the nodes that must run before it."""
    readers = readers_of(graph) if readers is None else readers
    made = {v.name: i for i, n in enumerate(graph.nodes) for v in n.outputs}
    before: list[set[int]] = []
    first = set(readers.get(graph.by_rows, ()))  # rows arrive before anything else runs: see docs/streaming.md
    for i, node in enumerate(graph.nodes):
        found = {made[name] for name in node.reads if name in made}
        if first and i not in first:
            found |= first
        for out, source in node.shared().items():
            if out in homes:  # overwrites the content of `source`: every other reader must have read it
                found.update(readers.get(source.name, ()))
        found.discard(i)
        before.append(found)
    return before


def readers_of(graph: Graph) -> Readers:
    """Value -> the nodes that read it."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for i, node in enumerate(graph.nodes):
        for name in node.reads:
            found[name].append(i)
    return dict(found)


def successors(before: list[set[int]]) -> list[list[int]]:
    """For each node, the nodes that wait for it."""
    after: list[list[int]] = [[] for _ in before]
    for i, needed in enumerate(before):
        for j in needed:
            after[j].append(i)
    return after


def readers_first(graph: Graph, before: list[set[int]], homes: dict[str, str], readers: Readers) -> list[set[int]]:
    """The same; and if a node may overwrite a value, its other readers come first, unless they need the node's result:
    then it can work in place."""
    found, earlier = [set(b) for b in before], _ancestors(before)
    for i, node in enumerate(graph.nodes):
        for source in {s.name for out, s in node.shared().items() if out not in homes and s.name not in homes}:
            for j in readers[source]:
                if j > i and not earlier[j] >> i & 1:
                    found[i].add(j)
                    _after(earlier, i, earlier[j] | 1 << j)
    return found


def _ancestors(before: list[set[int]]) -> list[int]:
    """For each node, all nodes that must run before it: one bit per node. An update may be listed before nodes it waits
    for, so this is repeated until nothing changes."""
    found = [0] * len(before)
    stable = False
    while not stable:
        stable = True
        for i, needed in enumerate(before):
            bits = found[i]
            for j in needed:
                bits |= found[j] | 1 << j
            stable &= bits == found[i]
            found[i] = bits
    return found


def _after(earlier: list[int], i: int, bits: int) -> None:
    """Node i, and all nodes after it, come after these."""
    earlier[i] |= bits
    for k, its in enumerate(earlier):
        if its >> i & 1:
            earlier[k] |= bits


# of its number, the extra bytes it needs while it runs, and after it: the lowest runs first
PREFERENCES: dict[str, Preference] = {
    "given, readers first": lambda i, extra, net: (i,),
    "free first": lambda i, extra, net: (0, net, i) if net <= 0 else (1, i, 0),
    "least net": lambda i, extra, net: (net, i),
    "least peak": lambda i, extra, net: (extra, net, i),
}
