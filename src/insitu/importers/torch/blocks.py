"""Blocks of a traced program under torch.no_grad() or torch.autocast: their ops have a graph of their own.

torch.export makes such a block one call of a higher-order op on a submodule. We take only the ops inside: a scheme says
what is trained, and everything is computed in float32. Other higher-order ops (torch.cond) are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# op -> position of its submodule among the arguments; the submodule's own arguments follow
WRAPPERS = {"wrap_with_set_grad_enabled": 1, "wrap_with_autocast": 4}


def submodule(node) -> Any:
    """The module that a call runs, and its arguments; None for any other node."""
    at = WRAPPERS.get(str(node.target)) if node.op == "call_function" else None
    if at is None:
        return None
    return getattr(node.graph.owning_module, str(node.args[at].target)), node.args[at + 1 :]


def notes(graph) -> Iterator[str]:
    """What a user should know if blocks are replaced by their ops."""
    calls = [n for g in graphs_of(graph) for n in g.nodes if submodule(n)]
    if any(str(n.target) == "wrap_with_autocast" and n.args[2] for n in calls):
        yield "torch.autocast in its forward is ignored: everything is computed in float32"
    if any(str(n.target) == "wrap_with_set_grad_enabled" and not n.args[0] for n in calls):
        yield "torch.no_grad in its forward is ignored: the scheme says what is trained"


def nodes_of(graph) -> Iterator:
    """Every node of a graph, and of the blocks in it."""
    for node in graph.nodes:
        inner = submodule(node)
        if inner:
            yield from nodes_of(inner[0].graph)
        else:
            yield node


def graphs_of(graph) -> Iterator:
    """A graph, and those of the blocks in it."""
    yield graph
    for node in graph.nodes:
        inner = submodule(node)
        if inner:
            yield from graphs_of(inner[0].graph)


def result(graph) -> Any:
    """The result of a block: a node, or several."""
    return next(n for n in graph.nodes if n.op == "output").args[0]
