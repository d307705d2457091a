"""Training mode: batch norms that use and update the statistics of the batch, dropout that drops.

Only the graphs that train go through here; `predict` keeps the imported, frozen form. Running statistics are
state: both graphs read the same ones.
"""

from __future__ import annotations

from collections.abc import Callable

from insitu.graph import Builder, Graph, Node, Value, build
from insitu.ops._random import first_count
from insitu.ops.dropout import count_up, dropout_train
from insitu.ops.norm import batch_norm, dropout
from insitu.ops.norm_train import batch_norm_train

COUNTER = "dropout.counter"


def hold_statistics(graph: Graph) -> Graph:
    """Running statistics become state: they change while training, and inference must see that."""
    builder = Builder.of(graph)
    for node in graph.nodes:
        if node.op is batch_norm:
            for v in node.inputs[3:5]:
                if v.name in builder.constants:
                    builder.state[v.name] = builder.constants.pop(v.name)
    return builder.graph(*graph.outputs)


def train_mode(graph: Graph, seed: int = 0, chosen: Callable[[Node], bool] = lambda node: True) -> Graph:
    """The graph with batch norm and dropout as they are while training; `chosen`: which of these nodes."""
    builder = Builder(graph.name, graph.classes, graph.columns, graph.pixels)
    builder.inputs, builder.notes = list(graph.inputs), list(graph.notes)
    builder.constants, builder.state = dict(graph.constants), dict(graph.state)
    builder.parameters = dict(graph.parameters)
    builder._types = {name: v.type for name, v in graph.values.items()}
    moving = _Moving(builder, seed, graph.inputs[0].shape[0])
    with build(builder):
        for node in graph.nodes:
            mode = MODES.get(node.op, _Moving.keep) if chosen(node) else _Moving.keep
            builder.append(mode(moving, node))
        if moving.counter is not None:
            builder.update(moving.counter, count_up(moving.counter, samples=moving.samples, name=f"{COUNTER}.new"))
    return builder.graph(*graph.outputs)


class _Moving:
    """What the replaced nodes share: the builder, the number of samples, and one counter for all dropouts."""

    def __init__(self, builder: Builder, seed: int, samples: int):
        self.builder, self.seed, self.samples = builder, seed, samples
        self.counter: Value | None = None
        self.layer = 0

    def keep(self, node: Node) -> Node:
        return node

    def batch_norm(self, node: Node) -> Node:
        op, b = batch_norm_train, self.builder
        types = op.apply("infer", tuple(v.type for v in node.inputs), dict(node.attrs))
        names = (node.name, *(f"{node.name}.{word}" for word in ("batch_mean", "batch_rstd", "next_mean", "next_var")))
        outputs = tuple(Value(n, t) for n, t in zip(names, types))
        running = tuple(b.updates.get(v.name, v) for v in node.inputs[3:5])  # a module used twice moves them twice
        for old, new in zip(node.inputs[3:5], outputs[3:]):
            b.updates.pop(old.name, None)
            b.update(old, new)
        return Node(op, (*node.inputs[:3], *running), outputs, op.complete(dict(node.attrs)))

    def dropout(self, node: Node) -> Node:
        if self.counter is None:
            self.counter = self.builder.lasting(COUNTER, first_count(self.seed))
        op = dropout_train
        self.layer += 1
        x = node.inputs[0]
        parts = self.samples if x.shape[:1] == (self.samples,) else 1  # a parameter has no sample axis
        attrs = op.complete({"p": node.attrs["p"], "layer": self.layer, "samples": parts})
        return Node(op, (node.inputs[0], self.counter), node.outputs, attrs)


MODES = {batch_norm: _Moving.batch_norm, dropout: _Moving.dropout}
