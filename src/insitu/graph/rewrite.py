"""Rewriting: rebuild a graph node by node, and let rules replace the nodes they recognise.

A rule is a function `rule(node, rw) -> value, tuple of values, or None`. It sees the node with its inputs already
rewritten, may look back (`rw.producer(v)`, `rw.array(v)`, `rw.uses(v)`), and builds replacements by calling ops. Rules
run until none applies; unused nodes are dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from insitu.graph.graph import Builder, Graph, Node, Value, build
from insitu.graph.op import Op

Rule = Callable[[Node, "Rewriter"], "Value | tuple[Value, ...] | None"]
MAX_ROUNDS = 50


class Rewriter:
    """What a rule may ask about the graph built so far."""

    def __init__(self, source: Graph, builder: Builder):
        self.source, self.builder = source, builder
        self._uses: dict[str, int] = {}
        self._outputs: set[str] = set()

    def producer(self, value: Value, op: Op | None = None) -> Node | None:
        """The node that made this value; if `op` is given, only if it is of this op."""
        node = self.builder.producer(value)
        return node if node is not None and (op is None or node.op is op) else None

    def array(self, value: Value) -> np.ndarray | None:
        return self.builder.array(value)

    def uses(self, value: Value) -> int:
        """How many nodes and graph outputs of the source graph read this value."""
        return self._uses.get(value.name, 0)

    def constant(self, name: str, array, type=None) -> Value:
        return self.builder.constant(name, array, type)


def rewrite(graph: Graph, *rules: Rule) -> Graph:
    """Apply the rules until none applies any more."""
    for _ in range(MAX_ROUNDS):
        graph, fired = _pass(graph, rules)
        if not fired:
            return graph
    raise RuntimeError(f"rewriting {graph.name} does not end: the rules undo each other")


def drop_unused(graph: Graph) -> Graph:
    """The graph without nodes and constants that no output depends on. Inputs stay: they are the interface."""
    needed = {v.name for v in graph.results}
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if any(v.name in needed for v in node.outputs):
            kept.append(node)
            needed.update(v.name for v in node.inputs)
    constants = {k: a for k, a in graph.constants.items() if k in needed}
    return replace(graph, nodes=tuple(reversed(kept)), constants=constants)


def _pass(graph: Graph, rules) -> tuple[Graph, bool]:
    builder = Builder(graph.name, graph.classes, graph.columns, graph.pixels)
    builder.notes, builder.parameters = list(graph.notes), dict(graph.parameters)
    builder.by_rows = graph.by_rows
    new: dict[str, Value] = {}
    rw, fired = Rewriter(graph, builder), False
    counts = _count_uses(graph)
    with build(builder):
        for v in graph.inputs:
            new[v.name] = builder.input(v.name, v.type)
            rw._uses[new[v.name].name] = counts.get(v.name, 0)
        for v in graph.values.values():
            for table, define in ((graph.constants, builder.constant), (graph.state, builder.lasting)):
                if v.name in table:
                    new[v.name] = define(v.name, table[v.name], v.type)
                    rw._uses[new[v.name].name] = counts.get(v.name, 0)
        for node in graph.nodes:
            mapped = Node(node.op, tuple(new[v.name] for v in node.inputs), node.outputs, node.attrs)
            results = _first(rules, mapped, rw)
            if results is None:
                results = _copy(builder, mapped)
            else:
                fired = True
            for old, value in zip(node.outputs, results):
                new[old.name] = value
                # may count a use twice while a rule applies; the next round counts again
                rw._uses[value.name] = rw._uses.get(value.name, 0) + counts.get(old.name, 0)
    for name, v in graph.updates.items():
        builder.update(new[name], new[v.name])
    return drop_unused(builder.graph(*(new[v.name] for v in graph.outputs))), fired


def _first(rules, node: Node, rw: Rewriter):
    for rule in rules:
        result = rule(node, rw)
        if result is not None:
            return result if isinstance(result, tuple) else (result,)
    return None


def _copy(builder: Builder, node: Node) -> tuple[Value, ...]:
    outputs = tuple(builder._define(v.name, v.type) for v in node.outputs)
    builder.append(Node(node.op, node.inputs, outputs, node.attrs))
    return outputs


def _count_uses(graph: Graph) -> dict[str, int]:
    counts: dict[str, int] = {}
    for v in [*(v for n in graph.nodes for v in n.inputs), *graph.results]:
        counts[v.name] = counts.get(v.name, 0) + 1
    return counts
