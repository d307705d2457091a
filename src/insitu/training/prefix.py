"""Cut training graphs where the frozen part ends, so that its outputs can be computed once and cached.

The prefix is everything that depends only on the samples, not on state, labels or rates. Training from its
outputs gives the same bytes as training from the samples. `narrow` moves the cut to where less must be stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from insitu.graph import Graph, Node, Value, drop_unused

NARROW = 0.1  # of the multiply-adds of a step: a narrower cut may compute that much again each time


@dataclass(frozen=True, eq=False)
class Split:
    prefix: Graph  # samples -> the values that the rest needs
    rest: dict[str, Graph]  # verb -> the graph that starts from those values

    @property
    def by_sample(self) -> bool:
        """Is the first axis of what is cut that of the samples? Attention has the sequence there."""
        return all(v.shape[:1] == self.prefix.inputs[0].shape[:1] for v in self.prefix.outputs)

    def rest_of(self, graphs: Mapping[str, Graph]) -> dict[str, Graph]:
        """Other training graphs of the same network, cut at the same place: nothing before it may be trained."""
        names = {v.name for v in self.prefix.inputs}
        frozen = names | {v.name for node in self.prefix.nodes for v in node.outputs}
        cut = tuple(v.name for v in self.prefix.outputs)
        return {verb: _rest(g, names, frozen, cut) for verb, g in graphs.items()}


def split(graphs: Mapping[str, Graph], samples: tuple[Value, ...], narrow: bool = False) -> Split | None:
    """The graphs cut at the end of the frozen prefix; None if nothing worth caching is frozen.

    With `narrow`, the cut is the smallest value shortly before that end, if there is one: an expanded tensor is often
    several times as large as the block's input.
    """
    names = {v.name for v in samples}
    taking = [g for g in graphs.values() if names & {v.name for v in g.inputs}]  # the others work only on the state
    frozen = frozen_everywhere(taking, names)
    cut = {v.name for graph in taking for v in _border(graph, frozen)}
    if cut <= names:
        return None
    if narrow:
        cut, frozen = _narrowed(taking, cut, frozen, names)
    values = tuple(v for name, v in taking[0].values.items() if name in cut)
    prefix = drop_unused(replace(taking[0], outputs=values, updates={}, state={}, inputs=samples, by_rows=""))
    smaller = narrow and _bytes(values) < _bytes(samples)
    if not prefix.constants and not smaller:  # transposed or rounded samples are not worth caching, but to save room
        return None
    return Split(prefix, {verb: _rest(g, names, frozen, tuple(v.name for v in values)) for verb, g in graphs.items()})


def _bytes(values: tuple[Value, ...]) -> int:
    return sum(v.type.bytes for v in values)


def _narrowed(graphs: list[Graph], cut: set[str], frozen: set[str], names: set[str]) -> tuple[set[str], set[str]]:
    """The cheapest cut in bytes, and what is frozen before it."""
    graph, most = graphs[0], NARROW * max(sum(map(_macs, g.nodes)) for g in graphs)
    best, kept = (sum(graph.values[name].type.bytes for name in cut), cut, frozen), frozen
    for node in reversed([n for n in graph.nodes if n.outputs[0].name in frozen]):
        before = _ancestors(graph, node) & frozen
        behind = [n for n in graph.nodes if n.outputs[0].name in kept and n.outputs[0].name not in before]
        known = {node.outputs[0].name, *graph.constants, *(v.name for n in behind for v in n.outputs)}
        if sum(map(_macs, behind)) > most:
            break
        if len(node.outputs) == 1 and cut <= known and all(v.name in known for n in behind for v in n.inputs):
            best = min(best, (node.output.type.bytes, {node.output.name}, before | names), key=lambda found: found[0])
    return best[1], best[2]


def _macs(node: Node) -> int:
    return int(node.rule("macs", node.output, *node.inputs)) if node.op.has("macs") else 0


def _ancestors(graph: Graph, node: Node) -> set[str]:
    """The values that a node's result is computed from, and itself."""
    found, waiting = set(), [node]
    while waiting:
        made = waiting.pop()
        found |= {v.name for v in made.outputs}
        waiting += [graph.producer[v.name] for v in made.inputs if v.name in graph.producer and v.name not in found]
    return found


def frozen_everywhere(graphs: list[Graph], names: set[str]) -> set[str]:
    """Values that every graph computes only from the samples and constants. A training step may have other frozen
    values (the backward pass reshapes a sample), and `predict` an output that is not trained: those are not cut."""
    found = set.intersection(*(set(g.values) for g in graphs))
    while True:
        fewer = found
        for graph in graphs:
            fewer = frozen_values(graph, names, fewer)
        if fewer == found:
            return found
        found = fewer


def frozen_values(graph: Graph, names: set[str], among: set[str]) -> set[str]:
    """The values among these that are computed only from the samples and constants."""
    frozen = set(names)
    known = set(graph.constants)
    for node in graph.nodes:
        made = {v.name for v in node.outputs}
        if made <= among and all(v.name in frozen or v.name in known for v in node.inputs):
            frozen |= made
    return frozen


def _border(graph: Graph, frozen: set[str]) -> list[Value]:
    """Frozen values that something not frozen reads."""
    wanted = {v.name for n in graph.nodes if n.outputs[0].name not in frozen for v in n.inputs}
    wanted |= {v.name for v in graph.results}
    return [v for name, v in graph.values.items() if name in wanted and name in frozen]


def _rest(graph: Graph, names: set[str], frozen: set[str], cut: tuple[str, ...]) -> Graph:
    """The graph that starts from these values; it may take more samples at once than the others."""
    if not names & {v.name for v in graph.inputs}:
        return graph
    others = tuple(v for v in graph.inputs if v.name not in names)
    nodes = tuple(n for n in graph.nodes if n.outputs[0].name not in frozen)
    return drop_unused(replace(graph, inputs=(*(graph.values[name] for name in cut), *others), nodes=nodes, by_rows=""))
