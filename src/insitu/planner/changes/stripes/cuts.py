"""Which nodes run in stripes together, how high the stripes are, and which calls get less scratch. The result is the
graph that stays within a number of bytes there with the fewest instructions or, if that is impossible, the one with the
fewest bytes.

Consecutive nodes that can run in stripes form a run. A run is cut into parts; a part is one node, or several in
stripes. The memory of a part does not depend on the others, so the best way to cut is a shortest path. Bytes and
instructions are estimates: lower.py measures afterwards what a graph really needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import inf

from insitu.graph import Graph, Node, Value
from insitu.graph.loops import row_bytes
from insitu.planner.changes.less_scratch import at_level
from insitu.planner.changes.looped import Looped
from insitu.planner.changes.stripes.estimate import CALL_COST, Levels, Sketch
from insitu.planner.changes.stripes.node import HEIGHTS, Loops, frozen, put, takes_rows, unrolled
from insitu.planner.changes.stripes.region import Region, reads
from insitu.planner.lifetimes import state_homes

LONGEST = 12  # nodes of a part: longer parts would give many more ways to cut, but hardly better ones
TRIES = 6  # attempts to make parts that need as little as estimated
SMALL = 0.002  # of a part's bytes: exceeding the estimate by this does not matter
EQUAL = 1.005  # bytes this close count as equal: then instructions decide


@dataclass(frozen=True)
class Part:
    """Nodes first..end-1 of a run; `height` 0: one node, not in stripes. `levels`: the scratch level of each node."""

    first: int
    end: int
    height: Fraction
    levels: Levels
    bytes: int  # alive while it runs
    cost: float


def cut_up(graph: Graph, loops: Loops, goal: float, only_first: bool = False) -> Graph | None:
    """The graph with parts in stripes for `goal` bytes, or as close to it as possible; None if no part can take rows
    that arrive. `only_first`: only the part that takes these rows is in stripes."""
    graph = unrolled(graph)
    cuts = _Cuts(graph, loops, only_first)
    for run in cuts.runs():
        parts = cuts.best(run, goal)
        if parts is None:
            return None
        for node in cuts.nodes(run, parts):
            graph = put(graph, node)
    return None if any(n.op.facts.arrives for n in graph.nodes) else graph


class _Cuts:
    """A graph of whole nodes, and the needs of its parts."""

    def __init__(self, graph: Graph, loops: Loops, only_first: bool):
        self.graph, self.loops, self.only_first = graph, loops, only_first
        self.at = {n.name: i for i, n in enumerate(graph.nodes)}
        self.results = {v.name for v in graph.results}
        self._least: dict[str, int] = {}
        self._ones: dict[str, Part] = {}
        self._regions: dict[tuple[str, int], Region | None] = {}
        self._drawn: dict[Region, list[tuple[Sketch, bool]]] = {}  # for each height, and whether its result grows over

    def runs(self) -> list[list[Node]]:
        """Nodes that can run in stripes; a run ends at a node that reads its results through other nodes."""
        found: list[list[Node]] = [[]]
        ours: set[str] = set()  # made by the run, or from its values
        others: set[str] = set()  # made from it by others
        for node in self.graph.nodes:
            names = {v.name for v in node.inputs}
            if not (reads(node) and frozen(self.graph, node)):
                if names & (ours | others):
                    others.update(v.name for v in node.outputs)
                continue
            if names & others:
                found.append([])
                ours, others = set(), set()
            found[-1].append(node)
            ours.add(node.name)
        return [run for run in found if len(run) > 1]

    # what is alive ----------------------------------------------------------------------------

    @cached_property
    def span(self) -> dict[str, tuple[int, int, int]]:
        """Value in the arena -> step that makes it, last step that reads it, bytes."""
        graph, homes = self.graph, state_homes(self.graph)
        made = {v.name: (-1, v) for v in graph.inputs if v.name != graph.by_rows}
        made |= {v.name: (i, v) for i, n in enumerate(graph.nodes) for v in n.outputs if v.name not in homes}
        last = {name: i for name, (i, _) in made.items()}
        for i, n in enumerate(graph.nodes):
            last |= {v.name: i for v in n.inputs if v.name in made}
        last |= {v.name: len(graph.nodes) for v in graph.outputs if v.name in made}
        return {name: (i, last[name], v.type.bytes) for name, (i, v) in made.items()}

    @cached_property
    def alive(self) -> list[int]:
        """Bytes made before each step and read in it or later."""
        change = [0] * (len(self.graph.nodes) + 3)
        for first, last, bytes in self.span.values():
            change[first + 1] += bytes
            change[last + 1] -= bytes
        for i in range(1, len(change)):
            change[i] += change[i - 1]
        return change

    def one(self, run: list[Node], i: int) -> Part | None:
        """A node as it is."""
        node = run[i]
        if node.op.facts.arrives:
            return None
        if node.name not in self._ones:
            self._ones[node.name] = self._one(node, i)
        return self._ones[node.name]

    def _one(self, node: Node, i: int) -> Part:
        at = self.at[node.name]
        bytes = self.alive[at] + sum(self.loops.call(node).scratch) + self._result(node, at)
        return Part(i, i + 1, Fraction(0), (0,), bytes, CALL_COST + self._read(node) + self.weights(node))

    def _result(self, node: Node, at: int) -> int:
        source = node.shared().get(node.name)
        over = source is not None and source.name in self.span and self.span[source.name][1] == at
        return 0 if over else node.output.type.bytes

    def _read(self, node: Node) -> int:
        return sum(v.type.bytes for v, _ in reads(node) or ())

    def weights(self, node: Node) -> int:
        return sum(v.type.bytes for v in node.inputs if v.name in self.graph.constants)

    # parts ------------------------------------------------------------------------------------

    def parts(self, run: list[Node], i: int, limit: float) -> Iterator[Part]:
        """From node i on: for each length, the cheapest part within the limit."""
        single = self.one(run, i)
        if single and single.bytes <= limit:
            yield single
        for end in self._ends(run, i, limit):
            best = None
            for height, sketch, outside in self.sketches(run, i, end, limit):
                levels = sketch.within(limit - outside)
                if levels:
                    cost = sketch.cost(levels)
                    if best is None or cost <= best.cost:  # of equals, the fewest stripes
                        best = Part(i, end, height, levels, outside + sketch.bytes(levels), cost)
                elif best:
                    break  # a higher stripe needs more
            if best:
                yield best

    def least(self, run: list[Node], i: int, most: Callable[[int], float]) -> Iterator[Part]:
        """From node i on: for each length, the part that needs least, if that is less than `most(end)`."""
        single = self.one(run, i)
        if single:
            yield single
        for end in self._ends(run, i, most(i)):
            best = None
            for height, sketch, outside in self.sketches(run, i, end, most(end)) if most(i) < most(end) else ():
                bytes = outside + sketch.least
                if best and bytes > best.bytes:
                    break
                best = Part(i, end, height, (), bytes, 0)
            if best:
                yield best

    def _ends(self, run: list[Node], i: int, enough: float) -> Iterator[int]:
        """Where a part from node i on may end: it must contain a node that alone needs more than `enough`."""
        if self.only_first and not run[i].op.facts.arrives:
            return
        high = False
        for end in range(i + 1, min(i + LONGEST, len(run)) + 1):
            single = self.one(run, end - 1)
            high |= single is None or single.bytes > enough
            if high and end > i + 1:
                yield end

    def sketches(self, run: list[Node], i: int, end: int, most: float) -> Iterator[tuple[Fraction, Sketch, int]]:
        """Part i..end-1 in stripes of every sensible height, the lowest first, and the bytes beside it; nothing if
        these alone reach `most`. Bytes wasted by its places count as beside it."""
        start = self.alive[self.at[run[i].name]]
        region = self._region(run, i, end) if start + sum(map(self._kept, run[i : end - 1])) < most else None
        if region is None:
            return
        result = region.nodes[-1].output
        outside, over = start + sum(v.type.bytes for v in region.outputs), self._over(region)
        heights = HEIGHTS if outside - (result.type.bytes if over else 0) < most else ()
        drawn = self._drawn.setdefault(region, [])
        for i, height in enumerate(heights):
            if 2 * height > result.shape[1]:
                break
            if i == len(drawn):
                sketch = self._sketch(region, height)
                drawn.append((sketch, any(map(sketch.grows_over, over))))
            sketch, grows = drawn[i]
            yield height, sketch, outside - (result.type.bytes if grows else 0) + self.loops.waste[sketch]

    def _kept(self, node: Node) -> int:
        """A lower bound of the bytes of a node's result that are kept from stripe to stripe."""
        if node.name not in self._least:
            readers = [r for u in self.graph.users.get(node.name, ()) for v, r in reads(u) or () if v == node.output]
            rows = max(((r.kernel - 1) * r.dilation + 1 - r.stride for r in readers), default=0)
            whole = node.name in self.results or any(not reads(u) for u in self.graph.users.get(node.name, ()))
            self._least[node.name] = 0 if whole else max(int(rows), 0) * row_bytes(node.output)
        return self._least[node.name]

    def _sketch(self, region: Region, height: Fraction) -> Sketch:
        return self.loops.sketch(region, height, self.weights)

    def _over(self, region: Region) -> list[Value]:
        """The inputs that the result may overwrite: they are not needed any more."""
        last, result = max(self.at[n.name] for n in region.nodes), region.nodes[-1].output.type.bytes
        spans = ((v, self.span[v.name]) for v in region.inputs if v.name in self.span)
        return [v for v, (_, end, bytes) in spans if end <= last and bytes >= result]

    def _region(self, run: list[Node], i: int, end: int) -> Region | None:
        """Nodes i..end-1 of a run; None if one reads another's whole result, or cannot take rows that arrive."""
        key = (run[i].name, end)
        if key not in self._regions:
            self._regions[key] = self._made(tuple(run[i:end]))
        return self._regions[key]

    def _made(self, nodes: tuple[Node, ...]) -> Region | None:
        inside = {n.name for n in nodes}
        users = self.graph.users
        whole = {n.name for n in nodes
                 if n.name in self.results or any(u.name not in inside for u in users.get(n.name, ()))}  # fmt: skip
        region = Region(nodes, frozenset(whole))
        if not region.by_rows:
            return None
        return region if not nodes[0].op.facts.arrives or takes_rows(self.graph, region) else None

    def region(self, run: list[Node], part: Part) -> Region:
        """The nodes of a part, each with its level of scratch."""
        found = self._region(run, part.first, part.end)
        assert found
        return Region(tuple(map(at_level, found.nodes, part.levels)), found.whole)

    # the best way to cut ----------------------------------------------------------------------

    def best(self, run: list[Node], goal: float) -> list[Part] | None:
        """The cheapest parts within the goal; if impossible, within the unavoidable minimum."""
        for _ in range(TRIES):
            found = self._cheapest(run, goal) or self._lowest(run)
            if found is None or not self._worse(run, found):
                break
        return found

    def _worse(self, run: list[Node], parts: list[Part]) -> bool:
        """Do the real places need more than estimated? If so, the estimate is corrected."""
        worse = False
        for part, node in zip((p for p in parts if p.height), self.nodes(run, parts)):
            sketch = self._sketch(self.region(run, part), part.height)
            thought = sketch.bytes(part.levels) + self.loops.waste[sketch]
            if node.loop.bytes - thought > thought * SMALL:
                self.loops.waste[sketch] += node.loop.bytes - thought
                worse = True
        return worse

    def nodes(self, run: list[Node], parts: list[Part]) -> list[Looped]:
        """The parts that are in stripes."""
        return [self.loops.node(self.region(run, part), part.height) for part in parts if part.height]

    def _lowest(self, run: list[Node]) -> list[Part] | None:
        lowest = _path(len(run), lambda i, most: ((p.bytes, p) for p in self.least(run, i, most)), max)
        return lowest and self._cheapest(run, max(p.bytes for p in lowest) * EQUAL)

    def _cheapest(self, run: list[Node], limit: float) -> list[Part] | None:
        return _path(len(run), lambda i, _: ((p.cost, p) for p in self.parts(run, i, limit)), sum)


def _path(end: int, steps: Callable, join: Callable) -> list[Part] | None:
    """The parts from 0 to the end whose joined numbers are least; None if there are none. `steps(i, most)` are those
    from i on; only parts with less than most(their end) are useful."""
    best: list[tuple[float, list[Part]]] = [(0, []), *([(inf, [])] * end)]
    for i in range(end):
        here, parts = best[i]
        if here == inf:
            continue
        for number, part in steps(i, lambda at: best[at][0]):
            joined = join((here, number))
            if joined < best[part.end][0]:
                best[part.end] = joined, [*parts, part]
    return best[end][1] or None
