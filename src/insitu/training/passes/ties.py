"""Parameters that a model uses in several places stay one parameter: their gradients add up.

An importer stores a weight once for each layout it is read in. Here all but one of these constants become transposes of
the one that stays, so that training it trains them all. Where the layouts cannot be told from the numbers, or where
folding or rounding gave each reader a copy of its own, training is refused: trained apart, they would be different
parameters from the first step on.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import permutations

import numpy as np

from insitu.errors import GraphError
from insitu.graph import Builder, Graph, Node, Value, build, drop_unused
from insitu.graph.fixed import is_fixed
from insitu.ops.layout import transpose
from insitu.terminal.wording import option


def tie(graph: Graph, trained: Collection[str], everything: bool) -> Graph:
    """The graph with one constant for each parameter of which one of these constants (or anything) is trained."""
    ties: dict[str, tuple[Value, tuple[int, ...]]] = {}
    for of, values in shared(graph).items():
        if everything or {v.name for v in values} & set(trained):
            first, *others = values
            ties |= {v.name: (first, layout(graph, of, first, v)) for v in others}
    return drop_unused(_replaced(graph, ties)) if ties else graph


def shared(graph: Graph) -> dict[str, list[Value]]:
    """Parameter of the model -> the constants it is stored as, where those are several."""
    found: dict[str, list[Value]] = {}
    known = {of: of for of in graph.parameters.values()} | dict(graph.parameters)  # a file does not repeat equal names
    for v in {v.name: v for n in graph.nodes for v in n.inputs}.values():
        own = v.name in known and v.name in graph.constants and not is_fixed(graph, v.name)
        if own and v.dtype in ("f32", "s8", "s32"):
            found.setdefault(known[v.name], []).append(v)
    return {of: values for of, values in found.items() if len(values) > 1}


def layout(graph: Graph, of: str, first: Value, other: Value) -> tuple[int, ...]:
    """The one order of axes in which `first` is `other`."""
    a, b = graph.constants[first.name], graph.constants[other.name]
    if other.dtype != "f32" or sorted(a.shape) != sorted(b.shape) or not _same_numbers(a, b):
        raise apart(graph, of, first, other)
    number = np.arange(a.size).reshape(a.shape)
    fitting: dict[bytes, tuple[int, ...]] = {}
    for perm in permutations(range(a.ndim)):
        if a.transpose(perm).shape == b.shape and np.array_equal(a.transpose(perm), b):
            fitting.setdefault(np.ascontiguousarray(number.transpose(perm)).tobytes(), perm)
    if len(fitting) != 1:
        why = "in layouts that are not transposes of each other" if not fitting else "and its numbers are too regular"
        raise GraphError(
            f"is shared by {_readers(graph, first, other)} {why}: it would be trained as two",
            where=of,
            hint=f"train only layers after them ({option(scheme='last:N')}), or give each a parameter of its own",
        )
    return next(iter(fitting.values()))


def apart(graph: Graph, of: str, first: Value, other: Value) -> GraphError:
    """Two constants that began as one parameter and are no longer the same numbers."""
    how = "what follows each was folded into a copy" if other.dtype == "f32" else "each has a copy in integers"
    hint = f"train only layers after them ({option(scheme='last:N')})"
    if other.dtype != "f32":
        hint += f"; in float ({option(precision='float')}) a shared layer without batch norms is trained as one"
    else:
        hint += ", or fold the batch norms in before the layer is shared"
    return GraphError(
        f"is shared by {_readers(graph, first, other)}, and {how}: trained, the copies would drift apart",
        where=of,
        hint=hint,
    )


def _readers(graph: Graph, *values: Value) -> str:
    return ", ".join(n.name for v in values for n in graph.users[v.name])


def _same_numbers(a: np.ndarray, b: np.ndarray) -> bool:
    return np.array_equal(np.sort(a, axis=None), np.sort(b, axis=None))


def _replaced(graph: Graph, ties: dict[str, tuple[Value, tuple[int, ...]]]) -> Graph:
    builder = Builder.of(replace(graph, nodes=()))
    builder._types = {name: v.type for name, v in graph.values.items()}
    made: dict[str, Value] = {}
    with build(builder):
        for node in graph.nodes:
            for v in node.inputs:
                if v.name in ties and v.name not in made:
                    made[v.name] = _turned(v, *ties[v.name])
            inputs = tuple(made.get(v.name, v) for v in node.inputs)
            builder.append(Node(node.op, inputs, node.outputs, node.attrs))
    return builder.graph(*graph.outputs)


def _turned(v: Value, first: Value, perm: tuple[int, ...]) -> Value:
    if perm == tuple(range(len(perm))):
        return first
    return transpose(first, perm=perm, name=f"{v.name}.tied")
