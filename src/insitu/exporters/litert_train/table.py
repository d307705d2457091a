"""The table op -> how LiteRT computes it, and the walk that writes a graph with it.

A row takes the op's inputs as tensors and its attributes as keyword-only parameters, like the op's own rules, and
returns its outputs. What has no row is refused by name before anything is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from insitu.errors import Unsupported
from insitu.exporters.functions import refuse_tables
from insitu.exporters.litert_train.sheet import Sheet
from insitu.exporters.litert_train.tensor import Tensor
from insitu.graph import Graph, Node, Op
from insitu.graph.op import ask
from insitu.terminal.wording import option

TABLE: dict[Op, Callable[..., Any]] = {}


def means(*ops: Op):
    """Declare how LiteRT computes these ops."""

    def declare(rule):
        for op in ops:
            TABLE[op] = rule
        return rule

    return declare


def refuse_unknown(graphs: Iterable[Graph]) -> None:
    """Refuse ops and types that LiteRT has no builtin operators for, naming the first one."""
    for graph in graphs:
        refuse_tables(graph, "a trainable LiteRT model")
        for node in graph.nodes:
            if node.op not in TABLE:
                hint = f"train only layers after it ({option(scheme='last:N')})" if node.name.endswith(".grad") else ""
                raise Unsupported(f"LiteRT cannot express op {node.op.name}", where=f"%{node.name}", hint=hint)
            odd = next((v for v in (*node.inputs, *node.outputs) if v.type.quant is not None), None)
            if odd is not None:
                what = f"a trainable LiteRT model is float, but %{odd.name} is {odd.dtype}"
                raise Unsupported(what, where=graph.name, hint=f"compile with {option(precision='float')}")


def written(sheet: Sheet, graph: Graph, known: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Append every op of the graph; returns all of its values by name. `known` has its inputs and its state."""
    env = dict(known)
    for node in graph.nodes:
        for v in node.inputs:
            if v.name not in env:
                env[v.name] = Tensor(sheet.constant(np.asarray(graph.constants[v.name])))
        results = emitted(node, [env[v.name] for v in node.inputs])
        for v, r in zip(node.outputs, results):
            if r.shape != v.shape:
                raise AssertionError(f"%{v.name} is {v.type}, but LiteRT gives {r.shape}")
            env[v.name] = r
    return env


def emitted(node: Node, inputs: list[Tensor]) -> tuple[Tensor, ...]:
    results = ask(TABLE[node.op], tuple(inputs), node.attrs, node=node)
    return results if isinstance(results, tuple) else (results,)
