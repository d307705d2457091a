"""Names that training needs for itself: a model's own values that have one of them get another."""

from __future__ import annotations

from dataclasses import replace

from insitu.graph import Graph, Node, Value
from insitu.schemes.scheme import Scheme

RESERVED = ("counters", "step", "dropout.counter", "body_rate")
INPUTS = ("rate", "share", "labels", "targets")
# what is kept beside a parameter is called after it
BESIDE = ("trained", "fixed", "merged", "residual", "momentum", "m", "v", "correction", "master", "sum", "down", "up")


def free_names(graph: Graph, scheme: Scheme) -> tuple[Graph, Scheme]:
    """The graph and the scheme with `counters` called `model.counters`, and so on."""
    wanted = {*RESERVED, *(f"{name}.{word}" for name in graph.constants for word in BESIDE)}
    taken = wanted & {*graph.values, *graph.constants} | {v.name for v in graph.inputs if v.name in INPUTS}
    if not taken:
        return graph, scheme
    names = {name: f"model.{name}" for name in taken}

    def new(v: Value) -> Value:
        return Value(names.get(v.name, v.name), v.type)

    def renamed(table):
        return {names.get(k, k): a for k, a in table.items()}

    nodes = tuple(Node(n.op, tuple(map(new, n.inputs)), tuple(map(new, n.outputs)), n.attrs) for n in graph.nodes)
    updates = tuple(replace(u, layer=names.get(u.layer, u.layer)) for u in scheme.updates)
    return replace(
        graph, inputs=tuple(map(new, graph.inputs)), outputs=tuple(map(new, graph.outputs)), nodes=nodes,
        constants=renamed(graph.constants), parameters=renamed(graph.parameters),
    ), replace(scheme, updates=updates)  # fmt: skip
