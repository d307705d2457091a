"""Cut training graphs where the frozen part ends, so that its outputs can be computed once and kept.

The prefix is everything that depends on the samples alone: not on state, labels or rates. Training from its
outputs gives the same bytes as training from the samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from insitu.graph import Graph, Value, drop_unused


@dataclass(frozen=True, eq=False)
class Split:
    prefix: Graph  # samples -> the values the rest needs of them
    rest: dict[str, Graph]  # verb -> the graph that starts from those values


def split(graphs: Mapping[str, Graph], samples: tuple[Value, ...]) -> Split | None:
    """The graphs cut at the end of the frozen prefix; None where nothing is frozen."""
    names = {v.name for v in samples}
    cut: dict[str, Value] = {}
    source = None
    for graph in graphs.values():
        if not names & {v.name for v in graph.inputs}:
            continue  # works on state alone
        frozen = frozen_values(graph, names)
        if source is None or len(frozen) < len(frozen_values(source, names)):
            source = graph
        cut |= {v.name: v for v in _border(graph, frozen)}
    if source is None or set(cut) <= names:
        return None
    values = tuple(cut.values())
    prefix = drop_unused(replace(source, outputs=values, updates={}, state={}, inputs=samples, by_rows=""))
    return Split(prefix, {verb: _rest(g, names, values) for verb, g in graphs.items()})


def frozen_values(graph: Graph, names: set[str]) -> set[str]:
    """Values computed from the samples and constants alone."""
    frozen = set(names)
    known = set(graph.constants)
    for node in graph.nodes:
        if all(v.name in frozen or v.name in known for v in node.inputs):
            frozen.update(v.name for v in node.outputs)
    return frozen


def _border(graph: Graph, frozen: set[str]) -> list[Value]:
    """Frozen values that something not frozen reads."""
    wanted = {v.name for n in graph.nodes if n.outputs[0].name not in frozen for v in n.inputs}
    wanted |= {v.name for v in graph.results}
    return [v for name, v in graph.values.items() if name in wanted and name in frozen]


def _rest(graph: Graph, names: set[str], values: tuple[Value, ...]) -> Graph:
    if not names & {v.name for v in graph.inputs}:
        return graph
    made = {v.name for v in values}
    others = tuple(v for v in graph.inputs if v.name not in names)
    nodes = tuple(n for n in graph.nodes if n.outputs[0].name not in frozen_values(graph, names))
    return drop_unused(
        replace(graph, inputs=(*(v for v in values if v.name in made), *others), nodes=nodes, by_rows="")
    )
